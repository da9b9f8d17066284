"""Every archive by an old writer is described as its writer saw it, or refused for a reason that stands here.

Its chunks are decoded in tests/zarrlift/core; it is migrated in tests/end_to_end.
"""

from __future__ import annotations

import pytest
from tests.support import fixtures_index
from tests.support.v2_trees import n5, zarr_v1, zarr_v3_draft

from zarrlift.archive.chunk_inventory import take_inventory
from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.formats.describe import describe
from zarrlift.storage.open_storage import open_storage

READS = {
    "zarr_v2": describe,
    "zarr_v1": zarr_v1.read,
    "n5": lambda storage: n5.read(storage, axes="reversed"),
    "n5, axes kept": lambda storage: n5.read(storage, axes="kept"),
    "zarr_v3_draft": lambda storage: zarr_v3_draft.read(storage, allow_fallback=True),
}
FORMATS = {"zarr_v2": "zarr2", "zarr_v1": "zarr1", "n5": "n5", "zarr_v3_draft": "zarr3-draft"}
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
    "an array of zarr 0.x",
    *("'string'", "'object'", "label multisets", "is inside an array"),  # N5
    *("a sub-array field has no v3 data type", "json2 with order F"),  # the draft
)
GHOST = "consolidated"
"""What zarr-python's draft took its consolidated metadata for: a group."""
CASES = [
    pytest.param(expected, reads, id=f"{expected}-{reads}" if "," in reads else str(expected))
    for reads in READS
    for expected in fixtures_index.archives(format=reads.partition(",")[0])
]


@pytest.mark.parametrize(("expected", "reads"), CASES)
def test_an_archive_by_an_old_writer_is_described(expected, reads):
    storage = open_storage(expected.path)
    archive = READS[reads](storage)
    draft, n5_written = reads == "zarr_v3_draft", reads.startswith("n5")
    assert archive.format == FORMATS[expected.format]
    assert archive.problems == () or not n5_written
    groups = {member.path: member for member in archive.nodes if isinstance(member, GroupNode)}
    arrays = {member.path: member for member in archive.nodes if isinstance(member, ArrayNode)}
    wanted = {path: attributes for path, attributes in expected.groups.items() if not draft or path != GHOST}
    # As text, since NaN is not equal to itself.
    assert {path: repr(dict(member.attributes)) for path, member in groups.items()} == {
        path: repr(attributes) for path, attributes in wanted.items()
    }
    assert not any(member.refused for member in groups.values())
    assert arrays.keys() == expected.arrays.keys()
    axes = {"n5": "reversed", "n5, axes kept": "kept"}.get(reads, expected.axes)
    turn = 1 if axes == expected.axes else -1
    for path, member in arrays.items():
        before = expected[path]
        # zarr-python's draft stored filters among the attributes.
        assert draft or repr(dict(member.attributes)) == repr(before.attributes)
        if member.refused:
            assert any(reason in str(p) for p in member.problems for reason in REASONS), member.problems
            continue
        layout = member.layout
        assert layout is not None
        assert (layout.shape, layout.chunk_shape) == (before.shape[::turn], before.chunks[::turn])
        assert layout.data_type.numpy == before.dtype.newbyteorder("=") or not n5_written
        if before.refused_by_writer is None and before.needs is None and not n5_written:
            assert member.fill_is_null == before.fill_is_null
        if draft:
            inventory = take_inventory(storage, path, layout)
            assert inventory.unclaimed_count == 0
            assert layout.frame is not None or len(inventory.indexes) == before.stored_chunks
    assert archive.consolidated == expected.name.endswith(GHOST) or not draft
