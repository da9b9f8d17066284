"""Stacks of three layers chosen at random keep the contract, like any layer alone or twice.

Which stacks are chosen depends on the set of layers alone, so that a failure comes back. Set
ZARRSTACK_STACKS to a number to try that many.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.support.chances import examples, fewer
from zarr.storage import MemoryStore

from zarrstack import (
    Cache,
    Checksum,
    Log,
    Overlay,
    PerArray,
    Prefetch,
    Rekey,
    Retry,
    Sharding,
    Throttle,
    stack,
)
from zarrstack.base.registry import find, registered
from zarrstack.core.errors import UsageError
from zarrstack.testing import KEYS, LayerTests, Place, compare

PREFIX = {"name": "prefix", "configuration": {"above": "a", "below": "moved"}}

LAYERS = {
    "cache": lambda tests: Cache(memory_bytes=2000),
    "checksum": lambda tests: Checksum(),
    "log": lambda tests: Log(),
    "overlay": lambda tests: Overlay(writes=tests.upper()),
    "per-array": lambda tests: PerArray(),
    "prefetch": lambda tests: Prefetch(),
    "rekey": lambda tests: Rekey(rules=[PREFIX]),
    "retry": lambda tests: Retry(),
    "sharding": lambda tests: Sharding(chunks_per_shard=[2, 3], path="a"),
    "sharding buffered": lambda tests: Sharding(chunks_per_shard=[2, 3], path="a", memory_bytes=15_000),
    "throttle": lambda tests: Throttle(in_flight=2),
}
"""How to make each registered layer that accepts writes, at least once."""

READING = {"readonly"}
"""Layers that accept no writes; they have tests of their own."""


def allowed(names):
    """Whether the layers may stand in this order."""

    class Upper:
        upper = MemoryStore

    try:
        stack(MemoryStore(), *(LAYERS[name](Upper) for name in names))
    except UsageError:
        return False
    return True


def chosen(count):
    """So many stacks of three."""
    draw = random.Random("stacks of three")
    stacks = []
    while len(stacks) < count:
        names = tuple(draw.choices(sorted(LAYERS), k=3))
        if allowed(names) and names not in stacks:
            stacks.append(names)
    return stacks


class Chosen(LayerTests):
    """The suite over layers by name; the upper stores of overlays belong to the place."""

    names: tuple[str, ...] = ()
    examples = fewer(5)
    steps = 15
    uppers = ([MemoryStore(), MemoryStore(), MemoryStore()], False)
    taken = 0

    def upper(self):
        """The upper store of the next overlay of the stack."""
        stores, read_only = self.uppers
        self.taken += 1
        return stores[self.taken - 1].with_read_only(read_only)

    def layers(self):
        self.taken = 0
        return [LAYERS[name](self) for name in self.names]

    def make(self, place: Place, *, read_only: bool = False):
        places = self.__dict__.setdefault("places", {})
        stores = [MemoryStore(), MemoryStore(), MemoryStore()]
        _, stores = places.setdefault(id(place), (place, stores))  # kept, so that the id stays its own
        self.uppers = (stores, read_only)
        return super().make(place, read_only=read_only)


def suite(names):
    test = type(f"Test{''.join(name.title().replace(' ', '').replace('-', '') for name in names)}",
                (Chosen,), {"names": names, "__module__": __name__})  # fmt: skip
    return test if names in QUICK else pytest.mark.slow(test)


QUICK = {("per-array",), ("sharding buffered",), *chosen(1)}
"""Other layers alone have a module each."""
TWICE = [(name, name) for name in sorted(LAYERS) if allowed((name, name))]
STACKS = [
    *((name,) for name in sorted(LAYERS)),
    *TWICE,
    *chosen(int(os.environ.get("ZARRSTACK_STACKS", "6"))),
]
globals().update({test.__name__: test for test in map(suite, STACKS)})


def test_every_registered_layer_is_tried():
    assert {layer.name for layer in registered()} == {name.split()[0] for name in LAYERS} | READING


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in LAYERS} | READING))
def test_every_registered_layer_can_be_found(name):
    assert find(name).name == name


@examples(60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=3, max_size=3).filter(allowed), st.data())
def test_any_operations_on_any_stack_equal_those_on_a_dictionary(names, data):
    with tempfile.TemporaryDirectory() as folder:
        tests = suite(tuple(names))()
        compare(tests.make(Place(Path(folder))), data, KEYS)
