"""Metadata documents: reading them, and their bytes -> a JSON object, or one clear error.

Bare `NaN`, `Infinity` and `-Infinity` are read as floats: every Python writer of the
formats here may have written them, and the plan says what becomes of them.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import MetadataError, Problem, StorageError
from zarrstack.core.git_pointers import pointer
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ...storage.base import Storage
from ...storage.local.files import BadObjectError
from ...storage.local.storage import LocalStorage

_EXPECTED = "a JSON object in UTF-8"
MOST_LEVELS: Final = 100
"""What is deeper can be read by one version of Python and not written by the next."""
_TAKEN: Final = {b"{": 72, b"[": 64, b",": 200, b'"': 14, b":": 60}
"""Bytes of memory that these marks stand for, roughly: an empty object and its place in a list, an empty
list, a number and its copies (attributes are carried over), half a text (names of members are kept once), a
member's place in an object."""
_LARGEST: Final = max(_TAKEN.values())
_LEAST_ROOM: Final = 1 << 30
_ROOM: Final = 16
"""Bytes of memory that a document may take: so many times its length, and for any of up to 64 MB as many
as for one of 64 MB."""
_CONSOLIDATED: Final = 3
"""How many times as much where nothing is copied."""
_MOST_ALIKE: Final = 1024
_SMALL: Final = 8192
"""Documents that are kept to be found again, and bytes of the largest of them."""


def parse_object(
    content: bytes, key: str, *, most_levels: int = MOST_LEVELS, consolidated: bool = False
) -> JSONObject:
    """The JSON object that `content`, the document at `key`, holds.

    One that is `consolidated` holds many documents, of which each is carried over by itself.

    Raises MetadataError, with the key and what was found: nothing, a byte order mark, bytes that
    are no UTF-8, text that is no JSON, a member that is there twice (readers differ in which one
    they take), nesting or numbers beyond what Python reads, or something that is no object.
    """
    if not content.strip():
        found = "an empty file" if not content else "only white space"
        raise MetadataError("the document is empty", key=key, found=found, expected=_EXPECTED)
    if content.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # https://www.rfc-editor.org/rfc/rfc8259#section-8.1: none may be added.
        raise MetadataError("the document begins with a byte order mark", key=key, expected=_EXPECTED)
    _require_room(content, key, _CONSOLIDATED if consolidated else 1)
    try:
        data: JSON = _DECODER.decode(content.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        if (elsewhere := pointer(content)) is not None:
            raise MetadataError(
                f"{elsewhere.what} stands in the place of the document",
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
        # Python limits the digits of an integer it reads.
        raise MetadataError("the document cannot be read", key=key, found=str(error)) from error
    if content.count(b"{") + content.count(b"[") > most_levels and levels(data) > most_levels:
        raise _too_deep(key, most_levels)
    if not isinstance(data, dict):
        raise MetadataError(
            "the document is not a JSON object", key=key, found=excerpt(data), expected=_EXPECTED
        )
    return data


def _require_room(content: bytes, key: str, times: int) -> None:
    """MetadataError for a document whose values would take more memory than one may.

    Counted by the bytes that begin a value, then, where those are many, outside of texts only.
    """
    room = max(_LEAST_ROOM, len(content) * _ROOM) * times
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
            advice="Leave the node out with --exclude.",
        )


def _need(content: bytes) -> int:
    """Bytes of memory of the values in a document, roughly (CPython 3.11 to 3.13)."""
    return sum(content.count(mark) * size for mark, size in _TAKEN.items())


def _outside_texts(content: bytes) -> bytes:
    """A document without what is between quotes."""
    plain = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    octets = np.frombuffer(plain, np.uint8)
    within = np.logical_xor.accumulate(octets == ord('"'))
    return bytes(octets[~within | (octets == ord('"'))])


class Documents:
    """The documents of an archive as they are read, each once.

    Those of equal content are one object: what is made of one of them is made for all.
    """

    def __init__(self) -> None:
        self._alike: dict[bytes, JSONObject] = {}
        self.parsed: dict[str, JSONObject] = {}
        """By key."""
        self.unread: dict[str, Problem] = {}
        """By key: why it cannot be read."""

    def read(self, content: bytes, key: str) -> JSONObject | Problem:
        """What a document holds, or what is wrong with it."""
        known = self.parsed.get(key, self.unread.get(key))
        if known is not None:
            return known
        result = self._alike.get(content)
        if result is None:
            try:
                result = parse_object(content, key)
            except MetadataError as error:
                self.unread[key] = error.problem
                return error.problem
            if len(self._alike) >= _MOST_ALIKE:
                self._alike.clear()
            if len(content) <= _SMALL:
                self._alike[content] = result
        self.parsed[key] = result
        return result

    def take(self, content: bytes, key: str, problems: list[Problem]) -> JSONObject | None:
        """What a document holds; None, with a problem more, where it cannot be read."""
        data = self.read(content, key)
        if isinstance(data, Problem):
            problems.append(data)
            return None
        return data


def read_each(storage: Storage, keys: Sequence[str]) -> Sequence[bytes | StorageError | None]:
    """The contents of some keys, None for what is not there; one that cannot be read hides no other."""
    try:
        # Locally they were listed, mostly, and are there.
        return storage.get_many(keys) if isinstance(storage, LocalStorage) else storage.find_many(keys)
    except StorageError:
        return [_get(storage, key) for key in keys]


def documents_at(storage: Storage, keys: Sequence[str]) -> list[bytes | None]:
    """The contents of some keys; nothing for what is there and cannot be a document, which `walk` refuses.

    StorageError where it may be one and cannot be read.
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
        expected="objects and lists at most so deep",
    )


def levels(data: JSON) -> int:
    """How many objects and lists lie in one another; without recursion, which is what it guards."""
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
        raise MetadataError("a member is there twice", found=excerpt(twice), expected="each name once")
    return result


# Made once: `json.loads` would make one per document.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique)
