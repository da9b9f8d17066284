"""Every array of every fixture where its stored bytes stay as they are: in place, and `--codecs keep`.

What zarr-python makes of the v3 documents is held against what the old writer reads, bit for
bit. What no v3 document can say about stored bytes must be refused by name, and only that
(`KEPT_BACK`). In place no group is published above a refused node, so that arrays are opened
one by one; undoing it gives back the tree as it was.
"""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from tests.end_to_end.test_fixtures_migrate import (
    ARCHIVES,
    REFUSED,
    assert_seen,
    listed,
    may_be_refused,
    refused,
)
from tests.support.every import try_each
from tests.support.fixtures_index import ExpectedArchive, ExpectedArray, Format, archive
from tests.support.readers import by_zarr_python

import zarrlift

WAYS = ("in place", "keep")

KEPT_BACK: tuple[tuple[str, str], ...] = (
    (r"", "objects have no v3 name as stored"),
    (r"", "fields that are not all little-endian have no v3 name as stored"),
    (r"/(categorize|base64)$", "no v3 reader supports codec"),
    (r"[/:]blosc_snappy", "cname is 'snappy'"),
    (r"n5/.*[/:]lz4(_64|_level)?$", "no v3 reader supports codec 'lz4_b"),
    (r"/lzma_delta_filter$", "numcodecs does not decode lzma with filters in this format"),
    (r"/quantize_astype$", "zarr-python does not read the data type that quantize stores"),
)
"""Arrays (by a pattern in their id) that cannot keep their bytes, and what is said of them."""

IN_PLACE: tuple[Format, ...] = ("zarr_v2", "zarr_v1")
"""Formats whose objects zarr-python can read where they lie, so that only `zarr.json` is added."""
DIRECTORIES = tuple(one for one in ARCHIVES if one.kind == "directory" and one.format in IN_PLACE)
CASES = [
    pytest.param(way, one, id=f"{way}, {one}")
    for way in WAYS
    for one in (DIRECTORIES if way == "in place" else ARCHIVES)
    if one.arrays
]


@cache
def _migrated(root: Path, way: str, name: str) -> tuple[Path, zarrlift.Outcome]:
    """An archive migrated; once per run and process."""
    place = root / way / name.replace("/", "_")
    if way == "keep":
        keep = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="keep"))
        return place, zarrlift.migrate(archive(name).path, place, recipe=keep)
    shutil.copytree(archive(name).path, place, symlinks=True)
    return place, zarrlift.migrate(place, in_place=True)


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    root = tmp_path_factory.mktemp("kept")
    return lambda way, name: _migrated(root, way, name)


@pytest.mark.slow(one_in=40)
@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # numpy 2.5, as zarr-python reads
@pytest.mark.parametrize(("way", "one"), CASES)
def test_kept_bytes_read_as_the_old_writer_read_them(way: str, one: ExpectedArchive, kept) -> None:
    place, outcome = kept(way, one.name)

    def check(array: ExpectedArray) -> None:
        document = place / array.path / "zarr.json"
        if reason := refused(outcome, array.path):
            assert not document.exists()
            known = any(re.search(pattern, array.id) and words in reason for pattern, words in KEPT_BACK)
            if not known and array.needs is None:  # then a copy is refused too
                words = listed(REFUSED, array)
                assert may_be_refused(array) is not None if words is None else words in reason, reason
            return
        assert document.exists()
        if array.unreadable is not None:
            return
        seen = by_zarr_python(place, array.path)
        assert_seen(array, seen, exactly=True, axes="kept" if way == "in place" else "reversed")

    try_each(one.arrays.values(), check)


@pytest.mark.slow(one_in=40)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("one", DIRECTORIES, ids=str)
def test_keeping_moves_every_chunk_as_it_lies(one: ExpectedArchive, kept) -> None:
    _, outcome = kept("keep", one.name)
    assert {array.route.name for array in outcome.plan.arrays} <= {"relink"}
    place, outcome = kept("in place", one.name)
    assert {array.route.name for array in outcome.plan.arrays} <= {"stay"}
    before, after = tree(one.path), tree(place)
    assert {name: after.get(name) for name in before} == before
    assert {name.rpartition("/")[2] for name in after.keys() - before.keys()} <= {"zarr.json"}


@pytest.mark.slow(one_in=10)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("one", DIRECTORIES, ids=str)
def test_undo_gives_the_tree_back(one: ExpectedArchive, tmp_path: Path) -> None:
    place = tmp_path / "archive"
    shutil.copytree(one.path, place, symlinks=True)
    before = tree(place)
    zarrlift.migrate(place, in_place=True, verify="none")
    zarrlift.undo(place)
    assert tree(place) == before


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a path, by relative name."""
    return {
        file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }
