"""Parses metadata documents: bytes -> a JSON object, or one clear error; compares consolidated metadata.

Bare `NaN`, `Infinity` and `-Infinity` are read as floats: any Python writer of these formats may have written
them, and the plan reports their conversion.

`.zmetadata` is a copy of an archive's documents in one, as zarr-python 2 and 3 write it. There is no
specification; `{"zarr_consolidated_format": 1, "metadata": {key: document}}` is the form that zarr-python 2.2
to 3.4 write. The files have priority over it. In a store that cannot list, it is the only source of node
names.
"""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, TypeAlias

import numpy as np

from zarrstack.core.errors import MetadataError, Problem, Severity, StorageError
from zarrstack.core.json_text import JSON, JSONObject, canonical, excerpt

from ...core.format_table import V2_ARRAY, V2_ATTRIBUTES, V2_CONSOLIDATED, V2_GROUP
from ...core.git_pointers import pointer
from ...core.problems import refusal, warning
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
    arrays in place take 1.43 times the processor time (docs/design/0024).
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
        if type(item) is dict or type(item) is list
        for inner in (item.values() if type(item) is dict else item)
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


# ----- consolidated metadata


_V2_NAMES: Final = frozenset({V2_ARRAY, V2_GROUP, V2_ATTRIBUTES})
_MAX_NAMED: Final = 100
"""Number of entries with the same fault, and of differences, reported individually: there may be millions."""

ONLY_CONSOLIDATED: Final = warning(
    "consolidated",
    "the only document is the consolidated metadata, which is read instead of the others",
    key=V2_CONSOLIDATED,
    expected=".zarray and .zgroup next to the chunks",
)

_LEADING_OUT: Final = "a key in consolidated metadata points outside the archive"
_NO_PLACE: Final = "a key in consolidated metadata is not a valid path"
_NO_DOCUMENT: Final = "an entry of consolidated metadata is not a metadata document"
_NO_OBJECT: Final = "an entry of consolidated metadata is not a JSON object"
_FAULTS: Final[Mapping[str, tuple[str, Severity]]] = {
    _LEADING_OUT: ("name", "refusal"),
    _NO_PLACE: ("name", "refusal"),
    _NO_DOCUMENT: ("consolidated", "note"),
    _NO_OBJECT: ("consolidated", "warning"),
}
"""Fault of an entry -> kind and severity of its problem."""


def _is_document(key: str) -> bool:
    return key.rpartition("/")[2] in _V2_NAMES


def _node_of(key: str) -> str:
    return key.rpartition("/")[0]


def consolidated_entries(
    content: bytes, own: str = V2_CONSOLIDATED, *, is_document: Callable[[str], bool] = _is_document
) -> tuple[dict[str, JSONObject], list[Problem]]:
    """Key -> document, and a refusal for each key that is not a valid path in an archive.

    `own` is the key of the consolidated metadata. Raises MetadataError if the document itself is invalid.
    """
    data = parse_object(content, own, consolidated=True)
    version, metadata = data.get("zarr_consolidated_format"), data.get("metadata")
    if type(version) is not int or version != 1 or not isinstance(metadata, dict):
        found = excerpt({name: value for name, value in data.items() if name != "metadata"})
        raise MetadataError(
            "not consolidated metadata",
            key=own,
            found=found,
            expected="zarr_consolidated_format 1 and metadata",
        )
    result = {}
    alike: dict[str, JSONObject] = {}
    faults = EntryProblems(own)
    for key, document in metadata.items():
        fault = _fault(key, document, is_document)
        if fault is None:
            # Equal documents are one object, so that those of many arrays take little memory.
            result[key] = alike.setdefault(repr(document), _repaired(key, document))
        elif faults.named(fault):
            kind, severity = _FAULTS[fault]
            found = f"{excerpt(key)}: {excerpt(document)}" if fault is _NO_OBJECT else excerpt(key)
            found = f"the key {found}" if kind == "name" else found
            faults.add(Problem(kind=kind, severity=severity, message=fault, key=own, found=found))
    return result, faults.problems()


class EntryProblems:
    """Problems of one document's entries: the first ones of each message, and the number of further ones."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._counts: Counter[str] = Counter()
        self._named: list[Problem] = []

    def named(self, message: str) -> bool:
        """Count a problem; returns whether it is to be reported individually."""
        self._counts[message] += 1
        return self._counts[message] <= _MAX_NAMED

    def add(self, problem: Problem) -> None:
        """Report a problem."""
        self._named.append(problem)

    def problems(self) -> list[Problem]:
        """The reported problems, then the number of others."""
        first = {problem.message: problem for problem in reversed(self._named)}
        return self._named + [
            replace(first[message], message=f"{count - _MAX_NAMED} more times: {message}", found=None)
            for message, count in self._counts.items()
            if count > _MAX_NAMED
        ]


def _fault(key: str, document: JSON, is_document: Callable[[str], bool]) -> str | None:
    parts = key.split("/")
    if key.startswith("/") or ".." in parts or (len(key) > 1 and key[1] == ":"):
        return _LEADING_OUT
    if "" in parts or "." in parts or "\\" in key or "\0" in key:
        return _NO_PLACE
    if not is_document(key):
        return _NO_DOCUMENT
    return None if isinstance(document, dict) else _NO_OBJECT


def _repaired(key: str, document: JSONObject) -> JSONObject:
    # zarr-python 3.x repeats the metadata below a group in the group's entry.
    if key.endswith("/.zgroup") and "consolidated_metadata" in document:
        return {name: value for name, value in document.items() if name != "consolidated_metadata"}
    return document


def consolidated_differences(
    consolidated: Mapping[str, JSONObject],
    files: Mapping[str, JSONObject],
    unread: frozenset[str],
    own: str = V2_CONSOLIDATED,
    *,
    node_of: Callable[[str], str | None] = _node_of,
) -> list[Problem]:
    """A warning for each key whose documents differ; the files have priority.

    `unread` are existing files that cannot be read; they are refused elsewhere. An empty `.zattrs` equals a
    missing one.
    """
    differing = _differences(consolidated, files, unread)
    problems = [
        warning(
            "consolidated",
            message,
            node=node_of(key),
            key=key,
            found="nothing" if stored is None else excerpt(stored),
            expected=None if listed is None else excerpt(listed) + " as in .zmetadata",
        )
        for key, stored, listed, message in islice(differing, _MAX_NAMED)
    ]
    rest = sum(1 for _ in differing)
    if rest:
        message = f"{rest} more documents differ from consolidated metadata"
        problems.append(warning("consolidated", message, key=own))
    return problems


_Difference: TypeAlias = tuple[str, JSONObject | None, JSONObject | None, str]
"""Key, the document, its consolidated form, and their difference."""


def _differences(
    consolidated: Mapping[str, JSONObject], files: Mapping[str, JSONObject], unread: frozenset[str]
) -> Iterator[_Difference]:
    for key in sorted(consolidated.keys() | files.keys()):
        if key in unread:
            continue
        stored, listed = files.get(key), consolidated.get(key)
        if (stored or None) == (listed or None) == None and key.endswith(".zattrs"):  # noqa: E711 - a chain
            continue
        if stored is None:
            yield key, stored, listed, "consolidated metadata lists a document that does not exist"
        elif listed is None:
            yield key, stored, listed, "a document is missing from consolidated metadata"
        elif repr(stored) != repr(listed) and canonical(stored) != canonical(listed):
            yield key, stored, listed, "consolidated metadata differs from the document"
