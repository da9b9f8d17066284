"""Decides what a node is that has two documents, where its chunks or its content show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.json_text import JSONObject
from zarrstack.core.paths import join, prefix_of

from ...core.problems import note, refusal
from ...recipe.options import Format
from ...storage.base import Storage
from ..table import V2_ARRAY as ARRAY
from ..table import V2_GROUP as GROUP
from ..table import V3
from .directory import CHUNK
from .documents import parsed_or_none

_NODES: Final = (ARRAY, GROUP, V3)


def array_and_group(storage: Storage, path: str, places: Iterable[str]) -> Problem:
    """What there is to say of a node with `.zarray` and `.zgroup`: a note, or a refusal if nodes are below.

    `places` are the known paths of nodes, among which it looks in a store that cannot list. zarr-python 2.18
    opens an array, and lists no nodes below it.
    """
    found = f"{ARRAY} and {GROUP}"
    message = "a node is both an array and a group"
    try:
        below = node_below(storage, path)
        if not storage.can_list:
            below = next(
                (place for place in places if place.startswith(prefix_of(path)) and place != path), None
            )
    except StorageError as error:
        return error.problem.at(node=path)
    if below is None:
        return note("metadata", f"{message}; it is read as an array", found=found)
    return refusal(
        "metadata",
        f"{message}, with nodes below",
        found=f"{found}, and {below}",
        expected="one of them",
        advice=f"Move {join(path, GROUP)} away to read the array, or {join(path, ARRAY)} to read a group.",
    )


def node_below(storage: Storage, path: str) -> str | None:
    """The key of a document of a node below a path; None if there is none, or no listing. StorageError."""
    if not storage.can_list:
        return None
    own = prefix_of(path)
    keys = (key for key in storage.list_prefix(own) if key.endswith(_NODES))
    return next(
        (key for key in keys if "/" in key.removeprefix(own) and key.rpartition("/")[2] in _NODES), None
    )


def format_of_chunks(storage: Storage, path: str, documents: Mapping[str, bytes]) -> Format | None:
    """Whether the array of `.zarray` or that of the `zarr.json` beside it has the stored chunks.

    None if both or none have, and where the keys of both are the same, as after a migration in place. A
    `zarr.json` of a group with nothing below has none. StorageError.
    """
    content = documents.get(V3)
    if content is None or ARRAY not in documents or not storage.can_list:
        return None
    data = parsed_or_none(content, V3)
    if data is None or parsed_or_none(documents[ARRAY], ARRAY) is None:
        return None
    if data.get("node_type") == "group":
        return "zarr2" if node_below(storage, path) is None else None
    if _key_encoding(data) != "default":
        return None
    names = [entry.name for entry in storage.list_dir(path)]
    older = any(CHUNK.fullmatch(name) for name in names)
    newer = any(name == "c" or name.startswith("c.") for name in names)
    if older == newer:
        return None
    return "zarr2" if older else "zarr3"


def _key_encoding(data: JSONObject) -> str | None:
    encoding = data.get("chunk_key_encoding")
    name = encoding.get("name") if isinstance(encoding, dict) else encoding
    return name if isinstance(name, str) else None
