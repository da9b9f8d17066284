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
States: TypeAlias = tuple[Sum, ...]
Edit: TypeAlias = "Callable[[dict[str, States]], None]"
"""One change of what is kept."""


def sum_of(data: Any) -> Sum:
    """The checksum of bytes: crc32c as in RFC 3720, appendix B.4, which iSCSI and Zarr v3 use."""
    from crc32c import crc32c  # 45 ms to import

    return Sum(int(crc32c(data)), len(data))


def united(*states: Sum) -> States:
    """Each of these states once."""
    return tuple(dict.fromkeys(states))


class Ledger(Protocol):
    """What is kept of each key. `None` means nothing is."""

    async def get(self, store: Store, key: str, *, again: bool = False) -> States | None:
        """The states of a key; `again` looks past what is held in memory."""

    async def add(self, store: Store, key: str, state: Sum) -> None:
        """One state more that a key may be in; without any yet, it may be absent too."""

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

    async def add(self, store: Store, key: str, state: Sum) -> None:
        """One read and one write."""
        await self.put(store, key, united(state, *(await self.get(store, key) or (ABSENT,))))

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

    Changes that are made at the same time share one write. Layers of one process that keep the same
    manifest take turns, and what one has written stays when the next one writes. One process may
    write, others may read.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._place: Hashable = None
        self._objects: dict[str, States] | None = None
        """What the manifest held when it was read last, with the changes since."""
        self._seen: bytes | None = None
        """The manifest when it was read or written last."""
        self._waiting: list[Edit] = []
        """Changes that are not in the manifest yet, in their order."""
        self._changes = self._stored = 0

    async def get(self, store: Store, key: str, *, again: bool = False) -> States | None:
        """The states of a key, from memory; the manifest is read first if it was not, or `again`."""
        if again or self._objects is None:
            async with self._lock(store).writing():
                await self._refresh(store)
        with self._guard:
            return (self._objects or {}).get(key)

    async def add(self, store: Store, key: str, state: Sum) -> None:
        """Change memory, then the manifest."""
        await self._edit(store, lambda objects: _add(objects, key, state))

    async def put(self, store: Store, key: str, states: States) -> None:
        """Change memory, then the manifest."""
        await self._edit(store, lambda objects: objects.update({key: states}))

    async def drop(self, store: Store, key: str) -> None:
        """Change memory, then the manifest."""
        await self._edit(store, lambda objects: _drop(objects, key))

    async def drop_folder(self, store: Store, prefix: str) -> None:
        """Forget all keys that begin with the prefix; the manifest itself may be gone."""
        await self._edit(store, lambda objects: _drop_folder(objects, prefix))

    async def _edit(self, store: Store, edit: Edit) -> None:
        with self._guard:
            if self._objects is not None:
                edit(self._objects)
            self._waiting.append(edit)
            self._changes += 1
            change = self._changes
        async with self._lock(store).writing():
            if self._stored < change:  # else a write that began after our change has brought it along
                await self._refresh(store)
                await self._write(store)

    async def _refresh(self, store: Store) -> None:
        """Take over what other layers have written meanwhile; call it with the lock held."""
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


def _add(objects: dict[str, States], key: str, state: Sum) -> None:
    objects[key] = united(state, *objects.get(key, (ABSENT,)))


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
