"""`Checksum` keeps the contract of layers, wherever it keeps its records."""

from __future__ import annotations

import pytest
from tests.support.chances import fewer
from tests.support.folders import InAFolder

from zarrstack.layers.checksum.layer import Checksum
from zarrstack.testing import LayerTests


class TestBesideInMemory(LayerTests):
    examples = fewer(20)

    def layers(self):
        return [Checksum()]


@pytest.mark.slow
class TestManifestInMemory(LayerTests):
    examples = fewer(12)

    def layers(self):
        return [Checksum(keep="manifest")]


class TestBesideInAFolder(InAFolder, LayerTests):
    examples = fewer(5)
    steps = 8

    def layers(self):
        return [Checksum(unknown="pass")]
