"""Every N5 fixture by Java, z5py, tensorstore and zarr-python is described, and so is what is damaged."""

from __future__ import annotations

import pytest
from tests.support import fixtures_index
from tests.support.format_readers import n5

from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import UsageError

REASONS = ("'string'", "'object'", "label multisets", "is inside an array")


@pytest.mark.parametrize("axes", ["reversed", "kept"])
@pytest.mark.parametrize("expected", fixtures_index.archives(format="n5"), ids=str)
def test_an_archive_by_an_old_writer_is_described(expected, axes):
    archive = n5.read(open_storage(expected.path), axes=axes)
    assert archive.format == "n5"
    assert archive.problems == ()
    groups = {node.path: node for node in archive.nodes if isinstance(node, GroupNode)}
    arrays = {node.path: node for node in archive.nodes if isinstance(node, ArrayNode)}
    assert {path: dict(node.attributes) for path, node in groups.items()} == expected.groups
    assert not any(node.refused for node in groups.values())
    assert arrays.keys() == expected.arrays.keys()
    turn = 1 if axes == expected.axes else -1
    for path, node in arrays.items():
        before = expected[path]
        if node.layout is None:
            assert any(reason in str(p) for p in node.problems for reason in REASONS), node.problems
            continue
        assert repr(dict(node.attributes)) == repr(before.attributes)
        assert (node.layout.shape, node.layout.chunk_shape) == (before.shape[::turn], before.chunks[::turn])
        assert node.layout.data_type.numpy == before.dtype.newbyteorder("=")


SHOWN_BY_BLOCKS = ("block_", "bomb_", "gzip_", "zlib_", "bz2_", "xz_", "lz4_", "blosc_", "zstd_", "row_")
"""Cases in which every document is sound."""


@pytest.mark.parametrize("case", fixtures_index.bad_cases("n5"), ids=str)
def test_damaged_documents_are_refused_at_their_key(case):
    try:
        nodes = {node.path: node for node in n5.read(open_storage(case.path)).nodes}
    except UsageError:
        assert case.name == "nothing"
        return
    assert not nodes["good"].refused
    for path in case.damaged:
        node = nodes[path]
        if not path:
            assert {problem.key for problem in node.problems} == set(case.keys)
            continue
        assert isinstance(node, ArrayNode), "a broken array is not taken for a group"
        if not case.name.startswith(SHOWN_BY_BLOCKS):
            told = {problem.key for problem in node.problems}
            readable = case.readable or case.name in {
                "attributes_dimensions_none",
                "attributes_gzip_says_raw",
            }
            assert told & set(case.keys) or (readable and not node.refused), node.problems
