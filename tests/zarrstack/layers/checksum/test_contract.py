"""`Checksum` keeps the contract of layers."""

from __future__ import annotations

from tests.support.chances import fewer
from tests.support.folders import InAFolder

from zarrstack.layers.checksum.layer import Checksum
from zarrstack.testing import LayerTests


class TestInMemory(LayerTests):
    examples = fewer(20)

    def layers(self):
        return [Checksum()]


class TestOverFiles(InAFolder, LayerTests):
    examples = fewer(5)
    steps = 8

    def layers(self):
        return [Checksum(unknown="pass")]
