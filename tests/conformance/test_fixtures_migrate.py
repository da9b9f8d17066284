"""Every array of every fixture, migrated with no option, read by readers that are not ours.

What the old writer reads from its own archive (fixtures/, see `fixtures_index`) is held
against what each reader makes of the migrated array, bit for bit. An array that cannot be
migrated must be refused by name; one that a reader does not support must stand in
`UNREADABLE` with its data type, and the other way round: a reader that learns to read a
type fails the test that says it cannot.
"""

from __future__ import annotations

import importlib
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import recfunctions

import zarrlift
from fixtures_index import ExpectedArchive, ExpectedArray, archive, archives, same
from readers.base import CannotRead, Seen

READERS = {
    "zarr-python": "zarr_python",
    "tensorstore": "tensorstore_zarr3",
    "zarrs": "zarrs_pipeline",
    "xarray": "xarray_dataset",
    "zarrita": "zarrita_js",
}

_NOT_CORE = frozenset(
    {"fixed_length_utf32", "null_terminated_bytes", "numpy.datetime64", "numpy.timedelta64", "structured"}
)
UNREADABLE: dict[str, frozenset[str]] = {
    "zarr-python": frozenset(),
    "tensorstore": _NOT_CORE | {"string", "bytes", "variable_length_bytes"},
    "zarrs": _NOT_CORE,
    "xarray": frozenset(),
    "zarrita": _NOT_CORE
    | {"float16", "complex64", "complex128", "raw_bytes", "bytes", "variable_length_bytes"},
}
"""v3 data types that a reader does not support (zarr-python reads all that is written by default)."""

ARCHIVES = archives()
ARRAYS = tuple(array for one in ARCHIVES for array in one.arrays.values())


@cache
def _migrated(root: Path, name: str) -> tuple[Path, zarrlift.Outcome]:
    """An archive migrated with no option; once per run and process."""
    destination = root / name.replace("/", "_")
    return destination, zarrlift.migrate(archive(name).path, destination)


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("migrated")
    return lambda name: _migrated(root, name)


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
        if not (kinds <= {str} or kinds <= {bytes}) or _filters(array)[0] in {"pickle", "vlen-array"}:
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
    document = json.loads((array.archive.path / array.path / ".zarray").read_text())
    return [codec["id"] for codec in document["filters"] or ()] or [""]


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


def assert_seen(array: ExpectedArray, seen: Seen) -> None:
    """A reader sees what the old writer reads: values, attributes, dimension names."""
    expected = array.values
    assert seen.values.shape == expected.shape
    found = seen.values
    if array.mask is not None:
        found = found.copy()
        found[~array.mask] = np.zeros((), expected.dtype) if expected.dtype.kind != "O" else 0
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
        kept = {key: value for key, value in array.attributes.items() if not (moved and key == "_ARRAY_DIMENSIONS")}
        assert dict(seen.attributes) == strict(kept)


@pytest.mark.parametrize("array", ARRAYS, ids=str)
@pytest.mark.parametrize(
    "reader", [pytest.param(name, marks=pytest.mark.needs_reader(name)) for name in READERS if name != "xarray"]
)
def test_a_migrated_array_reads_as_the_old_writer_read_it(array: ExpectedArray, reader: str, results) -> None:
    destination, outcome = results(array.archive.name)
    reason = refused(outcome, array.path)
    document = destination / array.path / "zarr.json"
    if reason is not None:
        assert not document.exists()
        assert may_be_refused(array) is not None, reason
        return
    if array.unreadable is not None:
        return
    data_type = json.loads(document.read_text())["data_type"]
    name = data_type if isinstance(data_type, str) else data_type["name"]
    read = importlib.import_module(f"readers.{READERS[reader]}").read
    if name in UNREADABLE[reader]:
        with pytest.raises(CannotRead):
            read(destination, array.path)
        return
    assert_seen(array, read(destination, array.path))


def _labelled(array: ExpectedArray) -> bool:
    names = array.attributes.get("_ARRAY_DIMENSIONS")
    return isinstance(names, list) and len(names) == len(array.shape) and all(isinstance(n, str) for n in names)


@pytest.mark.needs_reader("xarray")
@pytest.mark.parametrize(
    "array", [array for array in ARRAYS if "people" in array.archive.name and _labelled(array)], ids=str
)
def test_xarray_shows_a_migrated_variable_with_its_dimensions(array: ExpectedArray, results) -> None:
    from readers import xarray_dataset

    destination, _ = results(array.archive.name)
    assert_seen(array, xarray_dataset.read(destination, array.path))


@pytest.mark.parametrize("one", ARCHIVES, ids=str)
def test_groups_keep_their_attributes(one: ExpectedArchive, results) -> None:
    destination, outcome = results(one.name)
    for path, attributes in one.groups.items():
        if refused(outcome, path) is None:
            document = json.loads((destination / path / "zarr.json").read_text())
            assert document["node_type"] == "group"
            assert document.get("attributes", {}) == strict(attributes)


@pytest.mark.parametrize("one", ARCHIVES, ids=str)
@pytest.mark.parametrize("full", [False, True], ids=["sampled", "full"])
def test_our_own_verification_agrees(one: ExpectedArchive, full: bool, results) -> None:
    destination, outcome = results(one.name)
    report = zarrlift.verify(one.path, destination, full=full)
    kept_back = {p.node for p in outcome.problems if p.severity == "refusal"}
    assert [str(p) for p in report.problems if p.node not in kept_back] == []
    assert report.ok == (not kept_back)
