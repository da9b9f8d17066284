"""Objects made of references as a source."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from zarrstack.core.errors import MetadataError, StorageError, UsageError, ZarrstackError, short

from ..listed_versions import Version, source_object_changed, version_number
from ..listing import ListedPage
from ..local.files import ReadLimit
from ..redact import redact
from ..remote.event_loop import bounded
from ..source import ALL, Source
from .index import WHOLE, BadReference, Found, Index, Reference
from .targets import Target, Targets, TargetState

if TYPE_CHECKING:
    from ..remote.backend import ObjectState

_ANY_SIZE: Final = ReadLimit(1 << 62)
_NAMED: Final = 8
"""Number of keys that an error names."""


class ReferenceSource(Source):
    """An index of references and the objects to which they lead; read-only.

    The version of an object is that of its target and its place there, so that reads notice a changed target
    if the target's storage tells versions.
    """

    tells_versions = True

    def __init__(self, index: Index, targets: Targets) -> None:
        self._index = index
        self._targets = targets
        self._checked = False
        self.shown = targets.home.shown

    async def content(
        self, key: str, part: slice = ALL, bound: ReadLimit | None = None, version: Version | None = None
    ) -> bytes | None:
        """One request to the target, or none for bytes in the references; never bytes around a reference."""
        entry = await self._entry(key)
        if entry is None:
            return None
        whole = isinstance(entry, Reference) and entry.offset == WHOLE
        if bound is not None and not whole:
            bound.check(len(entry) if isinstance(entry, bytes) else entry.length)
        if isinstance(entry, bytes):
            if version is not None and version_number(_digest(entry)) != version[1]:
                raise source_object_changed()
            return entry[part]
        target, state = await self._target(entry, version)
        held = None if state is None else state.version
        if whole and part == ALL:
            return _require_data(await self._targets.whole(target, bound or _ANY_SIZE, held), target)
        if whole:
            start, length = part.start or 0, (part.stop or 0) - (part.start or 0)
            if start < 0:
                length = -start
            elif part.stop is None:
                size = (await self._state(target)).size
                length = max((size or 0) - start, 0)
            return _require_data(await self._targets.part(target, start, length, held), target)
        start, stop, _ = part.indices(entry.length)
        length = max(stop - start, 0)
        if not length:
            return b""
        data = _require_data(await self._targets.part(target, entry.offset + start, length, held), target)
        if len(data) != length:
            raise StorageError(
                "a reference leads beyond the end of an object",
                found=f"{len(data)} bytes at {entry.offset + start} of {target.shown}",
                expected=f"{length} bytes",
            )
        return data

    async def _entry(self, key: str) -> Reference | bytes | None:
        entry = await self._index.find(key)
        if isinstance(entry, BadReference):
            raise StorageError("a reference is invalid", found=entry.reason)
        return entry

    async def _target(
        self, reference: Reference, version: Version | None
    ) -> tuple[Target, TargetState | None]:
        """Where a reference leads, and the state of it that reads must find, if a version is required."""
        target = self._targets.resolve(reference.url)
        if version is None:
            return target, None
        state = await self._state(target)
        text = _version(reference, state)
        if text is not None and version_number(text) != version[1]:
            raise source_object_changed()
        return target, state

    async def _state(self, target: Target) -> TargetState:
        state = await self._targets.state(target)
        if state is None:
            raise _missing(target)
        return state

    async def has(self, key: str) -> bool:
        """Whether there is such a key; whether its target exists is seen when it is read."""
        return await self._index.find(key) is not None

    async def keys(self, prefix: str) -> AsyncIterator[str]:
        """The keys that start with a prefix; no target is read."""
        async for some in self._index.pages(prefix):
            for key, _ in some:
                yield key

    async def size(self, key: str) -> int | None:
        entry = await self._entry(key)
        if isinstance(entry, bytes | None):
            return None if entry is None else len(entry)
        if entry.offset != WHOLE:
            return entry.length
        target = self._targets.resolve(entry.url)
        state = await self._targets.state_now(target)
        if state is None:
            raise _missing(target)
        return state.size

    async def state(self, key: str) -> ObjectState | None:
        entry = await self._entry(key)
        if entry is None:
            return None
        if isinstance(entry, bytes):
            return len(entry), _digest(entry)
        state = await self._state(self._targets.resolve(entry.url))
        size = state.size if entry.offset == WHOLE else entry.length
        return size, str(_version(entry, state))

    async def children(self, directory: str) -> dict[str, bool]:
        return await self._index.children(directory)

    async def pages(self, prefix: str, keys: object = None) -> AsyncIterator[ListedPage]:
        """The keys below a prefix, each with the size and version of what it leads to.

        Raises MetadataError that names all bad references, StorageError that names all that lead to nothing.
        """
        await self._targets.require_same_home()
        if not self._checked:
            self._targets.check(self._index.urls())
            self._checked = True
        bad: list[tuple[str, str]] = []
        states: dict[str, TargetState | ZarrstackError | None] = {}
        async for some in self._index.pages(prefix):
            urls = {entry.url for _, entry in some if isinstance(entry, Reference)} - states.keys()
            states.update(await self._states(sorted(urls)))
            page = list(_listed(some, states, bad))
            if not bad:
                names, sizes, versions = zip(*page, strict=True) if page else ((), (), ())
                yield ListedPage(names, sizes, versions)
        if bad:
            more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
            raise MetadataError(
                f"{len(bad)} references are invalid" if len(bad) > 1 else "a reference is invalid",
                key=bad[0][0],
                found=", ".join(f"{short(key, 80)} ({short(why, 160)})" for key, why in bad[:_NAMED]) + more,
                advice="Write the references again, or exclude the array with --exclude.",
            )

    async def _states(self, urls: Sequence[str]) -> Iterator[tuple[str, TargetState | ZarrstackError | None]]:
        self._targets.check(urls)

        async def state(url: str) -> TargetState | ZarrstackError | None:
            try:
                return await self._targets.state_now(self._targets.resolve(url))
            except UsageError:
                raise
            except ZarrstackError as error:
                return error

        return zip(urls, await bounded([state(url) for url in urls]), strict=True)

    def refusal(self, key: str) -> UsageError:
        return UsageError("references are read-only", expected="a destination of its own, to copy to")


def _listed(
    some: Sequence[tuple[str, Found]],
    states: dict[str, TargetState | ZarrstackError | None],
    bad: list[tuple[str, str]],
) -> Iterator[tuple[str, int | None, str | None]]:
    """Key, size and version of each; bad references are described in `bad`."""
    for key, entry in some:
        if isinstance(entry, bytes):
            yield key, len(entry), _digest(entry)
            continue
        state = states[entry.url] if isinstance(entry, Reference) else None
        if isinstance(entry, Reference) and isinstance(state, TargetState):
            end = entry.offset + entry.length
            if entry.offset == WHOLE:
                yield key, state.size, _version(entry, state)
                continue
            if state.size is None or end <= state.size:
                yield key, entry.length, _version(entry, state)
                continue
            reason = f"bytes {entry.offset} to {end} of an object of {state.size} bytes: {redact(entry.url)}"
        elif isinstance(entry, BadReference):
            reason = entry.reason
        elif isinstance(state, ZarrstackError):
            reason = f"{state.problem.message}, {state.problem.found}"
        else:
            reason = f"no such object: {redact(entry.url)}"
        bad.append((key, reason))


def _version(reference: Reference, state: TargetState) -> str | None:
    return None if state.text is None else f"{state.text} {reference.offset} {reference.length}"


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _missing(target: Target) -> StorageError:
    return StorageError("a reference leads to a missing object", found=target.shown)


def _require_data(data: bytes | None, target: Target) -> bytes:
    if data is None:
        raise _missing(target)
    return data
