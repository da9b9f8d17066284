"""Storage of checksums: beside each object, or in one manifest.

A record lists the states that an object may be in: usually one checksum and length, or `ABSENT`. During a
write there are two, the states before and after, so that the record matches the object even if the writer is
killed.

Both forms are this project's. Beside an object, one line per state: `crc32c 8a9136aa 32` (crc32c in
hexadecimal digits, length in bytes), or `absent`. In the manifest, the same lines by key:

    {"format": "zarrstack-checksums", "version": 1, "objects": {"c/0/0": ["crc32c 8a9136aa 32"]}}
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from zarr.abc.store import Store
from zarr.core.buffer import cpu
from zarr.core.buffer.core import default_buffer_prototype

from ...core.errors import ChunkError
from ...core.json_text import excerpt
from ..sharding.locks import SharedLock, lock_of, place_of

SUFFIX: Final = ".crc32c"
"""Suffix of the names of records, not allowed in any segment of an object's key."""
MANIFEST: Final = "manifest" + SUFFIX
FORMAT: Final = "zarrstack-checksums"
VERSION: Final = 1
_LINE: Final = re.compile(r"crc32c ([0-9a-f]{8}) (0|[1-9][0-9]*)")


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
Edit: TypeAlias = "Callable[[dict[str, States]], None]"
"""A change to the recorded states."""


def sum_of(data: Any) -> RecordedState:
    """Checksum of bytes: crc32c as in RFC 3720, appendix B.4, used by iSCSI and Zarr v3."""
    from crc32c import crc32c  # the import takes 45 ms

    return RecordedState(int(crc32c(data)), len(data))


def distinct_states(*states: RecordedState) -> States:
    """The distinct states, in order."""
    return tuple(dict.fromkeys(states))


class ChecksumRecords(Protocol):
    """Recorded states by key; None for a key without a record."""

    async def get(self, store: Store, key: str, *, again: bool = False) -> States | None:
        """The states of a key; `again` bypasses the copy in memory."""

    async def add(self, store: Store, key: str, state: RecordedState) -> None:
        """Add a possible state of a key; a key without any may also be absent."""

    async def put(self, store: Store, key: str, states: States) -> None:
        """Replace the states of a key; they are stored on return."""

    async def drop(self, store: Store, key: str) -> None:
        """Remove the record of a key."""

    async def drop_folder(self, store: Store, prefix: str) -> None:
        """Remove the records below a prefix that was just removed from the store."""


class SidecarRecords:
    """Stores a record beside each object, under its key with the suffix `.crc32c`."""

    async def get(self, store: Store, key: str, *, again: bool = False) -> States | None:
        """The states of a key; one read."""
        record = await store.get(key + SUFFIX, default_buffer_prototype())
        if record is None:
            return None
        return _parse(record.to_bytes().decode("ascii", "replace").splitlines(), key, key + SUFFIX)

    async def add(self, store: Store, key: str, state: RecordedState) -> None:
        """Add a state; one read and one write."""
        await self.put(store, key, distinct_states(state, *(await self.get(store, key) or (ABSENT,))))

    async def put(self, store: Store, key: str, states: States) -> None:
        """Replace the states; one write."""
        text = "".join(f"{state}\n" for state in states)
        await store.set(key + SUFFIX, cpu.Buffer.from_bytes(text.encode()))

    async def drop(self, store: Store, key: str) -> None:
        """Remove the record; one delete."""
        await store.delete(key + SUFFIX)

    async def drop_folder(self, store: Store, prefix: str) -> None:
        """Do nothing: the records were in the removed folder."""


class ManifestRecords:
    """Stores all records in one document, held in memory and written after every change.

    Concurrent changes share one write. Layers of one process that share a manifest take turns, and keep each
    other's changes. One process may write, others may read.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._place: Hashable = None
        self._objects: dict[str, States] | None = None
        """The manifest as last read, with the changes since."""
        self._seen: bytes | None = None
        """The bytes of the manifest when last read or written."""
        self._waiting: list[Edit] = []
        """Changes not yet in the manifest, in order."""
        self._changes = self._stored = 0

    async def get(self, store: Store, key: str, *, again: bool = False) -> States | None:
        """The states of a key, from memory; the manifest is read first if it was not, or with `again`."""
        if again or self._objects is None:
            async with self._lock(store).writing():
                await self._refresh(store)
        with self._guard:
            return (self._objects or {}).get(key)

    async def add(self, store: Store, key: str, state: RecordedState) -> None:
        """Update memory, then the manifest."""
        await self._edit(store, lambda objects: _add(objects, key, state))

    async def put(self, store: Store, key: str, states: States) -> None:
        """Update memory, then the manifest."""
        await self._edit(store, lambda objects: objects.update({key: states}))

    async def drop(self, store: Store, key: str) -> None:
        """Update memory, then the manifest."""
        await self._edit(store, lambda objects: _drop(objects, key))

    async def drop_folder(self, store: Store, prefix: str) -> None:
        """Remove the records of all keys with this prefix; the manifest itself may have been removed."""
        await self._edit(store, lambda objects: _drop_folder(objects, prefix))

    async def _edit(self, store: Store, edit: Edit) -> None:
        with self._guard:
            if self._objects is not None:
                edit(self._objects)
            self._waiting.append(edit)
            self._changes += 1
            change = self._changes
        async with self._lock(store).writing():
            if self._stored < change:  # otherwise a later write has included this change
                await self._refresh(store)
                await self._write(store)

    async def _refresh(self, store: Store) -> None:
        """Load changes written by other layers; the caller holds the lock."""
        record = await store.get(MANIFEST, default_buffer_prototype())
        data = None if record is None else record.to_bytes()
        if self._objects is not None and data == self._seen:
            return
        objects = {} if data is None else _parse_manifest(data)
        with self._guard:
            for edit in self._waiting:
                edit(objects)
            self._objects, self._seen = objects, data

    async def _write(self, store: Store) -> None:
        with self._guard:
            latest, count = self._changes, len(self._waiting)
            lines = {key: [str(state) for state in states] for key, states in (self._objects or {}).items()}
        data = json.dumps({"format": FORMAT, "version": VERSION, "objects": lines}).encode()
        if lines and data != self._seen:
            await store.set(MANIFEST, cpu.Buffer.from_bytes(data))
        elif not lines and self._seen is not None:
            await store.delete(MANIFEST)
        with self._guard:
            self._seen = data if lines else None
            del self._waiting[:count]
            self._stored = latest

    def _lock(self, store: Store) -> SharedLock:
        if self._place is None:
            self._place = ("manifest", place_of(store))
        return lock_of(self._place, MANIFEST)


def _add(objects: dict[str, States], key: str, state: RecordedState) -> None:
    objects[key] = distinct_states(state, *objects.get(key, (ABSENT,)))


def _drop(objects: dict[str, States], key: str) -> None:
    objects.pop(key, None)


def _drop_folder(objects: dict[str, States], prefix: str) -> None:
    for key in [key for key in objects if key.startswith(prefix)]:
        del objects[key]


def _parse_manifest(data: bytes) -> dict[str, States]:
    try:
        document = json.loads(data)
        if document["format"] == FORMAT and document["version"] == VERSION:
            return {key: _parse(lines, key, MANIFEST) for key, lines in document["objects"].items()}
        found = excerpt({name: document[name] for name in ("format", "version")})
    except ChunkError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError):
        found = f"{len(data)} bytes that are none"
    raise ChunkError(
        "layer 'checksum': the manifest of checksums cannot be read",
        key=MANIFEST,
        found=found,
        expected=f"a document of format {FORMAT!r}, version {VERSION}",
        advice="Restore it, or remove it and seal the archive again if you trust its objects.",
    )


def _parse(lines: Sequence[Any], key: str, record: str) -> States:
    states = []
    for line in lines:
        match = _LINE.fullmatch(line) if isinstance(line, str) else None
        if match is None and line != "absent":
            raise ChunkError(
                f"layer 'checksum': the checksum stored for {key!r} cannot be read",
                key=record,
                found=excerpt(line),
                expected="crc32c, 8 hexadecimal digits, and the length",
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
