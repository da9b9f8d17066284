"""Every array of every fixture, migrated in each way, as its old writer read it.

Each archive is migrated once in each way (`WAYS`). What the old writer reads from it (fixtures/, see
`fixtures_index`) is held against what readers that are not ours make of the result, bit for bit, and against
what `verify` says. An array that cannot be migrated must be refused by name; one that a reader does not
support must stand in `UNREADABLE` with its data type, and the other way round: a reader that learns to read a
type fails the test that says it cannot.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.lib import recfunctions
from tests.end_to_end.bad_input.test_plan_and_run import assert_foreseen
from tests.support.chances import try_each
from tests.support.damaged_archives import copied
from tests.support.fixtures_index import (
    ExpectedArchive,
    ExpectedArray,
    Format,
    archive,
    archives,
    arrays,
    same,
)
from tests.support.job_archives import tree
from tests.support.readers import OF_ALL_FEATURES, READERS, CannotRead, Seen, by_xarray

import zarrlift

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

NO_NAME = "n5_default does not support this compression"
NOT_IN_PLACE: tuple[tuple[str, str], ...] = (
    (r"[/:](bzip2|bz2)\w*$", f"{NO_NAME}: .* found bzip2"),
    (r"[/:](xz|lzma)\w*$", f"{NO_NAME}: .* found xz"),
    (r"[/:]lz4\w*$", f"{NO_NAME}: .* found lz4"),
    (r"[/:]zlib\w*(-1)?$", f"{NO_NAME}: .* found gzip with useZlib"),
    (r"[/:]blosc_snappy", "cname is 'snappy'"),
    (r"[/:]bool$", "do not support this data type"),
    (r"edges:too_large$", "larger than its dataset's block size"),
    (r"tree:parent/child$", "is inside an array"),
    (r"modes:(object|string)/", "are not supported: their blocks have variable length"),
    (r"[/:]varlength", r"variable length \(mode 1\)"),
    (r"multiscale:paintera/labels", "label multisets"),
    (r"java-4\.0\.2/shards:(?!plain$)", "shards are stored in the place of N5 blocks"),
)
"""Arrays of N5 that `n5_default` has no name for, and what is said of them; all others stay in place."""


ALL: tuple[Format, ...] = ("zarr_v2", "zarr_v1", "zarr_v3_draft", "n5")


@dataclass(frozen=True, slots=True)
class Way:
    """How archives are migrated, and who reads the result."""

    options: Mapping[str, Any] = field(default_factory=dict)
    formats: tuple[Format, ...] = ALL
    readers: tuple[str, ...] = ("zarr-python",)
    axes: Literal["kept", "reversed"] = "reversed"
    """In which arrays of N5 are then; expectations are in those of their writer."""

    @property
    def in_place(self) -> bool:
        return "in_place" in self.options

    @property
    def keeps_bytes(self) -> bool:
        """Whether stored bytes stay as they are: what no v3 document can say of them is refused too."""
        return self.in_place or "recipe" in self.options


WAYS = {
    "copy": Way(readers=OF_ALL_FEATURES),
    "axes kept": Way({"axes": "kept"}, ("n5",), OF_ALL_FEATURES, "kept"),
    "keep": Way({"recipe": zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="keep"))}),
    "in place": Way({"in_place": True}, ("zarr_v2", "zarr_v1", "n5"), axes="kept"),
}
MIGRATED = [
    (way, one.name)
    for way in WAYS
    for name in WAYS[way].formats
    for one in archives(name)
    if not (WAYS[way].in_place and one.kind != "directory")
]
READ = [
    pytest.param(*case, reader, marks=[pytest.mark.needs_reader(reader)], id=f"{reader}, {', '.join(case)}")
    for case in MIGRATED
    for reader in WAYS[case[0]].readers
    if archive(case[1]).arrays
]


@dataclass(frozen=True, slots=True)
class Result:
    """An archive, migrated."""

    source: Path
    """Of a migration in place a copy, with `before` as it was."""
    place: Path
    outcome: zarrlift.Outcome
    before: Mapping[str, bytes]

    def refused(self, path: str) -> str | None:
        """Why a node was not migrated, in one line; None if it was."""
        reasons = [p for p in self.outcome.problems if p.severity == "refusal" and p.node == path]
        return str(reasons[0]) if reasons else None


def migrated_to(place: Path, way: str, name: str, *, allow_fallback: bool = False) -> Result:
    """Migrate an archive in a way."""
    source, options = archive(name).path, dict(WAYS[way].options)
    if WAYS[way].in_place:
        source = copied(source, place)
        before = tree(place)
        return Result(source, place, zarrlift.migrate(place, **options), before)
    if allow_fallback:
        options["allow_fallback"] = True
    return Result(source, place, zarrlift.migrate(source, place, **options), {})


@pytest.fixture(scope="session")
def migrated(tmp_path_factory):
    """Results, each made once per run and process."""
    root = tmp_path_factory.mktemp("migrated")

    @cache
    def one(way: str, name: str, **more: bool) -> Result:
        return migrated_to(root / way / f"{name.replace('/', '_')}{'+' * len(more)}", way, name, **more)

    return one


def listed(table: tuple[tuple[str, str], ...], array: ExpectedArray) -> str | None:
    """What a table says about an array."""
    return next((words for pattern, words in table if re.search(pattern, array.id)), None)


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


def is_rightly_refused(array: ExpectedArray, way: Way, reason: str) -> bool:
    """Whether an array has no form in Zarr v3, or none in which its stored bytes stay."""
    if way.keeps_bytes:
        if any(re.search(pattern, array.id) and words in reason for pattern, words in KEPT_BACK):
            return True
        if array.needs is not None:
            return True  # a copy is refused too
    words = listed(REFUSED, array)
    return may_be_refused(array) is not None if words is None else words in reason


def assert_read(array: ExpectedArray, way: Way, place: Path, reader: str) -> None:
    """A reader sees the array, or says that it cannot where `UNREADABLE` and `LIMITS` say so."""
    document = json.loads((place / array.path / "zarr.json").read_text())
    name = document["data_type"] if isinstance(document["data_type"], str) else document["data_type"]["name"]
    read = READERS[reader]
    if name in UNREADABLE[reader]:
        with pytest.raises(CannotRead):
            read(place, array.path)
    elif listed(LIMITS[reader], array):
        with pytest.raises((CannotRead, AssertionError)):
            assert_seen(array, read(place, array.path), exactly=False, axes=way.axes)
    else:
        seen = read(place, array.path)
        assert_seen(array, seen, exactly=reader == "zarr-python", axes=way.axes)


@pytest.mark.slow(one_in=97)
@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # numpy 2.5, as zarr-python reads
@pytest.mark.parametrize(("way", "name", "reader"), READ)
def test_arrays_read_as_the_old_writer_read_them(way: str, name: str, reader: str, migrated) -> None:
    is_n5_in_place = WAYS[way].in_place and archive(name).format == "n5"

    def check(array: ExpectedArray) -> None:
        result = migrated(way, name)
        if array.needs is not None and listed(KNOWN, array) is None and not WAYS[way].keeps_bytes:
            assert array.needs in (result.refused(array.path) or "")
            result = migrated(way, name, allow_fallback=True)
        reason = result.refused(array.path)
        assert (result.place / array.path / "zarr.json").exists() == (reason is None)
        if is_n5_in_place:
            expected = next((words for pattern, words in NOT_IN_PLACE if re.search(pattern, array.id)), None)
            assert (reason is None) == (expected is None), reason
            assert expected is None or re.search(expected, reason), reason
        elif reason is not None:
            assert is_rightly_refused(array, WAYS[way], reason), reason
        if reason is None and array.unreadable is None:
            assert_read(array, WAYS[way], result.place, reader)

    try_each(archive(name).arrays.values(), check)


def _labelled(array: ExpectedArray) -> bool:
    names = array.attributes.get("_ARRAY_DIMENSIONS")
    return isinstance(names, list) and [type(name) for name in names] == [str] * len(array.shape)


@pytest.mark.slow(one_in=7)
@pytest.mark.needs_reader("xarray")
@pytest.mark.parametrize(
    "array", [array for array in arrays(_labelled) if "people" in array.archive.name], ids=str
)
def test_xarray_shows_a_migrated_variable_with_its_dimensions(array: ExpectedArray, migrated) -> None:
    seen = by_xarray(migrated("copy", array.archive.name).place, array.path)
    assert_seen(array, seen, exactly=False)


def assert_groups_keep_their_attributes(one: ExpectedArchive, result: Result) -> None:
    for path, attributes in one.groups.items():
        if f"{one.name}:{path}".endswith(GHOSTS):
            assert not (result.place / path).exists()
        elif result.refused(path) is None:
            document = json.loads((result.place / path / "zarr.json").read_text())
            assert document["node_type"] == "group"
            found = dict(document.get("attributes", {}))
            moved = found.pop("ome", {})  # what becomes of it: tests/zarrlift/conventions/test_ome.py
            kept = {name: value for name, value in attributes.items() if name not in moved}
            assert found == strict(kept)


@pytest.mark.slow(one_in=74)
@pytest.mark.parametrize(("way", "name"), MIGRATED)
def test_verify_agrees_and_undo_takes_everything_back(way: str, name: str, tmp_path: Path) -> None:
    one, ends = archive(name), () if WAYS[way].in_place else (tmp_path / "result",)
    planned = zarrlift.plan(one.path, *ends, **WAYS[way].options).all_problems()
    result = migrated_to(tmp_path / "result", way, name)
    assert_foreseen(planned, [p.to_json() for p in result.outcome.problems if p.severity == "refusal"])
    kept_back = {p.node or "" for p in result.outcome.problems if p.severity == "refusal"}
    ends = (result.place,) if WAYS[way].in_place else (result.source, result.place)
    for full in (False, True):
        report = zarrlift.verify(*ends, full=full)
        assert report.ok == (not kept_back)
        if not WAYS[way].in_place:  # where no group is published above what is refused
            assert [str(p) for p in report.problems if (p.node or "") not in kept_back] == []
    routes = {array.route.name for array in result.outcome.plan.arrays}
    if WAYS[way].in_place:
        assert routes <= {"stay"}
        after = tree(result.place)
        assert {key: after.get(key) for key in result.before} == result.before
        assert {key.rpartition("/")[2] for key in after.keys() - result.before.keys()} <= {"zarr.json"}
    else:
        if way == "keep" and one.format in ("zarr_v2", "zarr_v1") and one.kind == "directory":
            assert routes <= {"relink"}
        assert_groups_keep_their_attributes(one, result)
        kind = zarrlift.inspect(result.source).format
        if way == "copy" and (result.place / "zarr.json").exists():  # the order of two archives is free
            report = zarrlift.verify(result.place, result.source, format=f",{kind}", full=True)
            assert dict(report.differences).keys() <= kept_back, report.problems
    zarrlift.undo(result.place)
    assert (tree(result.place) if result.place.exists() else {}) == result.before
