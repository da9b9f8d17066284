"""Describes the nodes of a Zarr v3 archive, for a copy with other chunks, codecs or shards.

https://zarr-specs.readthedocs.io/en/latest/v3/core/ . The documents have priority; consolidated metadata,
which zarr-python stores in a group's document, is compared with them. In a store that cannot list, it is the
only source of node names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

from zarrstack.base.array_documents import GUARD
from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject, excerpt
from zarrstack.core.paths import join

from ...archive.nodes import SourceDocument
from ...core.problems import refusal, warning
from ...storage.base import DirectoryEntry
from ..table import V3 as NAME
from ..tree import consolidated
from ..tree.directory import NodeDirectory
from ..tree.documents import wrong_version
from ..tree.open_tree import DescribedArray, Tree
from ..tree.reader import Describer
from .array import V3ArrayDescriber, group_members

_CONSOLIDATED: Final = "consolidated_metadata"
_CHUNK: Final = re.compile(r"c(\.[0-9]+)*|[0-9]+(\.[0-9]+)*")
"""Name of a chunk's file, in either key encoding."""


class _Nodes(Describer):
    """Every node has a `zarr.json`."""

    listed_in = NAME

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._describer = V3ArrayDescriber()

    def kind(self, place: NodeDirectory) -> Literal["array", "group"] | None:
        """An array if its type is unknown: an array contains values, which must not be lost silently."""
        if place.is_array:
            return "array"
        data = self.tree.parsed(place, NAME)
        if data is None:
            return self.foreign_kind(place)
        if isinstance(data, Problem) or data.get("node_type") != "group":
            return "array"
        return "group" if wrong_version(data, 3, NAME) is None else "array"

    def is_chunk(self, name: str) -> bool:
        return _CHUNK.fullmatch(name) is not None

    def describe_array(
        self, place: NodeDirectory, entries: Iterable[DirectoryEntry], problems: list[Problem]
    ) -> DescribedArray:
        data = self.tree.parse(place, NAME, problems)
        if data is None:
            return DescribedArray()
        if (wrong := wrong_version(data, 3, join(place.path, NAME))) is not None:
            problems.append(wrong)
            return DescribedArray()
        kind = data.get("node_type")
        if kind != "array":
            found = excerpt(kind) if "node_type" in data else "none"
            problems.append(refusal("metadata", "node_type is neither array nor group", found=found))
            return DescribedArray()
        facts = self._describer.describe(data)
        problems += facts.problems
        return DescribedArray(attributes=facts.attributes, layout=facts.layout, extra=facts.extra)

    def describe_group(self, place: NodeDirectory, problems: list[Problem]) -> JSONObject:
        data = self.tree.parse(place, NAME, problems)
        return {} if data is None else group_members(data, problems)

    # ----- consolidated metadata

    def list_documents(self) -> None:
        tree = self.tree
        if tree.storage.can_list:
            root = tree.directories[""]
        else:
            root = tree.root_alone()
            tree.listing_root[""] = root
            # The document from which all nodes are read.
            tree.sources.extend(
                SourceDocument(key=NAME, content=content)
                for name, content in root.documents.items()
                if name == NAME
            )
        data = tree.parsed(root, NAME)
        if self.kind(root) == "group" and isinstance(data, dict):
            tree.listed = self._list(data)

    def _list(self, data: JSONObject) -> dict[str, JSONObject] | None:
        """The documents in the root's consolidated metadata, by key; None if there is none."""
        block = data.get(_CONSOLIDATED)
        if block is None:
            # zarr-python 3.0 writes null.
            return None
        metadata = block.get("metadata") if isinstance(block, dict) else None
        if not isinstance(metadata, dict) or not all(isinstance(entry, dict) for entry in metadata.values()):
            message = "not consolidated metadata"
            self.tree.problems.append(warning("consolidated", message, key=NAME, found=excerpt(block)))
            return None
        listed = {}
        apart = block.get(GUARD)
        faults = consolidated.EntryProblems(NAME)
        for path, entry in {**metadata, **(apart if isinstance(apart, dict) else {})}.items():
            if path.startswith("/") or "" in path.split("/") or ".." in path.split("/"):
                message = "a key in consolidated metadata is not a valid node path"
                if faults.named(message):
                    found = f"the key {excerpt(path)}"
                    faults.add(refusal("name", message, key=NAME, found=found))
            else:
                listed[join(path, NAME)] = _plain(entry)
        self.tree.problems.extend(faults.problems())
        return listed

    def in_listing(self, key: str, document: JSONObject) -> JSONObject | None:
        return None if key == NAME else _plain(document)


def _plain(data: JSONObject) -> JSONObject:
    """A document without derived members, which zarr-python omits or writes as null."""
    return {
        name: value
        for name, value in data.items()
        if name not in (_CONSOLIDATED, GUARD)
        and not (name in ("attributes", "storage_transformers") and not value)
    }


describer = _Nodes
