"""`.zmetadata`: a copy of an archive's documents in one, as zarr-python 2 and 3 write it.

There is no specification; `{"zarr_consolidated_format": 1, "metadata": {key: document}}` is the form that
zarr-python 2.2 to 3.4 write. The files have priority over it. In a store that cannot list, it is the only
source of node names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final, TypeAlias

from zarrstack.core.errors import MetadataError, Problem, Severity
from zarrstack.core.json_text import JSON, JSONObject, canonical, excerpt

from ...core.problems import warning
from .documents import parse_object

KEY: Final = ".zmetadata"
_NAMES: Final = frozenset({".zarray", ".zgroup", ".zattrs"})
_MAX_NAMED: Final = 100
"""Number of entries with the same fault, and of differences, reported individually: there may be millions."""

NOTHING_ELSE: Final = warning(
    "consolidated",
    "the only document is the consolidated metadata, which is read instead of the others",
    key=KEY,
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
    return key.rpartition("/")[2] in _NAMES


def _node_of(key: str) -> str:
    return key.rpartition("/")[0]


def entries(
    content: bytes, own: str = KEY, *, is_document: Callable[[str], bool] = _is_document
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
    faults = EntryProblems(own)
    for key, document in metadata.items():
        fault = _fault(key, document, is_document)
        if fault is None:
            result[key] = _repaired(key, document)
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


def differences(
    consolidated: Mapping[str, JSONObject],
    files: Mapping[str, JSONObject],
    unread: frozenset[str],
    own: str = KEY,
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
        elif canonical(stored) != canonical(listed):
            yield key, stored, listed, "consolidated metadata differs from the document"
