"""Reads a Zarr v3 archive as `Archive`, for a copy with other chunks, codecs or shards.

https://zarr-specs.readthedocs.io/en/latest/v3/core/ . The documents have priority; consolidated metadata,
which zarr-python stores in a group's document, is compared with them. In a store that cannot list, it is the
only source of node names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from zarrstack.base.array_documents import GUARD
from zarrstack.core.errors import Problem, UsageError, any_refusal
from zarrstack.core.json_text import JSONObject, document, excerpt
from zarrstack.core.paths import join

from ...archive.nodes import Archive, ArrayNode, Document, GroupNode, Node
from ...recipe.options import Format
from ...storage.base import Storage
from ..tree import consolidated
from ..tree.conflicts import Native, chunks_alone, nodes_in_arrays
from ..tree.documents import Documents
from ..tree.nodes import add_groups, placed, refuse
from ..tree.unclaimed_files import stray_notes, strays
from ..tree.unlisted import unlisted_advice
from ..tree.walk import Found, chunk_root, name_problems, walk
from .array import Describer, group_members

NAME: Final = "zarr.json"
_CONSOLIDATED: Final = "consolidated_metadata"
_OTHERS: Final[Mapping[str, Format]] = {".zarray": "zarr2", ".zgroup": "zarr2"}
"""Metadata documents of other formats for the same node, as after in-place work."""
_CHUNK: Final = re.compile(r"c(\.[0-9]+)*|[0-9]+(\.[0-9]+)*")
"""Name of a chunk's file, in either key encoding."""
_NATIVE: Final = Native(format="zarr3", archive="a Zarr v3 archive", documents=(NAME,))
_KNOWN: Final = frozenset({NAME, *_OTHERS, ".zattrs", ".zmetadata"})
"""Files that are not strays."""


def read(storage: Storage, *, follow_links: bool = False, only: bool = False) -> Archive:
    """Describe the archive.

    With `only`, Zarr v3 was requested: documents of Zarr v2 next to its own are ignored instead of refused.
    `follow_links` allows links to leave the archive.

    Raises UsageError if there is no v3 archive or its nodes cannot be found, StorageError if the root cannot
    be read; all other errors are problems of the archive or of a node.
    """
    reader = _Reader(storage=storage, only=only)
    if storage.can_list:
        found = walk(storage, documents=(NAME, *_OTHERS), leaves=reader.is_array, follow_links=follow_links)
    else:
        found = reader.unlisted()
    nodes = reader.nodes(found)
    if not nodes:
        raise UsageError("no Zarr v3 archive is here", found=storage.url, expected=NAME)
    return Archive(
        url=storage.url,
        format="zarr3",
        nodes=nodes,
        consolidated=reader.consolidated is not None,
        problems=(*reader.problems, *reader.strays),
    )


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Converts directories to nodes, and collects problems of the archive as a whole."""

    storage: Storage
    only: bool
    consolidated: dict[str, JSONObject] | None = None
    """Key -> document, from the root's consolidated metadata; None if there is none."""
    documents: Documents = field(default_factory=Documents)
    problems: list[Problem] = field(default_factory=list)
    strays: list[Problem] = field(default_factory=list)
    describer: Describer = field(default_factory=Describer)

    def is_array(self, place: Found) -> bool:
        """Whether a directory is an array, so that nothing below it is a node; for `walk`."""
        if NAME not in place.documents:
            return False
        data = self._parse(place)
        return isinstance(data, dict) and data.get("node_type") == "array"

    def unlisted(self) -> dict[str, Found]:
        """The directories of an archive in a store that cannot list."""
        content = self.storage.get(NAME)
        root = Found(path="", documents={} if content is None else {NAME: content})
        found = {"": root}
        data = self._parse(root) if content is not None else None
        if isinstance(data, dict) and data.get("node_type") == "group":
            listed = self._list(data)
            if listed is None:
                raise UsageError(
                    "the nodes of this archive cannot be found",
                    found="a store that cannot list, and no consolidated metadata",
                    expected="consolidated metadata, or an array at the root",
                    advice=unlisted_advice(self.storage),
                )
            for key, entry in listed.items():
                path = key.rpartition("/")[0]
                found[path] = Found(
                    path=path, documents={NAME: document(entry)}, problems=name_problems(path)
                )
        return found

    def nodes(self, found: dict[str, Found]) -> tuple[Node, ...]:
        """All nodes, sorted, including implicit groups."""
        nodes: dict[str, Node] = {}
        for path, place in found.items():
            if NAME in place.documents:
                nodes[path] = self._node(place)
            elif place.refused:
                nodes[path] = GroupNode(path=path, implicit=True, problems=placed(place.problems, path, None))
        if not nodes:
            return ()
        self._chunks_without_array(found, nodes)
        arrays = [path for path, node in nodes.items() if isinstance(node, ArrayNode)]
        for problem in nodes_in_arrays(self.storage, arrays, (NAME,), found):
            refuse(nodes, problem)
        add_groups(nodes, found)
        self._compare(found)
        self.strays.extend(stray_notes([*strays(found, nodes, _KNOWN)]))
        return tuple(nodes[path] for path in sorted(nodes))

    def _node(self, place: Found) -> Node:
        path, key = place.path, join(place.path, NAME)
        problems = [*place.problems, *self._other_format(place)]
        documents = (Document(key=key, content=place.documents[NAME]),)
        data = self._parse(place)
        if isinstance(data, Problem):
            problems.append(data)
            # Its type is unknown, but an array contains values, which must not be lost silently.
            return ArrayNode(path=path, documents=documents, problems=placed(problems, path, key))
        kind = data.get("node_type")
        if type(data.get("zarr_format")) is not int or data["zarr_format"] != 3:
            found = excerpt(data["zarr_format"]) if "zarr_format" in data else "none"
            message = "zarr_format is not 3"
            problems.append(Problem(kind="metadata", message=message, found=found, expected="3"))
        elif kind == "group":
            attributes = group_members(data, problems)
            if not path:
                self._list(data)
            told = placed(problems, path, key)
            return GroupNode(path=path, attributes=attributes, documents=documents, problems=told)
        elif kind != "array":
            found = excerpt(kind) if "node_type" in data else "none"
            message = "node_type is neither array nor group"
            problems.append(Problem(kind="metadata", message=message, found=found))
        else:
            return self._array(data, documents, problems, path)
        return ArrayNode(path=path, documents=documents, problems=placed(problems, path, key))

    def _array(
        self, data: JSONObject, documents: tuple[Document, ...], problems: list[Problem], path: str
    ) -> ArrayNode:
        facts = self.describer.describe(data)
        told = placed([*problems, *facts.problems], path, documents[0].key)
        return ArrayNode(
            path=path,
            attributes=facts.attributes,
            layout=None if any_refusal(told) else facts.layout,
            documents=documents,
            extra=facts.extra,
            problems=told,
        )

    def _parse(self, place: Found) -> JSONObject | Problem:
        return self.documents.read(place.documents[NAME], join(place.path, NAME))

    def _other_format(self, place: Found) -> Iterator[Problem]:
        return _NATIVE.foreign(place, {} if self.only else _OTHERS)

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
            self.problems.append(
                Problem(
                    kind="consolidated", severity="warning", message=message, key=NAME, found=excerpt(block)
                )
            )
            return None
        self.consolidated = {}
        apart = block.get(GUARD)
        faults = consolidated.Faults(NAME)
        for path, entry in {**metadata, **(apart if isinstance(apart, dict) else {})}.items():
            if path.startswith("/") or "" in path.split("/") or ".." in path.split("/"):
                message = "consolidated metadata has a key that is no node"
                if faults.named(message):
                    found = f"the key {excerpt(path)}"
                    faults.add(Problem(kind="name", message=message, key=NAME, found=found))
            else:
                self.consolidated[join(path, NAME)] = _plain(entry)
        self.problems.extend(faults.problems())
        return self.consolidated

    def _compare(self, found: dict[str, Found]) -> None:
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

    def _chunks_without_array(self, found: dict[str, Found], nodes: dict[str, Node]) -> None:
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
