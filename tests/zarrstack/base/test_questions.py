"""`exists` and `getsize` of a layer that overrides `get` read values only if the layer says so."""

from __future__ import annotations

import asyncio
import warnings

import pytest
from tests.support.counted import Counted, buffer

from zarrstack import StorageTransformer, stack
from zarrstack.testing import LayerTests


class Shout(StorageTransformer):
    """Written before `same_keys` existed: it overrides `get`, and forgets the rest."""

    name = "shout"

    async def get(self, key, prototype, byte_range=None):
        return await super().get(key, prototype, byte_range)


class SaysSame(Shout):
    same_keys = same_sizes = True


class SaysReads(Shout):
    same_keys = same_sizes = False


class SaysKeys(Shout):
    same_keys = True


class Overrides(Shout):
    async def exists(self, key):
        return await self._store.exists(key)

    async def getsize(self, key):
        return await self._store.getsize(key)


class FallsBack(Shout):
    """Overrides both, and reads knowingly."""

    async def exists(self, key):
        return await super().exists(key)

    async def getsize(self, key):
        return await super().getsize(key)


class OnlyWrites(StorageTransformer):
    name = "only-writes"

    async def set(self, key, value):
        await super().set(key, value)


class OverridesAgain(SaysSame):
    """What its parent declares need not be true of this `get`."""

    async def get(self, key, prototype, byte_range=None):
        return await super().get(key, prototype, byte_range)


#        layer, values read by `exists` and `getsize`, methods without a decision
CASES = {
    Shout: (2, ("exists", "getsize")),
    SaysSame: (0, ()),
    SaysReads: (2, ()),
    SaysKeys: (1, ("getsize",)),
    Overrides: (0, ()),
    FallsBack: (2, ()),
    OnlyWrites: (0, ()),
    OverridesAgain: (2, ("exists", "getsize")),
}


class Sized(Counted):
    """Knows sizes without reading."""

    async def getsize(self, key):
        return len(self._store_dict[key])


@pytest.mark.parametrize("layer", CASES, ids=lambda layer: layer.__name__)
def test_the_declaration_decides_what_is_read(layer) -> None:
    reads, undecided = CASES[layer]
    assert layer.reads_whole_values() == undecided
    below = Sized({"a": buffer(b"12345")})
    store = stack(below, layer())

    async def body():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):  # the warning appears once
                below.calls.clear()
                assert await store.exists("a")
                assert await store.getsize("a") == 5
        return caught

    caught = asyncio.run(body())
    assert below.calls["get"] == reads
    assert len(caught) == bool(undecided)
    if undecided:
        text = str(caught[0].message)
        assert all(f"`{method}`" in text for method in undecided)
        assert "same_keys" in text
        assert layer.__qualname__ in text


def test_the_suite_asks_for_the_declaration() -> None:
    def tests(layer):
        return type("Tests", (LayerTests,), {"layers": lambda self: [layer()]})()

    with pytest.raises(
        AssertionError, match=r"shout.*`exists` and `getsize`.*Override them, or set `same_keys`"
    ):
        tests(Shout).test_questions_about_a_value_do_not_read_it_by_oversight()
    for layer, (_, undecided) in CASES.items():
        if not undecided:
            tests(layer).test_questions_about_a_value_do_not_read_it_by_oversight()
