"""A list of archives on a real Slurm: elements are killed and requeued, and the results are whole."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.job_archives import results

import zarrlift

# A real Slurm with one node, from the folder that `tests/environments/install slurm` has made.


_CONFIGURATION = """\
ClusterName=tests
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
PluginDir={plugins}
StateSaveLocation={folder}
SlurmdSpoolDir={folder}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
JobRequeue=1
KillWait=1
MinJobAge=3600
MpiDefault=none
ProctrackType=proctrack/linuxproc
ReturnToService=2
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SwitchType=switch/none
TaskPlugin=task/none
NodeName=localhost NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=100000
PartitionName=tests Nodes=ALL Default=YES MaxTime=INFINITE
"""
_SECONDS = 300.0
"""How long anything may take until a test fails."""


class Slurm:
    """Runs programs for which a Slurm is up, its own among them."""

    def __init__(self, programs: Path, configuration: Path) -> None:
        self.plugins = next(programs.glob("usr/lib/*/slurm-wlm"))
        commands = (Path(sys.executable).parent, programs / "usr/bin", os.environ["PATH"])
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(configuration),
            "LD_LIBRARY_PATH": f"{self.plugins}:{self.plugins.parent}",
            "PATH": os.pathsep.join(map(str, commands)),
        }
        """Of programs that use this Slurm, and this Python."""

    def __call__(self, command: str, *words: str | os.PathLike[str]) -> str:
        """What a program writes; AssertionError if it fails."""
        path = shutil.which(command, path=self.environment["PATH"])
        done = subprocess.run(
            [path, *words], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def states(self, job: str) -> dict[str, str]:
        """The state of each task of an array by its index, or of a job by "N/A"."""
        lines = self("squeue", "--noheader", "--array", "--states=all", f"--jobs={job}", "--format=%K %T")
        return dict(line.split() for line in lines.splitlines())

    def requeue(self, job: str, index: str) -> None:
        """Queue a task of an array again, soon: Slurm by itself waits two minutes.

        A node refuses a task in the second in which it has killed it ("already killed, do not launch").
        """
        self("scontrol", "requeue", f"{job}_{index}")
        wait_until(lambda: self.states(job)[index] == "PENDING")
        killed = int(time.time())
        wait_until(lambda: int(time.time()) > killed + 1)
        self("scontrol", "update", f"JobId={job}_{index}", "StartTime=now")

    def ended(self, job: str) -> dict[str, str]:
        """Wait until no task of a job is pending or running, and return their states."""
        going = {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD"}
        wait_until(lambda: not going & set(self.states(job).values()))
        return self.states(job)


def wait_until(holds: Callable[[], bool]) -> None:
    """Return when a condition holds; AssertionError if it takes too long."""
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


@contextmanager
def slurm(programs: Path, cpus: int) -> Iterator[Slurm]:
    """Slurm's two daemons, in the foreground, with a node that counts as having this number of processors."""
    with ExitStack() as stack:
        # Slurm's sockets are in its folder, and the name of a socket has at most 107 bytes.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        configuration = folder / "slurm.conf"
        client = Slurm(programs, configuration)
        controller_port, node_port = _free_ports(2)
        configuration.write_text(
            _CONFIGURATION.format(
                controller_port=controller_port,
                node_port=node_port,
                user=getpass.getuser(),
                plugins=client.plugins,
                folder=folder,
                cpus=cpus,
            )
        )
        daemons = programs / "usr/sbin"
        for words in (
            [daemons / "slurmctld-wlm", "-D", "-i"],
            [daemons / "slurmd-wlm", "-D", "-N", "localhost", "-d", daemons / "slurmstepd-wlm"],
        ):
            process = subprocess.Popen(words, env=client.environment, stderr=subprocess.DEVNULL)
            stack.callback(_stop, process)
        wait_until(lambda: client("sinfo", "--noheader", "--format=%T") == "idle")
        try:
            yield client
        finally:
            client("scancel", "--state=PENDING", "--me")
            client("scancel", "--signal=KILL", "--full", "--me")
            wait_until(lambda: not client("squeue", "--noheader"))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_SECONDS)
    finally:
        process.kill()


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


# A list of archives, which the elements of an array run together.


PAGE = Path(__file__).parents[3] / "docs" / "howto" / "cluster.md"


ELEMENTS = """\
import os, signal, time
from pathlib import Path
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.storage.local import owner_process

own, record = owner_process._own, Job.record_task
machine = "".join(os.environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT"))
owner_process._own = lambda pid: {**own(pid), "machine": machine}
index = os.environ.get("SLURM_ARRAY_TASK_ID")
marks = {name: Path(__file__).with_name(f"killed-{name}") for name in "01"}

def killed(self, *arguments):
    record(self, *arguments)
    self.commit()
    marks[index].touch()
    if index == "0":
        time.sleep(1000)  # until Slurm kills it
    os.kill(os.getpid(), signal.SIGKILL)

if index in marks and not marks[index].exists():
    Job.record_task = killed
while index in ("2", "3") and not all(mark.exists() for mark in marks.values()):
    time.sleep(0.05)
"""
"""`sitecustomize.py`: each attempt of an element is on a machine of its own; the first of two are killed."""


@pytest.mark.needs_reader("slurm")
def test_elements_that_run_one_list_are_killed_and_requeued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        make(tmp_path / f"old/{number:02}.zarr")
    calm = zarrlift.batch(tmp_path / "old", to=f"{tmp_path}/calm/{{relative}}.zarr", workers=1)
    assert calm.outcome.ok
    scripts(tmp_path, "batch.sh", "submit-batch.sh")
    (tmp_path / "customized").mkdir()
    (tmp_path / "customized/sitecustomize.py").write_text(ELEMENTS)
    paths = (str(tmp_path / "customized"), os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    with slurm(Path(os.environ["ZARRLIFT_SLURM"]), 16) as system:
        checking = system("bash", "-c", f"cd {tmp_path} && bash submit-batch.sh").split()[-1]
        array = system("squeue", "--noheader", "--name=batch.sh", "--format=%F").split()[0]
        wait_until((tmp_path / "customized/killed-0").exists)
        wait_until((tmp_path / "customized/killed-1").exists)
        claims = list((tmp_path / "v3").glob("*.claim"))
        assert len(claims) >= 2
        for element in "10":  # 1 failed: the array has not ended only because 0 still runs
            system.requeue(array, element)
        states = system.ended(array)
        assert {*states.values()} == {"COMPLETED"}, states
        assert system.ended(checking) == {"N/A": "COMPLETED"}
    assert zarrlift.Batch(tmp_path / "all.jsonl").status().counts == {"done": 12}
    assert results(tmp_path / "v3") == results(tmp_path / "calm")
    assert list((tmp_path / "v3").glob("*.claim*")) == []


def make(path: Path) -> Path:
    """Two arrays of some fifty tasks each."""
    root = zarr.open_group(path, mode="w", zarr_format=2)
    for name in ("sst", "ssh"):
        array = root.create_array(name, shape=(4096,), chunks=(4,), dtype=">i4", compressors=None)
        array[:] = np.arange(4096)
    return path


def scripts(folder: Path, *names: str) -> None:
    """The page's scripts for Slurm, with these places and fewer elements."""
    page = PAGE.read_text()
    for name in names:
        text = re.search(rf'```text title="{name}"\n(.*?)```', page, re.DOTALL)[1]
        text = text.replace("/shared/", f"{folder}/").replace("--array=0-15", "--array=0-3")
        (folder / name).write_text(text)
