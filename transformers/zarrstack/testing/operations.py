"""Random store operations, whose results are compared with those on a dictionary."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from zarr.abc.buffer import Buffer
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.buffer import cpu, default_buffer_prototype

from ..base.descend import serves_sync
from ..core.paths import prefix_of

Operation: TypeAlias = tuple[Any, ...]
"""Name and arguments, such as ("set", "a/c/0", b"1")."""

KEYS: Final = (
    "zarr.json",
    "a/zarr.json",
    "a/c/0/0",
    "a/c/0/1",
    "a/c/1/0",
    "a/c/10/2",
    "a/c/b/zarr.json",
    "ab/zarr.json",
    "ab/0.0",
    "ab/c0",
    "c/zarr.json",
    "c/c/0",
    "0/c/zarr.json",
    "0/c/c/0/0",
    "data/root/a/c0",
)
"""Ambiguous names: arrays and groups called `c`, `0` or `data`, and names that are prefixes of others."""

PROTOTYPE = default_buffer_prototype()


def operations(keys: Sequence[str], *, most: int = 40) -> st.SearchStrategy[list[Operation]]:
    """Sequences of operations on a few of these keys, followed by reads of all keys.

    Few and often adjacent keys, so that operations affect each other.
    """
    some = st.lists(st.sampled_from(keys), min_size=1, max_size=5, unique=True)
    neighbours = st.integers(0, len(keys) - 1).map(lambda start: keys[start : start + 5])
    return st.one_of(some, neighbours).flatmap(lambda few: _over(few, most))


def _over(keys: Sequence[str], most: int) -> st.SearchStrategy[list[Operation]]:
    key = st.sampled_from(keys)
    folders = sorted({key[: place + 1] for key in keys for place, each in enumerate(key) if each == "/"})
    folder = st.sampled_from(["", *folders])
    paths = [name.rstrip("/") for name in folders]
    path = st.sampled_from(["", "missing", *paths, *paths])
    value = st.binary(max_size=12)
    part = st.one_of(
        st.none(),
        st.tuples(st.integers(0, 6), st.integers(0, 9)).map(lambda two: RangeByteRequest(two[0], sum(two))),
        st.builds(OffsetByteRequest, st.integers(0, 6)),
    )
    several = st.lists(st.tuples(key, part), max_size=5).map(tuple)
    pairs = st.dictionaries(key, value, max_size=6).map(_items)
    arguments: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
        "set": (key, value),
        "set_sync": (key, value),
        "set_if_not_exists": (key, value),
        "_set_many": (pairs,),
        "delete": (key,),
        "delete_sync": (key,),
        "delete_dir": (path,),
        "clear": (),
        "get": (key, part),
        "get_sync": (key, part),
        "suffix": (key, st.integers(1, 4)),
        "get_partial_values": (several,),
        "_get_many": (several,),
        "get_ranges": (key, st.lists(part, min_size=1, max_size=4).map(tuple)),
        "exists": (key,),
        "getsize": (key,),
        "getsize_prefix": (path,),
        "is_empty": (path,),
        "list": (),
        "list_prefix": (folder,),
        "list_dir": (path,),
    }
    # Frequent writes, so that the other operations have something to act on.
    names = [*arguments, "set", "set", "_set_many", "_set_many", "delete_dir", "delete_dir"]
    one_of = st.sampled_from(names).flatmap(lambda name: st.tuples(st.just(name), *arguments[name]))
    checks: list[Operation] = [("list",), *(("get", key, None) for key in keys)]
    return st.lists(one_of, min_size=8, max_size=most).map(lambda drawn: drawn + checks)


def _items(values: dict[str, bytes]) -> tuple[tuple[str, bytes], ...]:
    return tuple(values.items())


def expected(model: dict[str, bytes], operation: Operation) -> Any:
    """Apply an operation to a dictionary and return its result."""
    match operation:
        case ("set" | "set_sync", key, value):
            model[key] = value
        case ("set_if_not_exists", key, value):
            model.setdefault(key, value)
        case ("_set_many", pairs):
            model.update(pairs)
        case ("delete" | "delete_sync", key):
            model.pop(key, None)
        case ("exists", key):
            return key in model
        case ("getsize", key):
            return len(model[key]) if key in model else FileNotFoundError
        case ("get" | "get_sync", key, part):
            return _cut(model.get(key), part)
        case ("suffix", key, size):
            return model[key][-size:] if key in model else None
        case ("get_partial_values" | "_get_many", parts):
            return sorted(((key, _cut(model.get(key), part)) for key, part in parts), key=repr)
        case ("get_ranges", key, parts):
            return [_cut(model[key], part) for part in parts] if key in model else FileNotFoundError
        case ("delete_dir", path):
            for key in [key for key in model if key.startswith(prefix_of(path))]:
                del model[key]
        case ("clear",):
            model.clear()
        case ("is_empty", path):
            return not any(key.startswith(prefix_of(path)) for key in model)
        case ("getsize_prefix", path):
            return sum(len(value) for key, value in model.items() if key.startswith(prefix_of(path)))
        case ("list_dir", path):
            folder = prefix_of(path)
            return sorted({key.removeprefix(folder).split("/")[0] for key in model if key.startswith(folder)})
        case ("list_prefix", folder):
            return sorted(key for key in model if key.startswith(folder))
        case ("list",):
            return sorted(model)
        case _:
            raise AssertionError(operation)
    return None


async def perform(store: Store, operation: Operation) -> Any:
    """Apply an operation to a store and return its result in the same form."""
    name, *rest = operation
    if name.endswith("_sync") and not serves_sync(store):
        name = name.removesuffix("_sync")
    method: Any = getattr(store, name, None)
    match (name, *rest):
        case ("set" | "set_if_not_exists", key, value):
            await method(key, cpu.Buffer.from_bytes(value))
        case ("set_sync", key, value):
            method(key, cpu.Buffer.from_bytes(value))
        case ("delete_sync", key):
            method(key)
        case ("get_sync", key, part):
            return _bytes(method(key, prototype=PROTOTYPE, byte_range=part))
        case ("_set_many", pairs):
            await store._set_many([(key, cpu.Buffer.from_bytes(value)) for key, value in pairs])  # noqa: SLF001
        case ("get", key, part):
            return _bytes(await store.get(key, PROTOTYPE, part))
        case ("suffix", key, size):
            whole = await store.get(key, PROTOTYPE)
            if whole is not None and len(whole) < size:
                return whole.to_bytes()  # zarr 3.1.6 misreads a suffix that is longer than the value
            return _bytes(await store.get(key, PROTOTYPE, SuffixByteRequest(size)))
        case ("get_partial_values", parts):
            values = await store.get_partial_values(PROTOTYPE, (each for each in parts))
            pairs = zip((key for key, _ in parts), map(_bytes, values), strict=True)
            return sorted(pairs, key=repr)
        case ("_get_many", parts):
            requests = [(key, PROTOTYPE, part) for key, part in parts]
            results = [(key, _bytes(value)) async for key, value in store._get_many(requests)]  # noqa: SLF001
            return sorted(results, key=repr)
        case ("get_ranges", key, parts):
            return await _ranges(store, key, parts)
        case ("getsize", key):
            try:
                return await store.getsize(key)
            except FileNotFoundError:
                return FileNotFoundError
        case ("list" | "list_prefix" | "list_dir", *_):
            return sorted([key async for key in method(*rest)])
        case _:
            return await method(*rest)
    return None


async def _ranges(store: Any, key: str, parts: tuple[ByteRequest | None, ...]) -> Any:
    if getattr(store, "get_ranges", None) is None:  # zarr before 3.3
        parts_of_key = [(key, part) for part in parts]
        values = await store.get_partial_values(PROTOTYPE, parts_of_key)
        return FileNotFoundError if values[0] is None else [_bytes(value) for value in values]
    results = {}
    try:
        async for batch in store.get_ranges(key, parts, prototype=PROTOTYPE):
            results.update({place: _bytes(value) for place, value in batch})
    except BaseExceptionGroup as group:
        if group.subgroup(FileNotFoundError) is not None:
            return FileNotFoundError
        raise
    return [results[place] for place in range(len(parts))]


def _cut(value: bytes | None, part: ByteRequest | None) -> bytes | None:
    match part:
        case RangeByteRequest(start, end) if value is not None:
            return value[start:end]
        case OffsetByteRequest(offset) if value is not None:
            return value[offset:]
        case _:
            return value


def _bytes(value: Buffer | None) -> bytes | None:
    return None if value is None else value.to_bytes()


def compare(
    store: Store, draw: DataObject, keys: Sequence[str] = KEYS, *, leaves_folders: bool = False
) -> None:
    """Run random operations on an empty store and on a dictionary; AssertionError if results differ.

    `draw` comes from `hypothesis.strategies.data()`; the other arguments are as in `LayerTests`.
    """
    sequence = draw.draw(operations(keys), label="operations")

    async def run() -> None:
        model: dict[str, bytes] = {}
        for operation in sequence:
            wanted = expected(model, operation)
            actual = await perform(store, operation)
            if leaves_folders and operation[0] == "list_dir":
                empty = [name for name in actual if await store.is_empty(f"{operation[1]}/{name}")]
                actual = [name for name in actual if name in wanted or name not in empty]
            assert actual == wanted, operation

    asyncio.run(run())


def dump(store: Store) -> dict[str, bytes]:
    """Every key and value of a store."""

    async def read() -> dict[str, bytes]:
        content = {}
        for key in sorted([key async for key in store.list()]):
            value = await store.get(key, PROTOTYPE)
            assert value is not None, key
            content[key] = value.to_bytes()
        return content

    return asyncio.run(read())
