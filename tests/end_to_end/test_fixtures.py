"""Every array of every fixture, as readers that are not ours see it: migrated, in place, and by reference."""

from __future__ import annotations

import json
import math
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from numpy.lib import recfunctions
from tests.support.chances import try_each
from tests.support.damaged_archives import copied, tree
from tests.support.fixtures_index import ExpectedArchive, ExpectedArray, Format, archive, archives, same
from tests.support.readers import (
    OF_ALL_FEATURES,
    READERS,
    CannotRead,
    Seen,
    by_xarray,
    by_zarr_python,
    parametrize_readers,
)

import zarrlift

# Every array of every fixture, migrated with no option, read by readers that are not ours.
#
# What the old writer reads from its own archive (fixtures/, see `fixtures_index`) is held
# against what each reader makes of the migrated array, bit for bit. An array that cannot be
# migrated must be refused by name; one that a reader does not support must stand in
# `UNREADABLE` with its data type, and the other way round: a reader that learns to read a
# type fails the test that says it cannot.
#
# A format takes part once its name stands in `FORMATS`; what is refused of it stands in the tables.


_TEXT_AND_STRUCTS = frozenset({"fixed_length_utf32", "null_terminated_bytes", "structured"})
_TIMES = frozenset({"numpy.datetime64", "numpy.timedelta64"})
UNREADABLE: dict[str, frozenset[str]] = {
    "zarr-python": frozenset(),
    "tensorstore": _TEXT_AND_STRUCTS | _TIMES | {"string", "bytes"},
    "zarrs": _TEXT_AND_STRUCTS | {"raw_bytes"},
    "zarrita": _TEXT_AND_STRUCTS | _TIMES | {"float16", "complex64", "complex128", "raw_bytes", "bytes"},
}
"""v3 data types that a reader does not support (zarr-python reads all that is written by default)."""

LIMITS: dict[str, tuple[tuple[str, str], ...]] = {
    "zarr-python": (),
    "tensorstore": (
        (r"/same_dimension_twice$", "refuses a dimension name used twice"),
        (r"attributes:arrays/unicode$", "refuses JSON with half of a surrogate pair"),
    ),
    "zarrs": (
        (r"attributes:arrays/unicode$", "refuses JSON with half of a surrogate pair"),
        (r"may-2022/types:fills/hex_nan$", "0.2.3 takes a NaN for the common one where chunks are missing"),
        (
            r"(/be_c(8|16)|:c(8|16)_big|:big/complex(64|128))$",
            "0.2.3 swaps the parts of big-endian complex numbers",
        ),
    ),
    "zarrita": (
        (r"may-2022/types:fills/hex_nan$", "takes the bits of a fill value for a number"),
        (r":.*[#%?:\n\t]|names\S*:.* $", "takes a path for part of a URL"),
        (
            r"(shapes|tree|edges)[:/].*(empty|empty_[12]d\w*|empty_both|no_strings|no_elements)$",
            "reads nothing without elements",
        ),
        (r"/u8_(big_)?max$|:v_[iu]8$|fills\w*/big$", "a fill value beyond 2^53 is a JavaScript number"),
    ),
}
"""Arrays (by a pattern in their id) that a reader refuses or misreads, whoever wrote them, and why."""

REFUSED: tuple[tuple[str, str], ...] = (
    (r"names_hostile:\.\.\.$", "a node's name consists of periods only"),
    (r"/base64$", "unknown codec"),
    (r"/vlen_bytes_3_str$", "is ambiguous"),
    (r"zarr-2.18/deviations:[SU]_fill_int$", "the fill value 0 of text is ambiguous"),
    (r":dtype_generic_time$", "cannot read this fill value"),
    (r":shape_float$", "shape is not a list of lengths"),
    (r"/F/(json2|msgpack2)$", "order F"),
    (r"edges:too_large$", "larger than its dataset's block size"),
    (r"tree:parent/child$", "is inside an array"),
)
"""Arrays that are refused, besides those whose values have no portable form."""

KNOWN: tuple[tuple[str, str], ...] = (
    (
        r"may-2022/extensions:time(_null)?$",
        "datetime64 is known to v3: the same bits are times, not integers",
    ),
)
"""Arrays whose expectations are those of a fallback, which is not needed."""
BY_REFERENCE: tuple[tuple[str, str], ...] = (
    (
        r"^netcdf(-4\.9\.0|-4\.9\.3-development)?/\w+:(group/(inner|scalar)|number|letter)$",
        "netcdf-c names its axes by reference, or not at all: tests/zarrlift/conventions/test_netcdf.py",
    ),
)
"""Arrays that xarray reads on v3 as any other, whose axes `_ARRAY_DIMENSIONS` does not name."""
GHOSTS: tuple[str, ...] = ("zarr-2.13/consolidated:consolidated", "zarr-2.18/consolidated:consolidated")
"""Groups of drafts that only stand for zarr-python's consolidated metadata."""

FORMATS: tuple[Format, ...] = ("zarr_v2", "zarr_v1", "zarr_v3_draft", "n5")
"""Formats whose every fixture is migrated."""
OPTIONS = {None: {}, "--set allow-fallback=true": {"allow_fallback": True}}
"""What an array may need to be asked for by name (`ExpectedArray.needs`), as Python says it."""
ARCHIVES = tuple(one for name in FORMATS for one in archives(name))
ARRAYS = tuple(array for one in ARCHIVES for array in one.arrays.values())


@cache
def _migrated(root: Path, name: str, needs: str | None) -> tuple[Path, zarrlift.Outcome]:
    """An archive migrated with no option, or with the one that is needed; once per run and process."""
    destination = root / f"{name.replace('/', '_')}{needs or ''}"
    return destination, zarrlift.migrate(archive(name).path, destination, **OPTIONS[needs])


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("migrated")
    return lambda name, needs=None: _migrated(root, name, needs)


def listed(table: tuple[tuple[str, str], ...], array: ExpectedArray) -> str | None:
    """What a table says about an array."""
    return next((words for pattern, words in table if re.search(pattern, array.id)), None)


def refused(outcome: zarrlift.Outcome, path: str) -> str | None:
    """Why a node was not migrated, in one line; None if it was."""
    reasons = [p for p in outcome.problems if p.severity == "refusal" and p.node == path]
    return str(reasons[0]) if reasons else None


def may_be_refused(array: ExpectedArray) -> str | None:
    """Why an array has no portable form, judged by what is in it; None if it must be migrated."""
    if array.unreadable is not None or array.misread:
        return "the old writer itself does not read it back"
    if _holds(array.dtype, lambda dtype: dtype.subdtype is not None):
        return "a sub-array field"
    if _holds(array.dtype, lambda dtype: dtype.itemsize == 0):
        return "a type of zero bytes"
    if _holds(array.dtype, lambda dtype: dtype.char in "gG"):
        return "a long double"
    if array.dtype.kind == "O":
        kinds = {type(value) for value in array.values.reshape(-1)}
        codec = _filters(array)[0]
        if int in kinds and codec in {"json2", "msgpack2"}:
            return "objects that are numbers"
        stored = kinds - {int}  # an integer is the fill value that old writers gave to objects
        alike = stored <= {str} or (stored <= {bytes} and codec == "vlen-bytes")
        if not alike or codec in {"pickle", "vlen-array"}:
            return "objects that are neither all str nor all bytes"
    return None


def _holds(dtype: np.dtype, which) -> bool:
    """Whether a type, or one nested in it, is of some kind."""
    if which(dtype):
        return True
    return any(_holds(dtype.fields[name][0], which) for name in dtype.names or ())


def _filters(array: ExpectedArray) -> list[str]:
    if array.archive.kind != "directory":
        return [""]
    if array.archive.format == "zarr_v3_draft":
        return [codec["id"] for codec in _hidden_filters(array)] or [""]
    if array.archive.format != "zarr_v2":
        return [""]
    document = json.loads((array.archive.path / array.path / ".zarray").read_text())
    return [codec["id"] for codec in document["filters"] or ()] or [""]


def _hidden_filters(array: ExpectedArray) -> list[dict]:
    """Where zarr-python's draft arrays keep their filters: among the attributes."""
    if array.archive.format != "zarr_v3_draft" or not (array.archive.path / "meta/root").is_dir():
        return []
    return array.attributes.get("filters", [])


def strict(value):
    """Attributes as strict JSON can say them."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [strict(item) for item in value]
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    return value


def packed(values: np.ndarray) -> np.ndarray:
    """Structs without the gaps that aligned ones have in memory."""
    if values.dtype.names is None:
        return values
    return np.asarray(recfunctions.repack_fields(values, recurse=True))


def expected_values(array: ExpectedArray) -> np.ndarray:
    """What the old writer reads; the integer it shows for missing objects is an empty str or bytes."""
    values = array.values
    if values.dtype.kind == "O":
        empty = b"" if _filters(array)[0] == "vlen-bytes" else ""
        values = values.copy()
        flat = values.reshape(-1)
        flat[:] = [empty if type(value) is int else value for value in flat]
        return flat.reshape(values.shape)
    return values


def loosely(value):
    """Attributes as readers show them that know one kind of number, to some sixteen digits."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return pytest.approx(float(value), rel=1e-12)
    if isinstance(value, list):
        return [loosely(item) for item in value]
    if isinstance(value, dict):
        return {key: loosely(item) for key, item in value.items()}
    return value


def assert_seen(
    array: ExpectedArray, seen: Seen, *, exactly: bool, axes: Literal["kept", "reversed"] = "reversed"
) -> None:
    """A reader sees what the old writer reads: values, attributes, dimension names.

    `axes` is the order in which an array of N5 was migrated; expectations are in that of their writer.
    """
    expected, mask = expected_values(array), array.mask
    if array.archive.format == "n5" and array.archive.axes != axes:
        expected, mask = expected.T, None if mask is None else mask.T
    assert seen.values.shape == expected.shape
    found = seen.values
    if mask is not None:
        found = found.copy()
        found[~mask] = expected[~mask]
    assert same(packed(found), packed(expected))
    names = array.attributes.get("_ARRAY_DIMENSIONS")
    moved = (
        isinstance(names, list)
        and len(names) == len(array.shape)
        and all(name is None or isinstance(name, str) for name in names)
    )
    if moved and any(name is not None for name in names):
        assert seen.dimension_names == tuple(names)
    if seen.attributes is not None:
        # What becomes of fill values that mask: tests/zarrlift/conventions/test_xarray.py.
        moved = moved or listed(BY_REFERENCE, array) is not None
        gone = {"_ARRAY_DIMENSIONS", "_FillValue", "missing_value"} if moved else set()
        if _hidden_filters(array):
            gone.add("filters")
        if seen.reader == "xarray":
            gone.add("dtype")  # it notes how booleans are stored, and xarray takes it away
        kept = strict({name: value for name, value in array.attributes.items() if name not in gone})
        shown = {name: value for name, value in seen.attributes.items() if name not in gone}
        assert shown == (kept if exactly else loosely(kept))


@pytest.mark.slow(one_in=37)
@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # numpy 2.5, as zarr-python reads
@pytest.mark.parametrize("one", [one for one in ARCHIVES if one.arrays], ids=str)
@parametrize_readers(OF_ALL_FEATURES)
def test_migrated_arrays_read_as_the_old_writer_read_them(one: ExpectedArchive, reader: str, results) -> None:
    read = READERS[reader]

    def check(array: ExpectedArray) -> None:
        destination, outcome = results(one.name)
        if array.needs is not None and listed(KNOWN, array) is None:
            assert array.needs in (refused(outcome, array.path) or "")
            destination, outcome = results(one.name, array.needs)
        reason = refused(outcome, array.path)
        document = destination / array.path / "zarr.json"
        if reason is not None:
            assert not document.exists()
            words = listed(REFUSED, array)
            assert may_be_refused(array) is not None if words is None else words in reason, reason
            return
        if array.unreadable is not None:
            return
        data_type = json.loads(document.read_text())["data_type"]
        name = data_type if isinstance(data_type, str) else data_type["name"]
        if name in UNREADABLE[reader]:
            with pytest.raises(CannotRead):
                read(destination, array.path)
            return
        if listed(LIMITS[reader], array):
            with pytest.raises((CannotRead, AssertionError)):
                assert_seen(array, read(destination, array.path), exactly=False)
            return
        seen = read(destination, array.path)
        assert_seen(array, seen, exactly=reader == "zarr-python")

    try_each(one.arrays.values(), check)


def _labelled(array: ExpectedArray) -> bool:
    names = array.attributes.get("_ARRAY_DIMENSIONS")
    return isinstance(names, list) and [type(name) for name in names] == [str] * len(array.shape)


@pytest.mark.slow(one_in=3)
@pytest.mark.needs_reader("xarray")
@pytest.mark.parametrize(
    "array", [array for array in ARRAYS if "people" in array.archive.name and _labelled(array)], ids=str
)
def test_xarray_shows_a_migrated_variable_with_its_dimensions(array: ExpectedArray, results) -> None:
    destination, _ = results(array.archive.name)
    assert_seen(array, by_xarray(destination, array.path), exactly=False)


@pytest.mark.slow(one_in=9)
@pytest.mark.parametrize("one", ARCHIVES, ids=str)
def test_groups_keep_their_attributes(one: ExpectedArchive, results) -> None:
    destination, outcome = results(one.name)
    for path, attributes in one.groups.items():
        if f"{one.name}:{path}".endswith(GHOSTS):
            assert not (destination / path).exists()
        elif refused(outcome, path) is None:
            document = json.loads((destination / path / "zarr.json").read_text())
            assert document["node_type"] == "group"
            found = dict(document.get("attributes", {}))
            moved = found.pop("ome", {})  # what becomes of it: tests/zarrlift/conventions/test_ome.py
            kept = {name: value for name, value in attributes.items() if name not in moved}
            assert found == strict(kept)


@pytest.mark.slow(one_in=31)
@pytest.mark.parametrize("one", ARCHIVES, ids=str)
@pytest.mark.parametrize(
    "full",
    [
        pytest.param(False, marks=pytest.mark.needs_reader("once"), id="sampled"),
        pytest.param(True, id="full"),
    ],
)
def test_our_own_verification_agrees(one: ExpectedArchive, full: bool, results) -> None:
    destination, outcome = results(one.name)
    report = zarrlift.verify(one.path, destination, full=full)
    kept_back = {p.node for p in outcome.problems if p.severity == "refusal"}
    assert [str(p) for p in report.problems if p.node not in kept_back] == []
    assert report.ok == (not kept_back)


# Every array of every fixture where its stored bytes stay as they are: in place, and `--codecs keep`.
#
# What zarr-python makes of the v3 documents is held against what the old writer reads, bit for
# bit. What no v3 document can say about stored bytes must be refused by name, and only that
# (`KEPT_BACK`). In place no group is published above a refused node, so that arrays are opened
# one by one; undoing it gives back the tree as it was.


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
IN_PLACE_ARCHIVES = tuple(one for one in ARCHIVES if one.kind == "directory" and one.format in IN_PLACE)
KEPT_CASES = [
    pytest.param(way, one, id=f"{way}, {one}")
    for way in WAYS
    for one in (IN_PLACE_ARCHIVES if way == "in place" else ARCHIVES)
    if one.arrays
]


@cache
def _kept(root: Path, way: str, name: str) -> tuple[Path, zarrlift.Outcome]:
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
    return lambda way, name: _kept(root, way, name)


def shown_as_stored(
    array: ExpectedArray, outcome: zarrlift.Outcome, place: object, axes: Literal["kept", "reversed"]
) -> bool:
    """Whether an array is there, as its writer read it; if not, stored bytes or a copy cannot say it."""
    if reason := refused(outcome, array.path):
        known = any(re.search(pattern, array.id) and words in reason for pattern, words in KEPT_BACK)
        if not known and array.needs is None:  # then a copy is refused too
            words = listed(REFUSED, array)
            assert may_be_refused(array) is not None if words is None else words in reason, reason
        return False
    if array.unreadable is None:
        assert_seen(array, by_zarr_python(place, array.path), exactly=True, axes=axes)
    return True


@pytest.mark.slow(one_in=40)
@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # numpy 2.5, as zarr-python reads
@pytest.mark.parametrize(("way", "one"), KEPT_CASES)
def test_kept_bytes_read_as_the_old_writer_read_them(way: str, one: ExpectedArchive, kept) -> None:
    place, outcome = kept(way, one.name)
    axes: Literal["kept", "reversed"] = "kept" if way == "in place" else "reversed"

    def check(array: ExpectedArray) -> None:
        shown = shown_as_stored(array, outcome, place, axes)
        assert (place / array.path / "zarr.json").exists() == shown

    try_each(one.arrays.values(), check)


@pytest.mark.slow(one_in=40)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("one", IN_PLACE_ARCHIVES, ids=str)
def test_keeping_moves_every_chunk_as_it_lies(one: ExpectedArchive, kept) -> None:
    _, outcome = kept("keep", one.name)
    assert {array.route.name for array in outcome.plan.arrays} <= {"relink"}


@pytest.mark.slow(one_in=11)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("one", [*IN_PLACE_ARCHIVES, *archives("n5")], ids=str)
def test_in_place_only_documents_are_added_and_undo_takes_them_away(
    one: ExpectedArchive, tmp_path: Path
) -> None:
    place = copied(one.path, tmp_path / "archive")
    before = tree(place)
    outcome = zarrlift.migrate(place, in_place=True)
    after = tree(place)
    assert {array.route.name for array in outcome.plan.arrays} <= {"stay"}
    assert {name: after.get(name) for name in before} == before
    assert {name.rpartition("/")[2] for name in after.keys() - before.keys()} <= {"zarr.json"}
    assert zarrlift.verify(place, full=True).ok == outcome.ok
    zarrlift.undo(place)
    assert tree(place) == before
