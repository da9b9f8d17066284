"""Reads an archive in the 2022 draft of Zarr v3 as `Archive`, in either dialect.

The dialects are the specification's and zarr-python 2's. `zarrstack.core.draft_v3.nodes` reads documents and
keys, and names the sources. This module handles the hierarchy, its contradictions, and additions of writers
(observed):

- zarr-python 2.13 to 2.18 stores consolidated metadata below `meta/root/consolidated/`, which makes it
  look like a group, but it is not a node.
- zarrita of 2020 writes the entry point that zarr-python copied, but names the only chunk of an array
  without axes `c`, where zarr-python has `c0`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from zarrstack.core.chain.chain import Chain
from zarrstack.core.codecs.registry import compile_bytes_codec
from zarrstack.core.draft_v3.array import describe_array
from zarrstack.core.draft_v3.nodes import CONSOLIDATED, ENTRY, Dialect, read_entry, read_group
from zarrstack.core.errors import MetadataError, Problem, UsageError, ZarrstackError, any_refusal, refusal
from zarrstack.core.grid.frames import Shards
from zarrstack.core.grid.shard_index import IndexFormat
from zarrstack.core.json_text import JSONObject, canonical, document
from zarrstack.core.paths import parents
from zarrstack.core.zarr_v2.chain import read_chain

from ...archive.nodes import Archive, ArrayNode, GroupNode, Layout, Node, SourceDocument
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from ..tree import consolidated
from ..tree.conflicts import node_in_array
from ..tree.directory import NodeDirectory
from ..tree.documents import Documents, parse_object
from ..tree.links import unfollowed_link
from ..tree.nodes import implicit_group, placed
from ..tree.unclaimed_files import is_litter, unclaimed_file_notes
from ..tree.unlisted import unknown_nodes
from .chunks import refuse_lone_chunks, with_scalar_key
from .entry_point import without_entry
from .tree import META, Tree, documents_named, find_documents

_GHOST: Final = "consolidated"
"""The apparent group created by zarr-python 2 for consolidated metadata."""


def read(
    storage: Storage,
    *,
    follow_links: bool = False,
    only: bool = False,  # noqa: ARG001 - every reader takes it
    allow_fallback: bool = False,
) -> Archive:
    """Describe the archive.

    `allow_fallback` allows arrays of unknown data types to be read by the fallback they name. `follow_links`
    allows links to leave the archive. `only` (this format was requested) has no effect: no other format has
    its documents below `meta/`.

    Raises UsageError if there is neither an entry point nor a document below `meta/`, or its nodes cannot be
    found; MetadataError and UnsupportedError for an unreadable entry point; StorageError if `meta/` cannot be
    listed. All other errors are problems of the archive or of a node.
    """
    content = storage.get(ENTRY)
    dialect, told = _dialect(storage, content)
    reader = _Reader(
        storage=storage, dialect=dialect, follow_links=follow_links, allow_fallback=allow_fallback
    )
    reader.problems.extend(problem.at(key=ENTRY) for problem in told)
    nodes = reader.nodes()
    entry = () if content is None else (SourceDocument(key=ENTRY, content=content),)
    documents = (*entry, *reader.documents)
    return Archive(
        url=storage.url,
        format="zarr3-draft",
        nodes=nodes,
        consolidated=reader.listed is not None,
        documents=documents,
        problems=(*reader.problems, *reader.unclaimed),
    )


def _dialect(storage: Storage, content: bytes | None) -> tuple[Dialect, Sequence[Problem]]:
    """The dialect, from the entry point or, if that is missing, from the keys themselves."""
    if content is not None:
        try:
            entry = read_entry(parse_object(content, ENTRY))
        except ZarrstackError as error:
            raise error.at(key=ENTRY) from None
        return entry.dialect, entry.problems
    shown = without_entry(storage)
    if shown is None:
        raise UsageError(
            "no hierarchy of the 2022 draft of Zarr v3 found",
            found=storage.url,
            expected=f"{ENTRY} at its root",
        )
    return shown[0], shown[1:]


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Converts documents to nodes, and collects problems of the archive as a whole."""

    storage: Storage
    dialect: Dialect
    follow_links: bool
    allow_fallback: bool
    listed: dict[str, JSONObject] | None = None
    """Content of consolidated metadata; None if there is none, or if it is unreadable."""
    read: Documents = field(default_factory=Documents)
    documents: list[SourceDocument] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unclaimed: list[Problem] = field(default_factory=list)
    codecs: dict[str, Problem | None] = field(default_factory=dict)
    """Codec -> problem of its configuration."""
    links: dict[str, Problem | None] = field(default_factory=dict)
    """Directory -> its problem as a link."""

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, sorted, including implicit groups."""
        tree = self._tree()
        nodes: dict[str, Node] = {}
        for path, place in tree.nodes.items():
            nodes[path] = self._node(place)
        self._drop_ghost(tree, nodes)
        for path in list(nodes):
            self._keep_apart(path, nodes)
        for path in [*nodes, ""]:
            for above in (path, *parents(path)):
                nodes.setdefault(above, implicit_group(above))
        for path, node in nodes.items():
            nodes[path] = with_scalar_key(self.storage, self.dialect, node)
        if self.storage.can_list:
            self._check_chunks(nodes, tree.unclaimed)
            self._compare()
        return tuple(nodes[path] for path in sorted(nodes))

    # ----- documents

    def _tree(self) -> Tree:
        if self.storage.can_list:
            tree = find_documents(self.storage, self.dialect, follow_links=self.follow_links)
        else:
            tree = self._unlisted()
        if tree.consolidated is not None:
            self.documents.append(SourceDocument(key=CONSOLIDATED, content=tree.consolidated))
            try:
                self._list(tree.consolidated)
            except MetadataError as error:
                self.problems.append(replace(error.problem, severity="warning", kind="consolidated"))
        self.problems.extend(tree.problems)
        return tree

    def _list(self, content: bytes) -> dict[str, JSONObject]:
        """Read consolidated metadata; MetadataError if it is invalid."""
        self.listed, problems = consolidated.entries(
            content, CONSOLIDATED, is_document=lambda key: key == ENTRY or self.dialect.node(key) is not None
        )
        self.problems.extend(problems)
        self.listed.pop(ENTRY, None)
        return self.listed

    def _unlisted(self) -> Tree:
        """The documents of an archive in a store that cannot list."""
        root, there = self.dialect.array_key(""), self.storage.get(CONSOLIDATED)
        if self.dialect.name == "zarr-python" and there is not None:
            listed = self._list(there)
            self.documents.append(SourceDocument(key=CONSOLIDATED, content=there))
            return documents_named(self.dialect, {key: document(data) for key, data in listed.items()})
        content = self.storage.get(root)
        if content is None:
            raise unknown_nodes(
                lacking=CONSOLIDATED,
                expected=f"{CONSOLIDATED}, or an array at the root",
                advice="Copy the archive to a store that can be listed.",
            )
        return documents_named(self.dialect, {root: content})

    def _node(self, place: NodeDirectory) -> Node:
        problems = list(place.problems)
        documents = tuple(
            SourceDocument(key=key, content=content) for key, content in place.documents.items()
        )
        array, group = self.dialect.array_key(place.path), self.dialect.group_key(place.path)
        if array not in place.documents and group not in place.documents:
            # After problems with links or storage, the type is unknown.
            return implicit_group(place.path, problems)
        if array not in place.documents:
            attributes = self._group(place.documents[group], group, problems)
            told = placed(problems, place.path, None)
            return GroupNode(path=place.path, attributes=attributes, documents=documents, problems=told)
        if group in place.documents:
            message = "a node is both an array and a group"
            found = f"{array} and {group}"
            problems.append(refusal("metadata", message, key=array, found=found, expected="one of them"))
        return self._array(place, documents, array, problems)

    def _group(self, content: bytes, key: str, problems: list[Problem]) -> JSONObject:
        data = self.read.take(content, key, problems)
        try:
            return {} if data is None else read_group(data)
        except ZarrstackError as error:
            problems.append(error.problem.at(key=key))
            return {}

    def _array(
        self, place: NodeDirectory, documents: tuple[SourceDocument, ...], key: str, problems: list[Problem]
    ) -> ArrayNode:
        path = place.path
        data = self.read.take(place.documents[key], key, problems)
        array = None
        if data is not None:
            array, notes = describe_array(
                data, self.dialect, allow_fallback=self.allow_fallback, read_filtered=read_chain
            )
            problems.extend(note.at(key=key if note.severity == "refusal" else None) for note in notes)
        layout = None
        if array is not None:
            problems.extend(self._bad_codecs(array.chain))
            data_root = self.dialect.data(path)[:-1]
            if (problem := self._bad_directory(data_root)) is not None:
                problems.append(problem)
            counts = array.chunks_per_shard
            layout = Layout(
                shape=array.shape,
                data_type=array.data_type,
                fill_value=array.fill_value,
                chunk_shape=array.chunk_shape,
                chain=array.chain,
                keys=array.keys(self.dialect),
                frame=None if counts is None else Shards(counts, IndexFormat.DRAFT),
                root=data_root,
            )
        told = placed(problems, path, key)
        return ArrayNode(
            path=path,
            attributes={} if array is None else array.attributes,
            layout=None if any_refusal(told) else layout,
            fill_is_null=array is not None and array.fill_is_null,
            documents=documents,
            extra={"extensions": list(array.extensions)} if array is not None and array.extensions else {},
            problems=told,
        )

    def _bad_codecs(self, chain: Chain) -> Iterator[Problem]:
        """Problems that the codecs' own readers find in their configurations."""
        for spec in chain.codecs[chain.middle + 1 :]:
            text = canonical(spec.to_json())
            if text not in self.codecs:
                self.codecs[text] = None
                try:
                    compile_bytes_codec(spec)
                except ZarrstackError as error:
                    self.codecs[text] = error.problem
            if (problem := self.codecs[text]) is not None:
                yield problem

    # ----- the hierarchy

    def _drop_ghost(self, tree: Tree, nodes: dict[str, Node]) -> None:
        """Remove the apparent group that exists only for consolidated metadata."""
        node = nodes.get(_GHOST)
        has_children = any(path.startswith(f"{_GHOST}/") for path in nodes)
        if (
            (tree.consolidated is not None or self.listed is not None)
            and isinstance(node, GroupNode)
            and not (has_children or node.attributes or node.problems)
        ):
            self.documents.extend(node.documents)
            del nodes[_GHOST]

    def _keep_apart(self, path: str, nodes: dict[str, Node]) -> None:
        """Refuse nodes below an array, which has no children; they must not be omitted silently."""
        above = next((a for a in parents(path) if isinstance(nodes.get(a), ArrayNode)), None)
        if above is None:
            return
        node = nodes[path]
        key = node.documents[0].key if node.documents else None
        problem = node_in_array(path, key, above)
        nodes[path] = ArrayNode(path=path, documents=node.documents, problems=(*node.problems, problem))

    # ----- chunks, files without a node, consolidated metadata

    def _bad_directory(self, directory: str) -> Problem | None:
        """The problem of the path to an array's chunks in a local archive: a link that leaves it."""
        if not isinstance(self.storage, LocalStorage):
            return None
        for place in (*reversed(parents(directory)[:-1]), directory):
            if place not in self.links:
                self.links[place] = self._bad_link(self.storage, place)
            if (problem := self.links[place]) is not None:
                return problem
        return None

    def _bad_link(self, storage: LocalStorage, place: str) -> Problem | None:
        target = storage.link(place)
        if target is None:
            return None
        if os.path.exists(target) and (self.follow_links or not storage.leaves_root(target)):
            return None
        return unfollowed_link(None, place, target)

    def _check_chunks(self, nodes: dict[str, Node], unclaimed: list[str]) -> None:
        """Report chunks without an array's document, and files without a node."""
        warnings, others = refuse_lone_chunks(self.storage, self.dialect, nodes)
        self.problems.extend(warnings)
        top = (entry.name for entry in self.storage.list_dir("") if entry.name not in (ENTRY, META, "data"))
        named = [*sorted(top), *unclaimed, *others]
        self.unclaimed.extend(
            unclaimed_file_notes([key for key in named if not is_litter(key.rpartition("/")[2])])
        )

    def _compare(self) -> None:
        """Warn if consolidated metadata contradicts the documents, which have priority."""
        if self.listed is None:
            return

        def node_of(key: str) -> str | None:
            node = self.dialect.node(key)
            return None if node is None else node.path

        self.problems.extend(
            consolidated.differences(
                self.listed, self.read.parsed, frozenset(self.read.unread), CONSOLIDATED, node_of=node_of
            )
        )
