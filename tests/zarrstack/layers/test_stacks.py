"""Stacks of three layers chosen at random keep the contract, like any layer alone or twice.

Which stacks are chosen depends on the set of layers alone, so that a failure comes back. Set
ZARRSTACK_STACKS to a number to try that many.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.support.chances import examples, fewer
from zarr.storage import MemoryStore

from zarrstack import (
    Cache,
    Log,
    PerArray,
    Rekey,
    Retry,
    Sharding,
    Throttle,
    WriteBack,
    stack,
)
from zarrstack.base import plugins, registry
from zarrstack.base.registry import find
from zarrstack.core.errors import UsageError
from zarrstack.testing import KEYS, LayerTests, Place, compare

PREFIX = {"name": "prefix", "configuration": {"below": "moved"}}

LAYERS = {
    "cache": lambda: Cache(memory_bytes=2000),
    "log": Log,
    "per-array": PerArray,
    "rekey": lambda: Rekey(rules=[PREFIX]),
    "retry": Retry,
    "sharding": lambda: Sharding(chunks_per_shard=[2, 3], path="a"),
    "throttle": lambda: Throttle(bytes_per_second="1TB/s", requests_per_second=1e9, in_flight=2),
    "write-back": lambda: WriteBack(memory_bytes=15_000),
}
"""How to make each registered layer that accepts writes, at least once."""

READING = {"readonly"}
"""Layers that accept no writes; they have tests of their own."""


def allowed(names):
    """Whether the layers may stand in this order."""

    try:
        stack(MemoryStore(), *(LAYERS[name]() for name in names))
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
    """The suite over layers by name."""

    names: tuple[str, ...] = ()
    examples = fewer(5)
    steps = 15

    def layers(self):
        return [LAYERS[name]() for name in self.names]


def suite(names):
    test = type(f"Test{''.join(name.title().replace(' ', '').replace('-', '') for name in names)}",
                (Chosen,), {"names": names, "__module__": __name__})  # fmt: skip
    return test if names in QUICK else pytest.mark.slow(test)


TOGETHER = ("write-back", "log", "retry", "throttle", "per-array")
QUICK = {TOGETHER, ("write-back", "sharding")}
"""Cache, Rekey and Sharding alone are in their modules."""
TWICE = [(name, name) for name in sorted(LAYERS) if allowed((name, name))]
STACKS = [
    *((name,) for name in sorted(LAYERS)),
    *TWICE,
    TOGETHER,
    ("write-back", "sharding"),
    *chosen(int(os.environ.get("ZARRSTACK_STACKS", "6"))),
]
globals().update({test.__name__: test for test in map(suite, STACKS)})


def test_every_layer_is_registered_found_and_tried():
    installed = {point.name for point in plugins.registered(registry.GROUP)}  # and not what a test registers
    project = tomllib.loads((Path(__file__).parents[3] / "transformers" / "pyproject.toml").read_text())
    assert installed == project["project"]["entry-points"][registry.GROUP].keys(), "install zarrstack again"
    assert installed == LAYERS.keys() | READING
    files = Path(registry.__file__).parents[1].glob("layers/**/*.py")
    sources = [file.read_text() for file in files if file.name != "rules.py"]  # which have names too
    assert {*re.findall(r'^    name = "([\w-]+)"$', "".join(sources), re.MULTILINE)} == installed
    assert [name for name in installed if find(name).name != name] == []


@examples(60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=3, max_size=3).filter(allowed), st.data())
def test_any_operations_on_any_stack_equal_those_on_a_dictionary(names, data):
    with tempfile.TemporaryDirectory() as folder:
        tests = suite(tuple(names))()
        compare(tests.make(Place(Path(folder))), data, KEYS)
