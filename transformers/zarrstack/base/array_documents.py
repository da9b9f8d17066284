"""`storage_transformers` in metadata documents: parsing, hiding and restoring. No I/O.

Source: Zarr v3.0 core specification, "Array metadata", and "Consolidated metadata" as written by zarr-python
3.1.6 and 3.4.2: a group's `zarr.json` may hold the documents of the nodes below it in
`consolidated_metadata.metadata`, by path relative to the group.

zarr-python 3.1.6 and 3.4.2 ignore the field if the array is opened through its group, and would write chunks
where shards are stored. Both always refuse a document with an unknown member that must be understood; each
array with transformers therefore gets such a member, the guard. Consolidated metadata with a guarded document
would make the whole group unreadable for them, and one that is older than the array would show the array
without its guard: a group with such an array has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from ..core.errors import MetadataError
from ..core.json_text import JSON, JSONObject, excerpt
from ..core.paths import join

FIELD: Final = "storage_transformers"
GUARD: Final = "zarrstack.storage_transformers"
"""The guard of an array."""
CONSOLIDATED: Final = "consolidated_metadata"
DOCUMENT: Final = "zarr.json"
V2_DOCUMENTS: Final = frozenset({".zarray", ".zattrs", ".zgroup", ".zmetadata"})


def node_of(key: str) -> str | None:
    """Path of the node whose document this key is, "" for the root; None for any other key."""
    if key == DOCUMENT:
        return ""
    return key.removesuffix("/" + DOCUMENT) if key.endswith("/" + DOCUMENT) else None


def key_of(path: str) -> str:
    """Key of a node's document."""
    return join(path, DOCUMENT)


def is_document(key: str) -> bool:
    """Whether this key names the metadata of a node, in any version of Zarr."""
    name = key.rpartition("/")[2]
    return name.endswith(".json") or name in V2_DOCUMENTS


def parse(data: bytes) -> JSONObject | None:
    """Parse a document; None if it is not a JSON object, which zarr-python reports itself."""
    try:
        document = json.loads(data)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def is_array(document: JSONObject) -> bool:
    """Whether this document describes an array of Zarr v3."""
    return document.get("node_type") == "array" and document.get("zarr_format") == 3


def entries_of(document: JSONObject, path: str) -> list[JSON]:
    """The storage transformers named by an array's document; MetadataError if they are not a list."""
    entries = document.get(FIELD)
    entries = [] if entries is None else entries
    if not isinstance(entries, list):
        raise MetadataError(
            f"{FIELD} is not a list", node=path, key=key_of(path), found=excerpt(entries), expected="a list"
        )
    if GUARD in document and not entries:
        raise MetadataError(
            "the array is stored through transformers that its document no longer names",
            node=path,
            key=key_of(path),
            found=f"{GUARD} without {FIELD}",
            advice=f"Restore {FIELD} from a backup of the document.",
        )
    return entries


def names_transformers(document: JSONObject) -> bool:
    """Whether an array's document names transformers."""
    return bool(document.get(FIELD)) or GUARD in document


def consolidated_in(group: JSONObject, path: str) -> Iterator[tuple[str, JSONObject]]:
    """Path and document of each array in a group's consolidated metadata, at any depth."""
    block = group.get(CONSOLIDATED)
    members = block.get("metadata") if isinstance(block, dict) else None
    for name, member in members.items() if isinstance(members, dict) else ():
        where = join(path, name)
        if isinstance(member, dict):
            if is_array(member):
                yield where, member
            yield from consolidated_in(member, where)
