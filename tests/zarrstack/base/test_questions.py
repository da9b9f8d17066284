"""`exists` and `getsize` of a layer that overrides `get` read values only if the layer says so."""

from __future__ import annotations

import asyncio
import inspect
import warnings

import pytest
from tests.support.stores import Counted, buffer
from zarr.abc.store import Store
from zarr.storage import WrapperStore

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


# Nothing that the installed zarr can do with data gets past a layer unseen.
#
# A new version of zarr may add a method to `Store` or `WrapperStore`. It fails here until somebody
# has decided what it means for a layer.


ABOUT_THE_STORE = {
    "__eq__": "ours", "__repr__": "ours", "__str__": "ours", "__hash__": "ours", "__enter__": "ours",
    "__init__": "ours", "_with_store": "ours", "_check_writable": "ours", "open": "ours",
    "supports_consolidated_metadata": "ours", "_supports_sync_io": "ours", "__reduce__": "ours",
    "__exit__": "closes the store below",
    "_ensure_open": "opens the store below", "_open": "opens the store below",
    "_is_open": "asks the store below", "close": "closes the store below",
    "read_only": "asks the store below", "with_read_only": "by _with_store",
    "supports_deletes": "asks the store below", "supports_listing": "asks the store below",
    "supports_partial_writes": "no store has them", "supports_writes": "asks the store below",
    "_get_bytes": "by get", "_get_bytes_sync": "by get", "_get_json": "by get", "_get_json_sync": "by get",
}  # fmt: skip
"""Methods that move no data, or move it through a layer's own `get`; and who decides them."""

DATA = {
    "get", "set", "delete", "list_prefix", "get_partial_values", "_get_many", "get_ranges",
    "get_ranges_sync", "exists", "getsize", "getsize_prefix", "set_if_not_exists", "_set_many", "list",
    "list_dir", "is_empty", "clear", "delete_dir", "get_sync", "set_sync", "delete_sync",
}  # fmt: skip
"""Methods that move or show data: the layer decides each."""

BY_PYTHON = {
    "__module__", "__doc__", "__annotations__", "__abstractmethods__", "_abc_impl", "__orig_bases__",
    "__parameters__", "__dict__", "__weakref__", "__type_params__", "__static_attributes__",
    "__firstlineno__", "__annotate__", "__annotations_cache__", "__annotate_func__",
}  # fmt: skip


def methods():
    """Everything that zarr's two classes define."""
    return sorted({*vars(Store), *vars(WrapperStore)} - BY_PYTHON)


@pytest.mark.parametrize("method", methods())
def test_somebody_decided_what_the_method_means(method):
    assert method in DATA or method in ABOUT_THE_STORE


@pytest.mark.parametrize("method", sorted(DATA))
def test_a_method_that_moves_data_is_not_inherited(method):
    assert method in vars(StorageTransformer)


@pytest.mark.parametrize("method", sorted(name for name, who in ABOUT_THE_STORE.items() if who == "ours"))
def test_a_method_that_is_called_ours_is(method):
    owner = next(kind for kind in StorageTransformer.__mro__ if method in vars(kind))
    assert owner.__module__.startswith("zarrstack")


@pytest.mark.parametrize("method", sorted(DATA - {"get", "set", "delete", "list_prefix"}))
def test_only_the_primitives_and_plain_listings_ask_the_store_below(method):
    function = vars(StorageTransformer)[method]
    text = "" if function is None else inspect.getsource(function).partition('"""')[2].partition('"""')[2]
    below = [line for line in text.splitlines() if "self._store" in line]
    assert below == [] or method in {"list", "list_dir", "delete_dir", "exists", "getsize"}


@pytest.mark.parametrize("method", sorted(set(methods()) & DATA))
def test_the_method_takes_the_arguments_that_zarr_gives_it(method):
    ours = vars(StorageTransformer)[method]
    theirs = getattr(Store, method, None)
    if ours is None or theirs is None:
        return
    mine = inspect.signature(ours).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in mine.values())
    for name, parameter in inspect.signature(theirs).parameters.items():
        assert name in mine or (takes_any and parameter.kind is parameter.KEYWORD_ONLY)
