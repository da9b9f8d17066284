"""Small trees for tests: documents of Zarr v2 as data, put into any storage, and a reader for each format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zarrlift.archive.nodes import Archive, ArrayNode, GroupNode
from zarrlift.core import format_table as table
from zarrlift.formats.tree import reader
from zarrlift.recipe.options import Reading
from zarrlift.storage.base import Storage
from zarrlift.storage.local.storage import LocalStorage

GROUP: dict[str, Any] = {"zarr_format": 2}
ARRAY: dict[str, Any] = {
    "zarr_format": 2,
    "shape": [4, 6],
    "chunks": [2, 3],
    "dtype": "<i4",
    "compressor": None,
    "fill_value": 0,
    "order": "C",
    "filters": None,
    "dimension_separator": ".",
}


class FormatReader:
    """Reads archives of one format, as tests call it: without detection."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, storage: Storage, *, only: bool = False, **options: Any) -> Archive:
        """The archive in a storage; `options` are those of `Reading`."""
        return reader.read(storage, table.FORMATS[self.name], Reading(**options), only=only)


zarr_v1, zarr_v2, zarr_v3, n5, zarr_v3_draft = map(
    FormatReader, ("zarr1", "zarr2", "zarr3", "n5", "zarr3-draft")
)


def array(*, without: str = "", **changes: Any) -> dict[str, Any]:
    """A `.zarray` that differs from a plain one."""
    document = {**ARRAY, **changes}
    return {name: value for name, value in document.items() if name != without}


def tree(root: Path, entries: dict[str, Any]) -> LocalStorage:
    """Files below `root`: JSON for objects, bytes as they are."""
    for key, content in entries.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return LocalStorage(root)


def read(root: Path, entries: dict[str, Any], **options: Any) -> Archive:
    """The archive that those files make."""
    return zarr_v2.read(tree(root, entries), **options)


def node(archive: Archive, path: str = "") -> ArrayNode | GroupNode:
    """The node at a path."""
    return next(node for node in archive.nodes if node.path == path)


def one(root: Path, document: Any, chunks: tuple[str, ...] = ()) -> ArrayNode:
    """The array at the root that this `.zarray` makes."""
    found = node(read(root, {".zarray": document, **dict.fromkeys(chunks, b"x")}))
    assert isinstance(found, ArrayNode)
    return found


def messages(found: ArrayNode | GroupNode | Archive, severity: str = "refusal") -> str:
    """What is said with this severity, for `in`."""
    return "\n".join(str(problem) for problem in found.problems if problem.severity == severity)
