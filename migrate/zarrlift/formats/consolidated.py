"""`.zmetadata`: a copy of an archive's documents in one, as zarr-python 2 and 3 write it.

There is no specification; `{"zarr_consolidated_format": 1, "metadata": {key: document}}` is
what zarr-python 2.2 to 3.4 write. The files win over it. It is all there is to go by where a
store cannot list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from zarrstack.core.errors import MetadataError, Problem
from zarrstack.core.jsons import JSON, JSONObject, canonical, excerpt

from .documents import parse_object

KEY: Final = ".zmetadata"
_NAMES: Final = frozenset({".zarray", ".zgroup", ".zattrs"})
_MOST_NAMED: Final = 100
"""Differences that are told one by one."""


def _is_document(key: str) -> bool:
    return key.rpartition("/")[2] in _NAMES


def _node_of(key: str) -> str:
    return key.rpartition("/")[0]


def entries(
    content: bytes, own: str = KEY, *, is_document: Callable[[str], bool] = _is_document
) -> tuple[dict[str, JSONObject], list[Problem]]:
    """Key -> document, and a refusal for each key that is no place in an archive.

    `own` is the key of the consolidated metadata. Raises MetadataError where the document itself
    is not what it should be.
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
    problems = []
    for key, document in metadata.items():
        wrong = _wrong(key)
        if wrong is not None:
            problems.append(Problem(kind="name", message=wrong, key=own, found=f"the key {excerpt(key)}"))
        elif not is_document(key):
            message = "consolidated metadata has an entry that is no document"
            problems.append(
                Problem(kind="consolidated", severity="note", message=message, key=own, found=excerpt(key))
            )
        elif not isinstance(document, dict):
            message = "an entry of consolidated metadata is not an object"
            found = f"{excerpt(key)}: {excerpt(document)}"
            problems.append(
                Problem(kind="consolidated", severity="warning", message=message, key=own, found=found)
            )
        else:
            result[key] = _repaired(key, document)
    return result, problems


def _wrong(key: str) -> str | None:
    parts = key.split("/")
    if key.startswith("/") or ".." in parts or (len(key) > 1 and key[1] == ":"):
        return "consolidated metadata has a key that leads out of the archive"
    if "" in parts or "." in parts or "\\" in key or "\0" in key:
        return "consolidated metadata has a key that is no place in an archive"
    return None


def _repaired(key: str, document: JSONObject) -> JSONObject:
    # zarr-python 3.x writes the metadata below a group into its entry once more.
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
    """A warning for each key that the two do not have alike; the files are what counts.

    `unread` are files that are there but could not be read; they are refused elsewhere. No
    `.zattrs` and an empty one are the same.
    """
    found = [
        problem.at(node=node_of(problem.key or "")) for problem in _differences(consolidated, files, unread)
    ]
    if len(found) > _MOST_NAMED:
        rest = len(found) - _MOST_NAMED
        message = f"{rest} more documents differ from consolidated metadata"
        found = [
            *found[:_MOST_NAMED],
            Problem(kind="consolidated", severity="warning", message=message, key=own),
        ]
    return found


def _differences(
    consolidated: Mapping[str, JSONObject], files: Mapping[str, JSONObject], unread: frozenset[str]
) -> Iterator[Problem]:
    for key in sorted(consolidated.keys() | files.keys()):
        if key in unread:
            continue
        here, there = files.get(key), consolidated.get(key)
        if (here or None) == (there or None) == None and key.endswith(".zattrs"):  # noqa: E711 - a chain
            continue
        if here is None:
            yield _differing(
                key, "nothing", there, "consolidated metadata names a document that is not there"
            )
        elif there is None:
            yield _differing(key, here, None, "a document is missing in consolidated metadata")
        elif canonical(here) != canonical(there):
            yield _differing(key, here, there, "consolidated metadata differs from the document")


def _differing(key: str, here: JSON, there: JSON, message: str) -> Problem:
    return Problem(
        kind="consolidated",
        severity="warning",
        message=message,
        key=key,
        found=here if isinstance(here, str) else excerpt(here),
        expected=None if there is None else excerpt(there) + " as in .zmetadata",
    )
