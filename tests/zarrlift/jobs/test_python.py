"""What only functions of Python have: one base of all errors, outcomes that raise, an interrupted cell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from numcodecs import Zlib

import zarrlift
from zarrlift.errors import KINDS, JobError, VerificationError

CELL = """
import asyncio, os, signal, sys
import zarrlift

def interrupt(event):
    if type(event).__name__ == EVENT:
        os.killpg(os.getpgid(0), signal.SIGINT)  # as Jupyter does: the kernel and its processes

async def cell():
    return zarrlift.migrate(*sys.argv[1:3], executor=EXECUTOR, workers=2, progress=interrupt)

try:
    asyncio.new_event_loop().run_until_complete(cell())
except zarrlift.Interrupted as stopped:
    print(stopped.job)
"""


def small(folder: Path, *, damaged: bool = False) -> Path:
    """An array of a hundred chunks, one of them damaged on request."""
    array = zarr.create_array(
        folder, shape=(100,), chunks=(1,), dtype="<i4", zarr_format=2, compressors=Zlib(level=1)
    )
    array[:] = np.arange(100)
    if damaged:
        (folder / "7").write_bytes(b"not zlib")
    return folder


def test_every_error_is_an_error_of_zarrlift():
    assert all(issubclass(error, zarrlift.Error) for error in KINDS.values())
    with pytest.raises(zarrlift.Error, match="no such file"):
        zarrlift.migrate("nowhere.zarr", "new.zarr")


def test_an_outcome_raises_for_what_it_did_not_do(tmp_path):
    good = zarrlift.migrate(small(tmp_path / "good"), tmp_path / "new")
    assert good.raise_for_problems() is good
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="zstd:1"))
    bad = zarrlift.migrate(small(tmp_path / "bad", damaged=True), tmp_path / "bad.zarr", recipe=recipe)
    with pytest.raises(JobError, match=r"0 of 1 arrays are done; .*key '7'") as caught:
        bad.raise_for_problems()
    assert caught.value.problem.key == bad.job


def test_a_batch_raises_for_its_archives(tmp_path):
    small(tmp_path / "in" / "good"), small(tmp_path / "in" / "bad", damaged=True)
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="zstd:1"))
    batch = zarrlift.batch(str(tmp_path / "in" / "*"), to=str(tmp_path / "out/{relative}"), recipe=recipe)
    with pytest.raises(JobError, match=r"1 failed, 1 done; bad: .*key '7'"):
        batch.outcome.raise_for_problems()


def test_a_verification_raises_for_differences(tmp_path):
    source, result = small(tmp_path / "old"), tmp_path / "new"
    zarrlift.migrate(source, result)
    report = zarrlift.verify(source, result, full=True)
    assert report.raise_for_problems() is report
    zarr.open_array(result, mode="r+")[5] = 99
    with pytest.raises(VerificationError, match=r"found 99; expected 5"):
        zarrlift.verify(source, result, full=True).raise_for_problems()


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("executor", ["threads", "processes"])
@pytest.mark.parametrize("event", ["Planned", "TaskDone"])
def test_an_interrupted_cell_leaves_a_job_that_can_be_resumed(event, executor, tmp_path):
    source, result = small(tmp_path / "old"), tmp_path / "new"
    code = CELL.replace("EVENT", repr(event)).replace("EXECUTOR", repr(executor))
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), str(result)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.stdout, done.returncode) == (f"{result}.zarrlift.db\n", 0), done.stderr
    assert not (result / "zarr.json").exists()
    assert not os.path.exists(f"{result}.zarrlift.claim")
    status = zarrlift.status(result)
    assert (status.state, status.activity) == ("incomplete", "stopped")
    assert zarrlift.resume(result).raise_for_problems().state == "done"
    assert np.array_equal(zarr.open_array(result, mode="r")[:], np.arange(100))
