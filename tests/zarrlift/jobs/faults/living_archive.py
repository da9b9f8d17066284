"""An archive that people go on writing to: each version that an array has had is kept in memory.

It is written without any library, so that each chunk can be replaced by a new file, rewritten in place or
damaged, and so that what it contains is known.
"""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Place: TypeAlias = tuple[int, ...]
Values: TypeAlias = npt.NDArray[Any]
CODECS: Final = ("raw", "zlib")
_TYPES: Final = {"<i4": "int32", "<u2": "uint16", "<f8": "float64"}
_BYTES: Final = {"name": "bytes", "configuration": {"endian": "little"}}
UNHEARD: Final = "unheard"
"""A codec that changes nothing, and that zarrlift does not know."""
_V3_CODECS: Final = {"raw": {"name": UNHEARD}, "zlib": {"name": "gzip", "configuration": {"level": 9}}}


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """An array as it was between two changes."""

    number: int
    """Grows with each change of the archive."""
    mark: int
    """The attribute `mark`: the last version whose document was changed."""
    values: Values
    damaged: tuple[tuple[slice, ...], ...]
    """Regions that cannot be read."""

    def __deepcopy__(self, memo: object) -> Version:
        return self


@dataclass(slots=True)
class Array:
    """The present state of an array."""

    shape: Place
    chunks: Place
    dtype: str
    codec: str
    number: int = 0
    mark: int = 0
    stored: dict[Place, Values] = field(default_factory=dict)
    """Whole chunks, with what is beyond the shape."""
    damaged: set[Place] = field(default_factory=set)

    def region(self, place: Place) -> tuple[slice, ...]:
        """The part of the array that a chunk covers."""
        pairs = zip(place, self.chunks, self.shape, strict=True)
        return tuple(slice(at * size, min(at * size + size, length)) for at, size, length in pairs)

    def places(self) -> list[Place]:
        """Every chunk that may exist."""
        counts = [-(-length // size) for length, size in zip(self.shape, self.chunks, strict=True)]
        return [tuple(int(at) for at in place) for place in np.ndindex(*counts)]

    def version(self, shape: Place | None = None, mark: int | None = None) -> Version:
        """What a reader sees, also of another document's shape and mark."""
        seen = replace(self, shape=shape or self.shape)
        values = np.zeros(seen.shape, self.dtype)
        for place, chunk in self.stored.items():
            region = seen.region(place)
            if all(one.stop > one.start for one in region):
                values[region] = chunk[tuple(slice(0, one.stop - one.start) for one in region)]
        regions = map(seen.region, sorted(self.damaged))
        damaged = tuple(region for region in regions if all(one.stop > one.start for one in region))
        return Version(self.number, self.mark if mark is None else mark, values, damaged)


class Archive:
    """Arrays of two dimensions in the root and in a group, in Zarr v2, N5 or Zarr v3.

    Of Zarr v3, those whose codec is "raw" have one that zarrlift does not know.
    """

    def __init__(self, root: Path, format: str, rng: random.Random) -> None:
        self.root = root
        self.format = format
        self.number = 0
        self.arrays: dict[str, Array] = {}
        self.past: dict[str, list[Version]] = {}
        """All versions that an array has had, the present one last."""
        self.removed: set[str] = set()
        """Arrays that were deleted at some time."""
        self.files: dict[str, bytes] = {}
        """What should be in the folder."""
        self.truncates = False
        """Whether files are rewritten in place, rather than replaced by new ones."""
        for group in ("", "g"):
            self._write_group(group)
        for name, shape, chunks in (("a", (24, 20), (6, 5)), ("g/b", (21, 12), (4, 6))):
            self.add(name, shape, chunks, rng)

    def copied(self, root: Path) -> Archive:
        """The same at another place, to which the files were copied."""
        other = copy.deepcopy(self)
        other.root = root
        return other

    @property
    def now(self) -> dict[str, Version]:
        """The present version of each array."""
        return {name: self.past[name][-1] for name in self.arrays}

    # What people do

    def add(self, name: str, shape: Place, chunks: Place, rng: random.Random) -> None:
        """A new array, of which some chunks are missing."""
        array = Array(shape, chunks, rng.choice(list(_TYPES)), rng.choice(CODECS))
        self.arrays[name] = array
        for place in array.places():
            if rng.random() < 0.85:
                self._fill(array, place, rng)
        self._write(name, *array.stored, marked=True)

    def rewrite(self, name: str, rng: random.Random) -> None:
        """New values in some chunks."""
        array = self.arrays[name]
        places = rng.sample(array.places(), min(rng.choice((1, 1, 2, 5)), len(array.places())))
        for place in places:
            self._fill(array, place, rng)
        self._write(name, *places)

    def delete_chunk(self, name: str, rng: random.Random) -> None:
        """One chunk less."""
        array = self.arrays[name]
        if array.stored:
            place = rng.choice(sorted(array.stored))
            del array.stored[place]
            array.damaged.discard(place)
            self._write(name, place)

    def damage(self, name: str, rng: random.Random) -> None:
        """A chunk, new or old, that cannot be read."""
        array = self.arrays[name]
        place = rng.choice(array.places())
        self._fill(array, place, rng)
        array.damaged.add(place)
        self._write(name, place)

    def heal(self, rng: random.Random) -> None:
        """Every damaged chunk is written again."""
        for name, array in self.arrays.items():
            if places := sorted(array.damaged):
                for place in places:
                    self._fill(array, place, rng)
                self._write(name, *places)

    def resize(
        self, name: str, shape: Place, rng: random.Random, *, longer: bool, filled: float = 0.8
    ) -> None:
        """Another length; chunks beyond it are deleted, a share of new ones written, also at the old edge."""
        array = self.arrays[name]
        before = array.places()
        old, array.shape = array.shape, shape
        places = array.places()
        gone = [place for place in before if place not in places]
        for place in gone:
            array.stored.pop(place, None)
            array.damaged.discard(place)
        new = [place for place in places if place not in before]
        edge = [
            place
            for place in places
            if place in before
            and any(
                (at + 1) * size > min(ends)
                for at, size, *ends in zip(place, array.chunks, old, shape, strict=True)
                if len(set(ends)) > 1
            )
        ]
        # What is stored beyond the edge is nothing that a reader has seen.
        for place in edge:
            if place in array.stored and (longer or rng.random() < 0.7):
                self._fill(array, place, rng)
            else:
                edge = [other for other in edge if other != place]
        for place in new:
            if rng.random() < filled:
                self._fill(array, place, rng)
        self._write(name, *gone, *new, *edge, marked=True)

    def set_attribute(self, name: str) -> None:
        """Only the document changes."""
        self._write(name, marked=True)

    def remove(self, name: str) -> None:
        """An array less."""
        del self.arrays[name]
        self.removed.add(name)
        for key in [key for key in self.files if key.startswith(f"{name}/")]:
            self._put(key, None)
        for folder in (*sorted((self.root / name).rglob("*"), reverse=True), self.root / name):
            with suppress(OSError):  # in place, a new document is in it
                folder.rmdir()

    def reform(self, name: str, rng: random.Random) -> None:
        """The same array with another data type, other chunks or another codec."""
        old = self.arrays[name]
        for place in list(old.stored):
            self._put(self._key(name, place), None)
        chunks = rng.choice((old.chunks, (5, 7), (8, 4)))
        array = Array(old.shape, chunks, rng.choice(list(_TYPES)), rng.choice(CODECS))
        self.arrays[name] = array
        for place in array.places():
            self._fill(array, place, rng)
        self._write(name, *array.stored, marked=True)

    # How it is written

    def _fill(self, array: Array, place: Place, rng: random.Random) -> None:
        chunk = np.zeros(array.chunks, array.dtype)
        inside = tuple(slice(0, one.stop - one.start) for one in array.region(place))
        shape = chunk[inside].shape
        chunk[inside] = np.random.default_rng(rng.randrange(1 << 32)).integers(1, 60_000, shape)
        array.stored[place] = chunk
        array.damaged.discard(place)

    def _write(self, name: str, *places: Place, marked: bool = False) -> None:
        array = self.arrays[name]
        self.number += 1
        array.number = self.number
        if marked:
            array.mark = self.number
        for place in places:
            self._put(self._key(name, place), self._encoded(array, place) if place in array.stored else None)
        for document, content in self._documents(array).items():
            self._put(f"{name}/{document}", json.dumps(content).encode())
        self.past.setdefault(name, []).append(array.version())

    def _put(self, key: str, content: bytes | None) -> None:
        path = self.root / key
        if content is None:
            if self.files.pop(key, None) is not None:
                path.unlink()
                return
        elif self.files.get(key) != content:
            self.files[key] = content
            path.parent.mkdir(parents=True, exist_ok=True)
            if self.truncates and path.exists():
                path.write_bytes(content)
            else:
                temporary = path.with_name(path.name + ".partial")
                temporary.write_bytes(content)
                os.replace(temporary, path)

    def _write_group(self, group: str) -> None:
        prefix = f"{group}/" if group else ""
        if self.format == "n5":
            document = {"n5": "2.5.0"} if not group else {"kind": "group"}
            self._put(f"{prefix}attributes.json", json.dumps(document).encode())
        elif self.format == "zarr3":
            self._put(f"{prefix}zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
        else:
            self._put(f"{prefix}.zgroup", b'{"zarr_format": 2}')

    def _key(self, name: str, place: Place) -> str:
        if self.format == "n5":
            return "/".join((name, *map(str, reversed(place))))
        if self.format == "zarr3":
            return "/".join((name, "c", *map(str, place)))
        return f"{name}/{'.'.join(map(str, place))}"

    def _documents(self, array: Array) -> dict[str, Any]:
        if self.format == "n5":
            return {
                "attributes.json": {
                    "dimensions": array.shape[::-1],
                    "blockSize": array.chunks[::-1],
                    "dataType": _TYPES[array.dtype],
                    "compression": {"type": "gzip"} if array.codec == "zlib" else {"type": "raw"},
                    "mark": array.mark,
                }
            }
        if self.format == "zarr3":
            return {
                "zarr.json": {
                    "zarr_format": 3,
                    "node_type": "array",
                    "shape": array.shape,
                    "data_type": _TYPES[array.dtype],
                    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": array.chunks}},
                    "chunk_key_encoding": {"name": "default"},
                    "codecs": [_BYTES, _V3_CODECS[array.codec]],
                    "fill_value": 0,
                    "attributes": {"mark": array.mark},
                }
            }
        return {
            ".zarray": {
                "zarr_format": 2,
                "shape": array.shape,
                "chunks": array.chunks,
                "dtype": array.dtype,
                "compressor": {"id": "zlib", "level": 1} if array.codec == "zlib" else None,
                "fill_value": 0,
                "order": "C",
                "filters": None,
            },
            ".zattrs": {"mark": array.mark},
        }

    def _encoded(self, array: Array, place: Place) -> bytes:
        chunk = array.stored[place]
        if self.format == "n5":
            data = chunk.astype(chunk.dtype.newbyteorder(">")).tobytes()
            header = struct.pack(">HH", 0, chunk.ndim) + struct.pack(f">{chunk.ndim}I", *chunk.shape[::-1])
            content = gzip.compress(data, mtime=0) if array.codec == "zlib" else data
        else:
            header, data = b"", chunk.tobytes()
            content = data
            if array.codec == "zlib":
                content = gzip.compress(data, mtime=0) if self.format == "zarr3" else zlib.compress(data, 1)
        if place not in array.damaged:
            return header + content
        number = array.number.to_bytes(4, "big")
        return header + (b"damaged " + number * 5 if array.codec == "zlib" else content[:-9] + number)
