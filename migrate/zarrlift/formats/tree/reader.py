"""Reads an archive of any format as `Archive`: finds its nodes, describes each, and completes them.

What differs between formats is their row in `formats.table` and its `Describer`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Final, Literal

from zarrstack.core.errors import Problem, StorageError, UsageError
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import join, parents

from ...archive.nodes import Archive, ArrayNode, Layout, Node
from ...core.problems import note, refusal
from ...recipe.options import Reading
from ...storage.base import DirectoryEntry, Storage
from ...storage.local.storage import LocalStorage
from ..table import V2_ARRAY, V2_ATTRIBUTES, V2_CONSOLIDATED, V2_GROUP, V3, MarkerDocument, NodeFormat
from .conflicts import (
    chunks_alone,
    foreign_node,
    format_of_chunks,
    nodes_inside,
    unclaimed_file_notes,
    unclaimed_files,
)
from .directory import CHUNK, NodeDirectory, add_groups, implicit_group, refuse
from .documents import ONLY_CONSOLIDATED, consolidated_differences
from .open_tree import DescribedArray, Tree
from .walk import chunk_root, walk

_FORMATS: Final = __name__.rpartition(".tree.")[0]


def read(
    storage: Storage,
    row: NodeFormat,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    *,
    only: bool = False,
) -> Archive:
    """Describe the archive of a format in a storage.

    With `only`, this format was requested: documents of others next to its own are ignored, not refused.

    Raises UsageError if there is no archive of the format or its nodes cannot be found, StorageError if the
    root cannot be read; all other errors are problems of the archive or of a node.
    """
    tree = Tree(storage=storage, row=row, reading=reading, only=only)
    describer: Describer = import_module(row.describer, _FORMATS).describer(tree)
    nodes = describer.nodes()
    return Archive(
        url=storage.url,
        format=row.name,
        nodes=tuple(nodes[path] for path in sorted(nodes)),
        consolidated=tree.listed is not None,
        documents=tuple(tree.sources),
        problems=tuple(tree.problems),
    )


class Describer:
    """Describes the nodes of one archive: the base of what differs between formats."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._markers = [marker for marker in tree.row.markers if marker.of_arrays]

    # ----- what a format defines

    def is_array(self, place: NodeDirectory) -> bool:
        """Whether a directory is an array by its documents, so that nothing below it is a node."""
        for marker in self._markers:
            if marker.key in place.documents and marker.is_array(self._content(marker, place)):
                return True
        return False

    def _content(self, marker: MarkerDocument, place: NodeDirectory) -> JSONObject | None:
        """A document as its marker receives it."""
        if marker.by_name:
            return None
        data = self.tree.parsed(place, marker.key)
        return None if isinstance(data, Problem) else data

    def kind(self, place: NodeDirectory) -> Literal["array", "group"] | None:
        """What a directory is, when all others are known: a damaged array is one; None if it is no node."""
        if place.is_array or self.is_array(place):
            return "array"
        if not self.tree.row.sources.isdisjoint(place.documents):
            return "group"
        return self.foreign_kind(place)

    def foreign_kind(self, place: NodeDirectory) -> Literal["array", "group"] | None:
        """What a directory is by documents of other formats; None if it has none or one of its own."""
        if self.tree.own_document(place) is not None:
            return None
        markers = [self.tree.row.foreign[name] for name in self.tree.others(place)]
        if any(marker.is_array(self._content(marker, place)) for marker in markers):
            return "array"
        return "group" if markers else None

    def describe_array(
        self, place: NodeDirectory, entries: Iterable[DirectoryEntry], problems: list[Problem]
    ) -> DescribedArray:
        """What the documents of an array say. `entries` are names in its directory, if it needs them."""
        raise NotImplementedError

    def needs_entries(self, place: NodeDirectory) -> bool:
        """Whether an array cannot be described without names in its directory."""
        return False

    def describe_group(self, place: NodeDirectory, problems: list[Problem]) -> Mapping[str, JSON]:
        """The attributes of a group."""
        return {}

    def list_documents(self) -> None:
        """Read consolidated metadata into the tree; MetadataError if it is invalid and nothing else lists."""

    listed_in: str = V2_CONSOLIDATED
    """Key of the document that has consolidated metadata."""

    def in_listing(self, key: str, document: JSONObject) -> JSONObject | None:
        """A document as consolidated metadata has it; None if that has none with this key."""
        return document

    def node_of(self, key: str) -> str | None:
        """The path of the node whose document has a key."""
        return key.rpartition("/")[0]

    def may_hold_chunks(self, layout: Layout | None, name: str) -> bool:
        """Whether a directory in that of an array may be one of chunks."""
        return CHUNK.fullmatch(name) is not None

    def is_chunk(self, name: str) -> bool:
        """Whether a file may be a chunk, although its name is not made of numbers."""
        return False

    def strays(self, nodes: Mapping[str, Node]) -> Iterable[str]:
        """Keys of files that belong to no node."""
        row = self.tree.row
        return unclaimed_files(self.tree.directories, nodes, {*row.nodes, *row.no_strays})

    def nothing(self) -> UsageError | None:
        """The error for an archive without a node; None if it may be empty."""
        row = self.tree.row
        return UsageError(f"no {row.title} archive found", found=self.tree.storage.url, expected=row.nodes[0])

    # ----- what all have in common

    def nodes(self) -> dict[str, Node]:
        """All nodes by path; `UsageError` if there are none."""
        tree = self.tree
        self.find()
        nodes = self._described()
        arrays = tuple(nodes)
        # Where every directory is a group, those of chunks are not, which lone ones show.
        steps = (self._refuse_lone_chunks, self._describe_groups)
        for step in steps if tree.row.every_directory else reversed(steps):
            step(nodes)
        if not any(node.documents or node.refused for node in nodes.values()) and (error := self.nothing()):
            raise error
        self.refuse_inside(arrays, nodes)
        self._compare()
        add_groups(nodes, tree.directories)
        tree.problems.extend(unclaimed_file_notes([*self.strays(nodes)]))
        return nodes

    def find(self) -> None:
        """Find the directories of the archive, and consolidated metadata."""
        tree, row = self.tree, self.tree.row
        if tree.storage.can_list:
            # What parsing takes is free again when the walk needs it.
            listed_before = self.listed_in not in row.nodes
            if listed_before:
                self.list_documents()
            tree.directories = walk(
                tree.storage,
                documents=row.documents,
                is_array=self.is_array,
                further=self._foreign_names,
                follow_links=tree.reading.follow_links,
            )
            if not listed_before:
                self.list_documents()
            names = row.sources if tree.only else {*row.documents}
            places = tree.directories.values()
            if tree.listed and not any(names & place.documents.keys() or place.problems for place in places):
                tree.problems.append(ONLY_CONSOLIDATED)
                for path, place in tree.listed_places().items():
                    if (directory := tree.directories.setdefault(path, place)) is not place:
                        directory.documents.update(place.documents)
                        directory.problems += place.problems
            return
        self.list_documents()
        if tree.listed is not None:
            tree.directories = {**tree.listing_root, **tree.listed_places()}
            return
        root = tree.listing_root.get("") or tree.root_alone()
        tree.directories = {"": root}
        if self.kind(root) != "array":
            raise tree.unknown_nodes()

    def _described(self) -> dict[str, Node]:
        """The arrays by path."""
        tree = self.tree
        places = []
        for place in tree.directories.values():
            for problem in place.problems:
                if problem.kind == "storage" and problem.key is not None:
                    tree.documents.unread[problem.key] = problem
            if self.kind(place) == "array":
                places.append(place)
        nodes: dict[str, Node] = {}
        for place, entries in zip(places, self._entries(places), strict=True):
            problems = self._problems_at(place)
            nodes[place.path] = tree.array(place, self.describe_array(place, entries, problems), problems)
        return nodes

    def _entries(self, places: Sequence[NodeDirectory]) -> Iterator[Iterable[DirectoryEntry]]:
        """The entries of directories that need them; local ones from the walk, or listed when read."""
        storage = self.tree.storage
        wanted = [place for place in places if place.key_samples is None and self.needs_entries(place)]
        paths = [place.path for place in wanted if storage.can_list]
        if isinstance(storage, LocalStorage):
            listings: Iterable[Iterable[DirectoryEntry]] = map(storage.list_dir, paths)
        else:
            listings = storage.list_dirs(paths)
        listed = dict(zip(paths, listings, strict=True))
        for place in places:
            yield listed.get(place.path, ()) if place.key_samples is None else place.key_samples

    def _describe_groups(self, nodes: dict[str, Node]) -> None:
        for path, place in self.tree.directories.items():
            if path not in nodes and self._is_group(place, nodes):
                problems = self._problems_at(place)
                if self.kind(place) == "group":
                    nodes[path] = self.tree.group(place, self.describe_group(place, problems), problems)
                else:
                    nodes[path] = implicit_group(path, problems)

    def _is_group(self, place: NodeDirectory, nodes: Mapping[str, Node]) -> bool:
        if self.tree.row.every_directory:
            return not any(isinstance(nodes.get(above), ArrayNode) for above in parents(place.path))
        return place.refused or self.kind(place) == "group"

    def _problems_at(self, place: NodeDirectory) -> list[Problem]:
        """The problems of a directory, and a refusal for each document of another format."""
        if place.documents.keys().isdisjoint(self.tree.row.foreign):
            return list(place.problems)
        return [*place.problems, *self._foreign(place)]

    def _foreign_names(self, place: NodeDirectory) -> Collection[str]:
        """The documents of other formats that are read where a directory has none of its own."""
        row = self.tree.row
        return () if self.tree.own_document(place) else row.foreign.keys() - {*row.documents}

    def _foreign(self, place: NodeDirectory) -> Iterator[Problem]:
        tree, row = self.tree, self.tree.row
        own = tree.own_document(place)
        for name in tree.others(place):
            key, other = join(place.path, name), row.foreign[name].format
            if own is None:
                if not (tree.only and self._may_be_result(place, name)):
                    yield foreign_node(key, other, row.name)
            elif tree.only:
                continue
            elif self._has_chunks(place, name):
                yield note("format", f"{name} of {other} is ignored: the chunks are those of {own}", key=key)
            else:
                yield refusal(
                    "format",
                    "a node has metadata of two formats",
                    key=key,
                    found=f"{row.name} ({own}) and {other} ({name})",
                    advice="Choose one with --from.",
                )

    def _may_be_result(self, place: NodeDirectory, name: str) -> bool:
        """Whether a document may be that of a migration in place: a group, with attributes of the archive.

        Such a migration writes one in a directory that is a group without a document of its own.
        """
        if name == V2_GROUP:
            return V2_ATTRIBUTES not in (*place.files, *place.documents)
        data = self.tree.parsed(place, name)
        if not isinstance(data, dict) or data.get("node_type") != "group":
            return False
        return not data.get("attributes") or self.tree.row.attributes in (*place.files, *place.documents)

    def _has_chunks(self, place: NodeDirectory, other: str) -> bool:
        """Whether the chunks of an array are those of its own document, and not of the other one."""
        if other not in (V2_ARRAY, V3):
            return False
        try:
            return format_of_chunks(self.tree.storage, place.path, place.documents) == self.tree.row.name
        except StorageError as error:
            place.fail(error)
            return False

    def _refuse_lone_chunks(self, nodes: dict[str, Node]) -> None:
        """Refuse chunks without an array's document, whose values cannot be decoded."""
        tree, (name, *_) = self.tree, self.tree.row.nodes
        arrays = {path for path, node in nodes.items() if isinstance(node, ArrayNode)}
        for path, place in tree.directories.items():
            chunk = place.chunk or next(filter(self.is_chunk, place.files), None)
            if chunk is None or tree.own_document(place) is not None or arrays.intersection(parents(path)):
                continue
            root = chunk_root(path, tree.directories, is_key=self.is_chunk)
            if root and not (root in nodes and nodes[root].refused):
                called = tree.row.words[1]
                refuse(nodes, chunks_alone(root, join(path, chunk), name, called=called))

    def _compare(self) -> None:
        """Warn if consolidated metadata differs from the documents, which have priority."""
        tree = self.tree
        if tree.listed is None or not tree.storage.can_list:
            return
        parsed = tree.documents.parsed.items()
        files = {
            key: document for key, data in parsed if (document := self.in_listing(key, data)) is not None
        }
        unread = frozenset(tree.documents.unread)
        tree.problems.extend(
            consolidated_differences(tree.listed, files, unread, self.listed_in, node_of=self.node_of)
        )

    def refuse_inside(self, arrays: Iterable[str], nodes: dict[str, Node]) -> None:
        """Refuse nodes inside an array's own directory, which Zarr v3 does not allow."""
        tree = self.tree
        for path in arrays:
            node = nodes[path]
            is_chunk = partial(self.may_hold_chunks, node.layout if isinstance(node, ArrayNode) else None)
            for problem in nodes_inside(tree.storage, tree.directories[path], tree.row.nodes, is_chunk):
                refuse(nodes, problem)
