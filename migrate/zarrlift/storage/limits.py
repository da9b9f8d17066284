"""Bytes of a store's objects that a worker holds."""

from __future__ import annotations

from typing import Final

READ_AHEAD: Final = 16 << 20


WRITE_BEHIND: Final = 8 << 20
"""Bytes that a worker asks a store for before it wants them, and that it sends without waiting for the
answer. Two chunks of 4 MB, or thirty of 256 KB, are enough to keep four workers and a line busy."""


SPOOLED: Final = 8 << 20
"""Bytes of an object for a store that stay in memory while it is made; beyond that they go to a file."""


PART: Final = 8 << 20


PARTS_AT_ONCE: Final = 2
"""The parts in which a file is sent to a store that takes parts (S3 asks for 5 MiB at least), and how many
of them a worker sends at once."""


STORE_READ: Final = READ_AHEAD


STORE_WRITTEN: Final = WRITE_BEHIND + max(SPOOLED, PART * PARTS_AT_ONCE)
"""Bytes that a worker holds besides its own, where the source is a store and where the destination is one."""
