"""How many examples a test draws where they take seconds, whether new ones, and random operations."""

from __future__ import annotations

import asyncio
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from zarr.abc.store import Store

from zarrstack.testing.operations import Operation, expected, operations, perform

# How many examples a test draws where they take seconds, and whether they are new ones.
#
# The examples are the same in every run, at home and in CI, so that a change is judged by itself. `--random`
# draws others, and more of them.


_run = {"divisor": 4}


def load_profile(config: pytest.Config) -> None:
    """Settings of hypothesis; before the test modules are imported, which take them over."""
    seed = config.getoption("--random")
    drawn = seed is not None
    if drawn:
        config.option.hypothesis_seed = seed
    _run["divisor"] = 1 if drawn else 2 if config.getoption("--all") or config.getoption("--rest") else 4
    # Slow machines are no failure. Without a database, a failure depends on nothing but the seed.
    hypothesis.settings.register_profile(
        "zarrlift",
        deadline=None,
        database=None,
        derandomize=not drawn,
        max_examples=fewer(50),
        print_blob=drawn,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("zarrlift")


def fewer(examples: int) -> int:
    """So many examples where they are drawn at random, half with `--all`, else a quarter; never none."""
    return min(examples, max(examples // _run["divisor"], 3))


def examples(count: int, **options: Any) -> hypothesis.settings:
    """hypothesis' settings for `fewer` examples."""
    return hypothesis.settings(max_examples=fewer(count), **options)


# Random operations on a store, held against a dictionary; for keys that a test draws itself.


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
