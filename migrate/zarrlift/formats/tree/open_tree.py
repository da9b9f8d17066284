"""An archive that is being read: its documents, and the nodes that are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.json_text import JSON, JSONObject

from ...archive.nodes import ArrayNode, GroupNode, Layout, SourceDocument
from ...core.json_document import document
from ...core.problems import any_refusal
from ...recipe.options import Reading
from ...storage.base import Storage
from ..table import NodeFormat
from .directory import NodeDirectory, located, name_problems
from .documents import Documents, parsed_or_none

_TO_LIST: Final = "Copy the archive to a store that can be listed"


@dataclass(slots=True, kw_only=True)
class DescribedArray:
    """What a document says of an array; the fields are those of `ArrayNode`."""

    attributes: Mapping[str, JSON] = field(default_factory=dict)
    layout: Layout | None = None
    fill_is_null: bool = False
    fill_is_zero: bool = False
    extra: JSONObject = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Tree:
    """An archive that is being read: documents, directories, and problems of the archive as a whole."""

    storage: Storage
    row: NodeFormat
    reading: Reading
    only: bool
    documents: Documents = field(default_factory=Documents)
    directories: dict[str, NodeDirectory] = field(default_factory=dict)
    """Directories by path, parents before children."""
    listing_root: dict[str, NodeDirectory] = field(default_factory=dict)
    """In a store that cannot list: the root, if consolidated metadata is in its document."""
    listed: dict[str, JSONObject] | None = None
    """The documents in consolidated metadata by key; None if there is none, or if it is unreadable."""
    sources: list[SourceDocument] = field(default_factory=list)
    """Documents that belong to no node."""
    problems: list[Problem] = field(default_factory=list)

    def parse(self, place: NodeDirectory, name: str, problems: list[Problem]) -> JSONObject | None:
        """A document; None if it is missing or, after adding a problem, if it is unreadable."""
        if name not in place.documents:
            return None
        return self.documents.take(place.documents[name], place.key(name), problems)

    def parsed(self, place: NodeDirectory, name: str) -> JSONObject | Problem | None:
        """A document, a refusal, or None if it is missing."""
        return (
            self.documents.read(place.documents[name], place.key(name)) if name in place.documents else None
        )

    def others(self, place: NodeDirectory) -> Iterator[str]:
        """The documents of other formats in a directory, with that format's content.

        Of those beside documents of its own, only the ones that are requested everywhere.
        """
        alone = self.own_document(place) is None
        for name, marker in self.row.foreign.items():
            if name in place.documents and (alone or name in self.row.others):
                content = place.documents[name]
                if marker.certain or marker.matches(parsed_or_none(content, name)):
                    yield name

    def own_document(self, place: NodeDirectory) -> str | None:
        """The document that makes a directory a node of the format."""
        return place.first(self.row.nodes) or place.first(self.row.more)

    def array(
        self, place: NodeDirectory, described: DescribedArray, problems: Iterable[Problem]
    ) -> ArrayNode:
        """The array in a directory, without its layout after a refusal."""
        all_problems = located(problems, place.path, place.key_of(*self.row.nodes))
        return ArrayNode(
            path=place.path,
            attributes=described.attributes,
            layout=None if any_refusal(all_problems) else described.layout,
            fill_is_null=described.fill_is_null,
            fill_is_zero=described.fill_is_zero,
            documents=self._sources(place),
            extra=described.extra,
            problems=all_problems,
            only_documents=place.only_documents,
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
            advice=self.unlisted_advice() if listing else f"{_TO_LIST}, or open one {array} by its own URL.",
        )

    def unlisted_advice(self) -> str:
        """Advice for archives in which no document names the nodes."""
        return (
            f"{self.storage.url} cannot be listed, and no document lists its nodes: consolidate its metadata"
            " (zarr.consolidate_metadata), open one node by its own URL, or copy the archive to a store that"
            " can be listed."
        )
