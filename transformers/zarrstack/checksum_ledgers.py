"""Where `Checksum` keeps what it knows of each object: beside it, or all in one manifest.

What is kept of a key is the set of states that the object may be in: usually one checksum and
length, or `ABSENT`. While a write is under way there are two, the state before and the one after,
so that a writer killed at any moment leaves an object that is what its record says.

Both forms are this project's own. Beside an object, a line per state: `crc32c 8a9136aa 32` (crc32c
in hexadecimal digits, length in bytes), or `absent`. In the manifest, the same lines by key:

    {"format": "zarrstack-checksums", "version": 1, "objects": {"c/0/0": ["crc32c 8a9136aa 32"]}}
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from zarr.abc.store import Store
from zarr.core.buffer import cpu
from zarr.core.buffer.core import default_buffer_prototype

from .core.errors import ChunkError
from .core.jsons import excerpt
from .shard_locks import SharedLock

SUFFIX: Final = ".crc32c"
"""What the names of records end with; no segment of an object's key may."""
MANIFEST: Final = "manifest" + SUFFIX
FORMAT: Final = "zarrstack-checksums"
VERSION: Final = 1
_LINE: Final = re.compile(r"crc32c ([0-9a-f]{8}) (0|[1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Sum:
    """One state of an object."""

    crc32c: int
    length: int
    """In bytes; -1 where the object does not exist."""

    def __str__(self) -> str:
        return "absent" if self == ABSENT else f"crc32c {self.crc32c:08x} {self.length}"


ABSENT: Final = Sum(0, -1)
States = tuple[Sum, ...]


def sum_of(data: Any) -> Sum:
    """The checksum of bytes: crc32c as in RFC 3720, appendix B.4, which iSCSI and Zarr v3 use."""
    from crc32c import crc32c  # 45 ms to import

    return Sum(int(crc32c(data)), len(data))


class Ledger(Protocol):
    """What is kept of each key. `None` means nothing is."""

    async def get(self, store: Store, key: str, *, again: bool = False) -> States | None:
        """The states of a key; `again` looks past what is held in memory."""

    async def put(self, store: Store, key: str, states: States) -> None:
        """Keep the states of a key; they are in the store on return."""

    async def drop(self, store: Store, key: str) -> None:
        """Forget a key."""

    async def drop_folder(self, store: Store, prefix: str) -> None:
        """Forget what lies below a prefix, which was just removed from the store."""


class Beside:
    """A record beside each object, under its key with `.crc32c` at the end."""

    async def get(self, store: Store, key: str, *, again: bool = False) -> States | None:
        """The states of a key, by one read."""
        record = await store.get(key + SUFFIX, default_buffer_prototype())
        if record is None:
            return None
        return _parse(record.to_bytes().decode("ascii", "replace").splitlines(), key, key + SUFFIX)

    async def put(self, store: Store, key: str, states: States) -> None:
        """One write."""
        text = "".join(f"{state}\n" for state in states)
        await store.set(key + SUFFIX, cpu.Buffer.from_bytes(text.encode()))

    async def drop(self, store: Store, key: str) -> None:
        """One removal."""
        await store.delete(key + SUFFIX)

    async def drop_folder(self, store: Store, prefix: str) -> None:
        """Nothing: the records lay in the folder too."""


class Manifest:
    """One document for all keys, held in memory and written after every change.

    Changes that are made at the same time share one write. One process may write, others may read.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._storing = SharedLock()
        self._objects: dict[str, States] | None = None
        self._changes = self._stored = 0

    async def get(self, store: Store, key: str, *, again: bool = False) -> States | None:
        """The states of a key, from memory; the manifest is read first if it was not, or `again`."""
        return (await self._loaded(store, again=again)).get(key)

    async def put(self, store: Store, key: str, states: States) -> None:
        """Change memory, then the manifest."""
        objects = await self._loaded(store)
        with self._guard:
            objects[key] = states
            self._changes += 1
            change = self._changes
        await self._store(store, change)

    async def drop(self, store: Store, key: str) -> None:
        """Change memory, then the manifest."""
        objects = await self._loaded(store)
        with self._guard:
            if objects.pop(key, None) is None:
                return
            self._changes += 1
            change = self._changes
        await self._store(store, change)

    async def drop_folder(self, store: Store, prefix: str) -> None:
        """Forget all keys that begin with the prefix; the manifest itself may be gone."""
        objects = await self._loaded(store)
        with self._guard:
            for key in [key for key in objects if key.startswith(prefix)]:
                del objects[key]
            self._changes += 1
            change = self._changes
        await self._store(store, change)

    async def _loaded(self, store: Store, *, again: bool = False) -> dict[str, States]:
        objects = self._objects
        if objects is not None and not again:
            return objects
        async with self._storing.writing():
            if self._objects is not None and (not again or self._changes != self._stored):
                return self._objects
            record = await store.get(MANIFEST, default_buffer_prototype())
            found = {} if record is None else _parse_manifest(record.to_bytes())
            with self._guard:
                if self._objects is None or self._changes == self._stored:
                    self._objects = found
                return self._objects

    async def _store(self, store: Store, change: int) -> None:
        async with self._storing.writing():
            if self._stored >= change:
                return  # a write that began after our change has brought it along
            with self._guard:
                latest = self._changes
                lines = {
                    key: [str(state) for state in states] for key, states in (self._objects or {}).items()
                }
            if lines:
                document = {"format": FORMAT, "version": VERSION, "objects": lines}
                await store.set(MANIFEST, cpu.Buffer.from_bytes(json.dumps(document).encode()))
            else:
                await store.delete(MANIFEST)
            self._stored = latest


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
        advice="Restore it, or remove it and seal the archive again if you trust what lies there.",
    )


def _parse(lines: Sequence[Any], key: str, record: str) -> States:
    states = []
    for line in lines:
        match = _LINE.fullmatch(line) if isinstance(line, str) else None
        if match is None and line != "absent":
            raise ChunkError(
                f"layer 'checksum': the checksum kept for {key!r} cannot be read",
                key=record,
                found=excerpt(line),
                expected="crc32c, 8 hexadecimal digits, and the length",
                advice="Restore it, or remove it and seal the archive again if you trust the object.",
            )
        states.append(ABSENT if match is None else Sum(int(match[1], 16), int(match[2])))
    if not states:
        raise ChunkError(
            f"layer 'checksum': the checksum kept for {key!r} is empty",
            key=record,
            advice="Restore it, or remove it and seal the archive again if you trust the object.",
        )
    return tuple(states)
