"""Blocks longer than the memory: made piece by piece, each source chunk decoded once, as the plan says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from math import gcd
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import examples
from tests.support.damaged_archives import migrate
from tests.support.job_archives import tree
from tests.zarrlift.transfer.grids import wish
from tests.zarrlift.transfer.test_regrid import leave

import zarrlift
from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.data_types.v3 import DataType
from zarrlift.core.grid.frames import Shards
from zarrlift.core.grid.grid import Grid
from zarrlift.core.grid.overlap import touches
from zarrlift.planning.blocks import Blocks
from zarrlift.planning.boxes import Candidates, choose_blocks
from zarrlift.transfer.regrid import CarryOver, RegionBuffer
from zarrstack.core.chunk_keys_v3 import KeyEncoding

SHAPE = (25, 24, 26)
CASES = {
    "chunks": ({"chunks": "7,6,9", "shards": "none"}, 3000),
    "chunks that hardly fit": ({"chunks": "7,6,9", "shards": "none"}, 1600),
    "shards, whole": ({"chunks": "3,4,9", "shards": "2,3,1"}, 4000),
    "a shard in pieces": ({"chunks": "7,6,9", "shards": "6,7,5"}, 2500),
}
"""Options, and bytes for the values of one block."""


@pytest.fixture(params=["chunks", "shards", "order F, big-endian"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Chunks of 10 x 5 x 10, whose lengths those of the result divide nowhere; some are missing."""
    path = tmp_path / "old"
    odd = request.param.startswith("order")
    array = zarr.create_array(
        path,
        shape=SHAPE,
        chunks=(10, 5, 10),
        dtype=">i2" if odd else "<i2",
        order="F" if odd else "C",
        zarr_format=2,
        fill_value=-1,
    )
    array[...] = np.random.default_rng(3).integers(0, 999, SHAPE)
    for number, file in enumerate(sorted(path.glob("[0-9]*"))):
        if number % 5 == 2:
            file.unlink()
    if request.param != "shards":
        return path
    assert zarrlift.migrate(path, tmp_path / "sharded", recipe=wish(shards="2,3,2")).ok
    return tmp_path / "sharded"


class Decodes:
    """How often a chunk of the source was put onto a canvas straight from its decoder."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def one(self) -> None:
        with self._lock:
            self.count += 1


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Decodes]:
    from zarrlift.transfer.regrid import ValueAssembler

    seen = Decodes()
    real = ValueAssembler._values

    def values(self: ValueAssembler, *arguments: object) -> object:
        seen.one()
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ValueAssembler, "_values", values)
    return iter([seen])


@pytest.mark.slow(one_in=12)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("case", CASES)
def test_the_plan_counts_every_decoding(
    case: str, source: Path, decodes: Iterator[Decodes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options, room = CASES[case]
    reference = zarrlift.migrate(source, tmp_path / "ample", recipe=wish(**options))
    assert reference.ok, reference.problems
    seen = next(decodes)
    seen.count = 0
    leave(room, monkeypatch)
    outcome = zarrlift.migrate(source, tmp_path / "tight", recipe=wish(**options), workers=2)
    assert outcome.ok, outcome.problems
    (array,) = outcome.plan.arrays
    move = array.move
    assert move.run_shape is not None, "made in pieces, with parts of chunks kept"
    # Whatever the memory, the same bytes.
    assert tree(tmp_path / "tight") == tree(tmp_path / "ample")
    assert zarrlift.verify(source, tmp_path / "tight", full=True).ok
    there = stored_leaves(source, move.source.grid)
    wanted = int(touches(there, move.source.grid, Grid(SHAPE, move.run_shape)).sum())
    assert seen.count == wanted
    assert outcome.chunks == array.reads
    if not isinstance(move.source.frame, Shards):
        assert wanted == array.reads
        assert array.times_read == wanted / len(there)
    in_pieces = int(touches(there, move.source.grid, Grid(SHAPE, move.piece_shape or SHAPE)).sum())
    assert wanted < in_pieces, "without what is kept more would be decoded"


def stored_leaves(source: Path, grid: Grid) -> np.ndarray:
    """Linear indexes of the source's chunks that are stored: every fifth was deleted, one by one."""
    array = zarr.open_array(source, mode="r")
    found = []
    for number in range(grid.total):
        values = array[grid.region(grid.coordinates(number))]
        if (values != -1).any():
            found.append(number)
    return np.array(found, dtype=np.int64)


def test_a_bad_chunk_is_told_once_and_nothing_is_made_of_its_run(
    source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options, room = CASES["chunks"]
    leave(room, monkeypatch)
    file = max((file for file in source.rglob("*") if file.name[0] != "." and file.name[0] != "z"), key=size)
    file.write_bytes(file.read_bytes()[:-3])
    ran = migrate(source, tmp_path / "new", *(f"--{name}={value}" for name, value in options.items()))
    assert ran.code == 1
    assert {refusal["key"] for refusal in ran.refusals} == {file.relative_to(source).as_posix()}
    assert not (tmp_path / "new/zarr.json").exists()


def size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else -1


# What is kept


lengths = st.integers(1, 12)


@pytest.mark.needs_reader("once")
@examples(25)
@given(st.tuples(lengths, lengths), st.tuples(lengths, lengths), st.integers(1, 4), st.sampled_from([0, 1]))
def test_what_is_kept_and_what_is_new_are_the_values_of_each_piece(
    chunk: tuple[int, int], piece: tuple[int, int], pieces: int, axis: int
) -> None:
    """Every chunk is asked for once in a run, and every piece is right; what is kept has a bound."""
    shape = (17, 19)
    values = np.arange(17 * 19).reshape(shape)
    run = tuple(length * pieces if other == axis else length for other, length in enumerate(piece))
    grid, runs, parts = Grid(shape, chunk), Grid(shape, run), Grid(shape, piece)
    for number in range(runs.total):
        region = runs.region(runs.coordinates(number))
        kept = CarryOver(region, axis)
        asked: list[int] = []
        across = region[1 - axis].stop - region[1 - axis].start
        inside = (parts.region(parts.coordinates(n)) for n in range(parts.total))
        for part in (one for one in inside if overlap(one, region)):
            canvas = RegionBuffer(part, values.dtype, -1, (1, 1))
            kept.paste(canvas)
            near = [n for n in range(grid.total) if overlap(grid.region(grid.coordinates(n)), part)]
            for new in kept.new(np.array(near)).tolist():
                asked.append(new)
                where = grid.region(grid.coordinates(new))
                canvas.paste(values[where], where)
                kept.keep(new, where, values[where])
            assert np.array_equal(canvas._values, values[part])
            held = sum(old.size for old, _ in kept._parts.values() if old is not None)
            assert held <= (chunk[axis] - gcd(chunk[axis], piece[axis])) * across
        assert len(asked) == len(set(asked))


def overlap(one: tuple[slice, ...], other: tuple[slice, ...]) -> bool:
    return all(max(a.start, b.start) < min(a.stop, b.stop) for a, b in zip(one, other, strict=True))


# What is chosen


def layout(chunks: tuple[int, ...], length: int = 1000) -> zarrlift.archive.nodes.Layout:
    return zarrlift.archive.nodes.Layout(
        shape=(length,) * len(chunks),
        data_type=DataType("uint16"),
        fill_value=0,
        chunk_shape=chunks,
        chain=Chain((CodecSpec("bytes", {"endian": "little"}),)),
        keys=KeyEncoding("v2", "."),
    )


@pytest.mark.parametrize(
    ("before", "after", "memory", "most"),
    [
        ((100, 100, 100), (64, 64, 64), 256_000_000, 1.5),
        ((100, 100, 100), (64, 64, 64), 1_000_000_000, 1.1),
        ((1, 512, 512), (64, 64, 64), 256_000_000, 1.0),
        ((64, 64, 64), (1, 512, 512), 256_000_000, 1.0),
    ],
)
def test_how_often_a_chunk_is_decoded(
    before: tuple[int, ...], after: tuple[int, ...], memory: int, most: float
) -> None:
    """Of chunks that divide each other each is decoded once; of others, little more often than that."""
    length = 1000 if before == (100, 100, 100) else 1024
    blocks = choose_blocks(layout(before, length), layout(after, length), memory)
    assert isinstance(blocks, Blocks)
    assert blocks.memory is not None
    assert blocks.memory < memory
    assert blocks.times_read <= most


@examples(60)
@given(st.tuples(lengths, lengths), st.tuples(lengths, lengths), st.integers(50, 3000), st.integers(1, 4))
def test_a_box_stays_within_its_room_and_reads_no_more_than_one_without_pieces(
    chunk: tuple[int, int], new: tuple[int, int], room: int, workers: int
) -> None:
    candidates = Candidates.of(layout(chunk, 97), layout(new, 97))
    best, plain = candidates.choose(room, workers), candidates.choose(room, workers, whole=True)
    if best is None:
        assert plain is None
        return
    assert best.items * candidates.item <= room
    if plain is not None:
        assert candidates.cost(best, workers) <= candidates.cost(plain, workers)
    assert isinstance(best, Blocks)
    assert all(a % b == 0 for a, b in zip(best.shape, best.piece or best.shape, strict=True))
