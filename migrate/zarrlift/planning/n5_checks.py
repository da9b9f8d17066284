"""Checks the headers of N5 blocks during planning.

If blocks stay in place, all headers are checked, because no move will do so: the codec that reads them in
place supports one block mode and does not verify it (zarr-n5 0.3.1). Otherwise the first block shows whether
the array contains values at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zarrstack.core.errors import ChunkError, Problem, StorageError, ZarrstackError

from ..archive.chunk_inventory import Inventory
from ..archive.decoder import object_bound, object_decoder
from ..archive.nodes import Layout
from ..core.grid.chunk_keys import reverse_axes
from ..core.grid.frames import N5Blocks
from ..core.n5.blocks import DEFAULT, BlockHeader, head_bytes
from ..core.n5.dataset import TO_NUMBERS
from ..storage.base import Storage
from ..storage.local.storage import LocalStorage
from .chunk_advice import explain_pointer, shard_at

_MAX_NAMED: Final = 20
_MAX_FETCHED: Final = 64
"""Maximum number of blocks checked in a remote store, spread over all: each is fetched completely."""


def block_problems(path: str, storage: Storage, source: Layout, inventory: Inventory) -> Iterator[Problem]:
    """A refusal for each of the first blocks that contain no values or state a wrong size.

    Reads every header of a local array, those of some blocks in a store. Empty for an array without N5
    blocks. Raises StorageError.
    """
    if not isinstance(source.frame, N5Blocks):
        return
    block_size = reverse_axes(source.chunk_shape, source.frame.axes)
    size = head_bytes(len(block_size))
    local = isinstance(storage, LocalStorage)
    indexes = inventory.indexes
    step = 1 if local else max(1, len(indexes) // _MAX_FETCHED)
    named = 0
    for index in indexes[::step].tolist():
        key = source.key(path, source.objects.coordinates(index))
        head = storage.get_part(key, 0, size) if local else storage.get(key, object_bound(source))
        if head is None:
            continue
        try:
            BlockHeader.parse(head, block_size).require_values()
        except ChunkError as error:
            yield explain_pointer(error.at(node=path, key=key).problem, storage)
            named += 1
            if named == _MAX_NAMED:
                return


def shard_problem(
    path: str, storage: Storage, source: Layout, inventory: Inventory, *, always: bool
) -> Problem | None:
    """A refusal of an N5 array whose first block is a shard, which no document states.

    In a store, where it takes requests, this is checked only if `always`: if blocks stay where they are,
    nothing decodes them. None for a block that decodes, whatever its last bytes look like, and for an object
    that cannot be read, which is reported when it is moved.
    """
    if not isinstance(source.frame, N5Blocks) or not len(inventory.indexes):
        return None
    if not always and storage.requests is not None:
        return None
    key = source.key(path, source.objects.coordinates(int(inventory.indexes[0])))
    try:
        error = shard_at(key, storage)
        if error is not None and not _decodes(key, storage, source):
            return error.at(node=path, key=key).problem
    except StorageError:
        pass
    return None


def _decodes(key: str, storage: Storage, source: Layout) -> bool:
    try:
        data = storage.get(key, object_bound(source))
        object_decoder(source).decode(b"" if data is None else data)
    except StorageError:
        raise
    except ZarrstackError:
        return False
    return True


def mode_problem(path: str, storage: Storage, source: Layout, inventory: Inventory) -> Problem | None:
    """A refusal of an array whose first block contains no values, which its document need not show.

    Label multisets of Paintera are always detected: their blocks take at least four bytes per element, so
    that the byte count never equals the element count, for which Java writes mode 0. The check costs a local
    array 0.4 % of its migration if it has four tiny blocks. In a store it is a request, so only `uint8`, the
    stored type of label multisets, is checked there. Also None if the block is unreadable or damaged: the
    move reports this, and can be resumed.
    """
    local = isinstance(storage, LocalStorage)
    if not isinstance(source.frame, N5Blocks) or not (local or source.data_type.name == "uint8"):
        return None
    if not len(inventory.indexes):
        return None
    block_size = reverse_axes(source.chunk_shape, source.frame.axes)
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
        problem = error.at(node=path, key=key).problem
        return replace(problem, kind="unsupported", advice=TO_NUMBERS)
    return None
