"""Stores that are no more than a dictionary: other threads write to it while it is listed."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zarr.storage
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.implementations.memory import MemoryFileSystem
from tests.zarrlift.storage.conftest import fill
from zarr.storage import FsspecStore, MemoryStore, WrapperStore

import zarrlift
from zarrlift.storage.local.files import WRITTEN
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote.async_storage import settled
from zarrlift.storage.remote.store_storage import StoreStorage
from zarrstack import Log, stack


def in_file_system(objects: dict[str, Any]) -> FsspecStore:
    """A store over a file system of fsspec with this dictionary."""
    fs = MemoryFileSystem(skip_instance_cache=True)
    fs.store = objects
    return FsspecStore(AsyncFileSystemWrapper(fs, asynchronous=True), path=f"/{uuid.uuid4()}")


STORES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "MemoryStore": MemoryStore,
    "WrapperStore": lambda objects: WrapperStore(MemoryStore(objects)),
    "layers": lambda objects: stack(MemoryStore(objects), Log()),
    "memory://": in_file_system,
}


def managed(objects: dict[str, Any]) -> MemoryStore:
    """A store that makes its own dictionary otherwise."""
    store = zarr.storage.ManagedMemoryStore()
    store._store_dict = objects
    return store


if hasattr(zarr.storage, "ManagedMemoryStore"):  # not in zarr 3.1
    STORES["ManagedMemoryStore"] = managed


class Growing(dict[str, Any]):
    """A dictionary to which a thread adds a key while it is listed, the first few times."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        for number, key in enumerate(super().__iter__()):
            if number == 1 and self.times:
                self.times -= 1
                self[f"other/{self.times}"] = next(iter(self.values()))
            yield key

    def items(self) -> Any:
        return ((key, self[key]) for key in self)


def names_of(storage: StoreStorage) -> list[str]:
    """The names that zarr-python finds through `Storage.zarr_store`."""
    from zarr.core.sync import sync

    store = storage.zarr_store()

    async def names(directory: str) -> list[str]:
        return [name async for name in store.list_dir(directory)]

    assert sync(names(""))
    return sync(names("g"))


LISTINGS: dict[str, Callable[[StoreStorage], list[str]]] = {
    "list_dir": lambda storage: [entry.name for entry in storage.list_dir("g")],
    "list_prefix": lambda storage: list(storage.list_prefix("g/")),
    "as a store": names_of,
}


@pytest.mark.parametrize("listing", LISTINGS)
@pytest.mark.parametrize("kind", STORES)
def test_a_listing_during_which_others_write_is_made_again(kind: str, listing: str) -> None:
    objects = Growing()
    storage = open_storage(STORES[kind](objects), mode="w")
    assert isinstance(storage, StoreStorage)
    storage.put_many([(f"g/{number}", b"1") for number in range(4)])
    objects.times = 3
    found = LISTINGS[listing](storage)
    assert sorted(name.removeprefix("g/") for name in found) == ["0", "1", "2", "3"]
    assert objects.times == 0


def test_a_dictionary_that_never_rests_is_an_error_in_the_end() -> None:
    asked = 0

    async def changed() -> None:
        nonlocal asked
        asked += 1
        raise RuntimeError("dictionary changed size during iteration")

    with pytest.raises(RuntimeError, match="changed size"):
        asyncio.run(settled(changed))
    assert asked > 10


def test_no_other_error_is_repeated() -> None:
    asked = 0

    async def fails() -> None:
        nonlocal asked
        asked += 1
        raise RuntimeError("cannot schedule new futures after shutdown")

    with pytest.raises(RuntimeError, match="shutdown"):
        asyncio.run(settled(fails))
    assert asked == 1


class Watched(dict[str, Any]):
    """A dictionary that notes which threads use it."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()

    def __getattribute__(self, name: str) -> Any:
        if name not in ("threads", "__class__"):
            self.threads.add(threading.current_thread().name)
        return super().__getattribute__(name)

    def __setitem__(self, key: str, value: Any) -> None:
        self.threads.add(threading.current_thread().name)
        super().__setitem__(key, value)

    def __iter__(self) -> Iterator[str]:
        self.threads.add(threading.current_thread().name)
        return super().__iter__()


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("kind", STORES)
def test_one_thread_lists_and_writes_the_dictionary(kind: str, archive: Path, tmp_path: Path) -> None:
    start, end = Watched(), Watched()
    source, destination = STORES[kind](start), STORES[kind](end)
    fill(source, archive)
    outcome = zarrlift.migrate(source, destination, job=tmp_path / "job.db", workers=4)
    assert outcome.ok, outcome.problems
    assert zarrlift.verify(source, destination, full=True).ok
    assert (start.threads, end.threads) == ({"zarrlift-storage"}, {"zarrlift-storage"})


# What is asked of a store for a document


@pytest.mark.parametrize("size", [1, 16 << 20, (16 << 20) + 1, (16 << 20) + 2])
def test_no_store_is_asked_for_more_of_a_document_than_most_have(size: int) -> None:
    """zarr's LocalStore takes memory for a range before it reads it, and limits are up to 4 GiB."""
    asked: list[int] = []

    class Noting(MemoryStore):
        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            asked.append(byte_range.end)
            return await super().get(key, prototype, byte_range)

    content = b"x" * size
    storage = StoreStorage(Noting({"a": zarr.core.buffer.cpu.Buffer.from_bytes(content)}))
    assert storage.get("a", WRITTEN) == content
    most = (16 << 20) + 1
    assert asked == ([most] if size < most else [most, WRITTEN.most + 1])
