"""Blocks by Java, z5py, tensorstore and zarr-python decode to what those writers read, either way of axes."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from tests.support import fixtures_index
from tests.support.every import try_each
from tests.support.fixture_objects import FixtureObjects

from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.grid.grid import Grid
from zarrlift.core.n5.blocks import pad_block, split
from zarrlift.core.n5.dataset import describe_dataset, is_dataset, user_attributes, version_problem
from zarrstack.core.errors import ChunkError, ZarrstackError

REASONS = (
    "jpeg",
    "label multisets",
    "'string'",
    "'object'",
    "without unit",
    "variable length",
    "unknown N5 dataType",
    "unknown N5 compression",
    "larger than its dataset's block size",
)
SEEN_BY_LISTING = {"attributes_dimensions_none", "block_is_folder", "row_is_file"}
"""What looks like missing blocks to whoever asks for keys only."""


def decoded(storage, path, dataset, axes):
    """The whole dataset, from its blocks."""
    shape, chunk_shape = dataset.shape(axes), dataset.chunk_shape(axes)
    result = np.zeros(shape, dataset.data_type.numpy)
    grid = Grid(shape, chunk_shape)
    for index in range(grid.total):
        coordinates = grid.coordinates(index)
        key = dataset.keys(axes).key(coordinates)
        data = storage.get(f"{path}/{key}" if path else key)
        if data is None:
            continue
        header, payload = split(data, dataset.block_size)
        pipeline = Pipeline(dataset.chain(axes), dataset.inner_chunk_shape(header, axes), dataset.data_type)
        pipeline.check_whole(payload)
        cell = pad_block(pipeline.decode(payload), chunk_shape)
        place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(coordinates, chunk_shape, strict=True))
        inside = result[place]
        inside[...] = cell[tuple(slice(0, n) for n in inside.shape)]
    return result


@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("axes", ["reversed", "kept"])
@pytest.mark.parametrize("one", [one for one in fixtures_index.archives("n5") if one.arrays], ids=str)
def test_blocks_of_a_real_writer_decode_to_what_it_reads(one, axes):
    try_each(one.arrays.values(), partial(decodes_to_what_its_writer_reads, axes))


def decodes_to_what_its_writer_reads(axes, array):
    """One array of a fixture, block by block."""
    storage = FixtureObjects(array.archive.path)
    content = storage.get(f"{array.path}/attributes.json" if array.path else "attributes.json")
    document = json.loads(content)
    assert is_dataset(document)
    assert version_problem(document) is None
    dataset, problems = describe_dataset(document)
    if dataset is None:
        assert any(reason in str(problem) for problem in problems for reason in REASONS), problems
        return
    assert not [problem for problem in problems if problem.severity == "warning"]
    assert repr(user_attributes(document)) == repr(dict(array.attributes))
    if array.unreadable is not None:
        return
    try:
        values = decoded(storage, array.path, dataset, axes)
    except ChunkError as error:
        assert any(reason in str(error) for reason in (*REASONS, "snappy")), error  # noqa: PT017
        return
    assert fixtures_index.same(values, array.in_axes(axes))


BAD = [case for case in fixtures_index.bad_cases("n5") if case.name not in SEEN_BY_LISTING]


@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("case", BAD, ids=str)
def test_damage_gives_our_errors_or_the_true_values(case):
    storage = FixtureObjects(case.path)
    for path in case.damaged:
        content = storage.get(f"{path}/attributes.json" if path else "attributes.json")
        try:
            document = json.loads(content or b"null")
        except (ValueError, RecursionError):
            continue  # for whoever parses documents
        if not isinstance(document, dict) or not is_dataset(document):
            continue
        dataset, problems = describe_dataset(document)
        if dataset is None:
            assert problems
            continue
        if np.prod(dataset.dimensions) > 1000:
            continue
        try:
            values = decoded(storage, path, dataset, "reversed")
        except ZarrstackError:
            continue
        if case.readable:
            continue
        assert fixtures_index.same(values.astype("<i4"), fixtures_index.GOOD), case.what
