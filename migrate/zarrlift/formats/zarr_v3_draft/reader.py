"""Describes the nodes of an archive in the 2022 draft of Zarr v3, in either dialect.

The dialects are the specification's and zarr-python 2's. `zarrlift.core.draft_v3.nodes` reads documents and
keys, and names the sources. This module has what is particular to the hierarchy, and additions of writers
(observed):

- zarr-python 2.13 to 2.18 stores consolidated metadata below `meta/root/consolidated/`, which makes it
  look like a group, but it is not a node.
- zarrita of 2020 writes the entry point that zarr-python copied, but names the only chunk of an array
  without axes `c`, where zarr-python has `c0`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from zarrstack.core.errors import MetadataError, Problem, UsageError, ZarrstackError
from zarrstack.core.json_text import canonical
from zarrstack.core.paths import join, parents
from zarrstack.core.shard_index import IndexFormat

from ...archive.nodes import ArrayNode, GroupNode, Layout, Node, SourceDocument
from ...core.chain.chain import Chain
from ...core.codecs.registry import compile_bytes_codec
from ...core.draft_v3.array import describe_array
from ...core.draft_v3.nodes import CONSOLIDATED, ENTRY, Dialect, read_entry, read_group
from ...core.grid.frames import Shards
from ...core.json_document import document
from ...core.problems import refusal
from ...core.zarr_v2.chain import read_chain
from ...storage.base import DirectoryEntry
from ...storage.local.storage import LocalStorage
from ..tree.conflicts import foreign_node, is_litter, refuse_below_arrays
from ..tree.directory import NodeDirectory, add_groups, implicit_group, refuse, unfollowed_link
from ..tree.documents import consolidated_entries, parse_object
from ..tree.reader import ArchiveReader
from ..tree.walk import passed_over, walk
from .places import (
    META,
    Places,
    documents_named,
    find_documents,
    refuse_lone_chunks,
    with_scalar_key,
    without_entry,
)

_GHOST: Final = "consolidated"
"""The apparent group created by zarr-python 2 for consolidated metadata."""


class _Reader(ArchiveReader):
    """Every node has a document below `meta/`; `Places` maps it to `array.json` or `group.json` of a path."""

    listed_in = CONSOLIDATED

    def __init__(self, *archive: Any, only: bool) -> None:
        super().__init__(*archive, only=only)
        self._places = Places()
        self._strays: list[str] = []
        self._codecs: dict[str, Problem | None] = {}
        """Codec -> problem of its configuration."""
        self._links: dict[str, Problem | None] = {}
        """Directory -> its problem as a link."""
        content = self.storage.get(ENTRY)
        self._dialect = self._read_entry(content)
        if content is not None:
            self.sources.append(SourceDocument(key=ENTRY, content=content))

    def _read_entry(self, content: bytes | None) -> Dialect:
        """The dialect, from the entry point or, if that is missing, from the keys themselves."""
        problems = self.problems
        if content is not None:
            try:
                entry = read_entry(parse_object(content, ENTRY))
            except ZarrstackError as error:
                raise error.at(key=ENTRY) from None
            problems.extend(problem.at(key=ENTRY) for problem in entry.problems)
            return entry.dialect
        substitute = without_entry(self.storage)
        if substitute is None:
            raise UsageError(
                "no hierarchy of the 2022 draft of Zarr v3 found",
                found=self.storage.url,
                expected=f"{ENTRY} at its root",
            )
        problems.append(substitute[1].at(key=ENTRY))
        return substitute[0]

    def nothing(self) -> None:
        """A hierarchy may be empty."""

    # ----- documents

    def find(self) -> None:
        if self.storage.can_list:
            follow_links = self.reading.follow_links
            self._places = find_documents(self.storage, self._dialect, follow_links=follow_links)
            content = self._places.consolidated
        else:
            content = self.storage.get(CONSOLIDATED) if self._dialect.name == "zarr-python" else None
        if content is not None:
            self.sources.append(SourceDocument(key=CONSOLIDATED, content=content))
            try:
                self._list(content)
            except MetadataError as error:
                if not self.storage.can_list:
                    raise
                self.problems.append(replace(error.problem, severity="warning", kind="consolidated"))
        if not self.storage.can_list:
            self._places = documents_named(self._dialect, self._unlisted())
        self.problems.extend(self._places.problems)
        self.directories = self._places.nodes

    def _list(self, content: bytes) -> None:
        """Read consolidated metadata; MetadataError if it is invalid."""
        self.listed, problems = consolidated_entries(
            content, CONSOLIDATED, is_document=lambda key: key == ENTRY or self.node_of(key) is not None
        )
        self.problems.extend(problems)
        self.listed.pop(ENTRY, None)

    def _unlisted(self) -> dict[str, bytes]:
        """The documents of an archive in a store that cannot list."""
        if self.listed is not None:
            return {key: document(data) for key, data in self.listed.items()}
        root = self._dialect.key("", "array")
        content = self.storage.get(root)
        if content is None:
            raise self.unknown_nodes()
        return {root: content}

    def node_of(self, key: str) -> str | None:
        node = self._dialect.node(key)
        return None if node is None else node.path

    def kind(self, place: NodeDirectory) -> Literal["array", "group"] | None:
        name = place.first(self.row.nodes)
        if name is None:  # after problems with links or storage, the type is unknown
            return "group" if place.problems else None
        return "array" if name == "array.json" else "group"

    def read_group(self, place: NodeDirectory, problems: list[Problem]) -> Mapping[str, object]:
        data = self.parse(place, "group.json", problems)
        try:
            return {} if data is None else read_group(data)
        except ZarrstackError as error:
            problems.append(error.problem.at(key=place.key("group.json")))
            return {}

    def read_array(
        self, place: NodeDirectory, entries: Iterable[DirectoryEntry], problems: list[Problem]
    ) -> ArrayNode:
        key = place.key("array.json")
        if "group.json" in place.documents:
            message = "a node is both an array and a group"
            found = f"{key} and {place.key('group.json')}"
            problems.append(refusal("metadata", message, key=key, found=found, expected="one of them"))
        data = self.parse(place, "array.json", problems)
        if data is None:
            return self.array(place, problems)
        array, notes = describe_array(
            data, self._dialect, allow_fallback=self.reading.allow_fallback, read_filtered=read_chain
        )
        problems.extend(note.at(key=key if note.severity == "refusal" else None) for note in notes)
        if array is None:
            return self.array(place, problems)
        problems.extend(self._bad_codecs(array.chain))
        root = self._dialect.data(place.path)[:-1]
        if (problem := self._bad_directory(root)) is not None:
            problems.append(problem)
        counts = array.chunks_per_shard
        layout = Layout(
            shape=array.shape,
            data_type=array.data_type,
            fill_value=array.fill_value,
            chunk_shape=array.chunk_shape,
            chain=array.chain,
            keys=array.keys(self._dialect),
            frame=None if counts is None else Shards(counts, IndexFormat.DRAFT),
            root=root,
        )
        return self.array(
            place,
            problems,
            with_scalar_key(self.storage, layout),
            attributes=array.attributes,
            fill_is_null=array.fill_is_null,
            extra={"extensions": list(array.extensions)} if array.extensions else {},
        )

    def _bad_codecs(self, chain: Chain) -> Iterator[Problem]:
        """Problems that the codecs' own readers find in their configurations."""
        for spec in chain.codecs[chain.middle + 1 :]:
            text = canonical(spec.to_json())
            if text not in self._codecs:
                self._codecs[text] = None
                try:
                    compile_bytes_codec(spec)
                except ZarrstackError as error:
                    self._codecs[text] = error.problem
            if (problem := self._codecs[text]) is not None:
                yield problem

    def _bad_directory(self, directory: str) -> Problem | None:
        """The problem of the path to an array's chunks in a local archive: a link that leaves it."""
        storage = self.storage
        if not isinstance(storage, LocalStorage):
            return None
        for place in (*reversed(parents(directory)[:-1]), directory):
            if place not in self._links:
                self._links[place] = self._bad_link(storage, place)
            if (problem := self._links[place]) is not None:
                return problem
        return None

    def _bad_link(self, storage: LocalStorage, place: str) -> Problem | None:
        target = storage.link(place)
        if target is None:
            return None
        if os.path.exists(target) and (self.reading.follow_links or not storage.leaves_root(target)):
            return None
        return unfollowed_link(None, place, target)

    # ----- the hierarchy

    def refuse_inside(self, arrays: Iterable[str], nodes: dict[str, Node]) -> None:
        self._drop_ghost(nodes)
        refuse_below_arrays(nodes)
        nodes.setdefault("", implicit_group(""))
        add_groups(nodes, self.directories)
        if self.storage.can_list:
            self._check_chunks(nodes)

    def _drop_ghost(self, nodes: dict[str, Node]) -> None:
        """Remove the apparent group that exists only for consolidated metadata."""
        node = nodes.get(_GHOST)
        has_children = any(path.startswith(f"{_GHOST}/") for path in nodes)
        if (
            (self._places.consolidated is not None or self.listed is not None)
            and isinstance(node, GroupNode)
            and not (has_children or node.attributes or node.problems)
        ):
            self.sources.extend(node.documents)
            del nodes[_GHOST]

    def _check_chunks(self, nodes: dict[str, Node]) -> None:
        """Report chunks without an array's document, and find files without a node."""
        warnings, others = refuse_lone_chunks(self.storage, self._dialect, nodes)
        self.problems.extend(warnings)
        top = [entry for entry in self.storage.list_dir("") if entry.name not in (ENTRY, META, "data")]
        foreign: set[str] = set()
        if any(entry.is_dir and not passed_over(entry.name) for entry in top):
            foreign = {path.partition("/")[0] for path in self._refuse_foreign(nodes)}
        names = sorted(entry.name for entry in top if entry.name not in foreign)
        self._strays = [*names, *self._places.unclaimed, *others]

    def _refuse_foreign(self, nodes: dict[str, Node]) -> Iterator[str]:
        """Refuse nodes of other formats beside the documents and chunks; yields their directories."""
        markers = self.row.foreign
        directories = walk(
            self.storage,
            documents=(),
            is_array=lambda place: place.path in (META, "data"),
            further=lambda place: markers if place.path else (),
            follow_links=self.reading.follow_links,
        )
        for path, place in directories.items():
            for name in self.others(place):
                problem = foreign_node(join(path, name), markers[name].format, self.row.name)
                if path in nodes:  # of the same path below `meta`
                    self.problems.append(problem)
                else:
                    refuse(nodes, problem.at(node=path))
                yield path

    def strays(self, nodes: Mapping[str, Node]) -> Iterable[str]:
        return (key for key in self._strays if not is_litter(key.rpartition("/")[2]))


reader = _Reader
