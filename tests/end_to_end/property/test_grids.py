"""Whatever the chunks and shards of both sides are: every value stays, and nothing else decides a byte."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.end_to_end.property.archives import DTYPES, WIDER, Wanted, bits, tree, wanted, write
from tests.support.chances import examples

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.planning.regrid import boxes

KINDS = tuple(dtype for dtype in DTYPES if "V" not in dtype)
"""zarr-python 3.1.6 reads no shard of raw bytes ("unhashable type: 'writeable void-scalar'")."""


@st.composite
def grids(draw: st.DrawFn, array: Wanted, *, of_v2: bool = True) -> ArrayRecipe:
    """Other chunks, other shards, or both; codecs, byte order, order and type as they come.

    Of Zarr v2, no index of shards is requested without shards: that is refused.
    """
    axes = len(array.shape)
    lengths = st.lists(st.integers(1, 9) | st.just(-1), min_size=axes, max_size=axes)
    counts = st.lists(st.integers(1, 4), min_size=axes, max_size=axes)
    chunks = draw(st.none() | lengths.map(lambda found: ",".join(map(str, found)) or None))
    few = st.sampled_from([None, "auto", "none", "1x", "2x", "3x"])
    shards = draw(few | counts.map(lambda found: ",".join(map(str, found)) or "2x"))
    indexed = shards is not None or not of_v2
    index = {
        "shard_index": draw(st.sampled_from([None, "bytes", "crc32c"] if indexed else [None])),
        "shard_index_location": draw(st.sampled_from([None, "start", "end"] if indexed else [None])),
    }
    codecs = draw(st.sampled_from(["portable", "none", "zstd:1", "keep"]))
    if codecs == "keep" and chunks is None:
        return ArrayRecipe(shards=shards, codecs=codecs, **index)
    return ArrayRecipe(
        chunks=chunks,
        shards=shards,
        codecs="portable" if codecs == "keep" else codecs,
        endian=draw(st.sampled_from(["keep", "little", "big"])),
        order=draw(st.sampled_from(["keep", "C", "F"])),
        dtype=draw(st.sampled_from([None, None, WIDER.get(array.dtype[1:])])),
        drop_empty=array.fill is not None and draw(st.booleans()),
        **index,
    )


def one_after_another(array: Wanted) -> st.SearchStrategy[tuple[Wanted, ArrayRecipe, ArrayRecipe]]:
    return st.tuples(st.just(array), grids(array), grids(array, of_v2=False))


@examples(80)
@given(wanted(KINDS).flatmap(one_after_another))
def test_every_bit_reads_back_whatever_the_chunks(case: tuple[Wanted, ArrayRecipe, ArrayRecipe]) -> None:
    """From Zarr v2 to some grid, and from there, as Zarr v3, to another."""
    array, first, second = case
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write(root / "old", array)
        expected, dtype = bits(root / "old", "a", 2, array.dtype), array.dtype
        for source, target, recipe in (("old", "new", first), ("new", "newer", second)):
            outcome = zarrlift.migrate(root / source, root / target, recipe=Recipe(base=recipe))
            assert outcome.ok, outcome.problems
            if recipe.dtype is not None:
                native = np.dtype(dtype).newbyteorder("=")
                with np.errstate(invalid="ignore"):  # signalling NaN
                    wide = np.frombuffer(expected[1], native).astype(recipe.dtype.numpy)
                expected, dtype = (expected[0], wide.tobytes()), recipe.dtype.numpy.str
                found = np.frombuffer(bits(root / target, "a", 3, dtype)[1], dtype)
                np.testing.assert_array_equal(found, wide)
                expected = bits(root / target, "a", 3, dtype)  # a NaN may have changed its payload
            assert bits(root / target, "a", 3, dtype) == expected
            assert zarrlift.verify(root / source, root / target, full=True).ok
            (planned,) = outcome.plan.arrays
            assert outcome.chunks == planned.reads
            stored = tree(root / target / "a").keys() - {"zarr.json"}
            assert len(stored) <= planned.objects_out
            if not recipe.drop_empty and planned.source.frame is None:
                # Which leaves a shard has is not known before it is opened.
                assert len(stored) == planned.objects_out


def with_memory(array: Wanted) -> st.SearchStrategy[tuple[Wanted, ArrayRecipe, int, int]]:
    return st.tuples(st.just(array), grids(array), st.integers(1, 3000), st.integers(1, 3))


@examples(40)
@given(wanted(KINDS).flatmap(with_memory))
def test_memory_and_workers_decide_no_byte(case: tuple[Wanted, ArrayRecipe, int, int]) -> None:
    array, recipe, room, workers = case
    real = boxes.Candidates.choose
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        root = Path(name)
        write(root / "old", array)
        assert zarrlift.migrate(root / "old", root / "ample", recipe=Recipe(base=recipe), workers=1).ok

        def choose(self: Any, _: int, number: int, **options: bool) -> object:
            return real(self, room, number, **options)

        patch.setattr(boxes.Candidates, "choose", choose)
        outcome = zarrlift.migrate(root / "old", root / "scarce", recipe=Recipe(base=recipe), workers=workers)
        if outcome.ok:
            assert tree(root / "scarce") == tree(root / "ample")
        else:
            assert {p.kind for p in outcome.problems if p.severity == "refusal"} == {"memory"}
