"""The full keys of one array's chunks, as used by `Sharding` and `Rekey`.

A key is a chunk key only below the path of a known array, with exactly as many indexes as the array has axes,
each without leading zeros. Groups and arrays may therefore be called `c`, `0`, `c0` or `data`: nothing is
inferred from the form of a key.

Facts: for `default` and `v2` see `core.grid.chunk_keys_v3`. `draft` is the chunk key of the 2022 draft of
Zarr v3, `data/root/<path>/c0/1`, with `c0` for an array without axes, as zarr-python 2.18.7 writes it; the
draft's text of May 2022 has no `root/` ("Storage keys", zarr-v3-core-draft-2022-05).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from ..core.errors import MetadataError, UsageError
from ..core.grid.chunk_keys_v3 import KeyEncoding, Separator
from ..core.json_text import JSON, JSONObject, excerpt

EncodingName: TypeAlias = Literal["default", "v2", "draft"]
DRAFT_ROOT: Final = "data/root"
"""Folder of the chunks of a draft archive, as written by zarr-python 2.18."""


@dataclass(frozen=True, slots=True)
class ChunkEncoding:
    """The chunk key encoding of an archive.

    Chunk keys of `default` and `v2` are below the array, those of `draft` in a separate tree.
    """

    name: EncodingName
    separator: Separator
    root: str = ""
    """For `draft`, the folder of all chunks, `data/root` or `data`; otherwise ""."""

    @classmethod
    def from_json(cls, data: JSON) -> ChunkEncoding:
        """Parse a `chunk_key_encoding`; `draft` has the additional member `root` (`data/root`).

        A bare name stands for its defaults. MetadataError for unknown members, which could change keys.
        """
        if isinstance(data, ChunkEncoding):
            return data
        name = data.get("name") if isinstance(data, dict) else data
        if name != "draft":
            plain = KeyEncoding.from_json(data)
            return cls(plain.name, plain.separator)
        configuration = (data.get("configuration") or {}) if isinstance(data, dict) else {}
        if not isinstance(configuration, dict) or configuration.keys() - {"separator", "root"}:
            raise MetadataError(
                "malformed chunk key encoding",
                found=excerpt(data),
                expected='{"name": "draft", "configuration": {"separator": ..., "root": ...}}',
            )
        separator = configuration.get("separator", "/")
        root = configuration.get("root", DRAFT_ROOT)
        if separator not in (".", "/") or not isinstance(root, str):
            raise MetadataError("malformed chunk key encoding", found=excerpt(data), expected="'.' or '/'")
        return cls("draft", separator, check_path(root))

    def to_json(self) -> JSONObject:
        """Serialise; the inverse of `from_json`."""
        configuration: JSONObject = {"separator": self.separator}
        if self.name == "draft":
            configuration["root"] = self.root
        return {"name": self.name, "configuration": configuration}

    def __str__(self) -> str:
        return f"{self.name} {self.separator!r}"


@dataclass(frozen=True, slots=True)
class ChunkNames:
    """The chunk keys of the array at `path` ("" for an array at the root) with `ndim` axes."""

    path: str
    ndim: int
    encoding: ChunkEncoding
    folder: str = field(init=False)
    """Common folder of all keys, up to the last slash before the first index: `a/`, `a/c/`,
    `data/root/a/`."""
    head: str = field(init=False)
    """Text between the folder and the first index: `c.`, `c` or ""."""

    def __post_init__(self) -> None:
        check_path(self.path)
        if type(self.ndim) is not int or self.ndim < 0:
            raise UsageError("bad number of axes", node=self.path, found=excerpt(self.ndim))
        parts = [self.encoding.root, self.path] if self.encoding.name == "draft" else [self.path]
        folder = "".join(part + "/" for part in parts if part)
        head = ""
        if self.encoding.name == "draft":
            head = "c"
        elif self.encoding.name == "default":
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
            # A 0-d default key is just `c`; v2 and draft append the index 0.
            return "" if self.encoding.name == "default" else "0"
        return self.encoding.separator.join(map(str, coordinates))


def check_path(path: JSON) -> str:
    """Return a node's path; UsageError for an empty segment, `.` or `..`."""
    if not isinstance(path, str) or (path and {"", ".", ".."} & set(path.split("/"))):
        raise UsageError(
            "not a path within a store", found=excerpt(path), expected='"" or names joined by slashes'
        )
    return path
