"""`Checksum` keeps the contract of layers, wherever it keeps its records."""

from __future__ import annotations

from chances import fewer
from zarr.storage import LocalStore

from zarrstack.checksum import Checksum
from zarrstack.testing import LayerTests


class TestBesideInMemory(LayerTests):
    examples = fewer(20)

    def layers(self):
        return [Checksum()]


class TestManifestInMemory(LayerTests):
    examples = fewer(12)

    def layers(self):
        return [Checksum(keep="manifest")]


class TestBesideInAFolder(LayerTests):
    test_zarr_store_state_machine = None  # it makes keys that are folders of others
    examples = fewer(5)
    steps = 8
    leaves_folders = True
    # zarr's machine fails over a LocalStore alone (3.4.2): when an array's last chunk is gone, it still
    # lists the empty `c`, where its model does not. It runs over a MemoryStore in the other classes.
    test_zarr_hierarchy_state_machine = None

    def layers(self):
        return [Checksum(unknown="pass")]

    def below(self, place, *, read_only=False):
        return LocalStore(place.folder, read_only=read_only)
