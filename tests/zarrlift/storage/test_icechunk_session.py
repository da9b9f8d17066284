"""Icechunk as a source: nodes may have names that look like keys of chunks."""

from __future__ import annotations

from pathlib import Path

import icechunk
import numpy as np
import pytest
import zarr

import zarrlift

icechunk.set_logs_filter("error")

VALUES = np.arange(1, 13, dtype="i4").reshape(3, 4)


@pytest.mark.parametrize("below", ["", "g"])
@pytest.mark.parametrize("name", ["c", "0", "0.0", "c.zarr", "c/c", "c/0", "0/c"])
def test_nodes_named_like_chunks_are_nodes(name: str, below: str, tmp_path: Path) -> None:
    place = icechunk.local_filesystem_storage(str(tmp_path / "repo"))
    session = icechunk.Repository.create(place).writable_session("main")
    group = zarr.open_group(session.store, mode="w", path=below)
    for path in (f"{name}/x", f"{name}/inner/c"):
        group.create_array(path, data=VALUES, chunks=(2, 2))
    group.create_array(f"array/{name}", data=VALUES, chunks=(2, 2))
    session.commit("written")

    outcome = zarrlift.migrate(f"icechunk://{tmp_path}/repo", tmp_path / "copy.zarr")

    assert outcome.ok and not [*outcome.problems]
    copied = zarr.open_group(tmp_path / "copy.zarr", mode="r", path=below)
    for path in (f"{name}/x", f"{name}/inner/c", f"array/{name}"):
        np.testing.assert_array_equal(copied[path][:], VALUES)
    assert zarrlift.verify(f"icechunk://{tmp_path}/repo", tmp_path / "copy.zarr", full=True).ok
