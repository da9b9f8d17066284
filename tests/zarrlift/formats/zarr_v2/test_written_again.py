"""What the reader describes of Zarr v2 archives, zarrstack writes as Zarr v2 again."""

from __future__ import annotations

import pytest
from tests.support.fixtures_index import archives

from zarrlift.archive.nodes import ArrayNode, Layout
from zarrlift.core.chain.chain import Chain
from zarrlift.core.codecs.pipeline import axes_order
from zarrlift.core.data_types.v2 import parse_v2_dtype
from zarrlift.core.data_types.v2_fill import v2_fill_to_scalar
from zarrlift.core.data_types.v3 import fill_from_json, same_bits
from zarrlift.core.zarr_v2.chain import read_chain
from zarrlift.core.zarr_v2.writer import array_document, chain_for_v2, dtype_for_v2, fill_for_v2
from zarrlift.formats.describe import describe
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import UnsupportedError, ZarrstackError

BEYOND = {"numpy_bytes", "hdmf-zarr.objects"} | {
    f"numcodecs.{name}" for name in ("json2", "msgpack2", "vlen-array", "pickle", "object-categorize")
}
"""What describes v2 arrays here, and stands in no v3 document."""


def layouts() -> list:
    found = []
    for one in archives("zarr_v2"):
        nodes = describe(open_storage(one.path)).nodes
        found += [
            (f"{one.name}:{node.path}", node.layout)
            for node in nodes
            if isinstance(node, ArrayNode) and node.layout is not None
        ]
    return found


def said(layout: Layout, chain: Chain) -> dict:
    return array_document(
        shape=layout.shape,
        chunks=layout.chunk_shape,
        data_type=layout.data_type,
        chain=chain,
        fill=None,
        separator=".",
    )


def test_what_old_writers_said_is_said_again() -> None:
    """The reader's description of each array, written and read, is the same description."""
    seen = 0
    for name, layout in layouts():
        if layout.chain.codecs[layout.chain.middle].name in BEYOND:
            with pytest.raises(UnsupportedError):
                chain_for_v2(layout.chain, len(layout.shape))
            continue
        chain = chain_for_v2(layout.chain, len(layout.shape))
        document = said(layout, chain)
        again, data_type, problems = read_chain(document, parse_v2_dtype(document["dtype"]))
        assert problems == [], name
        assert data_type == layout.data_type, name
        assert [spec.name for spec in again.codecs] == [spec.name for spec in chain.codecs], name
        assert axes_order(again, len(layout.shape)) == axes_order(layout.chain, len(layout.shape)), name
        seen += 1
    assert seen > 500


def test_fill_values_of_old_writers_are_said_again_bit_for_bit() -> None:
    seen = 0
    for name, layout in layouts():
        data_type = layout.data_type
        try:
            fill = fill_for_v2(layout.fill_value, data_type, layout.chain)
        except ZarrstackError:
            assert data_type.name in ("bytes", "object") or layout.fill_value == "0x7ff80000deadbeef", name
            continue
        if data_type.name == "string":
            assert fill == layout.fill_value
            continue
        read = v2_fill_to_scalar(fill, parse_v2_dtype(dtype_for_v2(data_type, layout.chain)))
        assert same_bits(read, fill_from_json(layout.fill_value, data_type)), name
        seen += 1
    assert seen > 500
