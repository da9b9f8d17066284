"""Looking at the headers of N5 blocks before anything is done.

Of blocks that stay where they lie all are looked at, since no move will: the codec that reads them in
place knows one mode of block and does not check it (zarr-n5 0.3.1). Of others the first one tells
whether the array holds values at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zarrstack.core.errors import ChunkError, Problem, StorageError
from zarrstack.core.grid.chunk_keys_n5 import turned
from zarrstack.core.grid.frames import N5Blocks
from zarrstack.core.n5.blocks import DEFAULT, BlockHeader, head_bytes
from zarrstack.core.n5.dataset import TO_NUMBERS

from ..archive.chunk_inventory import Inventory
from ..archive.decoder import object_bound
from ..archive.nodes import Layout
from ..storage.base import Storage
from ..storage.local.storage import LocalStorage
from .chunk_advice import pointed_out

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
        head = storage.get_part(key, 0, size) if local else storage.get(key, object_bound(source))
        if head is None:
            continue
        try:
            BlockHeader.parse(head, block_size).require_values()
        except ChunkError as error:
            yield pointed_out(error.at(node=path, key=key).problem, storage)
            named += 1
            if named == _MOST_NAMED:
                return


def mode_problem(path: str, storage: Storage, source: Layout, inventory: Inventory) -> Problem | None:
    """A refusal of an array whose first block holds no values, which its document need not say.

    Label multisets of Paintera always tell: a block of them takes four bytes per element and more, so
    that it never has as many bytes as elements, for which Java writes mode 0. One look costs a local array
    0.4 % of its migration where it has four tiny blocks; of a store it is a request, so that only `uint8` is
    looked at there, which is what label multisets are stored as. None too where the block cannot be read
    or is damaged: the move says so, and can be resumed.
    """
    local = isinstance(storage, LocalStorage)
    if not isinstance(source.frame, N5Blocks) or not (local or source.data_type.name == "uint8"):
        return None
    if not len(inventory.indexes):
        return None
    block_size = turned(source.chunk_shape, source.frame.axes)
    key = source.key(path, source.objects.coordinates(int(inventory.indexes[0])))
    header = None
    try:
        head = storage.get_part(key, 0, head_bytes(len(block_size)))
        header = None if head is None else BlockHeader.parse(head, block_size)
        if header is not None:
            header.require_values()
    except StorageError:
        return None
    except ChunkError as error:
        if header is None or header.mode == DEFAULT:
            return None
        told = error.at(node=path, key=key).problem
        return replace(told, kind="unsupported", advice=TO_NUMBERS)
    return None
