"""Questions about values, and every method of zarr, go through what a layer overrides."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from tests.support.stores import Counted, buffer
from zarr.abc.store import Store
from zarr.storage import WrapperStore

from zarrstack import Log, StorageTransformer, stack


class Shout(StorageTransformer):
    name = "shout"

    async def get(self, key, prototype, byte_range=None):
        return await super().get(key, prototype, byte_range)


class Transparent(Shout):
    transparent = True


class OverridesAgain(Transparent):
    """What its parent declares need not be true of this `get`."""

    async def get(self, key, prototype, byte_range=None):
        return await super().get(key, prototype, byte_range)


class Lists(Shout):
    """Its keys may be others than those below."""

    def list_prefix(self, prefix):
        return super().list_prefix(prefix)


class Overrides(Lists):
    async def exists(self, key):
        return await self._store.exists(key)

    async def getsize(self, key):
        return await self._store.getsize(key)


class OnlyWrites(StorageTransformer):
    name = "only-writes"

    async def set(self, key, value):
        await super().set(key, value)


#        layer: values read by `exists` and `getsize`
CASES = {Shout: 1, Transparent: 0, OverridesAgain: 1, Lists: 2, Overrides: 0, OnlyWrites: 0}


class Sized(Counted):
    """Knows sizes without reading."""

    async def getsize(self, key):
        return len(self._store_dict[key])


@pytest.mark.parametrize("layer", CASES, ids=lambda layer: layer.__name__)
def test_questions_about_a_value_read_it_only_where_the_store_below_may_answer_otherwise(layer) -> None:
    below = Sized({"a": buffer(b"12345")})
    store = stack(below, layer())
    assert asyncio.run(store.exists("a"))
    assert asyncio.run(store.getsize("a")) == 5
    assert below.calls["get"] == CASES[layer]


def test_a_layer_that_overrides_around_is_not_taken_for_its_parent() -> None:
    class Changes(Log):
        async def around(self, call, act):
            await asyncio.sleep(0)
            return await super().around(call, act)

    assert (Changes.transparent, Changes.get_sync) == (False, None)
    assert Log.transparent


# Nothing that the installed zarr can do with data gets past a layer unseen.
#
# A new version of zarr may add a method to `Store` or `WrapperStore`. It fails here until somebody
# has decided what it means for a layer.


ABOUT_THE_STORE = {
    "__eq__": "ours", "__repr__": "ours", "__str__": "ours", "__hash__": "ours", "__enter__": "ours",
    "__init__": "ours", "_with_store": "ours", "_check_writable": "ours",
    "open": "makes a layer without options over a new store",
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


def test_somebody_decided_what_each_method_means():
    assert [method for method in methods() if method not in DATA | ABOUT_THE_STORE.keys()] == []


def test_a_method_that_moves_data_is_not_inherited():
    assert DATA - vars(StorageTransformer).keys() == set()


def test_a_method_that_is_called_ours_is():
    ours = [method for method, who in ABOUT_THE_STORE.items() if who == "ours"]
    owners = {
        method: next(kind for kind in StorageTransformer.__mro__ if method in vars(kind)) for method in ours
    }
    assert [method for method in ours if not owners[method].__module__.startswith("zarrstack")] == []


def test_only_the_primitives_and_plain_listings_ask_the_store_below():
    asking = set()
    for method in DATA - {"get", "set", "delete", "list_prefix"}:
        function = vars(StorageTransformer)[method]
        source = "" if function is None else inspect.getsource(function)
        if "self._store" in source.partition('"""')[2].partition('"""')[2]:
            asking.add(method)
    assert asking <= {"list", "list_dir", "delete_dir", "exists", "getsize"}


def test_each_method_takes_the_arguments_that_zarr_gives_it():
    for method in sorted(set(methods()) & DATA):
        ours, theirs = vars(StorageTransformer)[method], getattr(Store, method, None)
        if ours is None or theirs is None:
            continue
        mine = inspect.signature(ours).parameters
        takes_any = any(each.kind is each.VAR_KEYWORD for each in mine.values())
        for name, parameter in inspect.signature(theirs).parameters.items():
            assert name in mine or (takes_any and parameter.kind is parameter.KEYWORD_ONLY), (method, name)
