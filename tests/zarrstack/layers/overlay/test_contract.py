"""`Overlay` keeps the contract of layers, over an archive that must not change."""

from __future__ import annotations

import pytest
from tests.support.chances import fewer
from tests.support.stores import InAFolder
from zarr.core.buffer import cpu
from zarr.storage import LocalStore, MemoryStore

from zarrstack.base.stack import stack
from zarrstack.layers.overlay.layer import Overlay
from zarrstack.testing import LayerTests


class OverlayTests(LayerTests):
    """The place of a test is where writes go; the archive below is given."""

    examples = fewer(20)

    def layers(self):
        place = getattr(self, "_place", None)
        return [Overlay(writes=MemoryStore() if place is None else self.upper(place, read_only=False))]

    def upper(self, place, *, read_only):
        return MemoryStore(place.memory, read_only=read_only)

    def archive(self):
        return MemoryStore()

    def make(self, place, *, read_only=False):
        return stack(self.archive(), Overlay(writes=self.upper(place, read_only=read_only)))


class TestOverAnEmptyStore(OverlayTests):
    pass


class TestOverAnEmptiedArchive(OverlayTests):
    """All that was below is deleted: nothing of it may ever come back."""

    def archive(self):
        value = cpu.Buffer.from_bytes(b"old")
        return MemoryStore(
            dict.fromkeys((*self.keys, "foo", "foo/bar", "c/0", "k", "k2", "zarr.json"), value)
        )

    def upper(self, place, *, read_only):
        place.memory.setdefault(".overlay/folders/.gone", cpu.Buffer.from_bytes(b""))
        return super().upper(place, read_only=read_only)


@pytest.mark.slow
class TestFolderOverFolder(InAFolder, OverlayTests):
    examples = 4
    steps = 8

    @pytest.fixture(autouse=True)
    def archive_folder(self, tmp_path_factory):
        self._archive = tmp_path_factory.mktemp("archive")

    def archive(self):
        return LocalStore(self._archive, read_only=True)

    def upper(self, place, *, read_only):
        return LocalStore(place.folder, read_only=read_only)
