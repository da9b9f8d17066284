"""What tests of many cases share: how many examples are drawn, random operations, and a bound of memory."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import hypothesis
import pytest
from hypothesis import strategies as st
from zarr.abc.store import Store

from zarrstack.testing.operations import Operation, expected, operations, perform

# Profiles of hypothesis: how many examples a test draws where they take seconds, and whether they are new.
#
# Those of "quick", an eighth, and of "all", half of them, are the same in every run, at home and in CI, so
# that a change is judged by itself. "random" draws all of them anew.

_EXAMPLES = 50
"""How many a test draws that does not say so."""


def register_profiles() -> None:
    """For hypothesis' plug-in, and for the test modules, which take "quick" over if no other is asked for."""
    for name, divisor in (("quick", 8), ("all", 2), ("random", 1)):
        # Slow machines are no failure. Without a database, a failure depends on nothing but the seed.
        hypothesis.settings.register_profile(
            name,
            deadline=None,
            database=None,
            derandomize=name != "random",
            max_examples=_EXAMPLES // divisor,
            print_blob=name == "random",
            suppress_health_check=[hypothesis.HealthCheck.too_slow],
        )
    hypothesis.settings.load_profile("quick")


def fewer(examples: int) -> int:
    """So many examples with the profile "random", or the share of another one; never none."""
    return min(examples, max(examples * hypothesis.settings().max_examples // _EXAMPLES, 3))


def examples(count: int, **options: Any) -> hypothesis.settings:
    """hypothesis' settings for `fewer` examples."""
    return hypothesis.settings(max_examples=fewer(count), **options)


def json_values(
    words: Iterable[str] = (), *, keys: Iterable[str] = (), leaves: int = 6
) -> st.SearchStrategy[Any]:
    """Any JSON, NaN too; some texts are `words`, and objects have the `keys` if there are any."""
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    names = st.sampled_from([*keys]) if keys else st.text(max_size=3)
    return st.recursive(
        plain | st.sampled_from([*words]) if words else plain,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=leaves,
    )


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


# One test for many cases that share what is dear, such as a migration: all that fail are told together.

Case = TypeVar("Case")


def try_each(cases: Iterable[Case], check: Callable[[Case], None]) -> None:
    """Try a check of every case, also once one has failed; each failure bears the name of its case.

    There must be a case: a test of none would pass whatever the code does.
    """
    failed: list[BaseException] = []
    count = 0
    for count, case in enumerate(cases, 1):  # noqa: B007
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
            error.add_note(f"Case: {case}")
            failed.append(error)
    assert count, "there is no case to try"
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {count} cases failed", failed)


@contextmanager
def memory_below(most: int) -> Iterator[None]:
    """Fail if Python allocates so many bytes at once in what follows."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most
