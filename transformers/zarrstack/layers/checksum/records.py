"""Storage of checksums, beside each object.

A record lists the states that an object may be in: usually one checksum and length, or `ABSENT`. During a
write there are two, the states before and after, so that the record matches the object even if the writer is
killed.

The form is this project's: one line per state, `crc32c 8a9136aa 32` (crc32c in hexadecimal digits, length in
bytes), or `absent`. Each line ends with a line feed: a record that was cut short is never taken for whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from zarr.abc.store import Store
from zarr.core.buffer import cpu
from zarr.core.buffer.core import default_buffer_prototype

from ...core.errors import ChunkError
from ...core.json_text import excerpt

SUFFIX: Final = ".crc32c"
"""Suffix of the names of records, not allowed in any segment of an object's key."""
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
"""Lines, each with its line feed; what follows the last one is a line without."""
_STATE: Final = re.compile(r"crc32c ([0-9a-f]{8}) (0|[1-9][0-9]*)\n")


@dataclass(frozen=True, slots=True)
class RecordedState:
    """One state of an object."""

    crc32c: int
    length: int
    """Length in bytes; -1 if the object does not exist."""

    def __str__(self) -> str:
        return "absent" if self == ABSENT else f"crc32c {self.crc32c:08x} {self.length}"


ABSENT: Final = RecordedState(0, -1)
States: TypeAlias = tuple[RecordedState, ...]


def sum_of(data: Any) -> RecordedState:
    """Checksum of bytes: crc32c as in RFC 3720, appendix B.4, used by iSCSI and Zarr v3."""
    from crc32c import crc32c  # the import takes 45 ms

    return RecordedState(int(crc32c(data)), len(data))


async def states_of(store: Store, key: str) -> States | None:
    """The recorded states of a key; None if it has no record. One read."""
    record = await store.get(key + SUFFIX, default_buffer_prototype())
    if record is None:
        return None
    return _parse(record.to_bytes().decode("ascii", "replace"), key, key + SUFFIX)


async def add_state(store: Store, key: str, state: RecordedState) -> None:
    """Add a possible state of a key, which may also be absent if it had none. One read and one write."""
    states = await states_of(store, key) or (ABSENT,)
    await put_states(store, key, tuple(dict.fromkeys((state, *states))))


async def put_states(store: Store, key: str, states: States) -> None:
    """Replace the states of a key. One write."""
    text = "".join(f"{state}\n" for state in states)
    await store.set(key + SUFFIX, cpu.Buffer.from_bytes(text.encode()))


async def drop_states(store: Store, key: str) -> None:
    """Remove the record of a key. One delete."""
    await store.delete(key + SUFFIX)


def _parse(text: str, key: str, record: str) -> States:
    states = []
    for line in _LINES.findall(text):
        match = _STATE.fullmatch(line)
        if match is None and line != "absent\n":
            raise ChunkError(
                f"layer 'checksum': the checksum stored for {key!r} cannot be read",
                key=record,
                found=excerpt(line),
                expected="crc32c, 8 hexadecimal digits, the length, and a line feed",
                advice="Restore it, or remove it and seal the archive again if you trust the object.",
            )
        states.append(ABSENT if match is None else RecordedState(int(match[1], 16), int(match[2])))
    if not states:
        raise ChunkError(
            f"layer 'checksum': the checksum stored for {key!r} is empty",
            key=record,
            advice="Restore it, or remove it and seal the archive again if you trust the object.",
        )
    return tuple(states)
