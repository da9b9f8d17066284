"""`Checksum`: records a crc32c beside every object, and verifies it on every read.

A record lists the states that an object may be in: usually one checksum and length, or `ABSENT`. During a
write there are two, the states before and after, so that the record matches the object even if the writer is
killed.

The form is this project's: one line per state, `crc32c 8a9136aa 32` (crc32c in hexadecimal digits, length in
bytes), or `absent`. Each line ends with a line feed: a record that was cut short is never taken for whole.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, cpu
from zarr.core.buffer.core import default_buffer_prototype

from ...base.byte_ranges import cut
from ...base.descend import remove_below
from ...base.option_checks import invalid_option
from ...base.transformer import StorageTransformer
from ...core.errors import ChunkError, Problem, UsageError
from ...core.json_text import JSONObject, excerpt
from ..sharding.locks import SharedLock, lock_of, place_of, run_to_completion

SUFFIX: Final = ".crc32c"
"""Suffix of the names of records, not allowed in any segment of an object's key."""
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
"""Lines, each with its line feed; what follows the last one is a line without."""
_STATE: Final = re.compile(r"crc32c ([0-9a-f]{8}) (0|[1-9][0-9]*)\n")
Unknown: TypeAlias = Literal["refuse", "pass"]


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


class Checksum(StorageTransformer):
    """Records a crc32c for every object and verifies it on every read.

    An object that does not match raises a ChunkError. Checksums are stored beside the objects, under their
    keys with the suffix `.crc32c`; listings omit them. A lost object is detected as well: it is an error, not
    a missing chunk.

    `unknown` applies to objects without a checksum: "refuse" them, or let them "pass" unchecked. `seal` adds
    checksums for such objects.

    A range read reads the whole object, because a checksum cannot verify part of it. Within a process,
    writers of one key take turns, and a write in progress is completed if its caller is cancelled; different
    processes must not write the same key concurrently.

    Examples
    --------
    >>> below = {}
    >>> store = zarrstack.stack(MemoryStore(below), zarrstack.Checksum())
    >>> array = zarr.create_array(store, name="a", shape=(4,), dtype="i4")
    >>> sorted(below)
    ['a/zarr.json', 'a/zarr.json.crc32c', 'zarr.json', 'zarr.json.crc32c']
    """

    name = "checksum"
    transparent = True
    short: ClassVar[str] = "unknown"
    in_metadata: ClassVar[bool] = True

    def __init__(self, store: Store | None = None, *, unknown: Unknown = "refuse") -> None:
        super().__init__(store)
        if unknown not in {"refuse", "pass"}:
            raise invalid_option(self, "unknown", unknown, "refuse or pass")
        self._refuse_unknown = unknown == "refuse"
        self._place: Any = None

    @classmethod
    def for_array(cls, configuration: JSONObject, path: str, document: JSONObject) -> Self:
        """Return the layer; UsageError for an array whose keys all look like records."""
        _check_key(path)
        return super().for_array(configuration, path, document)

    def check_below(self, layer: StorageTransformer) -> str | None:
        """Refuse a second checksum layer, which would treat the other's records as objects.

        Below a layer that holds chunks in memory, this one verifies its shards; above it, a crash would leave
        checksums of chunks that were never stored.
        """
        if isinstance(layer, Checksum):
            return "one layer of checksums is enough"
        if layer.buffers:
            return "it would store checksums of values that still wait in memory; put it below"
        return None

    # -- reading --------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the verified value or a byte range of it; None if the key is missing.

        ChunkError if the value does not match its checksum, or was lost.
        """
        if _is_record(key):
            return None
        before = None
        while True:
            value = await self._store.get(key, prototype)
            states = await states_of(self._store, key)
            actual = ABSENT if value is None else sum_of(value.as_buffer_like())
            if self._is_sound(actual, states):
                return None if value is None else cut(value, byte_range)
            # A concurrent write may explain a mismatch, but not the same one twice.
            if (actual, states) == before:
                raise _damage(key, actual, states)
            before = (actual, states)

    def _is_sound(self, actual: RecordedState, states: States | None) -> bool:
        if states is None:
            return actual == ABSENT or not self._refuse_unknown
        return actual in states

    async def exists(self, key: str) -> bool:
        """Whether the key has a value; the value is not verified."""
        return not _is_record(key) and await self._store.exists(key)

    async def getsize(self, key: str) -> int:
        """Length of the value, which is not verified; FileNotFoundError if the key is missing."""
        if _is_record(key):
            raise FileNotFoundError(key)
        return await self._store.getsize(key)

    async def list_prefix(self, prefix: str) -> AsyncGenerator[str, None]:
        async for key in self._store.list_prefix(prefix):
            if not _is_record(key):
                yield key

    async def list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
        async for name in self._store.list_dir(prefix):
            if not name.endswith(SUFFIX):
                yield name

    # -- writing --------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        _check_key(key)
        async with self._lock(key).writing():
            await run_to_completion(self._write(key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write a value if the key is missing; atomic only within this process."""
        self._check_writable()
        _check_key(key)
        async with self._lock(key).writing():
            if not await self._store.exists(key):
                await run_to_completion(self._write(key, value))

    async def _write(self, key: str, value: Buffer) -> None:
        if not isinstance(value, Buffer):
            await self._store.set(key, value)  # raises the store's error
            return
        new = sum_of(value.as_buffer_like())
        await add_state(self._store, key, new)
        await self._store.set(key, value)
        await put_states(self._store, key, (new,))

    async def delete(self, key: str) -> None:
        """Remove a key and its checksum; a missing key is not an error."""
        self._check_writable()
        if _is_record(key):
            return
        async with self._lock(key).writing():
            await run_to_completion(self._remove(key))

    async def _remove(self, key: str) -> None:
        is_recorded = await states_of(self._store, key) is not None
        if is_recorded:
            await add_state(self._store, key, ABSENT)
        await self._store.delete(key)
        if is_recorded:
            await self._store.delete(key + SUFFIX)

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below a path, with their checksums.

        If interrupted, objects without checksums may remain; repeat the call.
        """
        self._check_writable()
        await remove_below(self._store, prefix.rstrip("/"))

    def _lock(self, key: str) -> SharedLock:
        if self._place is None:
            self._place = ("checksum", place_of(self._store))
        return lock_of(self._place, key)

    # -- whole archives --------------------------------------------------------------------------

    async def seal(self, prefix: str = "") -> int:
        """Add checksums of the current bytes to objects that have none; return the number of objects."""
        self._check_writable()
        sealed = 0
        for key in [key async for key in self.list_prefix(prefix)]:
            async with self._lock(key).writing():
                if await states_of(self._store, key) is not None:
                    continue
                value = await self._store.get(key, default_buffer_prototype())
                if value is not None:
                    states = (sum_of(value.as_buffer_like()),)
                    await run_to_completion(put_states(self._store, key, states))
                    sealed += 1
        return sealed

    async def check(self, prefix: str = "") -> list[Problem]:
        """Read every object and return problems: damaged objects, and those without a required checksum.

        Lost objects are detected only when they are read.
        """
        problems = []
        for key in [key async for key in self.list_prefix(prefix)]:
            try:
                await self.get(key, default_buffer_prototype())
            except ChunkError as error:
                problems.append(error.problem)
        return problems


def _is_record(key: str) -> bool:
    return SUFFIX in key and any(name.endswith(SUFFIX) for name in key.split("/"))


def _check_key(key: str) -> None:
    if _is_record(key):
        raise UsageError(
            f"layer 'checksum': names that end with {SUFFIX} are reserved for its records",
            key=key,
            expected="another name",
        )


def _damage(key: str, actual: RecordedState, states: States | None) -> ChunkError:
    if states is None:
        return ChunkError(
            "layer 'checksum': this object has no checksum",
            key=key,
            found=str(actual),
            advice="If you trust the object, call `seal`, or allow such objects with unknown='pass'.",
        )
    lost = actual == ABSENT
    return ChunkError(
        "layer 'checksum': the object is lost" if lost else "layer 'checksum': the object is damaged",
        key=key,
        found="no object" if lost else str(actual),
        expected=" or ".join(str(state) for state in states),
        advice="Restore the object from a backup.",
    )
