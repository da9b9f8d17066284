"""What a plan accepts, and nothing disturbs, succeeds: every fixture, and all that a recipe may ask for."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import examples
from tests.support.fixtures_index import FORMATS, archives
from tests.support.unpacking import unpacked

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.planning.recipe_checks import check_recipe
from zarrlift.recipe.options import Axes
from zarrstack.core.errors import UsageError

# Any fixture, or a part of it, and any wish that a recipe can hold.


CODECS = (
    *("portable", "portable", "keep", "none", "zstd:1", "gzip:1", "gzip:1+crc32c", "blosc:lz4:1:bitshuffle"),
    *("crc32c", "blosc:zstd:1:shuffle+crc32c", "gzip:1+zstd:1"),
    '[{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 1, "checksum": true}}]',
    '[{"name": "bytes", "configuration": {"endian": "big"}}]',
)
_NUMBERS = ("int16", "int32", "int64", "float32", "float64", "complex64", "complex128")
CONVENTIONS = ("auto", "auto", "auto", "none", "xarray", "ome", "n5", "hdmf", "spatialdata", "ome,xarray")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An archive of the fixtures."""

    name: str
    path: Path
    format: str
    arrays: tuple[tuple[str, int, np.dtype[Any] | None], ...]
    """Path, number of axes and data type of each; None for one that numpy has no name for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is migrated, and how."""

    source: Source
    recipe: Recipe
    axes: Axes | None = None
    allow_fallback: bool = False

    def __repr__(self) -> str:
        recipe = {name: value for name, value in self.recipe.to_json().items() if value}
        return f"Wish({self.source.name}, {recipe}, axes={self.axes}, allow_fallback={self.allow_fallback})"


@cache
def sources() -> tuple[Source, ...]:
    """Every fixture that nothing is wrong with."""
    found = [
        Source(
            name=one.name,
            path=one.path,
            format=one.format,
            arrays=tuple((path, len(array.shape), array.dtype) for path, array in sorted(one.arrays.items())),
        )
        for name in FORMATS
        for one in archives(name)
    ]
    return (*found, *(_of_v3(unpacked(f"zarr_v3/{name}/all.zarr")) for name in ("zarr-3.1", "zarr-3.4")))


def _of_v3(path: Path) -> Source:
    arrays = []
    for file in sorted(path.rglob("zarr.json")):
        document = json.loads(file.read_bytes())
        if document["node_type"] == "array":
            name = document["data_type"]
            dtype = np.dtype(name) if name in (*_NUMBERS, "int8", "uint8", "uint32") else None
            arrays.append((file.parent.relative_to(path).as_posix(), len(document["shape"]), dtype))
    return Source(name=f"zarr_v3/{path.parent.name}", path=path, format="zarr_v3", arrays=tuple(arrays))


def _wider(dtype: np.dtype[Any] | None) -> tuple[str | None, ...]:
    """Data types that hold every value of another; None is its own."""
    if dtype is None or dtype.kind not in "iuf":
        return (None,)
    exact = _NUMBERS if dtype.kind == "f" or dtype.itemsize < 8 else _NUMBERS[:3]  # numpy says float64 too
    return (None, *(name for name in exact if np.can_cast(dtype.newbyteorder("="), name)))


@st.composite
def lengths(draw: st.DrawFn, ndim: int, most: int) -> str:
    """As many lengths as an array has axes, mostly."""
    count = draw(st.sampled_from([ndim, ndim, ndim, 1, 2, 3])) or 1
    return ",".join(str(draw(st.integers(1, most))) for _ in range(count))


def _sensible(recipe: ArrayRecipe) -> bool:
    try:
        check_recipe(recipe)
    except UsageError:
        return False
    return True


@st.composite
def _any_recipes(draw: st.DrawFn, ndim: int = 2, dtype: np.dtype[Any] | None = None) -> ArrayRecipe:
    """Any wish that changes no value; some make no sense, which the plan says."""
    asked: dict[str, Any] = {
        "codecs": st.sampled_from(CODECS),
        "dtype": st.sampled_from(_wider(dtype)),
        "endian": st.sampled_from(["little", "big"]),
        "order": st.sampled_from(["C", "F"]),
        "key_encoding": st.sampled_from(["default", "v2"]),
        "separator": st.sampled_from([".", "/"]),
        "chunks": lengths(ndim, 9) | st.just(",".join(["-1"] * (ndim or 1))),
        "shards": st.sampled_from(["auto", "none", "2x", "3x"]) | lengths(ndim, 3),
        "shard_index": st.sampled_from(["bytes", "crc32c"]),
        "shard_index_location": st.sampled_from(["start", "end"]),
        "drop_empty": st.just(value=True),
        "objects": st.just("json"),
        "allow_pickle": st.just(value=True),
        "attributes": st.just("keep"),
        "conventions": st.sampled_from(CONVENTIONS),
        "multiscale": st.just("ome"),
        "ome": st.just("0.6"),
    }
    names = draw(st.lists(st.sampled_from(sorted(asked)), unique=True, max_size=5))
    return ArrayRecipe(**{name: draw(asked[name]) for name in names})


def array_recipes(ndim: int = 2, dtype: np.dtype[Any] | None = None) -> st.SearchStrategy[ArrayRecipe]:
    """Any wish that changes no value and makes sense for some array."""
    return _any_recipes(ndim, dtype).filter(_sensible)


@st.composite
def wishes(draw: st.DrawFn) -> Wish:
    """A fixture or one of its arrays, and what is to become of it."""
    source = draw(st.sampled_from(sources()))
    recipe, include = draw(array_recipes()), ()
    if source.arrays and draw(st.integers(0, 3)):
        path, ndim, dtype = draw(st.sampled_from(source.arrays))
        recipe, include = draw(array_recipes(ndim, dtype)), (path,)
    return Wish(
        source=source,
        recipe=Recipe(
            base=recipe,
            include=include,
            memory=draw(st.sampled_from([None, 128 << 20])),
            consolidate=draw(st.sampled_from([None, True, False])),
        ),
        axes=draw(st.sampled_from([None, "kept", "reversed"])) if source.format == "n5" else None,
        allow_fallback=source.format == "zarr_v3_draft" and draw(st.booleans()),
    )


# What a plan accepts, and nothing disturbs, succeeds: every fixture, and all that a recipe may ask for.


IN_THE_DATA: Final = re.compile(r"an object is not a str|an N5 block is (larger than|of variable length)")
"""What chunks alone show, which a plan does not read: fixtures hold some of each."""


def promised(source: Path, destination: Path, recipe: Recipe, **reading: Any) -> bool:
    """Migrate what a plan accepts, and compare every value; whether it accepts anything."""
    try:
        plan = zarrlift.plan(source, destination, recipe=recipe, **reading)
    except UsageError:
        return False
    refused = {problem.node for problem in plan.all_problems() if problem.severity == "refusal"}
    outcome = zarrlift.migrate(source, destination, recipe=recipe, **reading)
    failed = [problem for problem in outcome.problems if problem.node not in refused]
    broken = {problem.node for problem in failed if IN_THE_DATA.match(problem.message)}
    assert [problem for problem in failed if problem.node not in broken] == []
    assert outcome.arrays_done == len(plan.arrays) - len(broken)
    if not plan.published or broken:
        return False
    assert outcome.state == ("incomplete" if refused else "done")
    report = zarrlift.verify(source, destination, full=True, **reading)
    assert [problem for problem in report.problems if problem.node not in refused] == []
    return True


@pytest.mark.filterwarnings("ignore:The .generic. unit:DeprecationWarning")  # numpy 2.5
@examples(80)
@given(wishes(), st.none() | array_recipes())
def test_what_a_plan_accepts_succeeds(wish: Wish, again: ArrayRecipe | None) -> None:
    """`again` is asked of the result: v3 to v3."""
    with tempfile.TemporaryDirectory() as name:
        new, newer = Path(name) / "new.zarr", Path(name) / "newer.zarr"
        kept = promised(
            wish.source.path, new, wish.recipe, axes=wish.axes, allow_fallback=wish.allow_fallback
        )
        if kept and again is not None:
            promised(new, newer, Recipe(base=again))
