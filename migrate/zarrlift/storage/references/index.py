"""References by key, in memory."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, Protocol, TypeAlias

from zarrstack.core.errors import MetadataError, short

WHOLE: Final = -1
"""Offset of a reference to a whole object."""
_INLINE: Final = -1
_BAD: Final = -2
_PAGE: Final = 20_000
_AFTER: Final = chr(ord("/") + 1)
"""Sorts after all that is below a directory."""


class Reference(NamedTuple):  # made in half the time of a frozen dataclass
    """A part of another object, or all of it."""

    url: str
    """The target as written, with its templates substituted."""
    offset: int = WHOLE
    """The first byte; `WHOLE` for the whole object."""
    length: int = 0
    """Number of bytes; without meaning for a whole object."""


@dataclass(frozen=True, slots=True)
class BadReference:
    """An entry that is not a valid reference."""

    reason: str


Found: TypeAlias = Reference | BadReference | bytes
"""What is stored under a key; bytes are stored in the references themselves."""


class Index(Protocol):
    """The keys of an archive and what they lead to. All methods run in the storage's loop."""

    async def find(self, key: str) -> Found | None:
        """What is stored under a key; None if there is no such key."""

    def pages(self, prefix: str) -> AsyncIterator[Sequence[tuple[str, Found]]]:
        """All keys that start with a prefix, some at a time."""

    async def children(self, directory: str) -> dict[str, bool]:
        """Name -> whether it is a directory, for names directly below a directory ("" is the root)."""

    def urls(self) -> Iterable[str]:
        """Targets of references, as far as known without reading more; for an early refusal."""


class MemoryIndex:
    """References of one document: about 200 bytes each."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._targets = array("i")
        self._offsets = array("q")
        self._lengths = array("q")
        self._urls: list[str] = []
        self._numbers: dict[str, int] = {}
        self._inline: list[bytes] = []
        self._reasons: list[str] = []
        self._bad_urls: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, key: str, entry: Found) -> None:
        """Add what is stored under a key; of several with one key, the last counts, as in JSON."""
        if isinstance(entry, Reference):
            self.add_span(key, *entry)
        elif isinstance(entry, bytes):
            self._add(key, _INLINE, len(self._inline), len(entry))
            self._inline.append(entry)
        else:
            self._add(key, _BAD, len(self._reasons), 0)
            self._reasons.append(entry.reason)

    def add_span(self, key: str, url: str, offset: int, length: int) -> None:
        """Add a reference by its parts."""
        number = self._numbers.get(url)
        if number is None:
            number = self._numbers[url] = len(self._urls)
            self._urls.append(url)
        self._add(key, number, offset, length)

    def _add(self, key: str, number: int, offset: int, length: int) -> None:
        self._rows[key] = len(self._targets)
        self._targets.append(number)
        self._offsets.append(offset)
        self._lengths.append(length)

    def rename_urls(self, substituted: dict[str, str | BadReference]) -> None:
        """Replace targets by others; references to one without a replacement become bad."""
        for number, url in enumerate(self._urls):
            new = substituted.get(url, url)
            if isinstance(new, BadReference):
                self._bad_urls[number] = new.reason
            else:
                self._urls[number] = new
        self._numbers = {}

    def urls(self) -> list[str]:
        """The target of every reference, each once."""
        return [url for number, url in enumerate(self._urls) if number not in self._bad_urls]

    def check_keys(self) -> None:
        """Raise MetadataError if a key would leave the archive, or names no object.

        VirtualiZarr 2.5 and 2.8 write the chunk of a scalar `a` as `a/` instead of `a/0`: it is renamed.
        """
        nameless = [key for key in self._rows if key.endswith("/")]
        for key in nameless:
            if f"{key}0" not in self._rows and self._is_scalar(key):
                self._rows[f"{key}0"] = self._rows.pop(key)
        wrong = [key for key in nameless if key in self._rows]
        wrong += [key for key in self._rows if ".." in key and ".." in key.split("/") or key[:1] == "/"]
        if wrong:
            raise MetadataError(
                "keys of references name no object within the archive",
                found=", ".join(short(key, 80) for key in wrong[:8])
                + (f" and {len(wrong) - 8} more" if len(wrong) > 8 else ""),
            )

    def _is_scalar(self, directory: str) -> bool:
        row = self._rows.get(f"{directory}.zarray")
        document = None if row is None else self._at(row)
        try:
            data = json.loads(document) if isinstance(document, bytes) else None
        except (ValueError, RecursionError):
            return False
        return isinstance(data, dict) and data.get("shape") == []

    async def find(self, key: str) -> Found | None:
        """What is stored under a key."""
        row = self._rows.get(key)
        return None if row is None else self._at(row)

    def _at(self, row: int) -> Found:
        number, place = self._targets[row], self._offsets[row]
        if number == _INLINE:
            return self._inline[place]
        if number == _BAD:
            return BadReference(self._reasons[place])
        if number in self._bad_urls:
            return BadReference(self._bad_urls[number])
        return Reference(self._urls[number], place, self._lengths[row])

    @cached_property
    def _keys(self) -> list[str]:
        return sorted(self._rows)

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[tuple[str, Found]]]:
        """All keys that start with a prefix, in order."""
        keys = self._keys
        at = bisect_left(keys, prefix)
        end = bisect_left(keys, prefix[:-1] + _AFTER) if prefix.endswith("/") else len(keys)
        while at < end:
            some = [key for key in keys[at : min(at + _PAGE, end)] if key.startswith(prefix)]
            yield [(key, self._at(self._rows[key])) for key in some]
            at += _PAGE

    async def children(self, directory: str) -> dict[str, bool]:
        """One search for each name, however many keys are below it."""
        keys, start = self._keys, f"{directory}/" if directory else ""
        names: dict[str, bool] = {}
        at = bisect_left(keys, start)
        while at < len(keys) and keys[at].startswith(start):
            name, below, _ = keys[at][len(start) :].partition("/")
            names[name] = bool(below) or names.get(name, False)
            at = bisect_left(keys, f"{start}{name}{_AFTER}", at) if below else at + 1
        return names
