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
from typing import Any, Final, Self

from ..core.chunk_keys_v3 import KeyEncoding
from ..core.errors import UsageError, ZarrstackError
from ..core.json_text import JSON, JSONObject, excerpt
from ..core.paths import prefix_of

DOCUMENTS: Final = ("zarr.json", ".zarray")


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

    def outside(self, key: str) -> bool:
        """Whether a key names a chunk outside of the array's shape."""
        chunk = self.names.coordinates(key)
        return chunk is not None and any(at >= n for at, n in zip(chunk, self.counts, strict=True))
