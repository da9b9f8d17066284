"""A store held against a plain dictionary: any sequence of operations must leave both alike.

`operations(keys)` draws a sequence, `check(store, sequence)` runs it and compares every answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import cpu, default_buffer_prototype

PROTOTYPE = default_buffer_prototype()


@dataclass(frozen=True)
class Operation:
    """One call: the method's name and its arguments, values as bytes."""

    method: str
    arguments: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"{self.method}{self.arguments!r}"


def cut(value: bytes, part: ByteRequest | None) -> bytes:
    """The bytes of a request, as Python slices."""
    match part:
        case RangeByteRequest(start, end):
            return value[start:end]
        case OffsetByteRequest(offset):
            return value[offset:]
        case SuffixByteRequest(suffix):
            return value[max(0, len(value) - suffix) :]
        case _:
            return value


def folder(prefix: str) -> str:
    """The text that the keys of a folder begin with."""
    return prefix + "/" if prefix else ""


class Model:
    """A dictionary with the operations of a store."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def get(self, key: str, part: ByteRequest | None) -> bytes | None:
        return cut(self.data[key], part) if key in self.data else None

    def get_partial_values(self, parts: Sequence[tuple[str, ByteRequest | None]]) -> list[bytes | None]:
        return [self.get(key, part) for key, part in parts]

    def set(self, key: str, value: bytes) -> None:
        self.data[key] = value

    def set_many(self, values: dict[str, bytes]) -> None:
        self.data.update(values)

    def set_if_not_exists(self, key: str, value: bytes) -> None:
        self.data.setdefault(key, value)

    def delete(self, key: str) -> None:
        self.data.pop(key, None)

    def delete_dir(self, prefix: str) -> None:
        self.data = {k: v for k, v in self.data.items() if not k.startswith(folder(prefix))}

    def clear(self) -> None:
        self.data = {}

    def exists(self, key: str) -> bool:
        return key in self.data

    def getsize(self, key: str) -> int | None:
        return len(self.data[key]) if key in self.data else None

    def getsize_prefix(self, prefix: str) -> int:
        return sum(len(v) for k, v in self.data.items() if k.startswith(folder(prefix)))

    def list(self) -> list[str]:
        return sorted(self.data)

    def list_prefix(self, prefix: str) -> list[str]:
        return sorted(key for key in self.data if key.startswith(prefix))

    def list_dir(self, prefix: str) -> list[str]:
        start = folder(prefix)
        return sorted({k[len(start) :].split("/")[0] for k in self.data if k.startswith(start)})

    def is_empty(self, prefix: str) -> bool:
        return not any(key.startswith(folder(prefix)) for key in self.data)


class Asked:
    """A store with the model's methods."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def call(self, operation: Operation) -> Any:
        method = getattr(self, operation.method, None)
        if method is not None:
            return await method(*operation.arguments)
        return await getattr(self.store, operation.method)(*operation.arguments)

    async def get(self, key: str, part: ByteRequest | None) -> bytes | None:
        value = await self.store.get(key, PROTOTYPE, part)
        return None if value is None else value.to_bytes()

    async def get_partial_values(self, parts: Sequence[tuple[str, Any]]) -> list[bytes | None]:
        values = await self.store.get_partial_values(PROTOTYPE, iter(parts))
        return [None if value is None else value.to_bytes() for value in values]

    async def set(self, key: str, value: bytes) -> None:
        await self.store.set(key, cpu.Buffer.from_bytes(value))

    async def set_many(self, values: dict[str, bytes]) -> None:
        await self.store._set_many((key, cpu.Buffer.from_bytes(value)) for key, value in values.items())

    async def set_if_not_exists(self, key: str, value: bytes) -> None:
        await self.store.set_if_not_exists(key, cpu.Buffer.from_bytes(value))

    async def getsize(self, key: str) -> int | None:
        try:
            return await self.store.getsize(key)
        except FileNotFoundError:
            return None

    async def list(self) -> list[str]:
        return sorted([key async for key in self.store.list()])

    async def list_prefix(self, prefix: str) -> list[str]:
        return sorted([key async for key in self.store.list_prefix(prefix)])

    async def list_dir(self, prefix: str) -> list[str]:
        return sorted([name async for name in self.store.list_dir(prefix)])


def operations(
    keys: st.SearchStrategy[str],
    *,
    text_prefixes: bool = True,
    most: int = 25,
) -> st.SearchStrategy[list[Operation]]:
    """Sequences over `keys`; without `text_prefixes`, listings ask for whole folders only."""
    values = st.binary(max_size=6)
    number = st.integers(0, 8)
    parts = (
        st.none()
        | st.builds(lambda a, b: RangeByteRequest(a, a + b), number, number)
        | st.builds(OffsetByteRequest, number)
        | st.builds(SuffixByteRequest, st.integers(1, 8))
    )
    folders = st.builds(lambda key, n: "/".join(key.split("/")[:n]), keys, st.integers(0, 5))
    prefixes = folders.map(folder)
    if text_prefixes:
        prefixes |= st.builds(lambda key, n: key[:n], keys, st.integers(0, 30))

    def call(method: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Operation]:
        return st.builds(lambda *drawn: Operation(method, drawn), *arguments)

    return st.lists(
        st.one_of(
            call("set", keys, values),
            call("set", keys, values),
            call("set_many", st.dictionaries(keys, values, max_size=5)),
            call("set_if_not_exists", keys, values),
            call("delete", keys),
            call("delete_dir", folders),
            call("clear"),
            call("get", keys, parts),
            call("get_partial_values", st.lists(st.tuples(keys, parts), max_size=4)),
            call("exists", keys),
            call("getsize", keys),
            call("getsize_prefix", folders),
            call("list"),
            call("list_prefix", prefixes),
            call("list_dir", folders),
            call("is_empty", folders),
        ),
        max_size=most,
    )


def check(
    store: Store, sequence: Sequence[Operation], afterwards: Callable[[Model], Any] | None = None
) -> None:
    """Run a sequence on the store and on a dictionary; every answer and what is left must be equal."""

    async def run() -> Model:
        model, asked = Model(), Asked(store)
        for operation in sequence:
            expected = getattr(model, operation.method)(*operation.arguments)
            assert await asked.call(operation) == expected, operation
        assert await asked.list() == model.list()
        for key, value in model.data.items():
            assert await asked.get(key, None) == value
        return model

    model = asyncio.run(run())
    if afterwards is not None:
        afterwards(model)
