"""xarray and dask run unchanged over a stack, dask in several processes."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore

import zarrstack
from zarrstack import Cache, Log, PerArray, Retry, Sharding, Throttle, stack


def over(folder, *, read_only=False):
    """A stack as one might use it every day."""
    bottom = LocalStore(folder, read_only=read_only)
    return stack(bottom, PerArray(), Log(), Cache(), Retry(), Throttle(in_flight=4))


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("consolidated", [True, False])
def test_xarray_writes_appends_and_reads(tmp_path, consolidated):
    import xarray as xr

    first = xr.Dataset(
        {"t": (("time", "x"), np.arange(12.0).reshape(3, 4))}, {"time": [0, 1, 2], "x": list("abcd")}
    )
    second = first.assign_coords(time=[3, 4, 5])
    store = over(tmp_path)
    first.to_zarr(store, zarr_format=3, consolidated=consolidated)
    second.to_zarr(store, append_dim="time", consolidated=consolidated)
    for each in (store, over(tmp_path), over(tmp_path, read_only=True)):
        found = xr.open_zarr(each, consolidated=consolidated, chunks=None)
        xr.testing.assert_identical(found.load(), xr.concat([first, second], "time").load())


@pytest.mark.slow
def test_dask_reads_and_writes_from_several_processes(tmp_path):
    import dask.array as dask_array

    values = np.arange(64).reshape(8, 8)
    array = zarr.create_array(over(tmp_path), name="a", shape=(8, 8), chunks=(2, 2), dtype="i8")
    array[:] = values
    result = zarr.create_array(over(tmp_path), name="b", shape=(8, 8), chunks=(4, 4), dtype="i8")
    lazy = dask_array.from_array(zarr.open_array(over(tmp_path), path="a", mode="r"), chunks=(4, 4)) + 1
    dask_array.store(lazy, result, lock=False, scheduler="processes", num_workers=2)
    assert (zarr.open_array(LocalStore(tmp_path), path="b", mode="r")[:] == values + 1).all()


@pytest.mark.slow
def test_dask_writes_an_array_whose_metadata_names_a_transformer(tmp_path):
    import dask.array as dask_array

    values = np.arange(64).reshape(8, 8)
    target = zarrstack.create_array(
        tmp_path, name="a", shape=(8, 8), chunks=(2, 2), dtype="i8",
        storage_transformers=[Sharding(chunks_per_shard=[2, 2])],
    )  # fmt: skip
    lazy = dask_array.from_array(values, chunks=(4, 4)) * 2
    dask_array.store(lazy, target, lock=False, scheduler="processes", num_workers=2)
    assert (zarrstack.open(tmp_path, path="a")[:] == values * 2).all()
