"""The layers that leave every value as it is keep the contract, over memory and over a folder."""

from __future__ import annotations

import pytest
from tests.support.chances import fewer
from tests.support.folders import InAFolder

from zarrstack.layers.log.layer import Log
from zarrstack.layers.prefetch.layer import Prefetch
from zarrstack.layers.retry import Retry
from zarrstack.layers.throttle import Throttle
from zarrstack.testing import LayerTests


class OverMemory(LayerTests):
    """The steps of the suite's default."""

    examples = fewer(20)


class OverFolder(InAFolder, LayerTests):
    examples = fewer(6)
    steps = 10


class TestLogOverMemory(OverMemory):
    def layers(self):
        return [Log(label="outer"), Log()]


class TestLogOverFolder(OverFolder):
    def layers(self):
        return [Log(logger="somewhere", level="INFO")]


class TestRetryOverMemory(OverMemory):
    def layers(self):
        return [Retry(attempts=3, budget=5)]


class TestThrottleOverMemory(OverMemory):
    def layers(self):
        return [Throttle(bytes_per_second="1TB/s", requests_per_second=1e9, in_flight=2)]


@pytest.mark.slow
class TestThrottleOverFolder(OverFolder):
    def layers(self):
        return [Throttle(in_flight=1)]


class TestPrefetchOverMemory(OverMemory):
    def layers(self):
        return [Prefetch(depth=4)]


@pytest.mark.slow
class TestPrefetchOverFolder(OverFolder):
    def layers(self):
        return [Prefetch(depth=2, memory_bytes=4000), Prefetch()]


@pytest.mark.parametrize("kind", [Log, Prefetch, Retry, Throttle])
def test_options_that_are_the_defaults_are_no_difference(kind):
    assert kind() == kind(clock=None)
    assert kind().configuration == {}
