"""What is used of zarr-python without a public name does what is expected of it, in every version."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.stores import PROTOTYPE, buffer
from zarr.storage import LocalStore, MemoryStore

from zarrstack.system import zarr_internals
from zarrstack.system.zarr_internals import (
    PIPELINES,
    ArraySpec,
    ArrayV2Metadata,
    ArrayV3Metadata,
    BatchedCodecPipeline,
    GroupMetadata,
    make_store,
    make_store_path,
    sync,
    zarr_loop,
)

OPTIONS = {"shape": (4,), "chunks": (2,), "dtype": "i4"}


def test_every_name_has_a_test():
    tested = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in zarr_internals.__all__ if len(re.findall(rf"\b{name}\b", tested)) < 2] == []


def test_sync_runs_in_the_loop_whose_place_is_known():
    async def running():
        return asyncio.get_running_loop()

    assert sync(running()) is zarr_loop[0]
    with pytest.raises(KeyError):
        sync(_fails())


async def _fails():
    raise KeyError("a")


def test_stores_and_paths_are_made_of_what_zarr_accepts(tmp_path):
    objects = {}
    store = sync(make_store(objects))
    sync(store.set("a", buffer(b"1")))
    assert isinstance(store, MemoryStore)
    assert list(objects) == ["a"]
    assert sync(make_store(str(tmp_path))) == LocalStore(tmp_path)
    place = sync(make_store_path(store, path="x/y", mode="a", storage_options=None))
    assert (place.store, place.path) == (store, "x/y")


def test_metadata_is_parsed_from_documents():
    array = zarr.create_array(MemoryStore(), **OPTIONS, fill_value=3)
    document = array.metadata.to_dict()
    metadata = ArrayV3Metadata.from_dict(dict(document))
    assert (metadata.shape, metadata.fill_value) == ((4,), 3)
    with pytest.raises(Exception, match="node_type"):
        ArrayV3Metadata.from_dict(document | {"node_type": "group"})
    old = zarr.create_array(MemoryStore(), **OPTIONS, zarr_format=2)
    assert ArrayV2Metadata.from_dict(old.metadata.to_dict()).chunks == (2,)
    group = GroupMetadata.from_dict({"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}})
    assert group.attributes == {"a": 1}


def test_a_codec_pipeline_is_given_the_properties_of_each_chunk():
    specs = []

    class Noting(BatchedCodecPipeline):
        async def read(self, batch_info, out, drop_axes=()):
            batch = list(batch_info)
            specs.extend(each[1] for each in batch)
            return await super().read(batch, out, drop_axes)

    zarr.registry.register_pipeline(Noting)
    with zarr.config.set({"codec_pipeline.path": f"{Noting.__module__}.{Noting.__qualname__}"}):
        array = zarr.create_array(MemoryStore(), **OPTIONS)
    array[:] = 7
    assert (array[:] == 7).all()
    assert [(type(spec), spec.shape, spec.dtype.to_native_dtype()) for spec in specs] == [
        (ArraySpec, (2,), np.dtype("i4"))
    ] * 2


def test_the_pipelines_of_this_version_can_be_chosen():
    for path in PIPELINES.values():
        with zarr.config.set({"codec_pipeline.path": path}):
            array = zarr.create_array(MemoryStore(), **OPTIONS)
        array[:] = 7
        assert (array[:] == 7).all()
        assert sync(array.store.get("c/0", PROTOTYPE)) is not None
    assert "batched" in PIPELINES
