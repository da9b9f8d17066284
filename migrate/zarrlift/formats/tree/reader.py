"""Reads an archive of any format as `Archive`: finds its nodes, describes each, and completes them.

What differs between formats is their row in `core.format_table`, and the `reader` in its module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, Literal

from zarrstack.core.errors import Problem, StorageError, UsageError
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import join, parents

from ...archive.nodes import Archive, ArrayNode, GroupNode, Layout, Node, SourceDocument
from ...core.format_table import (
    V2_ARRAY,
    V2_ATTRIBUTES,
    V2_CONSOLIDATED,
    V2_GROUP,
    V3,
    FormatRow,
    MarkerDocument,
)
from ...core.json_document import document
from ...core.problems import any_refusal, note, refusal
from ...recipe.options import Reading
from ...storage.base import DirectoryEntry, Storage
from ...storage.local.storage import LocalStorage
from .conflicts import (
    foreign_node,
    format_of_chunks,
    nodes_inside,
    refuse_lone_chunks,
    unclaimed_file_notes,
    unclaimed_files,
)
from .directory import CHUNK, NodeDirectory, add_groups, implicit_group, located, name_problems, refuse
from .documents import ONLY_CONSOLIDATED, Documents, consolidated_differences, parsed_or_none
from .walk import walk

_FORMATS: Final = __name__.rpartition(".tree.")[0]


def read(
    storage: Storage,
    row: FormatRow,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    *,
    only: bool = False,
) -> Archive:
    """Describe the archive of a format in a storage.

    With `only`, this format was requested: documents of others next to its own are ignored, not refused.

    Raises UsageError if there is no archive of the format or its nodes cannot be found, StorageError if the
    root cannot be read; all other errors are problems of the archive or of a node.
    """
    reader: ArchiveReader = import_module(f"{_FORMATS}.{row.module}").reader(storage, row, reading, only=only)
    nodes = reader.nodes()
    return Archive(
        url=storage.url,
        format=row.name,
        nodes=tuple(nodes[path] for path in sorted(nodes)),
        consolidated=reader.listed is not None,
        documents=tuple(reader.sources),
        problems=tuple(reader.problems),
    )


class ArchiveReader:
    """Reads one archive: its documents, its directories, and the nodes that they describe.

    The base of the `reader` of each format, which defines how an array and a group are read.
    """

    def __init__(self, storage: Storage, row: FormatRow, reading: Reading, *, only: bool) -> None:
        self.storage, self.row, self.reading, self.only = storage, row, reading, only
        self.documents = Documents()
        self.directories: dict[str, NodeDirectory] = {}
        """Directories by path, parents before children."""
        self.listing_root: dict[str, NodeDirectory] = {}
        """In a store that cannot list: the root, if consolidated metadata is in its document."""
        self.listed: dict[str, JSONObject] | None = None
        """The documents in consolidated metadata by key; None if there is none, or if it is unreadable."""
        self.sources: list[SourceDocument] = []
        """Documents that belong to no node."""
        self.problems: list[Problem] = []
        """Problems of the archive as a whole."""

    # ----- what a format defines

    def is_array(self, place: NodeDirectory) -> bool:
        """Whether a directory is an array by its documents, so that nothing below it is a node."""
        for marker in self.row.markers:
            if marker.key in place.documents and marker.is_array(self._content(marker, place)):
                return True
        return False

    def _content(self, marker: MarkerDocument, place: NodeDirectory) -> JSONObject | None:
        """A document as its marker receives it."""
        if marker.by_name:
            return None
        data = self.parsed(place, marker.key)
        return None if isinstance(data, Problem) else data

    def kind(self, place: NodeDirectory) -> Literal["array", "group"] | None:
        """What a directory is, when all others are known: a damaged array is one; None if it is no node."""
        if place.is_array or self.is_array(place):
            return "array"
        if not self.row.sources.isdisjoint(place.documents):
            return "group"
        return self.foreign_kind(place)

    def foreign_kind(self, place: NodeDirectory) -> Literal["array", "group"] | None:
        """What a directory is by documents of other formats; None if it has none or one of its own."""
        if place.first(self.row.own) is not None:
            return None
        markers = [self.row.foreign[name] for name in self.others(place)]
        if any(marker.is_array(self._content(marker, place)) for marker in markers):
            return "array"
        return "group" if markers else None

    def read_array(
        self, place: NodeDirectory, entries: Iterable[DirectoryEntry], problems: list[Problem]
    ) -> ArrayNode:
        """The array in a directory. `entries` are names in it, if it needs them."""
        raise NotImplementedError

    def needs_entries(self, place: NodeDirectory) -> bool:
        """Whether an array cannot be described without names in its directory."""
        return False

    def read_group(self, place: NodeDirectory, problems: list[Problem]) -> Mapping[str, JSON]:
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
        row = self.row
        return unclaimed_files(self.directories, nodes, {*row.nodes, *row.no_strays})

    def nothing(self) -> UsageError | None:
        """The error for an archive without a node; None if it may be empty."""
        row = self.row
        return UsageError(f"no {row.title} archive found", found=self.storage.url, expected=row.nodes[0])

    # ----- what all have in common

    def nodes(self) -> dict[str, Node]:
        """All nodes by path; `UsageError` if there are none."""
        self.find()
        nodes = self._described()
        arrays = tuple(nodes)
        # Where every directory is a group, those of chunks are not, which lone ones show.
        if not self.row.every_directory:
            self._describe_groups(nodes)
        refuse_lone_chunks(self.directories, nodes, self.row, self.is_chunk)
        if self.row.every_directory:
            self._describe_groups(nodes)
        if not any(node.documents or node.refused for node in nodes.values()) and (error := self.nothing()):
            raise error
        self.refuse_inside(arrays, nodes)
        self._compare()
        add_groups(nodes, self.directories)
        self.problems.extend(unclaimed_file_notes([*self.strays(nodes)]))
        return nodes

    def find(self) -> None:
        """Find the directories of the archive, and consolidated metadata."""
        row = self.row
        if self.storage.can_list:
            # What parsing takes is free again when the walk needs it.
            listed_before = self.listed_in not in row.nodes
            if listed_before:
                self.list_documents()
            self.directories = walk(
                self.storage,
                documents=row.documents,
                is_array=self.is_array,
                further=self._foreign_names,
                follow_links=self.reading.follow_links,
            )
            if not listed_before:
                self.list_documents()
            names = row.sources if self.only else {*row.documents}
            places = self.directories.values()
            if self.listed and not any(names & place.documents.keys() or place.problems for place in places):
                self.problems.append(ONLY_CONSOLIDATED)
                for path, place in self.listed_places().items():
                    if (directory := self.directories.setdefault(path, place)) is not place:
                        directory.documents.update(place.documents)
                        directory.problems += place.problems
            return
        self.list_documents()
        if self.listed is not None:
            self.directories = {**self.listing_root, **self.listed_places()}
            return
        root = self.listing_root.get("") or self.root_alone()
        self.directories = {"": root}
        if self.kind(root) != "array":
            raise self.unknown_nodes()

    def _described(self) -> dict[str, Node]:
        """The arrays by path."""
        places = []
        for place in self.directories.values():
            for problem in place.problems:
                if problem.kind == "storage" and problem.key is not None:
                    self.documents.unread[problem.key] = problem
            if self.kind(place) == "array":
                places.append(place)
        nodes: dict[str, Node] = {}
        for place, entries in zip(places, self._entries(places), strict=True):
            problems = self._problems_at(place)
            nodes[place.path] = self.read_array(place, entries, problems)
        return nodes

    def _entries(self, places: Sequence[NodeDirectory]) -> Iterator[Iterable[DirectoryEntry]]:
        """The entries of directories that need them; local ones from the walk, or listed when read."""
        storage = self.storage
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
        for path, place in self.directories.items():
            if path not in nodes and self._is_group(place, nodes):
                problems = self._problems_at(place)
                if self.kind(place) == "group":
                    nodes[path] = self.group(place, self.read_group(place, problems), problems)
                else:
                    nodes[path] = implicit_group(path, problems)

    def _is_group(self, place: NodeDirectory, nodes: Mapping[str, Node]) -> bool:
        if self.row.every_directory:
            return not any(isinstance(nodes.get(above), ArrayNode) for above in parents(place.path))
        return place.refused or self.kind(place) == "group"

    def _problems_at(self, place: NodeDirectory) -> list[Problem]:
        """The problems of a directory, and a refusal for each document of another format."""
        if place.documents.keys().isdisjoint(self.row.foreign):
            return list(place.problems)
        return [*place.problems, *self._foreign(place)]

    def _foreign_names(self, place: NodeDirectory) -> Collection[str]:
        """The documents of other formats that are read where a directory has none of its own."""
        row = self.row
        return () if place.first(self.row.own) else row.foreign.keys() - {*row.documents}

    def _foreign(self, place: NodeDirectory) -> Iterator[Problem]:
        row = self.row
        own = place.first(self.row.own)
        for name in self.others(place):
            key, other = join(place.path, name), row.foreign[name].format
            if own is None:
                if not (self.only and self._may_be_result(place, name)):
                    yield foreign_node(key, other, row.name)
            elif self.only:
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
        data = self.parsed(place, name)
        if not isinstance(data, dict) or data.get("node_type") != "group":
            return False
        return not data.get("attributes") or self.row.attributes in (*place.files, *place.documents)

    def _has_chunks(self, place: NodeDirectory, other: str) -> bool:
        """Whether the chunks of an array are those of its own document, and not of the other one."""
        if other not in (V2_ARRAY, V3):
            return False
        try:
            return format_of_chunks(self.storage, place.path, place.documents) == self.row.name
        except StorageError as error:
            place.fail(error)
            return False

    def _compare(self) -> None:
        """Warn if consolidated metadata differs from the documents, which have priority."""
        if self.listed is None or not self.storage.can_list:
            return
        parsed = self.documents.parsed.items()
        files = {
            key: document for key, data in parsed if (document := self.in_listing(key, data)) is not None
        }
        unread = frozenset(self.documents.unread)
        self.problems.extend(
            consolidated_differences(self.listed, files, unread, self.listed_in, node_of=self.node_of)
        )

    def refuse_inside(self, arrays: Iterable[str], nodes: dict[str, Node]) -> None:
        """Refuse nodes inside an array's own directory, which Zarr v3 does not allow."""
        for path in arrays:
            node = nodes[path]
            is_chunk = partial(self.may_hold_chunks, node.layout if isinstance(node, ArrayNode) else None)
            for problem in nodes_inside(self.storage, self.directories[path], self.row.nodes, is_chunk):
                refuse(nodes, problem)

    # ----- what formats use

    def parse(self, place: NodeDirectory, name: str, problems: list[Problem]) -> JSONObject | None:
        """A document; None if it is missing or, after adding a problem, if it is unreadable."""
        data = self.parsed(place, name)
        if isinstance(data, Problem):
            problems.append(data)
            return None
        return data

    def parsed(self, place: NodeDirectory, name: str) -> JSONObject | Problem | None:
        """A document, a refusal, or None if it is missing."""
        return (
            self.documents.read(place.documents[name], place.key(name)) if name in place.documents else None
        )

    def others(self, place: NodeDirectory) -> Iterator[str]:
        """The documents of other formats in a directory, with that format's content.

        Of those beside documents of its own, only the ones that are requested everywhere.
        """
        alone = place.first(self.row.own) is None
        for name, marker in self.row.foreign.items():
            if name in place.documents and (alone or name in self.row.others):
                content = place.documents[name]
                if marker.certain or marker.matches(parsed_or_none(content, name)):
                    yield name

    def array(
        self, place: NodeDirectory, problems: Iterable[Problem], layout: Layout | None = None, **facts: Any
    ) -> ArrayNode:
        """The array in a directory, without its layout after a refusal; `facts` are fields of `ArrayNode`."""
        all_problems = located(problems, place.path, place.key_of(*self.row.nodes))
        return ArrayNode(
            path=place.path,
            layout=None if any_refusal(all_problems) else layout,
            documents=self._sources(place),
            problems=all_problems,
            chunk_names=place.chunk_names,
            **facts,
        )

    def group(
        self, place: NodeDirectory, attributes: Mapping[str, JSON], problems: Iterable[Problem]
    ) -> GroupNode:
        """The group in a directory."""
        key = place.key_of(*self.row.nodes)
        return GroupNode(
            path=place.path,
            attributes=attributes,
            documents=self._sources(place),
            implicit=key is None,
            problems=located(problems, place.path, key),
        )

    def _sources(self, place: NodeDirectory) -> tuple[SourceDocument, ...]:
        sources = self.row.sources
        return tuple(
            [
                SourceDocument(key=place.key(name), content=content)
                for name, content in place.documents.items()
                if name in sources
            ]
        )

    # ----- stores that cannot list

    def root_alone(self) -> NodeDirectory:
        """The documents at the root."""
        names = self.row.documents
        contents = zip(names, self.storage.get_many(names), strict=True)
        return NodeDirectory(
            path="", documents={name: content for name, content in contents if content is not None}
        )

    def listed_places(self) -> dict[str, NodeDirectory]:
        """The directories of the documents in consolidated metadata, by path."""
        places: dict[str, NodeDirectory] = {}
        for key, content in (self.listed or {}).items():
            path, _, name = key.rpartition("/")
            place = places.setdefault(path, NodeDirectory(path=path, problems=name_problems(path)))
            place.documents[name] = document(content)
        return places

    def unknown_nodes(self) -> UsageError:
        """The error for an archive in a store that cannot list, whose nodes nothing else lists."""
        listing, (array, _) = self.row.listing, self.row.words
        return UsageError(
            "the nodes of this archive cannot be found",
            found="a store that cannot list" + (f", and no {listing}" if listing else ""),
            expected=(f"{listing}, or " if listing else "")
            + f"{'an' if array == 'array' else 'a'} {array} at the root",
            advice=self.unlisted_advice()
            if listing
            else f"Copy the archive to a store that can be listed, or open one {array} by its own URL.",
        )

    def unlisted_advice(self) -> str:
        """Advice for archives in which no document names the nodes."""
        return (
            f"{self.storage.url} cannot be listed, and no document lists its nodes: consolidate its metadata"
            " (zarr.consolidate_metadata), open one node by its own URL, or copy the archive to a store that"
            " can be listed."
        )
