"""Measures the rate of a migration on a sample of the archives."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from zarrstack.core.errors import UsageError

from ...archive.read_options import ReadOptions
from ...formats.search import FoundArchive
from ...planning.plans import Plan

_ARCHIVES: Final = 4
_LARGEST: Final = 256 << 20
"""Maximum number of bytes of an archive in the sample."""


@dataclass(slots=True)
class Sample:
    """Some archives, of which large ones are more probable, because they take most of the time.

    The choice depends on names and sizes alone, so it is the same in every census of the same archives.
    """

    chosen: list[tuple[float, str, int]] = field(default_factory=list)
    """Rank, URL and bytes of each."""

    def offer(self, found: FoundArchive, plan: Plan) -> None:
        """Consider an archive."""
        size = sum(array.bytes_read for array in plan.arrays if array.route.name != "stay")
        if not 0 < size <= _LARGEST or plan.refusals or found.format == "zarr3":
            return
        # Weighted sampling without replacement (Efraimidis and Spirakis 2006): the largest log(u) / weight.
        digest = hashlib.blake2b(found.relative.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        rank = log((int.from_bytes(digest) + 1) / 2**64) / size
        self.chosen = sorted([*self.chosen, (rank, found.url, size)], reverse=True)[:_ARCHIVES]

    def rate(self, reading: ReadOptions, storage_options: Mapping[str, Any] | None) -> float:
        """Bytes read per second, from migrations of the sample to a temporary directory."""
        from ..archive_run import ArchiveRequest, migrate_archive
        from ..processes.executors import RunOptions

        if not self.chosen:
            raise UsageError(
                "no archive is suitable for a measurement",
                expected=f"one of at most {_LARGEST} bytes that is migrated as a whole",
                advice="Give the rate.",
            )
        seconds = 0.0
        with tempfile.TemporaryDirectory(prefix="zarrlift-") as folder:
            # The first one loads modules, which a migration of many archives does once.
            for number, (_, url, _) in enumerate([self.chosen[0], *self.chosen]):
                began = perf_counter()
                asked = ArchiveRequest(
                    source=url,
                    destination=f"{folder}/{number}.zarr",
                    reading=reading,
                    storage_options=dict(storage_options or {}) or None,
                )
                migrate_archive(asked, asked.open(), Path(folder) / f"{number}.db", RunOptions(), None)
                seconds += perf_counter() - began if number else 0.0
        return sum(size for _, _, size in self.chosen) / seconds
