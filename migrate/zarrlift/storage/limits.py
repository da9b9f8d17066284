"""Limits of the memory that a worker uses for objects of a store."""

from __future__ import annotations

from typing import Final

READ_AHEAD: Final = 16 << 20


WRITE_BEHIND: Final = 8 << 20
"""Bytes that a worker reads ahead from a store, and bytes that it writes without waiting for the response.
Two chunks of 4 MB, or thirty of 256 KB, keep four workers and a connection busy.
"""


SPOOLED: Final = 8 << 20
"""Maximum size in bytes of an object built in memory for a store; larger ones use a file."""


PART: Final = 8 << 20


PARTS_AT_ONCE: Final = 2
"""Size of the parts in which a file is sent to a store that supports parts (S3 requires at least 5 MiB), and
number of parts that a worker sends concurrently.
"""


STORE_READ: Final = READ_AHEAD


STORE_WRITTEN: Final = WRITE_BEHIND + max(SPOOLED, PART * PARTS_AT_ONCE)
"""Additional memory of a worker in bytes if the source, or if the destination, is a store."""
