"""The contract of a source format that another package adds: it recognises documents, and describes nodes.

A description is in the terms of a `zarr.json` and is complete: chunks are read, converted and verified from
it alone, in any process, and the plug-in is not asked again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import join

from .tree.documents import parse_object, parsed_or_none

if TYPE_CHECKING:
    from .files import Files

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
