"""`storage_transformers` in metadata documents: parsing, hiding and restoring. No I/O.

Source: Zarr v3.0 core specification, "Array metadata", and "Consolidated metadata" as written by zarr-python
3.1.6 and 3.4.2: a group's `zarr.json` may hold the documents of the nodes below it in
`consolidated_metadata.metadata`, by path relative to the group.

zarr-python 3.1.6 and 3.4.2 ignore the field if the array is opened through its group, and would write chunks
where shards are stored. Both always refuse a document with an unknown member that must be understood; each
array with transformers therefore gets such a member, the guard. Consolidated metadata with a guarded document
would make the whole group unreadable for them; these documents are stored beside `metadata`, where
zarr-python does not read them.
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
"""The guard of an array. In consolidated metadata, the member that holds the documents of guarded arrays."""
DOCUMENT: Final = "zarr.json"


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
    return name.endswith(".json") or name in {".zarray", ".zattrs", ".zgroup", ".zmetadata"}


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


def without_transformers(document: JSONObject) -> bool:
    """Remove field and guard from an array's document; return whether it named transformers."""
    named = bool(document.get(FIELD)) or GUARD in document
    document[FIELD] = []
    document.pop(GUARD, None)
    return named


def guarded(document: JSONObject) -> bool:
    """Add the guard to an array's document if it names transformers; return whether it does."""
    if not document.get(FIELD):
        return False
    document[GUARD] = {"must_understand": True}
    return True


def set_apart(group: JSONObject) -> bool:
    """Move guarded arrays out of a group's consolidated metadata; return whether there were any."""
    block = _consolidated(group)
    if block is None:
        return False
    members = block["metadata"]
    apart = {path: each for path, each in members.items() if isinstance(each, dict) and GUARD in each}
    block["metadata"] = {path: each for path, each in members.items() if path not in apart}
    if apart:
        block[GUARD] = apart
    below = [set_apart(each) for each in block["metadata"].values() if isinstance(each, dict)]
    return bool(apart) or any(below)


def put_together(group: JSONObject) -> bool:
    """Move guarded arrays back into a group's consolidated metadata; return whether there were any."""
    block = _consolidated(group)
    if block is None:
        return False
    apart = block.pop(GUARD, None)
    if isinstance(apart, dict):  # sorted: zarr-python loses siblings that are not adjacent
        block["metadata"] = dict(sorted({**block["metadata"], **apart}.items()))
    below = [put_together(each) for each in block["metadata"].values() if isinstance(each, dict)]
    return apart is not None or any(below)


def arrays_in(document: JSONObject, path: str) -> Iterator[tuple[str, JSONObject]]:
    """Path and document of this array, or of each array consolidated in this group."""
    if is_array(document):
        yield path, document
        return
    block = _consolidated(document)
    for name, member in () if block is None else block["metadata"].items():
        if isinstance(member, dict):
            yield from arrays_in(member, join(path, name))


def consolidated_members(document: JSONObject, path: str) -> Iterator[tuple[str, dict[str, dict[str, JSON]]]]:
    """Path and members of this group's consolidated metadata, and of each group in it; to be changed."""
    block = _consolidated(document)
    if block is None:
        return
    yield path, block["metadata"]
    for name, member in tuple(block["metadata"].items()):
        if isinstance(member, dict):
            yield from consolidated_members(member, join(path, name))


def _consolidated(group: JSONObject) -> dict[str, dict[str, JSON]] | None:
    """The consolidated metadata of a group; None if missing or invalid."""
    block = group.get("consolidated_metadata")
    return block if isinstance(block, dict) and isinstance(block.get("metadata"), dict) else None
