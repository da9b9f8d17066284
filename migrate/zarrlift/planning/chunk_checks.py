"""Checks during planning that need the chunks themselves.

Arrays of objects become text only if every value is a str, which only a chunk can show. Chunks larger than
this machine's memory can be neither decoded nor verified. Both are reported in the plan rather than in the
middle of a run.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Final

import numpy as np

from zarrstack.core.errors import CastError, MetadataError, Problem, ZarrstackError

from ..archive.chunk_inventory import Inventory
from ..archive.decoder import object_bound, object_decoder
from ..archive.nodes import Layout
from ..core.chain.array_filters import ARRAY_FILTERS
from ..core.codecs.pipeline import Pipeline
from ..core.data_types.object_values import to_strings
from ..core.grid.frames import Shards
from ..core.problems import refusal
from ..storage.base import Storage

_ANY_VALUES: Final = frozenset({"numcodecs.json2", "numcodecs.msgpack2"})
"""Object codecs for values of any kind, unlike those of variable-length text and bytes."""
_BY_ELEMENTS: Final = ARRAY_FILTERS | {"numcodecs.shuffle"}
"""Codecs that accept only whole elements, of their own size."""
_MAX_NAMED: Final = 20
_TOO_LARGE: Final = "Restore it from a backup, or exclude the array with --exclude."
_COPIES: Final = 4
"""Maximum number of copies of a chunk in memory: decoded, encoded and read back, in two threads."""
_OBJECT_BYTES: Final = 64
"""Minimum memory in bytes of one str or bytes (CPython 3.11: 49 and 33, and the reference)."""


def object_problem(path: str, storage: Storage, source: Layout, inventory: Inventory) -> Problem | None:
    """A refusal if the first chunk of an array of objects contains anything except str.

    An unreadable or undecodable chunk is reported by the run.
    """
    if source.chain.codecs[source.chain.middle].name not in _ANY_VALUES or not len(inventory.indexes):
        return None
    place = source.objects.coordinates(int(inventory.indexes[0]))
    key = source.key(path, place)
    try:
        payload = storage.get(key, object_bound(source))
        if payload is None:
            return None
        values = object_decoder(source).decode(payload)
        to_strings(values[*source.objects.valid(place), ...], "refuse")
    except CastError as error:
        return error.at(node=path, key=key).problem
    except (ZarrstackError, MemoryError):
        return None
    return None


def fit_problem(source: Layout, inventory: Inventory) -> Problem | None:
    """A refusal if there are chunks, but the codecs cannot have encoded any of the chunk shape.

    Without chunks nothing was ever encoded, and every reader finds only the fill value.
    """
    if not len(inventory.indexes) or not any(codec.name in _BY_ELEMENTS for codec in source.chain.codecs):
        return None
    try:
        Pipeline(source.chain, source.chunk_shape, source.data_type)
    except MetadataError as error:
        advice = "Correct the codec or the chunk shape, or exclude the array with --exclude."
        return replace(error.problem, advice=advice)
    except ZarrstackError:  # such as pickles, which are reported elsewhere
        return None
    return None


def size_problems(source: Layout, inventory: Inventory) -> Iterator[tuple[str, Problem]]:
    """(name below the array's prefix, refusal) of the first objects larger than a chunk can be."""
    total, sizes = inventory.total_bytes, inventory.sizes
    if total is None or sizes is None:
        return
    decoded = prod(source.object_shape) * source.item_bytes
    if total <= decoded or int(sizes.max()) <= decoded:
        return  # no codec's limit is below the decoded size
    bound = object_bound(source)
    for place in np.flatnonzero(sizes > bound.most)[:_MAX_NAMED].tolist():
        name = source.keys.key(source.objects.coordinates(int(inventory.indexes[place])))
        yield name, replace(bound.too_large(f"{sizes[place]} bytes").problem, advice=_TOO_LARGE)


def memory_problem(source: Layout, inventory: Inventory) -> Problem | None:
    """A refusal if the decompressed size stated in a stored chunk exceeds this machine's memory."""
    if not len(inventory.indexes):
        return None
    size = prod(source.object_shape) * (source.data_type.itemsize or _OBJECT_BYTES)
    if isinstance(source.frame, Shards):
        size = max(size, source.frame.index.size(source.frame.chunks_per_shard))
    if size <= _ALWAYS:
        return None
    room = machine_memory()
    if size * _COPIES <= room:
        return None
    return refusal(
        "memory",
        "a chunk is too large for the memory of this machine",
        found=f"chunks of {size} bytes",
        expected=f"at most {room // _COPIES} bytes",
        advice="If the chunk shape is right, migrate on a machine with more memory.",
    )


_ALWAYS: Final = 256 << 20
"""Size of a chunk in bytes that is always accepted."""


_TAKEN_FOR: Final = 8 << 30
"""Assumed memory in bytes of a machine that does not provide it."""


def machine_memory() -> int:
    """Memory available to a process in bytes: the machine's, or its control group's if less."""
    limits = [_TAKEN_FOR]
    if sys.platform != "win32":
        with contextlib.suppress(ValueError, OSError):  # not provided by some Unix systems
            limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(name, encoding="ascii") as file:
                limits.append(int(file.read()))
        except (OSError, ValueError):  # no such control group, or "max"
            continue
    return min(limits)
