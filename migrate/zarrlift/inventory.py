"""Which chunks of an array are there: one listing instead of one look per possible chunk.

10^9 possible chunks of which 10^4 are present must cost 10^4. Only a store that cannot
list is walked by its grid.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from zarrstack.core.errors import UnsupportedError

from .archive import Layout
from .scanning import METADATA, Found, scan
from .storage import LocalStorage, Storage

Indexes: TypeAlias = npt.NDArray[np.int64]

_MOST_CHUNKS: Final = 2**63 - 1
_MOST_WALKED: Final = 10**8
"""Largest grid that is walked chunk by chunk where a store cannot list."""
_MOST_TASK_CHUNKS: Final = 1024
_LEAST_TASK: Final = 4 << 20
_MOST_TASK: Final = 64 << 20
"""Bytes that a task reads."""
_LAST: Final = 8
"""How many tasks of an array are cut once more, where it has twice as many or more."""
_PARTS: Final = 4
"""Into how many parts, if they have as many chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The chunks of one array that are present."""

    indexes: Indexes
    """Linear indexes in the grid of stored objects, ascending."""
    sizes: Indexes | None
    """Stored bytes of each chunk; None where the store does not tell."""
    certain: bool
    """False where the store cannot list: every chunk of the grid stands here, present or not."""
    fingerprint: str
    """Digest of indexes, sizes and times; differs when the source has changed."""
    strays: tuple[str, ...] = ()
    """The first few names that belong to no chunk of this array."""
    stray_count: int = 0
    bad_links: tuple[tuple[str, str], ...] = ()
    """(key, target) of links that lead out of the archive, or nowhere."""
    no_files: tuple[tuple[str, str], ...] = ()
    """(key, what is there) where no file stands in the place of a chunk."""

    total_bytes: int | None = None
    """Stored bytes in all, or None if unknown."""


NOT_LISTED: Final = Inventory(
    indexes=np.empty(0, dtype=np.int64), sizes=None, certain=False, fingerprint="not listed"
)
"""What stands for an inventory where nobody looked for chunks."""


def take_inventory(
    storage: Storage,
    path: str,
    layout: Layout,
    *,
    children: frozenset[str] = frozenset(),
    follow_links: bool = False,
) -> Inventory:
    """The chunks of the array at `path` that are present in `storage`.

    `children` are names below the array that belong to other nodes and are passed over.
    Raises UnsupportedError for a grid of more than 2^63 chunks, StorageError.
    """
    try:
        require_countable(layout)
    except UnsupportedError as error:
        raise error.at(node=path) from None
    if isinstance(storage, LocalStorage):
        found = scan(storage, path, layout, children=children, follow_links=follow_links)
        return _inventory(found, sized=True)
    if storage.can_list:
        return _listed(storage, path, layout, children)
    if layout.objects.total > _MOST_WALKED:
        raise UnsupportedError(
            "the store cannot list and the grid is too large to try every chunk",
            node=path,
            found=f"{layout.objects.total} chunks",
            advice="Copy the archive to a place that can list.",
        )
    everything = np.arange(layout.objects.total, dtype=np.int64)
    return Inventory(indexes=everything, sizes=None, certain=False, fingerprint="unlisted")


def require_countable(layout: Layout) -> None:
    """UnsupportedError for a grid of more than 2^63 objects."""
    total = layout.objects.total
    if total > _MOST_CHUNKS:
        raise UnsupportedError("the chunk grid is too large to count", found=f"{total} chunks")


@cache
def nothing_there() -> Inventory:
    """What listing gives for a local array without a chunk."""
    return _inventory(Found(), sized=True)


def _inventory(found: Found, *, sized: bool) -> Inventory:
    indexes: Indexes = np.array(found.indexes, dtype=np.int64)
    order = np.argsort(indexes, kind="stable")
    indexes = indexes[order]
    digest = hashlib.blake2b(indexes.tobytes(), digest_size=16)
    sizes: Indexes | None = None
    if sized:
        sizes = np.array(found.sizes, dtype=np.int64)[order]
        digest.update(sizes.tobytes())
        digest.update(np.array(found.times, dtype=np.int64)[order].tobytes())
    return Inventory(
        indexes=indexes,
        sizes=sizes,
        total_bytes=int(sum(found.sizes)) if sized else None,
        certain=True,
        fingerprint=digest.hexdigest(),
        strays=tuple(found.strays),
        stray_count=found.stray_count,
        bad_links=tuple(found.bad_links),
        no_files=tuple(found.no_files),
    )


def _listed(storage: Storage, path: str, layout: Layout, children: frozenset[str]) -> Inventory:
    """List an array over a store; sizes are not asked for, they would cost a request each."""
    found = Found()
    ndim = len(layout.shape)
    grid = layout.objects
    for key in _keys_below(storage, layout.prefix(path)):
        if key in METADATA or key.split("/", 1)[0] in children:
            continue
        position = layout.keys.coordinates(key, ndim)
        index = None if position is None else grid.index(position)
        if index is None:
            found.stray(key)
        else:
            found.indexes.append(index)
    return _inventory(found, sized=False)


def _keys_below(storage: Storage, prefix: str) -> Iterator[str]:
    for key in storage.list_prefix(prefix):
        yield key.removeprefix(prefix)


def task_bytes(total: int) -> int:
    """What a task reads of an array of `total` stored bytes: some sixty tasks, within bounds."""
    return min(_MOST_TASK, max(total // 64, _LEAST_TASK))


def task_bounds(inventory: Inventory) -> tuple[int, ...]:
    """Cut the present chunks into tasks: `bounds[k] <= linear index < bounds[k + 1]`.

    Aims at some sixty tasks, so that a killed job loses little, within a bound of chunks and
    of bytes each. The last ones are smaller, so that workers finish together. Empty for an
    array without chunks.
    """
    count = len(inventory.indexes)
    if count == 0:
        return ()
    step = min(_MOST_TASK_CHUNKS, max(count // 64, 32))
    total = inventory.total_bytes
    if inventory.sizes is None or total is None:
        starts = np.arange(0, count, step)
    else:
        room = task_bytes(total)
        # What a chunk takes of a task, by bytes or as one of `step`, in parts of room * step.
        taken = np.maximum(inventory.sizes * float(step), float(room))
        bins = (np.cumsum(taken) - taken) // (float(room) * step)
        starts = np.flatnonzero(np.diff(bins, prepend=-1))
    starts = _tapered(starts, count)
    return (*map(int, inventory.indexes[starts]), int(inventory.indexes[-1]) + 1)


def _tapered(starts: Indexes, count: int) -> Indexes:
    """The first of each task's chunks, `count` in all, with the last tasks of many cut into parts.

    Whoever is done first waits for the others, with two workers half a task on average.
    """
    if len(starts) < 2 * _LAST:
        return starts
    last = starts[-_LAST:, None]
    lengths = np.diff(starts[-_LAST:], append=count)[:, None]
    parts = last + lengths * np.arange(_PARTS) // _PARTS
    return np.unique(np.concatenate((starts[:-_LAST], parts.ravel())))
