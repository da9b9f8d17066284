"""While chunks change their shape the process and its workers stay within `--memory`; it decides no byte."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import zarr
from numcodecs import Blosc
from tests.support.damaged_archives import python
from tests.support.grids import wish

import zarrlift

pytestmark = pytest.mark.needs_reader("once")

MEMORIES = ("256MB", "1GB", "4GB")
BYTES = {"256MB": 256 * 10**6, "1GB": 10**9, "4GB": 4 * 10**9}

PEAK = """
import os, re, sys
from pathlib import Path
from zarrlift.transfer.executors.dispatcher import Dispatcher
from zarrlift.cli import main

def most(process):
    return int(re.search(r"VmHWM:\\s+([0-9]+) kB", Path(f"/proc/{process}/status").read_text())[1])

def children(task):
    try:
        return (task / "children").read_text().split()
    except OSError:  # the thread has ended
        return []

def workers():
    return [child for task in Path("/proc/self/task").iterdir() for child in children(task)]

peaks = []
stop = Dispatcher.stop

def stop_and_look(self):
    peaks.append(sum(map(most, workers())))
    stop(self)

Dispatcher.stop = stop_and_look
code = main()
sys.stdout.flush()
print("peak", most("self") + max(peaks), file=sys.stderr, flush=True)
os._exit(code)
"""
"""A program that is the command, and says how much memory (KiB) it and its workers held at most."""


def peak(*words: str | Path) -> int:
    done = subprocess.run(
        python("-c", PEAK, "migrate", *words, "--verify", "none"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return int(done.stderr.rpartition("peak ")[2]) << 10


def write(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Path:
    """A Zarr v2 array of uint16 that takes little room: its chunks are links to a few files."""
    array = zarr.create_array(
        path, shape=shape, chunks=chunks, dtype="<u2", compressors=Blosc("lz4", 1), zarr_format=2
    )
    values = np.arange(np.prod(chunks), dtype="<u2").reshape(chunks)
    files: list[Path] = []
    for number, place in enumerate(np.ndindex(array.cdata_shape)):
        file = path / ".".join(map(str, place))
        if number < 5:
            array.blocks[place] = (values * (number + 3))[
                tuple(slice(0, n) for n in array.blocks[place].shape)
            ]
            files.append(file)
        elif number % 7:
            os.link(files[number % 5], file)
    return path


def digest(path: Path) -> str:
    """Of every file, by name."""
    found = hashlib.blake2b()
    for file in sorted(path.rglob("*")):
        if file.is_file():
            found.update(str(file.relative_to(path)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


CASES = {
    "thin planes": ((100, 1024, 1024), (1, 512, 512), ("--chunks", "64,64,64")),
    "thin planes into shards": (
        (100, 1024, 1024),
        (1, 512, 512),
        ("--chunks", "64,64,64", "--shards", "2,4,4"),
    ),
    "chunks that divide nothing": ((100, 1000, 1000), (50, 100, 100), ("--chunks", "64,64,64")),
    "big chunks": ((96, 1024, 1024), (48, 512, 512), ("--chunks", "16,1024,100")),
    "planes into columns": ((100, 1024, 1024), (1, 1024, 1024), ("--chunks", "100,16,16")),
}
"""Shape of some 200 MB, chunks, and what is asked for."""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_peak_is_within_the_memory_and_the_bytes_are_the_same(case: str, tmp_path: Path) -> None:
    shape, chunks, options = CASES[case]
    source = write(tmp_path / "old", shape, chunks)
    found = set()
    for memory in MEMORIES:
        new = tmp_path / memory
        assert peak(source, new, *options, "--memory", memory) < BYTES[memory], memory
        found.add(digest(new))
    assert len(found) == 1
    assert zarrlift.verify(source, new, full=True).ok


@pytest.mark.slow
def test_a_sharded_source_and_its_passes_stay_within_it(tmp_path: Path) -> None:
    memory = "256MB"
    source = write(tmp_path / "old", (128, 1024, 1024), (1, 512, 512))
    assert zarrlift.migrate(source, tmp_path / "shards", recipe=wish(shards="64,2,2")).ok
    for number, chunks in enumerate(("64,64,64", "128,16,16")):
        options = ("--chunks", chunks, "--shards", "none", "--memory", memory)
        assert peak(tmp_path / "shards", tmp_path / f"{number}", *options) < BYTES[memory]
        assert peak(source, tmp_path / f"{number}-plain", *options) < BYTES[memory]
        assert digest(tmp_path / f"{number}") == digest(tmp_path / f"{number}-plain")


@pytest.mark.slow
def test_worker_processes_stay_within_it_together(tmp_path: Path) -> None:
    source = write(tmp_path / "old", (100, 1000, 1000), (50, 100, 100))
    options = ("--chunks", "64,64,64", "--memory", "256MB", "--executor", "processes", "--workers", "4")
    assert peak(source, tmp_path / "new", *options) < BYTES["256MB"]
