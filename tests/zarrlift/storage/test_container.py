"""Containers as zarr stores: each answers as a store in memory with the same objects."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from tests.support.optional_archives import KINDS, database_of
from tests.zarrlift.storage.test_containers import zip_of
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from zarrlift.storage.containers.container import Container
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import StorageError, UsageError

OBJECTS = {
    ".zgroup": b'{"zarr_format": 2}',
    "a/.zarray": b"{}",
    "a/0.0": bytes(range(200)),
    "a/0.1": b"",
    "a/b/.zgroup": b'{"zarr_format": 2}',
    "a.c/0": b"beside a directory whose name begins like its own",
}
PARTS: list[ByteRequest | None] = [
    None,
    RangeByteRequest(0, 3),
    RangeByteRequest(2, 10_000),
    RangeByteRequest(5, 5),
    OffsetByteRequest(0),
    OffsetByteRequest(7),
    SuffixByteRequest(4),
    SuffixByteRequest(10_000),
]
SOURCES = ("zip", *KINDS)


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Container:
    return opened(request.param, tmp_path)


def opened(kind: str, folder: Path) -> Container:
    place = folder / f"a.{kind}"
    if kind in KINDS:
        for key, data in OBJECTS.items():
            (folder / "plain" / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / "plain" / key).write_bytes(data)
        place = database_of(kind, folder / "plain", place)
    else:
        place.write_bytes(zip_of(OBJECTS))
    storage = open_storage(place)
    assert isinstance(storage, Container)
    return storage


async def answers(store: Store) -> dict[str, Any]:
    """What a store answers to every kind of request."""
    prototype = default_buffer_prototype()
    found: dict[str, Any] = {}
    for key in (*OBJECTS, "a", "a/0", "none"):
        values = await store.get_partial_values(prototype, [(key, part) for part in PARTS])
        found[key] = [None if value is None else value.to_bytes() for value in values]
        found[key].append(await store.exists(key))
        found[key].append(await store.getsize(key) if await store.exists(key) else None)
    found["keys"] = sorted([key async for key in store.list()])
    for prefix in ("", "a/", "a", "a/b/", "none/"):
        found[f"below {prefix}"] = sorted([key async for key in store.list_prefix(prefix)])
    for directory in ("", "a", "a/", "a/b", "none"):
        found[f"in {directory}"] = sorted([name async for name in store.list_dir(directory)])
    return found


@pytest.mark.slow(one_in=5)
def test_a_source_answers_as_a_store_in_memory(source: Container) -> None:
    async def both() -> tuple[dict[str, Any], dict[str, Any]]:
        memory = MemoryStore()
        for key, data in OBJECTS.items():
            await memory.set(key, default_buffer_prototype().buffer.from_bytes(data))
        return await answers(source.zarr_store()), await answers(memory)

    found, expected = asyncio.run(both())
    assert found == expected


def test_a_source_is_never_written(source: Container, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    store, value = source.zarr_store(), default_buffer_prototype().buffer.from_bytes(b"1")
    for act in (
        lambda: source.put("a/1.1", b"1"),
        lambda: source.put_file("a/1.1", io.BytesIO(b"1"), 1),
        lambda: source.create("a/1.1", b"1"),
        lambda: source.delete("a/0.0"),
        lambda: asyncio.run(store.set("a/1.1", value)),
        lambda: asyncio.run(store.with_read_only(False).set("a/1.1", value)),
    ):
        with pytest.raises((UsageError, StorageError, ValueError), match=r"read-only|cannot be written"):
            act()
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}


def test_a_source_is_equal_to_the_same_one_only(tmp_path: Path) -> None:
    for kind in SOURCES:
        (tmp_path / kind).mkdir()
        first = opened(kind, tmp_path / kind)
        again = open_storage(str(first.url))
        assert first.zarr_store() == again.zarr_store()
        assert first.zarr_store() != opened("zip", tmp_path).zarr_store()
