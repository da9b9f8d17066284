"""The contract of a source format that another package adds: it recognises documents, and describes nodes.

A description is in the terms of a `zarr.json` and is complete: chunks are read, converted and verified from
it alone, in any process, and the plug-in is not asked again. Of an archive it sees documents and names,
whatever the storage.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from zarrstack.core.errors import (
    MetadataError,
    Problem,
    StorageError,
    UnsupportedError,
    UsageError,
    ZarrstackError,
)
from zarrstack.core.json_text import JSON, JSONObject, excerpt
from zarrstack.core.paths import join

from ..core.problems import refusal
from ..recipe.format_names import provider
from ..storage.local.storage import LocalStorage
from .tree.documents import parse_object, parsed_or_none
from .tree.links import broken_link, link_outside

if TYPE_CHECKING:
    from .tree.reader import Describer


NodeKind: TypeAlias = Literal["array", "group"]


def json_object(content: bytes) -> JSONObject | None:
    """The JSON object in a document; None if it is not one, or is too large or deep to be metadata."""
    return parsed_or_none(content, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory of an archive with its documents."""

    path: str
    """Names joined by "/"; "" for the root."""
    documents: Mapping[str, bytes]
    """Content by name, of those documents of the format that exist; at least one."""

    def key(self, name: str) -> str:
        """The key of a document, relative to the archive's root."""
        return join(self.path, name)

    def json(self, name: str) -> JSONObject:
        """A document as a JSON object; MetadataError if it is missing, is none, or is too large or deep."""
        return parse_object(self.documents.get(name, b""), self.key(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of an archive. A group without documents need not be described."""

    path: str
    """Names joined by "/"; "" for the root."""
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    documents: Sequence[str] = ()
    """Keys of the documents that describe it, relative to the archive's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """An array of an archive, in the terms of a `zarr.json`.

    Every stored chunk holds `chunk_shape` elements, at the edges of the array too; a missing chunk has the
    fill value.
    """

    path: str
    """Names joined by "/"; "" for the root."""
    shape: Sequence[int]
    chunk_shape: Sequence[int]
    data_type: JSON
    """As in `zarr.json`, such as "uint16"."""
    codecs: Sequence[JSON]
    """As in `zarr.json`, from the array to the stored bytes. Codecs of numcodecs have the prefix
    `numcodecs.`, as in `{"name": "numcodecs.zlib", "configuration": {"level": 1}}`.
    """
    keys: str
    """The key of a chunk below `directory` is `keys.format(*coordinates)`: "{0}.{1}", "z{0}/tile_{1:03}.bin".
    Each axis has one field, with zeros in front to a fixed width, if any.
    """
    documents: Sequence[str]
    """Keys of the documents that describe it, relative to the archive's root; at least one. A change of one
    of them is noticed. `finish`, after a migration in place, deletes them.
    """
    fill_value: JSON = None
    """As in `zarr.json`; None if the format has none, which becomes zero."""
    directory: str | None = None
    """Path of the directory with the chunks, relative to the archive's root; by default the array's path.
    Arrays may share one if their keys start with different text.
    """
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    dimension_names: Sequence[str | None] | None = None


Described: TypeAlias = Array | Group | Problem


class SourceFormat(ABC):
    """A source format. Register it as an entry point of the group `zarrlift.formats`.

    The class is instantiated without arguments. A node that cannot be described is a problem of that node
    alone: raise MetadataError or UnsupportedError (`zarrlift.errors`) with what was found and expected, and
    the others are migrated.
    """

    name: ClassVar[str]
    """Name after `--from` and in reports."""
    documents: ClassVar[tuple[str, ...]]
    """Names of the documents that show a node of this format, such as ("tiles.json",)."""

    @abstractmethod
    def recognise(self, document: str, content: bytes) -> NodeKind | None:
        """Whether a document, one of `documents` by its name, is that of an array or a group.

        None if it is neither, as with a document of another program that has the same name, or damaged
        content. Called for every directory in which a format is detected, so it raises nothing.
        """

    def node(self, directory: Directory) -> Array | Group | None:
        """The node in a directory that has documents of this format; None if there is none.

        Override either this method or `read`. Directories below an array are not visited.
        """
        raise NotImplementedError(f"{type(self).__name__} overrides neither `node` nor `read`")

    def read(self, files: Files) -> Iterable[Described]:
        """Every node of an archive, in any order; a problem with the path of a node refuses that node.

        By default, the node of each directory. Override it for a format whose nodes are found in another way,
        such as by one index of all arrays. Two calls for an unchanged archive describe the same.
        """
        for directory in files.walk():
            try:
                node = self.node(directory)
            except Exception as error:  # noqa: BLE001 - of a plug-in, at one node: the others are described
                yield files.problem(error, directory.path, *directory.documents)
            else:
                if node is not None:
                    yield node


class Files:
    """The files of an archive, by keys relative to its root: names joined by "/".

    Reading is limited to the archive and to the maximum size of a document (`--max-document-size`); links
    that leave the archive are followed only with `--follow-links`.
    """

    def __init__(self, nodes: Describer) -> None:
        """`nodes` finds the directories of the archive."""
        self._nodes = nodes
        self._tree = nodes.tree
        self._storage = nodes.tree.storage
        self._follow_links = nodes.tree.reading.follow_links
        self.url = self._storage.url
        """Place of the archive, for messages; contains no credentials."""
        self._contents: dict[str, bytes] = {}

    def walk(self) -> Iterator[Directory]:
        """Each directory with documents of the format, parents first; none below an array.

        In a store that cannot list, the root alone, which must be an array: UsageError if it is not.
        """
        self._nodes.find()
        for path, place in self._tree.directories.items():
            for name, content in place.documents.items():
                self._contents[join(path, name)] = content
            if place.documents and not place.refused:
                yield Directory(path=path, documents=dict(place.documents))

    def read(self, key: str) -> bytes | None:
        """A file; None if there is none. StorageError if it cannot be read."""
        return self.read_many([key])[0]

    def read_many(self, keys: Iterable[str]) -> Sequence[bytes | None]:
        """Several files, each as from `read`; a remote store fetches them concurrently."""
        keys = [self._checked(key) for key in keys]
        contents = self._storage.get_many(keys)
        self._contents.update(
            {key: content for key, content in zip(keys, contents, strict=True) if content is not None}
        )
        return contents

    def names(self, path: str = "") -> tuple[str, ...]:
        """The names in a directory, sorted, those of directories with "/" at the end.

        Names of links that are not followed are omitted. UsageError for a store that cannot list.
        """
        if not self._storage.can_list:
            error = self._tree.unknown_nodes()
            error.problem = replace(error.problem, expected="a store that can be listed")
            raise error
        entries = self._storage.list_dir(self._checked(path) if path else "")
        followed = (
            entry for entry in entries if self._follow_links or not self._storage.leaves_root(entry.link)
        )
        return tuple(sorted(entry.name + "/" * entry.is_dir for entry in followed))

    def content(self, key: str) -> bytes | None:
        """A file that was read before, without reading it again; else as from `read`."""
        return self._contents[key] if key in self._contents else self.read(key)

    def problem(self, error: Exception, path: str, *names: str) -> Problem:
        """The refusal of a node at a path, whose description failed with an error; `names` of documents.

        What is not an error of zarrlift is a fault of the format. MemoryError is raised again.
        """
        if isinstance(error, UsageError | MemoryError):
            raise error
        key = join(path, names[0]) if names else None
        if isinstance(error, ZarrstackError):
            return error.problem.at(node=path, key=key)
        package = provider(self._tree.row.name)
        return refusal(
            "format",
            f"the format {self._tree.row.name!r} of {package} fails to describe a node",
            node=path,
            key=key,
            found=" ".join(f"{type(error).__name__}: {error}".split()),
            advice=f"Check its document; if that is valid, report this to the authors of {package}.",
        )

    def _checked(self, key: Any) -> str:
        """A key that stays in the archive."""
        if not isinstance(key, str) or any(name in ("", ".", "..") for name in key.split("/")):
            raise MetadataError("this is not the key of a file in the archive", found=excerpt(key))
        if isinstance(self._storage, LocalStorage) and not self._follow_links:
            target = os.path.realpath(self._storage.path(key))
            if self._storage.leaves_root(target):
                problem = link_outside(None, key, target)
                raise UnsupportedError(problem.message, key=key, found=target, advice=problem.advice)
            if not os.path.exists(target) and os.path.islink(self._storage.path(key)):
                raise StorageError(broken_link(None, target).message, key=key, found=target)
        return key
