"""The abstract store interface of the 2022 draft, by the examples of its text."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore

from zarrstack.core.errors import UsageError
from zarrstack.layers.draft.layer import Draft
from zarrstack.layers.draft.zarr2_store import erase_values, get_partial_values, list_dir, set_partial_values

PROTOTYPE = default_buffer_prototype()


@pytest.fixture(params=["memory", "files", "a draft archive"])
def store(request, tmp_path):
    """The operations are of any store: of one that holds an archive, and of the archive's keys above."""
    return {
        "memory": MemoryStore,
        "files": lambda: LocalStore(tmp_path),
        "a draft archive": lambda: Draft(MemoryStore()),
    }[request.param]()


def put(store, **values: bytes) -> None:
    for key, value in values.items():
        asyncio.run(store.set(key.replace("_", "/"), cpu.Buffer.from_bytes(value)))


def held(store) -> dict[str, bytes]:
    async def read() -> dict[str, bytes]:
        return {key: (await store.get(key, PROTOTYPE)).to_bytes() async for key in store.list()}

    return asyncio.run(read())


def test_get_set_and_erase_are_methods_of_every_store(store) -> None:
    put(store, a_b=b"1")
    assert held(store) == {"a/b": b"1"}
    asyncio.run(store.delete("a/b"))
    assert held(store) == {}


def test_the_same_key_but_for_the_case_is_another_key() -> None:
    """Keys are held apart by the case of their letters (the draft, "Abstract store interface")."""
    for store in (MemoryStore(), Draft(MemoryStore())):
        put(store, foo=b"a", FOO=b"b")
        assert held(store) == {"foo": b"a", "FOO": b"b"}


def test_get_partial_values_gives_parts_in_the_order_asked_for(store) -> None:
    put(store, a=b"0123456789", b=b"xyz")
    asked = [("a", (2, 3)), ("missing", (0, None)), ("b", (0, None)), ("a", (7, None)), ("a", (8, 9))]
    found = asyncio.run(get_partial_values(store, asked))
    assert found == [b"234", None, b"xyz", b"789", b"89"]


@pytest.mark.parametrize("part", [(-1, None), (0, -1)])
def test_a_range_that_is_none_is_refused(store, part) -> None:
    with pytest.raises(UsageError):
        asyncio.run(get_partial_values(store, [("a", part)]))


def test_set_partial_values_writes_over_parts_and_beyond_the_end(store) -> None:
    put(store, a=b"0123456789")
    parts = [("a", 1, b"xy"), ("b", 0, b"new"), ("a", 8, b"...."), ("a", 12, b"end")]
    asyncio.run(set_partial_values(store, parts))
    assert held(store) == {"a": b"0xy34567....end", "b": b"new"}


@pytest.mark.parametrize(
    "parts",
    [
        [("b", 0, b"new"), ("a", 1, b"xy"), ("a", 2, b"z")],
        [("b", 0, b"new"), ("a", 4, b"z")],
        [("b", 0, b"new"), ("missing", 1, b"z")],
        [("b", 0, b"new"), ("a", -1, b"z")],
    ],
    ids=["overlap", "beyond the end", "beyond the end of nothing", "before the start"],
)
def test_parts_that_make_no_sense_change_nothing(store, parts) -> None:
    put(store, a=b"012")
    with pytest.raises(UsageError):
        asyncio.run(set_partial_values(store, parts))
    assert held(store) == {"a": b"012"}


@given(st.binary(max_size=20), st.lists(st.tuples(st.integers(0, 20), st.binary(max_size=6)), max_size=5))
def test_partial_writes_are_slices_of_a_bytearray(value, parts) -> None:
    model = bytearray(value)
    fits, free = True, 0
    for start, part in sorted(parts):
        fits = fits and free <= start <= len(model)
        free = start + len(part)
        model[start:free] = part
    store = MemoryStore()
    put(store, a=value)
    try:
        asyncio.run(set_partial_values(store, [("a", start, part) for start, part in parts]))
    except UsageError:
        assert not fits
    else:
        assert fits
        assert held(store) == {"a": bytes(model)}


def test_erase_values_erases_those_keys(store) -> None:
    put(store, a=b"1", b=b"2", c_d=b"3")
    asyncio.run(erase_values(store, ["a", "c/d", "missing", "a"]))
    assert held(store) == {"b": b"2"}


def test_erase_prefix_is_delete_dir(store) -> None:
    put(store, a_b=b"1", a_c_d=b"2", ab=b"3")
    asyncio.run(store.delete_dir("a/"))
    assert held(store) == {"ab": b"3"}


def test_list_prefix_by_the_texts_example(store) -> None:
    put(store, a_b=b"", a_c_d=b"", e_f_g=b"")

    async def listed() -> set[str]:
        return {key async for key in store.list_prefix("a/")}

    assert asyncio.run(listed()) == {"a/b", "a/c/d"}


def test_list_dir_by_the_texts_example(store) -> None:
    put(store, a_b=b"", a_c=b"", a_d_e=b"", a_f_g=b"")
    assert asyncio.run(list_dir(store, "a/")) == ({"a/b", "a/c"}, {"a/d/", "a/f/"})
    assert asyncio.run(list_dir(store, "b/")) == (set(), set())
    assert asyncio.run(list_dir(store, "")) == (set(), {"a/"})
    with pytest.raises(UsageError, match="slash"):
        asyncio.run(list_dir(store, "a"))
