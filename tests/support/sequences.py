"""Random operations on a store, held against a dictionary; for keys that a test draws itself."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import strategies as st
from zarr.abc.store import Store

from zarrstack.testing.operations import Operation, expected, operations, perform


def sequences(keys: st.SearchStrategy[str]) -> st.SearchStrategy[list[Operation]]:
    """Some operations over a few keys; listings by any text too."""

    def over(some: list[str]) -> st.SearchStrategy[list[Operation]]:
        texts = st.builds(lambda key, end: key[:end], st.sampled_from(some), st.integers(0, 20))
        listings = st.lists(st.tuples(st.just("list_prefix"), texts), max_size=5)
        return st.builds(lambda first, last: first + last, operations(some), listings)

    return st.lists(keys, min_size=3, max_size=14, unique=True).flatmap(over)


def check(store: Store, sequence: list[Operation]) -> dict[str, bytes]:
    """Run a sequence on the store and on a dictionary, which is given back; every answer must be equal."""

    async def run() -> dict[str, bytes]:
        model: dict[str, bytes] = {}
        for operation in sequence:
            wanted: Any = expected(model, operation)
            assert await perform(store, operation) == wanted, operation
        assert await perform(store, ("list",)) == sorted(model)
        for key, value in model.items():
            assert await perform(store, ("get", key, None)) == value
        return model

    return asyncio.run(run())
