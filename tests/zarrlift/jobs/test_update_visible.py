"""What readers see while an update is under way: each object old or new, and never a value of neither."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numcodecs import Zlib
from tests.support.dying_jobs import Killed, dying
from tests.support.job_archives import tree

import zarrlift

RECIPES: dict[str, dict[str, Any]] = {
    "as it is": {"codecs": "keep"},
    "recoded": {"codecs": "gzip:1"},
    "cast": {"dtype": "int64"},
    "sharded": {"shards": "2x"},
    "other chunks": {"chunks": "5,4"},
    "other chunks in shards": {"chunks": "3,3", "shards": "2,3"},
}


def shrink(array: zarr.Array) -> None:
    array.resize((14, 20))


def shrink_and_grow(array: zarr.Array) -> None:
    array.resize((15, 33))
    array[:, 20:] = 7


def shrink_to_nothing(array: zarr.Array) -> None:
    array.resize((0, 20))


def grow_with_other_values(array: zarr.Array) -> None:
    array.resize((26, 20))
    array[19:] = 8


def write(path: Path) -> zarr.Array:
    array = zarr.create_array(
        path / "a",
        shape=(22, 20),
        chunks=(4, 6),
        dtype="<i4",
        compressors=Zlib(1),
        zarr_format=2,
        fill_value=-1,
    )
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    array[...] = np.arange(440).reshape(22, 20)
    zarr.consolidate_metadata(path, zarr_format=2)
    return array


def require_old_or_new(result: Path, old: np.ndarray, new: np.ndarray) -> None:
    """Each visible value is that of the same element before or after, by both kinds of metadata."""
    for consolidated in (False, None):
        group = zarr.open_group(result, mode="r", use_consolidated=consolidated)
        if "a" not in group:
            continue
        shown = group["a"][...]
        whole = np.full(np.maximum(old.shape, new.shape), -1)
        inside = tuple(map(slice, shown.shape))
        before, after = whole.copy(), whole.copy()
        before[tuple(map(slice, old.shape))] = old
        after[tuple(map(slice, new.shape))] = new
        wrong = (shown != before[inside]) & (shown != after[inside])
        assert not wrong.any(), (shown.shape, np.argwhere(wrong)[:3])


@pytest.mark.slow(one_in=300)
@pytest.mark.parametrize("after", range(1, 45, 2))
@pytest.mark.parametrize("wish", RECIPES)
@pytest.mark.parametrize("change", [shrink, shrink_and_grow, shrink_to_nothing, grow_with_other_values])
def test_a_killed_update_shows_no_value_of_neither_version(
    change: Callable[[zarr.Array], None],
    wish: str,
    after: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, result = tmp_path / "source", tmp_path / "result"
    array = write(source)
    old = array[...]
    wanted = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**RECIPES[wish]))
    assert zarrlift.migrate(source, result, recipe=wanted).ok
    change(array)
    new = array[...]
    zarr.consolidate_metadata(source, zarr_format=2)
    for attempt in range(2):
        with monkeypatch.context() as patched:
            dying(patched, after + attempt)
            with suppress(Killed):
                zarrlift.update(result)
        require_old_or_new(result, old, new)
    assert zarrlift.update(result).ok
    assert zarrlift.migrate(source, tmp_path / "fresh", recipe=wanted).ok
    assert tree(result) == tree(tmp_path / "fresh")


@pytest.mark.slow(one_in=23)
@pytest.mark.parametrize("after", range(1, 45, 3))
@pytest.mark.parametrize("wish", RECIPES)
def test_an_array_that_grows_again_has_none_of_its_earlier_values(
    wish: str, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, result = tmp_path / "source", tmp_path / "result"
    array = write(source)
    wanted = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**RECIPES[wish]))
    assert zarrlift.migrate(source, result, recipe=wanted).ok
    for rows in (9, 5, 13):
        array.resize((rows, 20))
        zarr.consolidate_metadata(source, zarr_format=2)
        with monkeypatch.context() as patched:
            dying(patched, after)
            with suppress(Killed):
                zarrlift.update(result)
    array.resize((22, 20))
    zarr.consolidate_metadata(source, zarr_format=2)
    assert zarrlift.update(result).ok
    assert zarrlift.migrate(source, tmp_path / "fresh", recipe=wanted).ok
    assert tree(result) == tree(tmp_path / "fresh")


def test_automatic_shards_stay_as_they_are(tmp_path: Path) -> None:
    source, result = tmp_path / "source", tmp_path / "result"
    array = zarr.create_array(source, shape=(40, 64), chunks=(1, 64), dtype="<u2", zarr_format=2)
    array[...] = 1
    wanted = zarrlift.Recipe(base=zarrlift.ArrayRecipe(shards="auto"))
    assert zarrlift.migrate(source, result, recipe=wanted).ok
    before = zarr.open_array(result, mode="r").shards
    array.resize((100, 64))
    array[40:] = 2
    (fresh,) = zarrlift.plan(source, tmp_path / "other", recipe=wanted).arrays
    assert fresh.destination.object_shape != before, "a new migration has other shards"
    (node,) = zarrlift.plan_update(result).nodes
    assert node.action == "changed"
    assert zarrlift.update(result).ok
    grown = zarr.open_array(result, mode="r")
    assert grown.shards == before
    np.testing.assert_array_equal(grown[...], array[...])
    array[0] = 3
    assert zarrlift.update(result).chunks <= before[0], "one shard"


def test_new_chunks_have_new_automatic_shards(tmp_path: Path) -> None:
    source, result = tmp_path / "source", tmp_path / "result"
    wanted = zarrlift.Recipe(base=zarrlift.ArrayRecipe(shards="auto"))
    for chunks in ((1, 64), (8, 8)):
        shutil.rmtree(source, ignore_errors=True)
        array = zarr.create_array(source, shape=(40, 64), chunks=chunks, dtype="<u2", zarr_format=2)
        array[...] = np.arange(2560).reshape(40, 64)
        work = zarrlift.update(result) if result.exists() else zarrlift.migrate(source, result, recipe=wanted)
        assert work.ok
    assert zarrlift.migrate(source, tmp_path / "fresh", recipe=wanted).ok
    assert tree(result) == tree(tmp_path / "fresh")
