"""Looking at the headers of N5 blocks that stay where they lie, since no move will.

The codec that reads them in place knows one mode of block and does not check it (zarr-n5 0.3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zarrstack.core.errors import ChunkError, Problem
from zarrstack.core.frames import N5Blocks
from zarrstack.core.n5 import BlockHeader, head_bytes, turned

from .archive import Layout
from .inventory import Inventory
from .storage import LocalStorage, Storage, storage_error

_MOST_NAMED: Final = 20
_MOST_FETCHED: Final = 64
"""Blocks of a remote store that are looked at, spread over all: each is fetched whole."""


def block_problems(path: str, storage: Storage, source: Layout, inventory: Inventory) -> Iterator[Problem]:
    """A refusal for each of the first blocks that hold no values, or lie about their size.

    Of a local array every header is read, of others those of some blocks. Nothing for an array that
    is not made of N5 blocks. Raises StorageError.
    """
    if not isinstance(source.frame, N5Blocks):
        return
    block_size = turned(source.chunk_shape, source.frame.axes)
    size = head_bytes(len(block_size))
    local = isinstance(storage, LocalStorage)
    indexes = inventory.indexes
    step = 1 if local else max(1, len(indexes) // _MOST_FETCHED)
    named = 0
    for index in indexes[::step].tolist():
        key = source.key(path, source.objects.coordinates(index))
        head = _head(storage, key, size) if isinstance(storage, LocalStorage) else storage.get(key)
        if head is None:
            continue
        try:
            BlockHeader.parse(head, block_size).require_values()
        except ChunkError as error:
            yield error.at(node=path, key=key).problem
            named += 1
            if named == _MOST_NAMED:
                return


def _head(storage: LocalStorage, key: str, size: int) -> bytes | None:
    try:
        with open(storage.path(key), "rb", buffering=0) as file:
            return file.read(size)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error("cannot read", key, error) from error
