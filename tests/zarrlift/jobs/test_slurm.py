"""A job array on a real Slurm: elements are killed and requeued, and the bytes are those of a calm run."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.job_archives import results
from tests.support.slurm import slurm, wait_until
from tests.zarrlift.storage.conftest import files

import zarrlift
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.ledger.rows import TaskTotals

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "cluster.md"
PARTS = 8
KILLED = """\
import os, signal, time
from pathlib import Path
from zarrlift.jobs.parts.migrate_part import PartJob

index = os.environ.get("SLURM_ARRAY_TASK_ID")
mark = Path(__file__).with_name(f"killed-{index}")
record, count = PartJob.record_task, 0

def killed(self, *arguments):
    global count
    record(self, *arguments)
    count += 1
    if count == 2:
        self._file.sync(now=True)
    if count == 3:
        mark.touch()
        if index == "6":
            time.sleep(1000)  # until Slurm kills it
        os.kill(os.getpid(), signal.SIGKILL)

if index in ("1", "4", "6") and not mark.exists():
    PartJob.record_task = killed
"""
"""`sitecustomize.py`: three elements record two tasks and forget a third."""


@pytest.mark.needs_reader("slurm")
def test_parts_that_are_killed_and_requeued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path / "ocean.zarr")
    calm = zarrlift.migrate(source, tmp_path / "calm.zarr", verify="none")
    scripts(tmp_path, "migrate.sh", "submit.sh")
    (tmp_path / "customized").mkdir()
    (tmp_path / "customized/sitecustomize.py").write_text(KILLED)
    paths = (str(tmp_path / "customized"), os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    with slurm(Path(os.environ["ZARRLIFT_SLURM"]), 4 * PARTS) as system:
        gathering = system("bash", "-c", f"cd {tmp_path} && bash submit.sh").split()[-1]
        array = system("squeue", "--noheader", "--name=migrate", "--format=%F").split()[0]
        wait_until((tmp_path / "customized/killed-6").exists)
        system.requeue(array, "6")
        states = system.ended(array)
        assert [index for index, state in sorted(states.items()) if state != "COMPLETED"] == ["1", "4"], (
            states
        )
        assert system.ended(gathering) == {"N/A": "FAILED"}
        assert "--array=1,4" in (tmp_path / f"slurm-{gathering}.out").read_text()
        system.requeue(array, "1")
        again = system("sbatch", "--parsable", "--array=4", f"--chdir={tmp_path}", tmp_path / "migrate.sh")
        assert system.ended(again) == {"4": "COMPLETED"}
        assert [index for index, state in system.ended(array).items() if state != "COMPLETED"] == ["4"]
    assert zarrlift.gather(tmp_path / "ocean.db").ok
    assert files(tmp_path / "ocean-v3.zarr") == files(tmp_path / "calm.zarr")
    assert totals(tmp_path / "ocean.db") == totals(Path(calm.job))
    assert [path.name for path in tmp_path.iterdir() if ".part-" in path.name] == []


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
        for element in "01":
            system.requeue(array, element)
        states = system.ended(array)
        assert {*states.values()} == {"COMPLETED"}, states
        assert system.ended(checking) == {"N/A": "COMPLETED"}
    assert zarrlift.Batch(tmp_path / "v3").status().counts == {"done": 12}
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
    """The page's scripts for Slurm, with these places and this number of parts."""
    page = PAGE.read_text()
    for name in names:
        text = re.search(rf'```text title="{name}"\n(.*?)```', page, re.DOTALL)[1]
        text = text.replace("/shared/", f"{folder}/").replace("--parts 64", f"--parts {PARTS}")
        text = text.replace("--array=0-63", f"--array=0-{PARTS - 1}").replace("--array=0-15", "--array=0-3")
        (folder / name).write_text(text)


def totals(path: Path) -> dict[int, TaskTotals]:
    """The number of tasks, chunks and bytes that a job has recorded, by node."""
    with Job.open(path, write=False) as job:
        return job.totals()
