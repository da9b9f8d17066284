"""The base of readers of archives whose nodes are directories with documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from zarrstack.core.errors import Problem, StorageError, any_refusal, note, refusal
from zarrstack.core.json_text import JSON, JSONObject, excerpt
from zarrstack.core.paths import join

from ...archive.nodes import ArrayNode, GroupNode, Layout, Node, SourceDocument
from ...recipe.options import Format
from ...storage.base import Storage
from .conflicts import chunks_alone, nodes_inside
from .directory import CHUNK, NodeDirectory
from .documents import Documents
from .nodes import add_groups, placed, refuse
from .two_documents import ARRAY, V3, format_of_chunks
from .unclaimed_files import unclaimed_file_notes, unclaimed_files
from .walk import chunk_root


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFormat:
    """A format by the names of its documents."""

    format: Format
    archive: str
    """Name of such an archive with its article, for people: "a Zarr v2 archive"."""
    documents: tuple[str, ...]
    """Names of the documents that define a node."""
    sources: frozenset[str]
    """Names of the documents from which a node is made."""
    others: Mapping[str, Format]
    """Metadata documents of other formats."""
    known: frozenset[str]
    """Names of files that are not strays."""


def wrong_version(document: JSONObject, version: int, key: str) -> Problem | None:
    """A refusal of a document whose `zarr_format` is not this one."""
    found = document.get("zarr_format")
    if type(found) is int and found == version:
        return None
    return refusal(
        "metadata",
        f"zarr_format is not {version}",
        key=key,
        found=excerpt(found) if "zarr_format" in document else "none",
        expected=str(version),
    )


@dataclass(slots=True, kw_only=True)
class TreeReader:
    """Converts directories to nodes, and collects problems of the archive as a whole."""

    native: ClassVar[NativeFormat]
    storage: Storage
    only: bool
    """Whether this format was requested: documents of others next to its own are ignored, not refused."""
    documents: Documents = field(default_factory=Documents)
    problems: list[Problem] = field(default_factory=list)

    def problems_at(self, place: NodeDirectory) -> list[Problem]:
        """The problems of a directory, and a refusal for each document of another format."""
        return [*place.problems, *self.foreign(place)]

    def foreign(self, place: NodeDirectory) -> Iterator[Problem]:
        """A refusal for each document of another format."""
        own = place.first(self.native.documents)
        for name, other in self.native.others.items():
            if self.only or not self.has_other(place, name):
                continue
            key = join(place.path, name)
            if own is not None and self._has_chunks(place, name):
                yield note("format", f"{name} of {other} is ignored: the chunks are those of {own}", key=key)
            elif own is not None:
                yield refusal(
                    "format",
                    "a node has metadata of two formats",
                    key=key,
                    found=f"{self.native.format} ({own}) and {other} ({name})",
                    advice="Choose one with --from.",
                )
            else:
                message = f"a {other} node is inside {self.native.archive}"
                yield refusal("format", message, key=key, advice="Move or exclude it.")

    def _has_chunks(self, place: NodeDirectory, other: str) -> bool:
        """Whether the chunks of an array are those of its own document, and not of the other one."""
        if other not in (ARRAY, V3):
            return False
        try:
            return format_of_chunks(self.storage, place.path, place.documents) == self.native.format
        except StorageError as error:
            place.fail(error)
            return False

    def has_other(self, place: NodeDirectory, name: str) -> bool:
        """Whether a directory has a document of another format, with that format's content."""
        return name in place.documents

    def parse(self, place: NodeDirectory, name: str, problems: list[Problem]) -> JSONObject | None:
        """A document; None if it is missing or, after adding a problem, if it is unreadable."""
        if name not in place.documents:
            return None
        return self.documents.take(place.documents[name], join(place.path, name), problems)

    def array(
        self,
        place: NodeDirectory,
        problems: Iterable[Problem],
        *,
        attributes: Mapping[str, JSON],
        layout: Layout | None,
        fill_is_null: bool = False,
        fill_is_zero: bool = False,
        extra: JSONObject | None = None,
    ) -> ArrayNode:
        """The array in a directory, without its layout after a refusal."""
        told = placed(problems, place.path, place.key_of(*self.native.documents))
        return ArrayNode(
            path=place.path,
            attributes=attributes,
            layout=None if any_refusal(told) else layout,
            fill_is_null=fill_is_null,
            fill_is_zero=fill_is_zero,
            documents=self._sources(place),
            extra=extra or {},
            problems=told,
            bare=place.bare,
        )

    def group(
        self, place: NodeDirectory, problems: Iterable[Problem], attributes: Mapping[str, JSON]
    ) -> GroupNode:
        """The group in a directory."""
        key = place.key_of(*self.native.documents)
        return GroupNode(
            path=place.path,
            attributes=attributes,
            documents=self._sources(place),
            implicit=key is None,
            problems=placed(problems, place.path, key),
        )

    def _sources(self, place: NodeDirectory) -> tuple[SourceDocument, ...]:
        return tuple(
            [
                SourceDocument(key=join(place.path, name), content=content)
                for name, content in place.documents.items()
                if name in self.native.sources
            ]
        )

    def refuse_lone_chunks(self, nodes: dict[str, Node], found: dict[str, NodeDirectory]) -> None:
        """Refuse chunks without an array's document, whose values cannot be decoded."""
        for path, place in found.items():
            if place.chunk is None or not path or place.first(self.native.documents) is not None:
                continue
            if (root := chunk_root(path, found)) not in nodes:
                refuse(nodes, chunks_alone(root, join(path, place.chunk), self.native.documents[0]))

    def complete(
        self, nodes: dict[str, Node], found: Mapping[str, NodeDirectory], arrays: Iterable[str]
    ) -> tuple[Node, ...]:
        """All nodes, sorted: with refusals for nodes inside these arrays, and with implicit groups."""
        for path in arrays:
            place = found.get(path) or NodeDirectory(path=path)
            for problem in nodes_inside(self.storage, place, self.native.documents, CHUNK.fullmatch):
                refuse(nodes, problem)
        add_groups(nodes, found)
        return self.sorted(nodes, found)

    def sorted(self, nodes: Mapping[str, Node], found: Mapping[str, NodeDirectory]) -> tuple[Node, ...]:
        """All nodes, sorted, after adding notes about files without a node."""
        self.problems.extend(unclaimed_file_notes([*unclaimed_files(found, nodes, self.native.known)]))
        return tuple(nodes[path] for path in sorted(nodes))
