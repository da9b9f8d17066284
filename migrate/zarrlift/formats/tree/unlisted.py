"""Archives in stores that cannot list: documents are requested by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zarrstack.core.errors import UsageError
from zarrstack.core.json_text import JSONObject, document

from ...storage.base import Storage
from .directory import NodeDirectory
from .node_names import name_problems


def root_alone(storage: Storage, documents: Sequence[str]) -> NodeDirectory:
    """The documents at the root."""
    contents = zip(documents, storage.get_many(documents), strict=True)
    return NodeDirectory(
        path="", documents={name: content for name, content in contents if content is not None}
    )


def listed_places(documents: Mapping[str, JSONObject]) -> dict[str, NodeDirectory]:
    """The directories of the documents in consolidated metadata, by path."""
    found: dict[str, NodeDirectory] = {}
    for key, content in documents.items():
        path, _, name = key.rpartition("/")
        place = found.setdefault(path, NodeDirectory(path=path, problems=name_problems(path)))
        place.documents[name] = document(content)
    return found


def unknown_nodes(*, lacking: str = "", expected: str, advice: str) -> UsageError:
    """The error for an archive whose nodes cannot be found, because consolidated metadata is `lacking`."""
    found = "a store that cannot list" + (f", and no {lacking}" if lacking else "")
    return UsageError(
        "the nodes of this archive cannot be found", found=found, expected=expected, advice=advice
    )


def unlisted_advice(storage: Storage) -> str:
    """Advice for archives in which no document names the nodes."""
    return (
        f"{storage.url} cannot be listed, and no document lists its nodes: consolidate its metadata"
        " (zarr.consolidate_metadata), open one node by its own URL, or copy the archive to a store that"
        " can be listed."
    )
