"""Reads a Zarr v3 archive as `Archive`, for a copy with other chunks, codecs or shards.

https://zarr-specs.readthedocs.io/en/latest/v3/core/ . The documents have priority; consolidated metadata,
which zarr-python stores in a group's document, is compared with them. In a store that cannot list, it is the
only source of node names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Final

from zarrstack.base.array_documents import GUARD
from zarrstack.core.errors import Problem, UsageError, refusal, warning
from zarrstack.core.json_text import JSONObject, excerpt
from zarrstack.core.paths import join

from ...archive.nodes import Archive, ArrayNode, Node, SourceDocument
from ...storage.base import Storage
from ..tree import consolidated
from ..tree.conflicts import chunks_alone
from ..tree.directory import NodeDirectory
from ..tree.nodes import implicit_group, refuse
from ..tree.reader import NativeFormat, TreeReader, wrong_version
from ..tree.unlisted import listed_places, unknown_nodes, unlisted_advice
from ..tree.walk import chunk_root, walk
from .array import V3ArrayDescriber, group_members

NAME: Final = "zarr.json"
_CONSOLIDATED: Final = "consolidated_metadata"
_CHUNK: Final = re.compile(r"c(\.[0-9]+)*|[0-9]+(\.[0-9]+)*")
"""Name of a chunk's file, in either key encoding."""
_NATIVE: Final = NativeFormat(
    format="zarr3",
    archive="a Zarr v3 archive",
    documents=(NAME,),
    sources=frozenset({NAME}),
    others={".zarray": "zarr2", ".zgroup": "zarr2"},  # for the same node, as after in-place work
    known=frozenset({NAME, ".zarray", ".zgroup", ".zattrs", ".zmetadata"}),
)


def read(storage: Storage, *, follow_links: bool = False, only: bool = False) -> Archive:
    """Describe the archive.

    With `only`, Zarr v3 was requested: documents of Zarr v2 next to its own are ignored instead of refused.
    `follow_links` allows links to leave the archive.

    Raises UsageError if there is no v3 archive or its nodes cannot be found, StorageError if the root cannot
    be read; all other errors are problems of the archive or of a node.
    """
    reader = _Reader(storage=storage, only=only)
    if storage.can_list:
        names = (NAME, *_NATIVE.others)
        found = walk(storage, documents=names, is_array=reader.is_array, follow_links=follow_links)
    else:
        found = reader.unlisted()
    nodes = reader.nodes(found)
    if not nodes:
        raise UsageError("no Zarr v3 archive found", found=storage.url, expected=NAME)
    return Archive(
        url=storage.url,
        format="zarr3",
        nodes=nodes,
        consolidated=reader.consolidated is not None,
        documents=() if storage.can_list else _root_document(nodes),
        problems=tuple(reader.problems),
    )


def _root_document(nodes: tuple[Node, ...]) -> tuple[SourceDocument, ...]:
    """The document from which all nodes were read, where they could not be listed."""
    return next((node.documents for node in nodes if not node.path), ())


@dataclass(slots=True, kw_only=True)
class _Reader(TreeReader):
    native: ClassVar[NativeFormat] = _NATIVE
    consolidated: dict[str, JSONObject] | None = None
    """Key -> document, from the root's consolidated metadata; None if there is none."""
    describer: V3ArrayDescriber = field(default_factory=V3ArrayDescriber)

    def is_array(self, place: NodeDirectory) -> bool:
        """Whether a directory is an array, so that nothing below it is a node; for `walk`."""
        if NAME not in place.documents:
            return False
        data = self._parse(place)
        return isinstance(data, dict) and data.get("node_type") == "array"

    def unlisted(self) -> dict[str, NodeDirectory]:
        """The directories of an archive in a store that cannot list."""
        content = self.storage.get(NAME)
        root = NodeDirectory(path="", documents={} if content is None else {NAME: content})
        data = self._parse(root) if content is not None else None
        if not isinstance(data, dict) or data.get("node_type") != "group":
            return {"": root}
        if (listed := self._list(data)) is None:
            raise unknown_nodes(
                lacking="consolidated metadata",
                expected="consolidated metadata, or an array at the root",
                advice=unlisted_advice(self.storage),
            )
        return {"": root, **listed_places(listed)}

    def nodes(self, found: dict[str, NodeDirectory]) -> tuple[Node, ...]:
        """All nodes, sorted, including implicit groups."""
        nodes: dict[str, Node] = {}
        for path, place in found.items():
            if NAME in place.documents:
                nodes[path] = self._node(place)
            elif place.refused:
                nodes[path] = implicit_group(path, place.problems)
        if not nodes:
            return ()
        self.refuse_lone_chunks(nodes, found)
        self._compare(found)
        arrays = [path for path, node in nodes.items() if isinstance(node, ArrayNode)]
        return self.complete(nodes, found, arrays)

    def _node(self, place: NodeDirectory) -> Node:
        problems = self.problems_at(place)
        data = self.parse(place, NAME, problems)
        # If its type is unknown: an array contains values, which must not be lost silently.
        if data is None:
            return self.array(place, problems, attributes={}, layout=None)
        kind = data.get("node_type")
        if (wrong := wrong_version(data, 3, join(place.path, NAME))) is not None:
            problems.append(wrong)
        elif kind == "group":
            attributes = group_members(data, problems)
            if not place.path:
                self._list(data)
            return self.group(place, problems, attributes)
        elif kind != "array":
            found = excerpt(kind) if "node_type" in data else "none"
            message = "node_type is neither array nor group"
            problems.append(refusal("metadata", message, found=found))
        else:
            facts = self.describer.describe(data)
            problems += facts.problems
            return self.array(
                place, problems, attributes=facts.attributes, layout=facts.layout, extra=facts.extra
            )
        return self.array(place, problems, attributes={}, layout=None)

    def _parse(self, place: NodeDirectory) -> JSONObject | Problem:
        return self.documents.read(place.documents[NAME], join(place.path, NAME))

    # ----- consolidated metadata

    def _list(self, data: JSONObject) -> dict[str, JSONObject] | None:
        """The documents in the root's consolidated metadata, by key; None if there is none."""
        block = data.get(_CONSOLIDATED)
        if block is None:
            # zarr-python 3.0 writes null.
            return None
        metadata = block.get("metadata") if isinstance(block, dict) else None
        if not isinstance(metadata, dict) or not all(isinstance(entry, dict) for entry in metadata.values()):
            message = "not consolidated metadata"
            self.problems.append(warning("consolidated", message, key=NAME, found=excerpt(block)))
            return None
        self.consolidated = {}
        apart = block.get(GUARD)
        faults = consolidated.EntryProblems(NAME)
        for path, entry in {**metadata, **(apart if isinstance(apart, dict) else {})}.items():
            if path.startswith("/") or "" in path.split("/") or ".." in path.split("/"):
                message = "a key in consolidated metadata is not a valid node path"
                if faults.named(message):
                    found = f"the key {excerpt(path)}"
                    faults.add(refusal("name", message, key=NAME, found=found))
            else:
                self.consolidated[join(path, NAME)] = _plain(entry)
        self.problems.extend(faults.problems())
        return self.consolidated

    def _compare(self, found: dict[str, NodeDirectory]) -> None:
        """Warn if consolidated metadata differs from the documents."""
        if self.consolidated is None or not self.storage.can_list:
            return
        keys = {join(path, NAME) for path, place in found.items() if path and NAME in place.documents}
        files = {key: data for key in keys if (data := self.documents.parsed.get(key)) is not None}
        self.problems.extend(
            consolidated.differences(
                self.consolidated,
                {key: _plain(data) for key, data in files.items()},
                frozenset(keys - files.keys()),
                NAME,
            )
        )

    # ----- files without a node

    def refuse_lone_chunks(self, nodes: dict[str, Node], found: dict[str, NodeDirectory]) -> None:
        """Refuse chunks without an array's document, whose values cannot be decoded."""
        for path, place in found.items():
            name = place.chunk or next((name for name in place.files if _CHUNK.fullmatch(name)), None)
            if name is None:
                continue
            root = chunk_root(path, found)
            root = root[:-2] if root.endswith("/c") and root not in nodes else root
            if root and root not in nodes:
                refuse(nodes, chunks_alone(root, join(path, name), NAME))


def _plain(data: JSONObject) -> JSONObject:
    """A document without derived members, which zarr-python omits or writes as null."""
    return {
        name: value
        for name, value in data.items()
        if name not in (_CONSOLIDATED, GUARD)
        and not (name in ("attributes", "storage_transformers") and not value)
    }
