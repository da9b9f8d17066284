"""Chunks of another shape: equal values, the same bytes whatever memory there is, a cost said beforehand."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from numcodecs import Blosc
from tests.support.damaged_archives import python
from tests.support.job_archives import tree
from tests.zarrlift.transfer.grids import (
    DRAFT,
    N5,
    each_reader,
    read,
    shards,
    wish,
    write_kinds,
    write_numbers,
    write_objects,
)
from tests.zarrlift.transfer.test_reframe import bits

import zarrlift
from zarrlift.jobs import process_tuning
from zarrlift.jobs.executors import RunOptions, forks_for
from zarrlift.planning import blocks
from zarrlift.planning.boxes import Candidates
from zarrlift.transfer.blocks import ShardBuilder
from zarrlift.transfer.events import Event, Planned, TaskDone
from zarrlift.transfer.recode import InnerChunkConversion
from zarrstack.core.errors import CastError, UsageError

OPTIONS = {
    "larger": {"chunks": "5,7,6"},
    "whole-axes": {"chunks": "-1,3,-1"},
    "single-values": {"chunks": "1,1,1"},
    "sharded": {"chunks": "3,2,5", "shards": "2x"},
    "sharded-start": {"chunks": "2,6,2", "shards": "1,2,3", "shard_index_location": "start"},
    "recoded": {"chunks": "4,4,4", "codecs": "gzip:1", "endian": "big", "order": "F"},
}
ROOM = (1 << 20, 1201, 100)
"""Bytes for the values of one block: ample, for some, for a chunk or two."""


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    return write_numbers(tmp_path / "numbers.zarr")


def leave(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan as if there were so many bytes for the values of one block; far below what `--memory` takes."""
    real = Candidates.choose

    def choose(self: Candidates, room: int, workers: int, *, whole: bool = False) -> object:
        return real(self, count, workers, whole=whole)

    monkeypatch.setattr(Candidates, "choose", choose)


@pytest.mark.slow(one_in=13)
@each_reader
@pytest.mark.parametrize("option", OPTIONS)
def test_every_reader_reads_what_was_cut_anew(reader, option, numbers, tmp_path) -> None:
    assert zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(**OPTIONS[option])).ok
    expected = zarr.open_array(numbers / "a", mode="r")[...]
    same = np.array_equal(read(reader, tmp_path / "new", "a"), expected)
    # zarrita.js looks for the index at the end, whatever the document says; the plan warns of it.
    assert same == (reader != "zarrita" or OPTIONS[option].get("shard_index_location") != "start")


@pytest.mark.slow(one_in=41)
@pytest.mark.parametrize(
    "chunks",
    [
        "1",
        "4",
        "3,-1",
        *(pytest.param(each, marks=pytest.mark.needs_reader("once")) for each in ("-1", "2,2", "7,7")),
    ],
)
@pytest.mark.parametrize("shards", [None, "2x"])
@pytest.mark.parametrize(
    "source", [write_kinds, lambda path: shutil.copytree(DRAFT, path), lambda path: shutil.copytree(N5, path)]
)
def test_values_are_those_of_a_copy_with_the_same_chunks(source, shards, chunks, tmp_path) -> None:
    """Arrays of another number of axes keep their chunks; where all are such, the chunks are refused."""
    place = source(tmp_path / "old")
    plain = zarrlift.migrate(place, tmp_path / "plain")
    if not any(len(array.source.shape) == chunks.count(",") + 1 for array in plain.plan.arrays):
        with pytest.raises(UsageError, match="no array takes --chunks"):
            zarrlift.migrate(place, tmp_path / "new", recipe=wish(chunks=chunks, shards=shards))
        return
    outcome = zarrlift.migrate(place, tmp_path / "new", recipe=wish(chunks=chunks, shards=shards))
    assert {problem.node for problem in outcome.problems} == {problem.node for problem in plain.problems}
    axes = chunks.count(",") + 1
    for array in outcome.plan.arrays:
        assert bits(tmp_path / "new", array.path) == bits(tmp_path / "plain", array.path)
        if len(array.source.shape) != axes:
            assert array.destination.chunk_shape == array.source.chunk_shape


@pytest.mark.slow(one_in=13)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("source", ["numbers", "sharded"])
def test_the_same_bytes_whatever_memory_there_is(source, option, numbers, monkeypatch, tmp_path) -> None:
    if source == "sharded":
        assert zarrlift.migrate(numbers, tmp_path / "sharded", recipe=wish(shards="2,2,3")).ok
        numbers = tmp_path / "sharded"
    ways = set()
    for count in ROOM:
        with monkeypatch.context() as patch:
            leave(count, patch)
            recipe = wish(**OPTIONS[option])
            outcome = zarrlift.migrate(numbers, tmp_path / str(count), recipe=recipe, workers=1 + count % 2)
        if [problem.kind for problem in outcome.problems] == ["memory"]:
            continue
        assert outcome.ok, outcome.problems
        move = outcome.plan.arrays[0].move
        ways.add((move.block_shape, move.piece_shape))
        assert tree(tmp_path / str(count)) == tree(tmp_path / str(ROOM[0]))
    if "shards" in OPTIONS[option]:
        assert len(ways) > 1, "less memory is another way"


def test_a_shard_larger_than_its_memory_is_made_in_pieces(numbers, monkeypatch, tmp_path) -> None:
    recipe = wish(chunks="3,2,5", shards="2x")
    whole = zarrlift.migrate(numbers, tmp_path / "whole", recipe=recipe)
    leave(100, monkeypatch)
    parts = zarrlift.migrate(numbers, tmp_path / "parts", recipe=recipe)
    assert whole.plan.arrays[0].move.piece_shape is None
    assert parts.plan.arrays[0].move.piece_shape is not None
    assert parts.plan.arrays[0].times_read > whole.plan.arrays[0].times_read
    assert tree(tmp_path / "whole") == tree(tmp_path / "parts")


def write_planes(path: Path) -> Path:
    array = zarr.create_array(path, shape=(14, 9, 8), chunks=(1, 9, 8), dtype="<u8", zarr_format=2)
    array[...] = np.arange(14 * 9 * 8).reshape(14, 9, 8)
    return path


ACROSS = {"chunks": "3,2,2", "shards": "2,2,2"}
"""Two layers of inner chunks in a shard, and six shards, some of them cut, that every plane crosses."""


@pytest.mark.parametrize("location", ["start", "end"])
def test_shards_that_the_same_chunks_cross_are_built_together(location, monkeypatch, tmp_path) -> None:
    source = write_planes(tmp_path / "old")
    recipe = wish(**ACROSS, shard_index_location=location)
    whole = zarrlift.migrate(source, tmp_path / "whole", recipe=recipe)
    leave(2500, monkeypatch)
    monkeypatch.setattr("zarrlift.transfer.blocks._HELD", 600)  # so each is a stream to a file
    layers = zarrlift.migrate(source, tmp_path / "layers", recipe=recipe, workers=2)
    assert whole.plan.arrays[0].move.piece_shape is None
    (array,) = layers.plan.arrays
    assert (array.move.block_shape, array.move.piece_shape) == ((6, 12, 8), (3, 12, 8))
    assert array.times_read == 1
    assert tree(tmp_path / "layers") == tree(tmp_path / "whole")


def test_of_shards_built_together_those_with_a_failed_value_are_discarded(monkeypatch, tmp_path) -> None:
    leave(2500, monkeypatch)
    monkeypatch.setattr("zarrlift.transfer.blocks._HELD", 600)
    source = write_planes(tmp_path / "old")
    (source / "7.0.0").write_bytes(b"damaged")  # in the second of three blocks
    outcome = zarrlift.migrate(source, tmp_path / "new", recipe=wish(**ACROSS))
    assert [problem.key for problem in outcome.problems] == ["7.0.0"]
    first = sorted(place.split("/")[1] for place in shards(tmp_path / "new", ""))
    assert first == ["0"] * 6 + ["2"] * 6
    real = InnerChunkConversion.store

    def refuse(self: InnerChunkConversion, index: int, array: npt.NDArray[Any]) -> Any:
        if array.flat[0] == 9 * 8 * 3 + 2 * 8:
            raise CastError("no such value")
        return real(self, index, array)

    monkeypatch.setattr(InnerChunkConversion, "store", refuse)
    outcome = zarrlift.migrate(write_planes(tmp_path / "good"), tmp_path / "cast", recipe=wish(**ACROSS))
    assert [problem.kind for problem in outcome.problems] == ["cast"]
    assert "c/0/0/0" not in shards(tmp_path / "cast", "")
    assert len(shards(tmp_path / "cast", "")) == 3 * 6 - 1


def test_nothing_is_built_together_for_a_store(tmp_path) -> None:
    """Each object would take its own buffer."""
    zarr.create_array(
        tmp_path / "old", shape=(256, 512, 512), chunks=(1, 512, 512), dtype="<u2", zarr_format=2
    )
    recipe = wish(chunks="64,64,64", shards="2,4,4")
    (array,) = zarrlift.plan(tmp_path / "old", tmp_path / "new", recipe=recipe).arrays
    assert array.move.piece_shape == (64, 512, 512)
    (array,) = zarrlift.plan(tmp_path / "old", "memory://new", recipe=recipe).arrays
    assert array.move.piece_shape is None


# Fill values, casts, objects


def test_a_chunk_without_a_stored_value_stays_missing(numbers, tmp_path) -> None:
    for chunk in (numbers / "a").glob("0.*"):
        chunk.unlink()
    outcome = zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(chunks="2,13,7"))
    assert sorted(shards(tmp_path / "new", "a")) == [f"c/{place}/0/0" for place in (2, 3, 4, 5)]
    assert outcome.plan.arrays[0].objects_out == 4


def test_empty_chunks_are_judged_by_their_own_values(tmp_path) -> None:
    source = zarr.create_array(
        tmp_path / "old",
        shape=(11,),
        chunks=(4,),
        dtype="<f4",
        fill_value=np.nan,
        zarr_format=2,
        config={"write_empty_chunks": True},
    )
    source[...] = [np.nan] * 5 + [1.0] + [np.nan] * 5
    outcome = zarrlift.migrate(tmp_path / "old", tmp_path / "new", recipe=wish(chunks="2", drop_empty=True))
    assert outcome.ok, outcome.problems
    assert list(shards(tmp_path / "new", "")) == ["c/2"]
    assert zarrlift.verify(tmp_path / "old", tmp_path / "new", full=True).ok


def test_a_value_that_cannot_be_cast_is_named_by_the_chunk_it_stands_in(numbers, tmp_path) -> None:
    outcome = zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(chunks="-1,-1,-1", dtype="uint8"))
    kinds = {problem.kind for problem in outcome.problems}
    assert kinds == {"cast"}
    assert {problem.key for problem in outcome.problems} <= {f"a/{name}" for name in tree(numbers / "a")}
    assert not shards(tmp_path / "new", "a")


def test_objects_beside_a_missing_chunk_become_text(tmp_path) -> None:
    """A fill value of 0 is no str, and no chunk holds it."""
    source = write_objects(tmp_path / "old")
    assert zarrlift.migrate(source, tmp_path / "new", recipe=wish(chunks="6")).ok
    assert read("zarr-python", tmp_path / "new", "objects").tolist() == ["", "", "", "x", "y", "z"]


def test_objects_become_json_text_once(tmp_path) -> None:
    source = write_objects(tmp_path / "old", fill=None)
    recipe = wish(chunks="4", shards="2x", objects="json")
    assert zarrlift.migrate(source, tmp_path / "new", recipe=recipe).ok
    assert read("zarr-python", tmp_path / "new", "objects").tolist() == ["null"] * 3 + ['"x"', '"y"', '"z"']


# What is said beforehand


class Watched:
    """What a progress bar would show."""

    def __init__(self) -> None:
        self.total: tuple[int | None, int | None] = (None, None)
        self.bytes = self.chunks = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Planned):
            self.total = (event.bytes, event.chunks)
        elif isinstance(event, TaskDone):
            self.chunks += event.chunks
            self.bytes += event.bytes_in


def test_a_shard_that_cannot_be_ended_leaves_no_part_of_itself(
    numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = ShardBuilder.finish
    calls: list[Any] = []

    def full(self: ShardBuilder) -> int:
        calls.append(self)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return finish(self)

    monkeypatch.setattr(ShardBuilder, "finish", full)
    monkeypatch.setattr("zarrlift.transfer.blocks._HELD", 1)  # each payload is in the file at once
    result = tmp_path / "out.zarr"
    outcome = zarrlift.migrate(numbers, result, executor="threads", **OPTIONS["sharded"])
    assert [problem.found for problem in outcome.problems] == ["No space left on device"]
    assert [path.name for path in (result / "a").rglob("*") if not path.name.isdecimal()] == ["c"]
    assert [builder._stream._descriptor for builder in calls] == [-1] * len(calls)  # closed
    assert zarrlift.resume(result).state == "done"
    assert zarrlift.verify(numbers, result, full=True).ok


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("count", ROOM)
def test_progress_ends_at_its_total(count, numbers, monkeypatch, tmp_path) -> None:
    leave(count, monkeypatch)
    seen = Watched()
    outcome = zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(chunks="3,2,5"), progress=seen)
    (array,) = outcome.plan.arrays
    assert seen.total == (array.bytes_read, array.reads)
    assert seen.chunks == array.reads
    # Chunks differ in size, and some of them are read more often than others.
    assert seen.bytes == pytest.approx(array.bytes_read, rel=0.1)
    if array.times_read == 1:
        assert seen.bytes == array.bytes_in


def test_the_plan_says_what_is_read_twice_and_what_that_takes(numbers, monkeypatch, tmp_path) -> None:
    leave(300, monkeypatch)
    plan = zarrlift.plan(numbers, tmp_path / "new", recipe=wish(chunks="3,2,5"))
    (array,) = plan.arrays
    assert array.times_read > 1
    assert array.memory is not None
    made = plan.to_json()["arrays"][0]
    assert (made["times_read"], made["memory"]) == (array.times_read, array.memory)
    assert zarrlift.plan(numbers, recipe=wish()).arrays[0].memory is None


def test_a_chunk_that_no_memory_holds_is_refused_with_what_it_takes(tmp_path) -> None:
    zarr.create_array(
        tmp_path / "old", shape=(1000, 1000, 1000), chunks=(10, 1000, 1000), dtype="<u2", zarr_format=2
    )
    recipe = wish(chunks="1000,1000,10", memory=200_000_000)
    plan = zarrlift.plan(tmp_path / "old", tmp_path / "new", recipe=recipe)
    (problem,) = plan.refusals[0].problems
    assert problem.kind == "memory"
    assert problem.expected is not None
    least = int(problem.expected.split()[2])
    enough = zarrlift.plan(
        tmp_path / "old", tmp_path / "new", recipe=wish(chunks="1000,1000,10", memory=least)
    )
    assert not enough.refusals


def test_planning_many_axes_takes_no_longer_than_few(tmp_path) -> None:
    """Five axes that nothing divides: few blocks are worth a look."""
    zarr.create_array(
        tmp_path / "old",
        shape=(1009, 13, 2003, 30011, 30013),
        chunks=(1, 1, 7, 512, 500),
        dtype="<u2",
        zarr_format=2,
    )
    plan = zarrlift.plan(tmp_path / "old", tmp_path / "new", recipe=wish(chunks="3,2,5,129,131", shards="2x"))
    (array,) = plan.arrays
    source, destination = array.source, array.destination
    candidates = Candidates.of(source, destination)
    assert np.prod([len(lengths) for lengths in candidates.objects]) < 20_000


def test_no_more_workers_than_the_memory_is_for() -> None:
    budget = blocks.BASE + 300
    assert blocks.workers_within(budget, 100) == 3
    assert blocks.workers_within(budget, 1000) == 1
    assert blocks.workers_within(10 * budget, 100, processes=True) == 9


def test_no_more_copies_of_the_process_than_the_memory_is_for(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_tuning, "may_fork", lambda: True)
    (array,) = zarrlift.plan(numbers, recipe=wish(chunks="5,5,5")).arrays
    tiny = replace(array, chunks=5000, bytes_in=500_000, memory=1000)
    options = RunOptions(workers=4)
    base = blocks.BASE
    assert forks_for([tiny], options, base + 3 * (base + 1000), local=True) == 3
    assert forks_for([tiny], options, base + 1000, local=True) == 0, "a thread will do"
    assert forks_for([replace(tiny, memory=None)], options, base, local=True) == 4


@pytest.mark.parametrize(("workers", "expected"), [(2, 0), (20, 0), (21, 21), (64, 64)])
def test_processes_take_over_where_threads_would_wait_for_each_other(
    workers: int, expected: int, numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread holds the interpreter lock for a twentieth of its time when chunks change their shape."""
    monkeypatch.setattr(process_tuning, "may_fork", lambda: True)
    (array,) = zarrlift.plan(numbers, recipe=wish(chunks="5,5,5")).arrays
    large = replace(array, chunks=5000, bytes_in=4 << 30, memory=None)
    options = RunOptions(workers=workers)
    assert forks_for([large], options, 1 << 30, local=True) == expected
    assert forks_for([replace(large, chunks=5, bytes_in=1 << 20)], options, 1 << 30, local=True) == 0
    assert forks_for([large], options, 1 << 30, local=False) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": "64,0"}, "--chunks takes lengths"),
        ({"chunks": "2,2,2", "codecs": "keep"}, "--codecs keep does not change stored bytes"),
        ({"memory": 127_999_999}, "--memory is too small"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_said_before_anything_is_read(options, message, numbers, tmp_path) -> None:
    with pytest.raises(UsageError, match=message):
        zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(**options))
    assert not (tmp_path / "new").exists()


# While chunks change their shape the process and its workers stay within `--memory`; it decides no byte.


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
            found.update(file.relative_to(path).as_posix().encode() + b"\0" + file.read_bytes())
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


@pytest.mark.needs_reader("once")
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


@pytest.mark.needs_reader("once")
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


@pytest.mark.needs_reader("once")
@pytest.mark.slow
def test_worker_processes_stay_within_it_together(tmp_path: Path) -> None:
    source = write(tmp_path / "old", (100, 1000, 1000), (50, 100, 100))
    options = ("--chunks", "64,64,64", "--memory", "256MB", "--executor", "processes", "--workers", "4")
    assert peak(source, tmp_path / "new", *options) < BYTES["256MB"]
