"""A model as the documents of a store, and as a read-only storage of these documents.

Readers and the planner work on storage: they read a model in this form as they read an archive, without
separate code for models.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import JSONObject
from zarrstack.core.paths import join

from ..core.json_document import document
from ..planning.zarr_json import consolidate
from ..storage.base import DirectoryEntry, Storage
from .zom import Flat, flatten, format_of, is_group

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from ..storage.local.files import ReadLimit
from ..storage.versions import Version


def node_documents(path: str, node: JSONObject) -> dict[str, JSONObject]:
    """The documents of one node by key: `zarr.json`, or `.zarray` or `.zgroup` and `.zattrs`.

    v2 stores attributes in a separate document, which is omitted without attributes.
    """
    if format_of(node) == 3:
        return {join(path, "zarr.json"): node}
    attributes = node.get("attributes") or {}
    metadata = {name: value for name, value in node.items() if name != "attributes"}
    result = {join(path, ".zgroup" if is_group(node) else ".zarray"): metadata}
    if attributes:
        result[join(path, ".zattrs")] = attributes
    return result


def consolidated(model: JSONObject) -> JSONObject:
    """The consolidated metadata of `model`: flattened, with all nodes in one document.

    For v2 the content of `.zmetadata`, for v3 the root's `zarr.json` with all others inside. Both are
    conventions of zarr-python (3.1.6 and 3.4.2), not part of a specification.

    Raises
    ------
    MetadataError
        If the root is an array.

    Examples
    --------
    >>> model = zarrlift.models.show("ocean.zarr").model
    >>> sorted(zarrlift.models.consolidated(model)["metadata"])[:2]
    ['.zattrs', '.zgroup']
    """
    if not is_group(model):
        raise MetadataError("consolidated metadata belongs to a root that is a group", node="")
    flat = flatten(model)
    if format_of(model) == 3:
        return consolidate(flat)
    metadata: JSONObject = {}
    for path, node in flat.items():
        metadata.update(node_documents(path, node))
        metadata.setdefault(join(path, ".zattrs"), {})  # as in zarr-python
    return {"metadata": dict(sorted(metadata.items())), "zarr_consolidated_format": 1}


class ModelStorage(Storage):
    """A read-only storage with the documents of a model and without chunks."""

    in_process = True

    def __init__(self, flat: Flat, *, url: str) -> None:
        self.url = url
        self._documents: dict[str, JSONObject] = {}
        self._below: dict[str, dict[str, bool]] = {"": {}}
        for path, node in flat.items():
            for key, content in node_documents(path, node).items():
                self._add(key, content)

    def _add(self, key: str, content: JSONObject) -> None:
        self._documents[key] = content
        is_dir = False
        while key:
            key, _, name = key.rpartition("/")
            entries = self._below.setdefault(key, {})
            if name in entries:
                return
            entries[name] = is_dir
            is_dir = True

    def get(
        self, key: str, limit: ReadLimit | None = None, *, version: Version | None = None
    ) -> bytes | None:
        content = self._documents.get(key)
        return None if content is None else document(content)

    def put(self, key: str, data: bytes) -> None:
        raise NotImplementedError(key)

    def delete(self, key: str) -> None:
        raise NotImplementedError(key)

    def list_dir(self, prefix: str) -> Iterator[DirectoryEntry]:
        for name, is_dir in self._below.get(prefix, {}).items():
            yield DirectoryEntry(name, is_dir)

    def zarr_store(self) -> Store:
        """A memory store with the documents."""
        from zarr.buffer import default_buffer_prototype
        from zarr.storage import MemoryStore

        make = default_buffer_prototype().buffer.from_bytes
        return MemoryStore({key: make(document(content)) for key, content in self._documents.items()})
