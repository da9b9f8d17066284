"""Which chunk of which array a key names: the keys of one array's chunks, and arrays by their documents.

A key is a chunk key only below the path of a known array, with exactly as many indexes as the array has axes,
each without leading zeros. Groups and arrays may therefore be called `c`, `0` or `c0`: nothing is inferred
from the form of a key.

Sources: Zarr v3.0 core specification, "Array metadata" and "Chunk grids"
(https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html); Zarr v2 specification, "Metadata"
(https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#metadata).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, NamedTuple, Self

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from ..core.chunk_keys_v3 import KeyEncoding
from ..core.errors import UsageError, ZarrstackError
from ..core.json_text import JSON, JSONObject, excerpt
from ..core.paths import ancestors, join, prefix_of
from .array_documents import is_document, parse

DOCUMENTS: Final = ("zarr.json", ".zarray")


class Chunk(NamedTuple):
    """A chunk of an array; of an array in shards, a shard."""

    array: str
    """The path of the array in the store, "" for the root."""
    coordinates: tuple[int, ...]
    counts: tuple[int, ...]
    """Number of chunks along each axis."""


@dataclass(frozen=True, slots=True)
class ChunkNames:
    """The chunk keys of the array at `path` ("" for an array at the root) with `ndim` axes."""

    path: str
    ndim: int
    encoding: KeyEncoding
    region: str = field(init=False)
    """The longest common prefix of all keys: `a/c/`, `a/c.`, `a/c` or `a/`."""

    def __post_init__(self) -> None:
        check_path(self.path)
        if type(self.ndim) is not int or self.ndim < 0:
            raise UsageError("bad number of axes", node=self.path, found=excerpt(self.ndim))
        head = "c" + (self.encoding.separator if self.ndim else "") if self.encoding.name == "default" else ""
        object.__setattr__(self, "region", prefix_of(self.path) + head)

    @property
    def folder(self) -> str:
        """Common folder of all keys, up to the last slash before the first index: `a/`, `a/c/`."""
        return self.region[: self.region.rfind("/") + 1]

    def key(self, coordinates: tuple[int, ...]) -> str:
        """The key of a chunk, such as `a/c/0/1`."""
        return prefix_of(self.path) + self.encoding.key(coordinates)

    def coordinates(self, key: str) -> tuple[int, ...] | None:
        """The coordinates of the chunk with this key; None if it is not a chunk key of this array."""
        if not key.startswith(self.region):
            return None
        return self.encoding.coordinates(key[len(self.path) + bool(self.path) :], self.ndim)


def check_path(path: JSON) -> str:
    """Return a node's path; UsageError for an empty segment, `.` or `..`."""
    if not isinstance(path, str) or (path and {"", ".", ".."} & set(path.split("/"))):
        raise UsageError(
            "not a path within a store", found=excerpt(path), expected='"" or names joined by slashes'
        )
    return path


@dataclass(frozen=True, slots=True)
class ArrayChunks:
    """The chunks of one array."""

    names: ChunkNames
    counts: tuple[int, ...]
    """Number of chunks along each axis."""

    @classmethod
    def of(cls, path: str, document: JSONObject) -> Self | None:
        """Those of an array of Zarr v2 or v3; None for a group, and for another grid or key encoding."""
        try:
            if document.get("zarr_format") == 2:
                lengths: Any = document.get("chunks")
                separator = document.get("dimension_separator", ".")
                encoding: JSON = {"name": "v2", "configuration": {"separator": separator}}
            else:
                grid = document.get("chunk_grid")
                if not isinstance(grid, dict) or grid.get("name") != "regular":
                    return None
                lengths, encoding = grid["configuration"]["chunk_shape"], document.get("chunk_key_encoding")
            shape: Any = document["shape"]
            counts = tuple(-(-n // c) for n, c in zip(shape, lengths, strict=True))
            return cls(ChunkNames(path, len(counts), KeyEncoding.from_json(encoding)), counts)
        except (ZarrstackError, KeyError, TypeError, ValueError, ZeroDivisionError):
            return None  # zarr-python says what is wrong with it

    @property
    def total(self) -> int:
        """Number of chunks."""
        return prod(self.counts)

    def index(self, key: str) -> int | None:
        """The linear index of a chunk in C order; None if the key names no chunk of the array."""
        place = self.names.coordinates(key)
        if place is None or any(at >= count for at, count in zip(place, self.counts, strict=True)):
            return None
        index = 0
        for at, count in zip(place, self.counts, strict=True):
            index = index * count + at
        return index

    def chunk(self, key: str) -> Chunk | None:
        """The chunk that a key names."""
        place = self.names.coordinates(key)
        return (
            None if place is None or self.index(key) is None else Chunk(self.names.path, place, self.counts)
        )

    def key(self, index: int) -> str:
        """The key of the chunk with a linear index."""
        place = []
        for count in reversed(self.counts):
            index, at = divmod(index, count)
            place.append(at)
        return self.names.key(tuple(reversed(place)))


class KnownArrays:
    """The arrays of a store whose documents were seen or asked for."""

    def __init__(self) -> None:
        self._arrays: dict[str, ArrayChunks] = {}

    def note(self, key: str, content: bytes | None) -> None:
        """Take what a document says; of a key that is no document, nothing."""
        folder, _, name = key.rpartition("/")
        document = parse(content) if name in DOCUMENTS and content is not None else None
        if document is not None and (array := ArrayChunks.of(folder, document)) is not None:
            self._arrays[folder] = array

    def forget(self, prefix: str = "") -> None:
        """Forget the arrays at and below a path that ends with a slash, or all."""
        for path in [path for path in self._arrays if f"{path}/".startswith(prefix)]:
            self._arrays.pop(path, None)

    def array_of(self, key: str) -> ArrayChunks | None:
        """The known array that may contain a key."""
        return next((array for path in ancestors(key) if (array := self._arrays.get(path))), None)

    async def find_array(self, store: Store, key: str) -> ArrayChunks | None:
        """The array that may contain a key, with requests for documents above it unless it is known."""
        if (array := self.array_of(key)) is not None:
            return array
        for path in reversed(tuple(ancestors(key))):
            for name in DOCUMENTS:
                document = join(path, name)
                value = await store.get(document, default_buffer_prototype())
                if value is not None:
                    self.note(document, value.to_bytes())
                    break
            if path in self._arrays:
                return self._arrays[path]
        return None

    async def chunk(self, store: Store, key: str) -> Chunk | None:
        """The chunk that a key names; the document of its array is read again if it has grown since."""
        if is_document(key):
            return None
        array = await self.find_array(store, key)
        if array is not None and array.names.coordinates(key) is not None and array.index(key) is None:
            self.forget(prefix_of(array.names.path))
            array = await self.find_array(store, key)
        return None if array is None else array.chunk(key)
