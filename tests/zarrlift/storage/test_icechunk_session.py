"""Icechunk as a source: nodes may have names that look like keys of chunks."""

from __future__ import annotations

from pathlib import Path

import icechunk
import numpy as np
import zarr

import zarrlift

icechunk.set_logs_filter("error")

VALUES = np.arange(1, 13, dtype="i4").reshape(3, 4)


NAMES = ("c", "0", "0.0", "c.zarr", "c/c", "c/0", "0/c")


def test_nodes_named_like_chunks_are_nodes(tmp_path: Path) -> None:
    place = icechunk.local_filesystem_storage(str(tmp_path / "repo"))
    session = icechunk.Repository.create(place).writable_session("main")
    paths = [place.format(name) for place in ("{}/x", "g/{}/inner/c") for name in NAMES]
    paths += [f"arrays/{number}/{name}" for number, name in enumerate(NAMES)]
    group = zarr.open_group(session.store, mode="w")
    for path in paths:
        group.create_array(path, data=VALUES, chunks=(2, 2))
    session.commit("written")
    url = f"icechunk://{tmp_path}/repo"
    outcome = zarrlift.migrate(url, tmp_path / "copy.zarr")
    assert outcome.ok and not [*outcome.problems]
    copied = zarr.open_group(tmp_path / "copy.zarr", mode="r")
    for path in paths:
        np.testing.assert_array_equal(copied[path][:], VALUES)
    assert zarrlift.verify(url, tmp_path / "copy.zarr", full=True).ok
