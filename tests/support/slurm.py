"""A real Slurm with one node, from the folder that tests/environments/slurm/install has made."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

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
