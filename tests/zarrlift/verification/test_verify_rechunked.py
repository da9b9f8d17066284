"""`verify --full` where chunks were cut anew: each chunk of the source is decoded once, all is compared."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

import zarrlift
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.verification import archives

SHAPE = (24, 40, 30)
CHUNKS = (1, 20, 15)
NUMBER = 24 * 2 * 2
CASES = {
    "planes into cubes in shards": ({}, {"chunks": "8,8,8", "shards": "2x"}),
    "planes into columns": ({}, {"chunks": "-1,3,4"}),
    "out of shards, other chunks": ({"shards": "5,2,1"}, {"chunks": "8,8,8", "shards": "none"}),
    "out of shards, the same chunks": ({"shards": "5,2,1"}, {"shards": "none"}),
    "into other shards": ({"shards": "5,2,1"}, {"shards": "4,1,2"}),
}
"""How the source lies, and what becomes of it."""


@pytest.fixture(params=CASES)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A source some of whose chunks are missing, and what it was cut into."""
    before, after = CASES[request.param]
    old = tmp_path / "old"
    array = zarr.create_array(old, shape=SHAPE, chunks=CHUNKS, dtype="<i4", zarr_format=2, fill_value=-5)
    array[...] = np.random.default_rng(8).integers(0, 1 << 30, SHAPE)
    for place in ("0.0.0", "7.1.1", "8.0.1"):
        (old / place).unlink()
    if before:
        recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**before))
        assert zarrlift.migrate(old, tmp_path / "shards", recipe=recipe).ok
        old = tmp_path / "shards"
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**after))
    assert zarrlift.migrate(old, tmp_path / "new", recipe=recipe).ok
    return old, tmp_path / "new"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """One entry for each chunk that our own code decoded."""
    seen: list[int] = []
    lock = threading.Lock()
    decode = Pipeline.decode

    def count(self: Pipeline, data: bytes) -> object:
        with lock:
            seen.append(len(data))
        return decode(self, data)

    monkeypatch.setattr(Pipeline, "decode", count)
    return iter([seen])


@pytest.mark.slow(one_in=3)
def test_each_chunk_is_decoded_once(pair: tuple[Path, Path], decoded: Iterator[list[int]]) -> None:
    seen = next(decoded)
    assert zarrlift.verify(*pair, full=True).ok
    assert len(seen) == NUMBER - 3


@pytest.mark.slow(one_in=5)
def test_with_little_memory_it_takes_longer_and_is_the_same(
    pair: tuple[Path, Path], decoded: Iterator[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = next(decoded)
    monkeypatch.setattr(archives, "memory_budget", lambda _: 0)
    assert zarrlift.verify(*pair, full=True).ok
    assert len(seen) >= NUMBER - 3


@pytest.mark.slow(one_in=5)
def test_a_value_that_differs_is_found_wherever_it_is(pair: tuple[Path, Path]) -> None:
    array = zarr.open_array(pair[1], mode="r+")
    for place in ((0, 0, 0), (23, 39, 29), (8, 19, 15), (13, 20, 14)):
        kept = array[place]
        array[place] = kept + 1
        (problem,) = zarrlift.verify(*pair, full=True).problems
        assert problem.kind == "verify-values"
        assert str(list(place)) in problem.message
        array[place] = kept
    assert zarrlift.verify(*pair, full=True).ok


@pytest.mark.slow(one_in=5)
def test_a_chunk_that_cannot_be_read_is_told_and_the_others_are_compared(pair: tuple[Path, Path]) -> None:
    old, new = pair
    files = [file for file in old.rglob("*") if file.is_file() and file.name[0].isdigit()]
    file = max(files, key=lambda file: (file.stat().st_size, file))
    file.write_bytes(b"\x00" * 9 + file.read_bytes()[9:])
    array = zarr.open_array(new, mode="r+")
    array[23, 39, 29] += 1
    problems = zarrlift.verify(old, new, full=True).problems
    assert str(file.relative_to(old)) in {problem.key for problem in problems}
    assert any("[23, 39, 29]" in problem.message for problem in problems) or str(file).endswith(
        ("23.1.1", "4/0/1")
    )
