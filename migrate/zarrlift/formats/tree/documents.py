"""Reads and parses metadata documents: bytes -> a JSON object, or one clear error.

Bare `NaN`, `Infinity` and `-Infinity` are read as floats: any Python writer of these formats may have written
them, and the plan reports their conversion.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import MetadataError, Problem, StorageError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ...core.git_pointers import pointer
from ...core.problems import refusal
from ...storage.base import Storage
from ...storage.local.files import BadObjectError
from ...storage.local.storage import LocalStorage

_EXPECTED = "a JSON object in UTF-8"
MAX_LEVELS: Final = 100
"""Maximum nesting: a deeper document may be readable with one version of Python but not writable with the
next.
"""
_TAKEN: Final = {b"{": 72, b"[": 64, b",": 200, b'"': 14, b":": 60}
"""Approximate bytes of memory per occurrence of a character: an empty object and its place in a list, an
empty list, a number and its copies (attributes are copied), half a text (names of members are shared), a
member's place in an object.
"""
_LARGEST: Final = max(_TAKEN.values())
_MIN_ROOM: Final = 1 << 30
_ROOM: Final = 16
"""Memory limit of a document as a multiple of its length; documents of up to 64 MB have the limit of 64 MB.
"""
_CONSOLIDATED: Final = 3
"""Factor of the limit for documents that are not copied."""
_MAX_ALIKE: Final = 1024
_SMALL: Final = 8192
"""Number of parsed documents cached, and maximum size of each in bytes."""


def parse_object(
    content: bytes, key: str, *, most_levels: int = MAX_LEVELS, consolidated: bool = False
) -> JSONObject:
    """Parse the document `content` at `key`, a JSON object.

    A `consolidated` document contains many documents, which are copied one by one.

    Raises MetadataError, with the key and what was found: an empty document, a byte order mark, invalid
    UTF-8, invalid JSON, a duplicate member (readers differ in which one they take), nesting or numbers beyond
    Python's limits, or a value that is not an object.
    """
    if not content.strip():
        found = "an empty file" if not content else "only white space"
        raise MetadataError("the document is empty", key=key, found=found, expected=_EXPECTED)
    if content.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # https://www.rfc-editor.org/rfc/rfc8259#section-8.1 forbids adding one.
        raise MetadataError("the document begins with a byte order mark", key=key, expected=_EXPECTED)
    _require_room(content, key, _CONSOLIDATED if consolidated else 1)
    try:
        data: JSON = _DECODER.decode(content.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        if (elsewhere := pointer(content)) is not None:
            raise MetadataError(
                f"{elsewhere.what} is stored in the place of the document",
                key=key,
                found=elsewhere.found,
                expected=_EXPECTED,
                advice=elsewhere.advice,
            ) from error
        raise _no_json(error, key) from error
    except MetadataError as error:
        raise error.at(key=key) from None
    except RecursionError as error:
        raise _too_deep(key, most_levels) from error
    except MemoryError as error:
        found = f"{len(content)} bytes"
        raise MetadataError("not enough memory for the document", key=key, found=found) from error
    except ValueError as error:
        # Python limits the digits of integers.
        raise MetadataError("the document cannot be read", key=key, found=str(error)) from error
    if content.count(b"{") + content.count(b"[") > most_levels and levels(data) > most_levels:
        raise _too_deep(key, most_levels)
    if not isinstance(data, dict):
        raise MetadataError(
            "the document is not a JSON object", key=key, found=excerpt(data), expected=_EXPECTED
        )
    return data


def parsed_or_none(content: bytes, key: str) -> JSONObject | None:
    """The document `content` at `key`; None if it is not a valid JSON object."""
    try:
        return parse_object(content, key)
    except MetadataError:
        return None


def wrong_version(document: JSONObject, version: int, key: str) -> Problem | None:
    """A refusal of a document whose `zarr_format` is not this one."""
    number = document.get("zarr_format")
    if type(number) is int and number == version:
        return None
    return refusal(
        "metadata",
        f"zarr_format is not {version}",
        key=key,
        found=excerpt(number) if "zarr_format" in document else "none",
        expected=str(version),
    )


def _require_room(content: bytes, key: str, times: int) -> None:
    """Raise MetadataError for a document whose values would exceed the memory limit.

    Counts the characters that start a value; if there are many, only those outside of strings.
    """
    room = max(_MIN_ROOM, len(content) * _ROOM) * times
    if len(content) * _LARGEST <= room:
        return
    need = _need(content)
    if need > room:
        need = _need(_outside_texts(content))
    if need > room:
        raise MetadataError(
            "the document has too many members",
            key=key,
            found=f"lists, objects and values of about {need} bytes in memory",
            expected=f"at most {room} bytes",
            advice="Exclude the node with --exclude.",
        )


def _need(content: bytes) -> int:
    """Approximate memory in bytes of a document's values (CPython 3.11 to 3.13)."""
    return sum(content.count(mark) * size for mark, size in _TAKEN.items())


def _outside_texts(content: bytes) -> bytes:
    """A document without the content of strings."""
    plain = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    octets = np.frombuffer(plain, np.uint8)
    within = np.logical_xor.accumulate(octets == ord('"'))
    return bytes(octets[~within | (octets == ord('"'))])


class Documents:
    """The documents of an archive, each parsed once.

    Documents with equal content are one object, so work on one of them serves all: without this, 2,000 equal
    arrays in place take 1.43 times the processor time (docs/design/decisions.md).
    """

    def __init__(self) -> None:
        self._alike: dict[bytes, JSONObject] = {}
        self.parsed: dict[str, JSONObject] = {}
        """Parsed documents by key."""
        self.unread: dict[str, Problem] = {}
        """Reasons for unreadable documents, by key."""

    def read(self, content: bytes, key: str) -> JSONObject | Problem:
        """The content of a document, or its problem."""
        earlier = self.parsed.get(key, self.unread.get(key))
        if earlier is not None:
            return earlier
        result = self._alike.get(content)
        if result is None:
            try:
                result = parse_object(content, key)
            except MetadataError as error:
                self.unread[key] = error.problem
                return error.problem
            if len(self._alike) >= _MAX_ALIKE:
                self._alike.clear()
            if len(content) <= _SMALL:
                self._alike[content] = result
        self.parsed[key] = result
        return result

    def take(self, content: bytes, key: str, problems: list[Problem]) -> JSONObject | None:
        """The content of a document; None, after adding a problem, if it is unreadable."""
        data = self.read(content, key)
        if isinstance(data, Problem):
            problems.append(data)
            return None
        return data


def read_each(storage: Storage, keys: Sequence[str]) -> Sequence[bytes | StorageError | None]:
    """The content of each key, None if missing, or its error; one error does not affect the others."""
    try:
        # Local documents are mostly known to exist from a listing.
        return storage.get_many(keys) if isinstance(storage, LocalStorage) else storage.find_many(keys)
    except StorageError:
        return [_get(storage, key) for key in keys]


def documents_at(storage: Storage, keys: Sequence[str]) -> list[bytes | None]:
    """The content of each key; None for entries that cannot be documents, which `walk` refuses.

    StorageError if an entry may be a document and cannot be read.
    """
    try:
        return storage.get_many(keys)
    except BadObjectError:
        contents = [_get(storage, key) for key in keys]
    failed = (each for each in contents if isinstance(each, StorageError))
    for error in failed:
        if not isinstance(error, BadObjectError):
            raise error
    return [b"" if isinstance(each, StorageError) else each for each in contents]


def _get(storage: Storage, key: str) -> bytes | StorageError | None:
    try:
        return storage.get(key)
    except StorageError as error:
        return error


def _no_json(error: UnicodeDecodeError | json.JSONDecodeError, key: str) -> MetadataError:
    if isinstance(error, UnicodeDecodeError):
        message = "the document is not UTF-8"
        found = f"byte 0x{error.object[error.start]:02x} at position {error.start}"
    else:
        message = "the document is not JSON"
        found = f"{error.msg} at line {error.lineno}, column {error.colno}"
    return MetadataError(message, key=key, found=found, expected=_EXPECTED)


def _too_deep(key: str, most_levels: int) -> MetadataError:
    return MetadataError(
        "the document is nested too deeply",
        key=key,
        found=f"more than {most_levels} levels",
        expected=f"at most {most_levels} levels of objects and lists",
    )


def levels(data: JSON) -> int:
    """Nesting depth of objects and lists; not recursive, because it guards against deep recursion."""
    depth = 0
    level = [data]
    while level := [
        inner
        for item in level
        if isinstance(item, dict | list)
        for inner in (item.values() if isinstance(item, dict) else item)
    ]:
        depth += 1
    return depth


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise MetadataError("duplicate member", found=excerpt(twice), expected="each name once")
    return result


# Created once: `json.loads` would create one per document.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique)
