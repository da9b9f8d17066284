"""Finds the chunks of an array with one listing instead of one request per possible chunk.

For 10^9 possible chunks of which 10^4 exist, the cost must be that of 10^4. Only a store that cannot list is
searched by its grid.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from zarrstack.core.errors import StorageError, UnsupportedError

from ..core.format_table import DOCUMENT_NAMES
from ..core.grid.pattern_keys import NamePatterns, PatternKeys
from ..storage.base import ListedPage, Storage
from ..storage.local.storage import LocalStorage
from ..storage.versions import version_numbers
from .chunk_columns import MAX_IN_MEMORY, NO_CHUNK, ChunkColumns, chunk_indexes
from .local_scan import ChunkScan, files_by_name, scan
from .nodes import Layout

Indexes: TypeAlias = npt.NDArray[np.int64]
Weights: TypeAlias = npt.NDArray[np.float64]
"""Numbers of bytes, which may exceed 2^63 for a layout of which nothing is stored."""

UNLISTED: Final = "unlisted"
"""Fingerprint for a store that cannot list."""
_MAX_CHUNKS: Final = 2**63 - 1
_MAX_WALKED: Final = 10**8
"""Maximum grid size searched chunk by chunk in a store that cannot list."""
_MAX_TASK_CHUNKS: Final = 1024
_MIN_TASK: Final = 4 << 20
_SHORT_TASK: Final = 64 << 20
TASK_LIMIT: Final = 1_000_000_000
"""Maximum number of bytes that a task reads or writes, unless a single object or block is larger."""
_SAMPLES: Final = 2048
"""Keys by which a long listing is divided."""
_LAST: Final = 8
"""Number of tasks at the end of an array that are split further, if it has at least twice as many."""
_PARTS: Final = 4
"""Number of parts of a split task, if it has as many chunks."""


class Inventory(NamedTuple):
    """The existing chunks of one array."""

    indexes: Indexes
    """Linear indexes in the grid of stored objects, ascending."""
    sizes: Indexes | None
    """Stored bytes of each chunk; None if the store does not provide them."""
    certain: bool
    """False if the store cannot list; the inventory then contains every chunk of the grid."""
    fingerprint: str
    """Digest of indexes, sizes and versions; differs if the source has changed."""
    versions: Indexes | None = None
    """A number for each chunk that changes when it is rewritten: the modification time of a file in
    nanoseconds, else a digest of the object's ETag or time; None if the store provides neither.
    """
    unclaimed: tuple[str, ...] = ()
    """The first names that belong to no chunk of this array."""
    unclaimed_count: int = 0
    bad_links: tuple[tuple[str, str], ...] = ()
    """(key, target) of links that are broken or leave the archive."""
    no_files: tuple[tuple[str, str], ...] = ()
    """(key, type) of entries named like chunks that are not regular files."""

    total_bytes: int | None = None
    """Total of stored bytes, or None if unknown."""

    @property
    def notices_rewriting(self) -> bool:
        """Whether the fingerprint changes if a chunk is rewritten."""
        return self.versions is not None or (self.certain and not len(self.indexes))


NOT_LISTED: Final = Inventory(
    indexes=np.empty(0, dtype=np.int64), sizes=None, certain=False, fingerprint="not listed"
)
"""Placeholder for an inventory that was not taken."""


def take_inventory(
    storage: Storage,
    path: str,
    layout: Layout,
    *,
    children: frozenset[str] = frozenset(),
    follow_links: bool = False,
    names_only: bool = False,
    count: Callable[[int], object] | None = None,
    collect: Callable[[str], object] = lambda _: None,
) -> Inventory:
    """The chunks of the array at `path` that exist in `storage`.

    `children` are names below the array that belong to other nodes and are skipped. With `names_only`, local
    files are listed without sizes and times. `count` receives the
    numbers of listed objects of a store, from another thread, and `collect` the names that belong to no
    chunk. Raises UnsupportedError for a grid of more than 2^63 chunks, StorageError.
    """
    try:
        require_countable(layout)
    except UnsupportedError as error:
        raise error.at(node=path) from None
    if not (isinstance(storage, LocalStorage) or storage.can_list):
        return _every_chunk(path, layout)
    found = _found(
        storage, path, layout, children, count, collect, follow_links=follow_links, names_only=names_only
    )
    inventory = inventory_of(found)
    if layout.opaque and inventory.unclaimed_count:  # every object is the array's
        return inventory._replace(fingerprint=f"{inventory.fingerprint}+{inventory.unclaimed_count}")
    return inventory


def _every_chunk(path: str, layout: Layout) -> Inventory:
    """The inventory in a store that cannot list: each chunk of the grid may exist."""
    if layout.objects.total > _MAX_WALKED:
        raise UnsupportedError(
            "the store cannot be listed, and the chunk grid is too large to check every key",
            node=path,
            found=f"{layout.objects.total} chunks",
            advice="Copy the archive to a store that can be listed.",
        )
    everything = np.arange(layout.objects.total, dtype=np.int64)
    return Inventory(indexes=everything, sizes=None, certain=False, fingerprint=UNLISTED)


def require_countable(layout: Layout) -> None:
    """Raise UnsupportedError for a grid of more than 2^63 objects."""
    total = layout.objects.total
    if total > _MAX_CHUNKS:
        raise UnsupportedError("the chunk grid is too large to count", found=f"{total} chunks")


def inventory_of(listing: ChunkScan) -> Inventory:
    """The inventory of the chunks that were found."""
    indexes, sizes, versions = listing.chunks.sorted()
    facts = indexes, sizes if listing.sized else None, versions if listing.versioned else None
    return Inventory(
        indexes=indexes,
        sizes=facts[1],
        versions=facts[2],
        total_bytes=listing.chunks.total_bytes if listing.sized else None,
        certain=True,
        fingerprint=fingerprint_of(*facts),
        unclaimed=tuple(listing.unclaimed),
        unclaimed_count=listing.unclaimed_count,
        bad_links=tuple(listing.bad_links),
        no_files=tuple(listing.no_files),
    )


def fingerprint_of(indexes: Indexes, sizes: Indexes | None, versions: Indexes | None) -> str:
    """The digest of chunks, with their sizes and versions if known."""
    digest = hashlib.blake2b(digest_size=16)
    for column in (indexes, sizes, versions):
        if column is not None:
            digest.update(column.data)
    return digest.hexdigest()


def _found(
    storage: Storage,
    path: str,
    layout: Layout,
    children: frozenset[str],
    count: Callable[[int], object] | None,
    collect: Callable[[str], object],
    *,
    follow_links: bool,
    names_only: bool = False,
) -> ChunkScan:
    if isinstance(storage, LocalStorage):
        return scan(
            storage,
            path,
            layout,
            children=children,
            follow_links=follow_links,
            names_only=names_only,
            collect=collect,
        )
    if names_only:
        storage.refuse_links(path)
    prefix = layout.prefix(path)
    result = storage.list_objects(
        prefix,
        lambda: ListedChunks(layout, prefix, DOCUMENT_NAMES | children, count, collect),
        partial(_some_keys, layout, path),
    ).found
    if not result.versioned and storage.beneath is not None:
        # The layers determine which chunks exist; the storage below provides the rest.
        below = _found(storage.beneath, path, layout, children, count, collect, follow_links=follow_links)
        _complete(result, below)
        # Entries that are not regular files are not listed through layers and would appear as missing chunks.
        result.no_files, result.bad_links = below.no_files, below.bad_links
    return result


def _complete(incomplete: ChunkScan, below: ChunkScan) -> None:
    """Add sizes and versions from another listing, if it contains all chunks."""
    if not (len(below.chunks) and below.sized and below.versioned):
        return
    wanted, _, _ = incomplete.chunks.sorted()
    indexes, sizes, versions = below.chunks.sorted()
    places = np.minimum(np.searchsorted(indexes, wanted), len(indexes) - 1)
    incomplete.chunks = ChunkColumns()
    if (indexes[places] == wanted).all():
        incomplete.chunks.extend(wanted, sizes[places], versions[places])
        incomplete.sized = incomplete.versioned = True
    else:
        incomplete.chunks.extend(wanted, np.zeros_like(wanted), np.zeros_like(wanted))


def _some_keys(layout: Layout, path: str) -> list[str]:
    """Keys of some chunks, spread over the grid in any order of its axes."""
    total = layout.objects.total
    chosen = random.Random(0)  # regular steps would all be in one row
    indexes = (chosen.randrange(total) for _ in range(min(total, _SAMPLES)))
    return [layout.key(path, layout.objects.coordinates(index)) for index in indexes]


class ListedChunks:
    """Collects the chunks of an array from the listing of a store."""

    def __init__(
        self,
        layout: Layout,
        prefix: str,
        passed_over: frozenset[str],
        count: Callable[[int], object] | None = None,
        collect: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.found = ChunkScan(collect)
        self._keys = layout.keys
        self._grid = layout.objects
        self._start = len(prefix)
        self._passed_over = passed_over
        self._count = count

    def take(self, page: ListedPage) -> None:
        """Receive the next objects."""
        if self._count is not None:
            self._count(len(page.keys))
        page = page.relative(self._start)
        page = page.only(name.partition("/")[0] not in self._passed_over for name in page.keys)
        names = page.keys
        indexes = chunk_indexes(names, self._keys, self._grid)
        chunks = indexes != NO_CHUNK
        for place in np.flatnonzero(~chunks).tolist():
            self.found.unclaimed_name(names[place])
        if not chunks.all():
            page, indexes = page.only(chunks.tolist()), indexes[chunks]
        if not len(indexes):
            return  # a page of other keys says nothing about chunks
        sizes, versions = page.sizes, [text for text in page.versions or () if text is not None]
        self.found.sized &= sizes is not None and (isinstance(sizes, np.ndarray) or None not in sizes)
        self.found.versioned &= len(versions) == len(indexes)
        nothing: Indexes = np.zeros(len(indexes), np.int64)
        self.found.chunks.extend(
            indexes,
            np.array(sizes, np.int64) if self.found.sized else nothing,
            version_numbers(versions) if self.found.versioned else nothing,
        )


def task_bytes(total: int) -> int:
    """Bytes to read per task, for an array of `total` stored bytes.

    About sixty tasks of up to 64 MB, so that workers finish together; from 64 GB on, about a thousand of up
    to 512 MB, which take some ten seconds at the rates of docs/design/0024.
    """
    return min(max(total // 1024, min(total // 64, _SHORT_TASK), _MIN_TASK), TASK_LIMIT // 2)


def task_bounds(inventory: Inventory, implied: int = 0, written: int = 0) -> tuple[int, ...]:
    """Divide the existing chunks into tasks: `bounds[k] <= linear index < bounds[k + 1]`.

    Aims at about sixty tasks, so that a killed job loses little work, with a limit on the chunks and the
    bytes of each. The last tasks are smaller, so that workers finish at about the same time. Empty for an
    array without chunks. `implied` is the size of an object in bytes if the store does not provide it,
    `written` that of the object that is written for it, if it may be larger than the one that is read.
    """
    count = len(inventory.indexes)
    if count == 0:
        return ()
    step = min(_MAX_TASK_CHUNKS, max(count // 64, 32))
    total = inventory.total_bytes
    sizes = inventory.sizes
    at_most = implied if sizes is None else total if count <= step and total is not None else int(sizes.max())
    limited = max(at_most, written) * step > TASK_LIMIT
    if count <= step and (total is None or total <= _MIN_TASK) and not limited:
        return (int(inventory.indexes[0]), int(inventory.indexes[-1]) + 1)  # many arrays are this small
    starts = np.arange(0, count, step)
    if inventory.sizes is not None and total is not None:
        starts = _starts(inventory.sizes, step, task_bytes(total))
    starts = _tapered(starts, count)
    if limited:
        starts = within_limit(starts, np.maximum(object_sizes(inventory, implied), written))
    return (*map(int, inventory.indexes[starts]), int(inventory.indexes[-1]) + 1)


def _starts(sizes: Indexes, step: int, room: int) -> Indexes:
    """The first chunk of each task of at most `step` chunks and about `room` bytes."""
    # The share of a chunk in a task, by bytes or as one of `step` chunks, in units of room * step.
    starts, before, last = [], 0.0, -1.0
    for start in range(0, len(sizes), MAX_IN_MEMORY):
        shares = np.maximum(sizes[start : start + MAX_IN_MEMORY] * float(step), float(room))
        sums = np.cumsum(shares) + before
        bins = (sums - shares) // (float(room) * step)
        starts.append(start + np.flatnonzero(np.diff(bins, prepend=last)))
        before, last = float(sums[-1]), float(bins[-1])
    return np.concatenate(starts)


def object_sizes(inventory: Inventory, implied: int) -> Weights:
    """Stored bytes of each object, or the size that its layout implies."""
    if inventory.sizes is None:
        return np.full(len(inventory.indexes), float(implied))
    return inventory.sizes.astype(np.float64)


def within_limit(starts: Indexes, nbytes: Weights) -> Indexes:
    """The first units of tasks, with further tasks where one would exceed the limit.

    `nbytes` are those of all units; a unit that exceeds the limit alone is a task of its own.
    """
    if not len(starts):
        return starts
    large = np.flatnonzero(np.add.reduceat(nbytes, starts) > TASK_LIMIT)
    if not len(large):
        return starts
    ends = np.append(starts[1:], len(nbytes))
    more: list[int] = []
    for start, end in zip(starts[large].tolist(), ends[large].tolist(), strict=True):
        upto = np.cumsum(nbytes[start:end])
        cut, before = 0, 0.0
        while True:
            cut = max(int(np.searchsorted(upto, before + TASK_LIMIT, side="right")), cut + 1)
            if cut >= end - start:
                break
            more.append(start + cut)
            before = float(upto[cut - 1])
    return np.union1d(starts, np.array(more, dtype=np.int64))


def _tapered(starts: Indexes, count: int) -> Indexes:
    """The index of each task's first chunk, for `count` tasks, the last of which are split further.

    A worker without tasks waits for the others; with two workers, for half a task on average.
    """
    if len(starts) < 2 * _LAST:
        return starts
    last = starts[-_LAST:, None]
    lengths = np.diff(starts[-_LAST:], append=count)[:, None]
    parts = (last + lengths * np.arange(_PARTS) // _PARTS).ravel()
    # np.unique would load numpy.ma, which takes as long as listing 3,000 chunks.
    return np.concatenate((starts[:-_LAST], parts[np.diff(parts, prepend=-1) > 0]))


_WHOLE: Final = 1_000_000_000
_GRANULE: Final = 2 * _WHOLE
"""Nanoseconds in which files get the same time where times are whole seconds: 2 s on FAT, 1 s on exFAT."""
_BEHIND: Final = 20_000_000
"""Nanoseconds by which the times of files may be behind the clock."""
_FEW: Final = 64
"""Number of times up to which Python finds the newest faster than numpy."""
_ATTEMPTS: Final = 3
"""Maximum number of listings of a source that is being written."""


def take_settled_inventory(storage: Storage, path: str, layout: Layout, **options: Any) -> Inventory:
    """The same as `take_inventory`, of files that get another time when they are rewritten.

    A file with a time in whole seconds that was just written may be rewritten at the same time, with the same
    size, which would go unnoticed. The listing is then repeated up to two seconds later.
    """
    inventory = take_inventory(storage, path, layout, **options)
    if isinstance(storage, LocalStorage):
        for _ in range(_ATTEMPTS - 1):
            if not (seconds := _unsettled(inventory)):
                break
            time.sleep(seconds)
            inventory = take_inventory(storage, path, layout, **options)
    return inventory


def inventory_by_names(
    storage: Storage, path: str, layout: Layout, names: tuple[str, ...] | None
) -> Inventory | None:
    """The same as `take_settled_inventory` for a few chunks, whose directory was just listed.

    `names` are those of all files there but documents. None if it has to be listed again.
    """
    if names is None or not isinstance(storage, LocalStorage):
        return None
    require_countable(layout)
    rows = files_by_name(storage, path, layout, names)
    if rows is None:
        return None
    indexes, sizes, versions = [np.array([row[place] for row in rows], np.int64) for place in range(3)]
    inventory = Inventory(
        indexes=indexes,
        sizes=sizes,
        versions=versions,
        total_bytes=sum([size for _, size, _ in rows]),
        certain=True,
        fingerprint=fingerprint_of(indexes, sizes, versions),
    )
    return None if _unsettled(inventory) else inventory


def list_objects(storage: Storage, path: str, **options: Any) -> tuple[Layout, Inventory]:
    """All objects below an array that cannot be described; options of `take_inventory`.

    StorageError; UnsupportedError if their names follow no pattern.
    """
    for _ in range(_ATTEMPTS):
        names = NamePatterns()
        take_inventory(storage, path, Layout.of_objects(PatternKeys()), collect=names.add, **options)
        layout = Layout.of_objects(names.keys())
        inventory = take_settled_inventory(storage, path, layout, **options)
        if not inventory.unclaimed_count:
            return layout, inventory
    raise StorageError(
        "objects were added while they were listed", node=path, key=layout.prefix(path) or None
    )


def _unsettled(inventory: Inventory) -> float:
    """Seconds in which a listed file may still be rewritten without another time; mostly 0."""
    versions = inventory.versions
    if versions is None or not len(versions):
        return 0.0
    newest = max(versions.tolist()) if len(versions) <= _FEW else int(versions.max())
    if newest % _WHOLE:
        return 0.0
    age = time.time_ns() - newest
    return (_GRANULE + _BEHIND - age) / _WHOLE if abs(age) < _GRANULE + _BEHIND else 0.0
