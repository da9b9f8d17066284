"""`storage_transformers` in metadata documents: found, hidden and put back. No I/O.

Source: Zarr v3.0 core specification, "Array metadata" and "Consolidated metadata" as zarr-python
3.1.6 and 3.4.2 write it: a group's `zarr.json` may hold the documents of the nodes below it in
`consolidated_metadata.metadata`, by path relative to the group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from .core.errors import MetadataError
from .core.jsons import JSON, JSONObject, excerpt
from .core.paths import join

FIELD: Final = "storage_transformers"
DOCUMENT: Final = "zarr.json"


def node_of(key: str) -> str | None:
    """Path of the node whose document this key is, "" for the root; None for any other key."""
    if key == DOCUMENT:
        return ""
    return key.removesuffix("/" + DOCUMENT) if key.endswith("/" + DOCUMENT) else None


def key_of(path: str) -> str:
    """Key of the document of a node."""
    return join(path, DOCUMENT)


def ancestors(key: str) -> Iterator[str]:
    """Every path that a key may lie in, from the root down."""
    yield ""
    for place, letter in enumerate(key):
        if letter == "/":
            yield key[:place]


def parse(data: bytes) -> JSONObject | None:
    """A document, or None for what is no JSON object: zarr-python will say so in its own words."""
    try:
        document = json.loads(data)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def is_array(document: JSONObject) -> bool:
    """Whether this describes an array of Zarr v3."""
    return document.get("node_type") == "array" and document.get("zarr_format") == 3


def entries_of(document: JSONObject, path: str) -> list[JSON]:
    """The storage transformers that an array's document names; MetadataError when they are no list."""
    entries = document.get(FIELD) or []
    if not isinstance(entries, list):
        raise MetadataError(
            f"{FIELD} is no list", node=path, key=key_of(path), found=excerpt(entries), expected="a list"
        )
    return entries


def arrays_in(document: JSONObject, path: str) -> Iterator[tuple[str, JSONObject]]:
    """Path and document of the array this is, or of each array that this group has consolidated."""
    if is_array(document):
        yield path, document
        return
    consolidated = document.get("consolidated_metadata")
    members = consolidated.get("metadata") if isinstance(consolidated, dict) else None
    for name, member in members.items() if isinstance(members, dict) else ():
        if isinstance(member, dict):
            yield from arrays_in(member, join(path, name))
