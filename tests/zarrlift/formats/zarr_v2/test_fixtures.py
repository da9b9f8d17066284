"""Every fixture by a real old writer is described, or refused for a reason that stands here."""

from __future__ import annotations

import pytest
from tests.support import fixtures_index

from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.formats.describe import describe
from zarrlift.storage.open_storage import open_storage

REASONS = (
    "no reader supports a data type of zero bytes",
    "with order F: zarr-python does not read what was written",  # json2, msgpack2
    "the fill value of an array of bytes is ambiguous",
    "cannot read this fill value of a datetime without unit",
    "an array of objects without an object codec",  # numcodecs before 0.6: json, msgpack without a shape
    "a node's name consists of periods only",
    "shape is not a list of lengths",  # 8.0; zarr-python 2.18 refuses it too
    "the fill value of a struct with objects is not supported",
    "a struct with object fields",
)


@pytest.mark.parametrize("expected", fixtures_index.archives(), ids=str)
def test_an_archive_by_an_old_writer_is_described(expected):
    archive = describe(open_storage(expected.path))
    nodes = {node.path: node for node in archive.nodes}
    groups = {path: node for path, node in nodes.items() if isinstance(node, GroupNode)}
    assert groups.keys() == expected.groups.keys()
    # As text, since NaN is not equal to itself.
    assert {path: repr(dict(node.attributes)) for path, node in groups.items()} == {
        path: repr(attributes) for path, attributes in expected.groups.items()
    }
    arrays = {path: node for path, node in nodes.items() if isinstance(node, ArrayNode)}
    assert arrays.keys() == expected.arrays.keys()
    for path, node in arrays.items():
        before = expected[path]
        assert repr(dict(node.attributes)) == repr(before.attributes)
        if node.refused:
            assert any(reason in str(p) for p in node.problems for reason in REASONS), node.problems
            continue
        assert node.layout is not None
        assert (node.layout.shape, node.layout.chunk_shape) == (before.shape, before.chunks)
        if before.refused_by_writer is None:
            assert node.fill_is_null == before.fill_is_null


@pytest.mark.parametrize("expected", fixtures_index.archives(), ids=str)
def test_the_keys_described_are_the_keys_that_lie_there(expected):
    storage = open_storage(expected.path)
    for node in describe(storage).nodes:
        if isinstance(node, ArrayNode) and node.layout is not None and node.layout.grid.total < 10_000:
            grid = node.layout.grid
            keys = [node.layout.keys.key(grid.coordinates(index)) for index in range(grid.total)]
            found = storage.get_many([f"{node.path}/{key}" if node.path else key for key in keys])
            assert sum(chunk is not None for chunk in found) == expected[node.path].stored_chunks
