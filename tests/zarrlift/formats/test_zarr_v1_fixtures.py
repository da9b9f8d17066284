"""Every Zarr v1 fixture by a real zarr 1.x is described, and its chunks decode to what was written."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support import fixtures_index
from tests.support.format_readers import zarr_v1

from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.data_types.v3 import fill_from_json
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import ChunkError, UsageError, ZarrstackError

ARCHIVES = fixtures_index.archives(format="zarr_v1")
REASONS = (
    "an array of zarr 0.x",
    "no reader supports a data type of zero bytes",
    "cannot read this fill value of a datetime without unit",
)


@pytest.mark.parametrize("expected", ARCHIVES, ids=str)
def test_an_archive_by_an_old_writer_is_described(expected):
    archive = zarr_v1.read(open_storage(expected.path))
    assert archive.format == "zarr1"
    groups = {node.path for node in archive.nodes if isinstance(node, GroupNode)}
    arrays = {node.path: node for node in archive.nodes if isinstance(node, ArrayNode)}
    assert groups == expected.groups.keys()
    assert arrays.keys() == expected.arrays.keys()
    for path, node in arrays.items():
        before = expected[path]
        assert repr(dict(node.attributes)) == repr(before.attributes)
        if node.refused:
            assert any(reason in str(p) for p in node.problems for reason in REASONS), node.problems
            continue
        assert (node.layout.shape, node.layout.chunk_shape) == (before.shape, before.chunks)
        assert node.fill_is_null == before.fill_is_null


@pytest.mark.parametrize("expected", ARCHIVES, ids=str)
def test_chunks_decode_to_what_the_old_writer_reads(expected):
    storage = open_storage(expected.path)
    read = 0
    for node in zarr_v1.read(storage).nodes:
        if not isinstance(node, ArrayNode) or node.layout is None or expected[node.path].unreadable:
            continue
        values = expected[node.path].values
        layout = node.layout
        pipeline = Pipeline(layout.chain, layout.chunk_shape, layout.data_type)
        fill = fill_from_json(layout.fill_value, layout.data_type)
        for index in range(layout.grid.total):
            coordinates = layout.grid.coordinates(index)
            key = layout.keys.key(coordinates)
            payload = storage.get(f"{node.path}/{key}" if node.path else key)
            place = tuple(
                slice(i * c, min((i + 1) * c, n))
                for i, c, n in zip(coordinates, layout.chunk_shape, layout.shape, strict=True)
            )
            wanted = values[place]
            if payload is None:
                # What a missing chunk holds is undefined where the fill value was null.
                if not node.fill_is_null:
                    shown = np.full(wanted.shape, fill, wanted.dtype)
                    assert shown.tobytes() == np.ascontiguousarray(wanted).tobytes(), (node.path, key)
                continue
            try:
                chunk = pipeline.decode(payload)
            except ChunkError as error:
                assert "snappy" in str(error)  # noqa: PT017  # which this build of numcodecs lacks
                break
            part = chunk[tuple(slice(0, n) for n in wanted.shape)]
            native = np.ascontiguousarray(wanted).astype(layout.data_type.numpy)
            assert np.ascontiguousarray(part).tobytes() == native.tobytes(), (node.path, key)
            read += 1
    assert read


@pytest.mark.parametrize("case", fixtures_index.bad_cases("zarr_v1"), ids=str)
def test_damage_is_refused_at_its_key_or_gives_the_true_values(case):
    storage = open_storage(case.path)
    try:
        nodes = {node.path: node for node in zarr_v1.read(storage).nodes}
    except UsageError:
        assert case.name == "nothing"
        return
    assert not nodes["good"].refused
    for path in case.damaged:
        node = nodes[path]
        assert isinstance(node, ArrayNode), "a broken array is not taken for a group"
        if node.layout is None:
            assert {problem.key for problem in node.problems} & set(case.keys)
            continue
        layout = node.layout
        values = np.full(layout.shape, fill_from_json(layout.fill_value, layout.data_type))
        try:
            pipeline = Pipeline(layout.chain, layout.chunk_shape, layout.data_type)
            for index in range(layout.grid.total):
                coordinates = layout.grid.coordinates(index)
                payload = storage.get(f"{path}/{layout.keys.key(coordinates)}")
                if payload is not None:
                    pairs = zip(coordinates, layout.chunk_shape, strict=True)
                    inside = values[tuple(slice(i * c, (i + 1) * c) for i, c in pairs)]
                    inside[...] = pipeline.decode(payload)[tuple(slice(0, n) for n in inside.shape)]
        except ZarrstackError:
            continue
        assert fixtures_index.same(values.astype("<i4"), fixtures_index.GOOD), case.what
