"""The full keys of one array's chunks, as used by `Sharding` and `Rekey`.

A key is a chunk key only below the path of a known array, with exactly as many indexes as the array has axes,
each without leading zeros. Groups and arrays may therefore be called `c`, `0` or `c0`: nothing is inferred
from the form of a key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..core.chunk_keys_v3 import KeyEncoding
from ..core.errors import UsageError
from ..core.json_text import JSON, excerpt
from ..core.paths import prefix_of


@dataclass(frozen=True, slots=True)
class ChunkNames:
    """The chunk keys of the array at `path` ("" for an array at the root) with `ndim` axes."""

    path: str
    ndim: int
    encoding: KeyEncoding
    folder: str = field(init=False)
    """Common folder of all keys, up to the last slash before the first index: `a/`, `a/c/`."""
    head: str = field(init=False)
    """Text between the folder and the first index: `c.`, `c` or ""."""

    def __post_init__(self) -> None:
        check_path(self.path)
        if type(self.ndim) is not int or self.ndim < 0:
            raise UsageError("bad number of axes", node=self.path, found=excerpt(self.ndim))
        folder, head = prefix_of(self.path), ""
        if self.encoding.name == "default":
            head = "c" + self.encoding.separator if self.ndim else "c"
        if head.endswith("/"):
            folder, head = folder + head, ""
        object.__setattr__(self, "folder", folder)
        object.__setattr__(self, "head", head)

    @property
    def region(self) -> str:
        """The longest common prefix of all chunk keys."""
        return self.folder + self.head

    def key(self, coordinates: tuple[int, ...]) -> str:
        """The key of a chunk, such as `a/c/0/1`."""
        return self.folder + self.head + self._rest(coordinates)

    def coordinates(self, key: str) -> tuple[int, ...] | None:
        """The coordinates of the chunk with this key; None if it is not a chunk key of this array."""
        if not key.startswith(self.folder + self.head):
            return None
        rest = key[len(self.folder) + len(self.head) :]
        if self.ndim == 0:
            return () if rest == self._rest(()) else None
        return KeyEncoding("v2", self.encoding.separator).coordinates(rest, self.ndim)

    def _rest(self, coordinates: tuple[int, ...]) -> str:
        if self.ndim == 0:
            # A 0-d default key is just `c`; v2 appends the index 0.
            return "" if self.encoding.name == "default" else "0"
        return self.encoding.separator.join(map(str, coordinates))


def check_path(path: JSON) -> str:
    """Return a node's path; UsageError for an empty segment, `.` or `..`."""
    if not isinstance(path, str) or (path and {"", ".", ".."} & set(path.split("/"))):
        raise UsageError(
            "not a path within a store", found=excerpt(path), expected='"" or names joined by slashes'
        )
    return path
