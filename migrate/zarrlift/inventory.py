"""Which chunks of an array are there: one listing instead of one look per possible chunk.

10^9 possible chunks of which 10^4 are present must cost 10^4. Only a store that cannot
list is walked by its grid.
"""

from __future__ import annotations

import hashlib
import os
import stat
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from zarrstack.core.errors import UnsupportedError
from zarrstack.core.keys import KeyEncoding

from .archive import Layout
from .storage import LocalStorage, Storage, storage_error

Indexes: TypeAlias = npt.NDArray[np.int64]

_MOST_CHUNKS: Final = 2**63 - 1
_MOST_WALKED: Final = 10**8
"""Largest grid that is walked chunk by chunk where a store cannot list."""
_METADATA: Final = frozenset({".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json"})
_STRAYS_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The chunks of one array that are present."""

    indexes: Indexes
    """Linear indexes, ascending."""
    sizes: Indexes | None
    """Stored bytes of each chunk; None where the store does not tell."""
    certain: bool
    """False where the store cannot list: every chunk of the grid stands here, present or not."""
    fingerprint: str
    """Digest of indexes, sizes and times; differs when the source has changed."""
    strays: tuple[str, ...] = ()
    """The first few names that belong to no chunk of this array."""
    stray_count: int = 0
    left_root: tuple[tuple[str, str], ...] = ()
    """(key, target) of links that lead out of the archive."""

    @property
    def total_bytes(self) -> int | None:
        """Stored bytes in all, or None if unknown."""
        return None if self.sizes is None else int(self.sizes.sum())


class _Collector:
    """Gathers chunks as they are seen; compact, since there may be millions."""

    def __init__(self, layout: Layout) -> None:
        self.grid = layout.grid
        self.indexes = array("q")
        self.sizes = array("q")
        self.times = array("q")
        self.strays: list[str] = []
        self.stray_count = 0
        self.left_root: list[tuple[str, str]] = []

    def stray(self, name: str) -> None:
        self.stray_count += 1
        if len(self.strays) < _STRAYS_NAMED:
            self.strays.append(name)

    def inventory(self, *, sized: bool) -> Inventory:
        indexes: Indexes = np.array(self.indexes, dtype=np.int64)
        order = np.argsort(indexes, kind="stable")
        indexes = indexes[order]
        digest = hashlib.blake2b(indexes.tobytes(), digest_size=16)
        sizes: Indexes | None = None
        if sized:
            sizes = np.array(self.sizes, dtype=np.int64)[order]
            digest.update(sizes.tobytes())
            digest.update(np.array(self.times, dtype=np.int64)[order].tobytes())
        return Inventory(
            indexes=indexes,
            sizes=sizes,
            certain=True,
            fingerprint=digest.hexdigest(),
            strays=tuple(self.strays),
            stray_count=self.stray_count,
            left_root=tuple(self.left_root),
        )


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
    if layout.grid.total > _MOST_CHUNKS:
        raise UnsupportedError(
            "the chunk grid is too large to count", node=path, found=f"{layout.grid.total} chunks"
        )
    if isinstance(storage, LocalStorage):
        collector = _Collector(layout)
        _scan(storage, path, layout, collector, children, follow_links)
        return collector.inventory(sized=True)
    if storage.can_list:
        return _listed(storage, path, layout, children)
    if layout.grid.total > _MOST_WALKED:
        raise UnsupportedError(
            "the store cannot list and the grid is too large to try every chunk",
            node=path,
            found=f"{layout.grid.total} chunks",
            advice="Copy the archive to a place that can list.",
        )
    everything = np.arange(layout.grid.total, dtype=np.int64)
    return Inventory(indexes=everything, sizes=None, certain=False, fingerprint="unlisted")


def _number(text: str) -> int | None:
    """A chunk coordinate as it is written in keys, or None."""
    if text.isascii() and text.isdigit() and (text[0] != "0" or text == "0"):
        return int(text)
    return None


def _scan(
    storage: LocalStorage,
    path: str,
    layout: Layout,
    collector: _Collector,
    children: frozenset[str],
    follow_links: bool,
) -> None:
    """List a local array; flat keys in one directory, nested ones a level per axis."""
    ndim = len(layout.shape)
    nested = layout.keys.separator == "/" and ndim > 1
    counts = layout.grid.counts
    root_real = os.path.realpath(storage.root)
    decode = _flat_decoder(layout.keys, ndim)
    indexes, sizes, times = collector.indexes, collector.sizes, collector.times

    def accept(entry: os.DirEntry[str], index: int, name: str) -> None:
        if entry.is_symlink() and not follow_links:
            target = os.path.realpath(entry.path)
            if target != root_real and not target.startswith(root_real + os.sep):
                collector.left_root.append((f"{path}/{name}" if path else name, target))
                return
        facts = entry.stat()
        if not stat.S_ISREG(facts.st_mode):
            collector.stray(name)
            return
        indexes.append(index)
        sizes.append(facts.st_size)
        times.append(facts.st_mtime_ns)

    def flat(directory: str) -> None:
        with os.scandir(directory) as entries:
            for entry in entries:
                name = entry.name
                position = decode(name)
                index = None if position is None else layout.grid.index(position)
                if index is not None:
                    accept(entry, index, name)
                elif name not in _METADATA and name not in children:
                    collector.stray(name)

    def deep(directory: str, axis: int, base: int, prefix: str) -> None:
        last = axis == ndim - 1
        with os.scandir(directory) as entries:
            for entry in entries:
                name = entry.name
                number = _number(name)
                if number is None or number >= counts[axis]:
                    if axis > 0 or (name not in _METADATA and name not in children):
                        collector.stray(prefix + name)
                elif last:
                    accept(entry, base * counts[axis] + number, prefix + name)
                elif entry.is_dir():
                    if entry.is_symlink() and not follow_links:
                        target = os.path.realpath(entry.path)
                        if not target.startswith(root_real + os.sep):
                            key = f"{path}/{prefix}{name}" if path else prefix + name
                            collector.left_root.append((key, target))
                            continue
                    deep(entry.path, axis + 1, base * counts[axis] + number, f"{prefix}{name}/")
                else:
                    collector.stray(prefix + name)

    try:
        if nested:
            deep(storage.path(path), 0, 0, "")
        else:
            flat(storage.path(path))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise storage_error("cannot list", path, error).at(node=path) from error


def _flat_decoder(keys: KeyEncoding, ndim: int) -> Any:
    """A faster `keys.coordinates` for keys without a prefix."""
    if keys.name != "v2" or ndim == 0:
        return lambda name: keys.coordinates(name, ndim)

    def decode(name: str) -> tuple[int, ...] | None:
        numbers = tuple(map(_number, name.split(".")))
        return None if len(numbers) != ndim or None in numbers else numbers  # type: ignore[return-value]

    return decode


def _listed(storage: Storage, path: str, layout: Layout, children: frozenset[str]) -> Inventory:
    """List an array over a store; sizes are not asked for, they would cost a request each."""
    collector = _Collector(layout)
    ndim = len(layout.shape)
    for key in _keys_below(storage, path):
        if key in _METADATA or key.split("/", 1)[0] in children:
            continue
        position = layout.keys.coordinates(key, ndim)
        index = None if position is None else layout.grid.index(position)
        if index is None:
            collector.stray(key)
        else:
            collector.indexes.append(index)
    return collector.inventory(sized=False)


def _keys_below(storage: Storage, path: str) -> Iterator[str]:
    prefix = f"{path}/" if path else ""
    for key in storage.list_prefix(prefix):
        yield key.removeprefix(prefix)


def task_bounds(
    inventory: Inventory, *, most_chunks: int = 1024, most_bytes: int = 64 << 20
) -> tuple[int, ...]:
    """Cut the present chunks into tasks: `bounds[k] <= linear index < bounds[k + 1]`.

    Aims at some sixty tasks, so that workers finish together and a killed job loses
    little, within `most_chunks` and `most_bytes` each. Empty for an array without chunks.
    """
    count = len(inventory.indexes)
    if count == 0:
        return ()
    step = min(most_chunks, max(count // 64, 32))
    total = inventory.total_bytes
    if inventory.sizes is None or total is None:
        starts = np.arange(0, count, step)
    else:
        room = min(most_bytes, max(total // 64, 4 << 20))
        before = np.cumsum(inventory.sizes) - inventory.sizes
        # A new task begins where either measure enters its next bin.
        bins = np.maximum(before // room, 0)
        new = np.zeros(count, dtype=bool)
        new[0] = True
        new[1:] |= bins[1:] != bins[:-1]
        new[::step] = True
        starts = np.flatnonzero(new)
    return (*map(int, inventory.indexes[starts]), int(inventory.indexes[-1]) + 1)
