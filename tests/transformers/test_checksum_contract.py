"""`Checksum` keeps the contract of layers, wherever it keeps its records."""

from __future__ import annotations

from chances import fewer
from transformers.folders import InAFolder

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


class TestBesideInAFolder(InAFolder, LayerTests):
    test_zarr_store_state_machine = None  # it makes keys that are folders of others
    examples = fewer(5)
    steps = 8

    def layers(self):
        return [Checksum(unknown="pass")]
