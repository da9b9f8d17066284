"""Layers over a folder, where their suite runs over a dictionary otherwise."""

from __future__ import annotations

from zarr.storage import LocalStore


class InAFolder:
    """Stands before `LayerTests` or a suite made of it."""

    leaves_folders = True
    # zarr's machine fails over a LocalStore alone (3.4.2): when an array's last chunk is gone, it still
    # lists the empty `c`, where its model does not. It runs over a MemoryStore in the other classes.
    test_zarr_hierarchy_state_machine = None

    def below(self, place, *, read_only=False):
        return LocalStore(place.folder, read_only=read_only)
