"""What a format of another package says of an archive: arrays and groups, in the terms of a `zarr.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import join

from .tree.documents import parse_object, parsed_or_none

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
