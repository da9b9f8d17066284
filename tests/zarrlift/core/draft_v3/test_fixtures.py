"""Draft archives by zarr-python, zarrita and GDAL, and some after the text, decode to what was written."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support import fixtures_index
from tests.support.fixture_objects import FixtureObjects

from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.data_types.v3 import fill_from_json
from zarrlift.core.draft_v3.array import describe_array
from zarrlift.core.draft_v3.nodes import ENTRY, is_entry, read_entry, read_group
from zarrlift.core.grid.grid import Grid
from zarrlift.core.zarr_v2.chain import read_chain
from zarrstack.core.errors import UnsupportedError, ZarrstackError

REASONS = (
    "sub-array field",
    "unknown extension data type",
    "leave to read",
    "must be understood",
    "pickle",
    "unknown codec",
    "without unit",
    "with order F: zarr-python does not read what was written",  # json2
)


def decoded(storage, path, array, dialect):
    """The whole array, from its chunks, and whether any was missing."""
    result = np.empty(array.shape, array.data_type.numpy)
    result[...] = fill_from_json(array.fill_value, array.data_type)
    grid = Grid(array.shape, array.chunk_shape)
    pipeline = Pipeline(array.chain, array.chunk_shape, array.data_type)
    missing = False
    for index in range(grid.total):
        coordinates = grid.coordinates(index)
        payload = storage.get(dialect.data(path) + array.keys(dialect).key(coordinates))
        if payload is None and not coordinates:
            payload = storage.get(dialect.data(path) + "c")  # zarrita, in zarr-python's dialect
        if payload is None:
            missing = True
            continue
        chunk = pipeline.decode(payload)
        place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(coordinates, array.chunk_shape, strict=True))
        inside = result[(*place, ...)]
        inside[...] = chunk[tuple(slice(0, n) for n in inside.shape)]
    return result, missing


@pytest.mark.parametrize("expected", fixtures_index.archives(format="zarr_v3_draft"), ids=str)
def test_an_archive_of_a_real_writer_is_what_that_writer_reads(expected):
    storage = FixtureObjects(expected.path)
    document = json.loads(storage.get(ENTRY))
    assert is_entry(document)
    dialect = read_entry(document).dialect
    read = 0
    for path, before in expected.arrays.items():
        content = storage.get(dialect.array_key(path))
        array, problems = describe_array(
            json.loads(content), dialect, allow_fallback=True, read_filtered=read_chain
        )
        if array is None:
            assert any(reason in str(problem) for problem in problems for reason in REASONS), problems
            continue
        assert (array.shape, array.chunk_shape) == (before.shape, before.chunks)
        # What zarr-python hides its filters in is no attribute of the user's.
        hidden = array.chain.codecs[array.chain.middle :][1:] and dialect.name == "zarr-python"
        shown = {k: v for k, v in before.attributes.items() if k != "filters" or not hidden}
        assert repr(dict(array.attributes)) in (repr(before.attributes), repr(shown))
        if before.needs is None:  # a fallback's values are those of another type
            assert array.fill_is_null == before.fill_is_null
        if array.chunks_per_shard is not None or before.unreadable is not None:
            continue
        try:
            values, missing = decoded(storage, path, array, dialect)
        except UnsupportedError as error:
            assert "pickle" in str(error)  # noqa: PT017
            continue
        if missing and array.fill_is_null:
            continue
        assert fixtures_index.same(values, before.values), path
        read += 1
    assert read
    for path, attributes in expected.groups.items():
        content = storage.get(dialect.group_key(path))
        assert repr({} if content is None else read_group(json.loads(content))) == repr(dict(attributes))


@pytest.mark.parametrize("case", fixtures_index.bad_cases("zarr_v3_draft"), ids=str)
def test_damage_gives_our_errors_or_the_true_values(case):
    storage = FixtureObjects(case.path)
    try:
        document = json.loads(storage.get(ENTRY) or b"null")
    except (ValueError, RecursionError):
        return  # for whoever parses documents
    if not isinstance(document, dict):
        return
    try:
        dialect = read_entry(document).dialect
    except ZarrstackError:
        return
    for path in case.damaged:
        content = storage.get(dialect.array_key(path))
        try:
            document = json.loads(content or b"null")
        except (ValueError, RecursionError):
            continue
        if not isinstance(document, dict):
            continue
        array, problems = describe_array(document, dialect, read_filtered=read_chain)
        if array is None:
            assert problems
            continue
        if array.chunks_per_shard is not None or np.prod(array.shape) > 1000:
            continue
        try:
            values, missing = decoded(storage, path, array, dialect)
        except ZarrstackError:
            continue
        if not case.readable and not (missing and array.fill_is_null):
            assert fixtures_index.same(values.astype("<i4"), fixtures_index.GOOD), (case.what, path)
