"""Shard indexes: the positions of the inner chunks of a shard. Pure; no I/O.

Ratified: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/ ("Binary shard format"): one
(offset, nbytes) pair of uint64 per inner chunk, in C order of the grid of the *full* shard, encoded by the
index codecs, at the start or the end of the object; both values are 2^64 - 1 for a missing chunk. Draft of
2022 (storage transformer `https://purl.org/zarr/spec/storage_transformers/sharding/1.0`; written by
zarr-python 2.18): the same pairs, little-endian, at the end, without checksum; one class therefore describes
both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

import numpy as np

from .crc32c import crc32c
from .errors import ChunkError, MetadataError, UnsupportedError
from .json_text import JSON, Extension, excerpt

if TYPE_CHECKING:
    import numpy.typing as npt

Location: TypeAlias = Literal["start", "end"]
Array: TypeAlias = "npt.NDArray[np.uint64]"

MISSING: Final = 2**64 - 1
"""Offset and length of a missing chunk."""
PAIR_BYTES: Final = 16
CHECKSUM_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFormat:
    """The encoding of a shard index; the defaults are those recommended by the specification."""

    DRAFT: ClassVar[IndexFormat]
    """The index of the 2022 draft."""

    endian: Literal["little", "big"] = "little"
    checksum: bool = True
    """Whether the pairs are followed by their crc32c."""
    location: Location = "end"

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> IndexFormat:
        """Parse `index_codecs` and `index_location` of a `sharding_indexed` configuration.

        UnsupportedError for index codecs other than `bytes` and `bytes, crc32c`: no writer uses others, and
        the specification forbids codecs of variable size; also for options that these do not have.
        """
        location = configuration.get("index_location", "end")
        if location not in ("start", "end"):
            raise MetadataError("unknown index_location", found=excerpt(location), expected="start or end")
        listed = configuration.get("index_codecs")
        if not isinstance(listed, list | tuple) or not listed:
            raise MetadataError(
                "a shard must have index_codecs", found=excerpt(listed), expected="[bytes, crc32c]"
            )
        specs = [Extension.from_json(item, "codec") for item in listed]
        names = [spec.name for spec in specs]
        if names not in (["bytes"], ["bytes", "crc32c"]):
            raise UnsupportedError(
                "unknown index codecs of a shard",
                found=", ".join(names),
                expected="bytes, then perhaps crc32c",
            )
        for spec in specs:
            options = {"endian"} if spec.name == "bytes" else set()
            if unknown := sorted(spec.configuration.keys() - options):
                raise UnsupportedError(
                    f"unknown option of the index codec {spec.name!r}",
                    found=", ".join(unknown),
                    expected=", ".join(options) or "none",
                )
        endian = specs[0].configuration.get("endian", "little")  # as GDAL 3.13 and zarrita.js 0.7 read it
        if endian not in ("little", "big"):
            raise MetadataError(
                "the bytes codec of a shard index has a wrong endian",
                found=excerpt(endian),
                expected="little or big",
            )
        return cls(endian=endian, checksum=len(names) == 2, location=location)

    def to_json(self) -> dict[str, Any]:
        """The members `index_codecs` and `index_location` of the configuration."""
        codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": self.endian}}]
        if self.checksum:
            codecs.append({"name": "crc32c"})
        return {"index_codecs": codecs, "index_location": self.location}

    def __str__(self) -> str:
        return f"{self.endian} index at the {self.location}{', crc32c' if self.checksum else ''}"

    def size(self, chunks_per_shard: tuple[int, ...]) -> int:
        """Length in bytes of the encoded index of a shard with these chunks along each axis."""
        return PAIR_BYTES * prod(chunks_per_shard) + (CHECKSUM_BYTES if self.checksum else 0)

    def place(self, chunks_per_shard: tuple[int, ...], object_length: int) -> slice:
        """The bytes of a shard object that are its index; ChunkError if the object is too short."""
        size = self.size(chunks_per_shard)
        if object_length < size:
            raise ChunkError(
                "a shard is shorter than its index",
                found=f"{object_length} bytes",
                expected=f"at least {size} bytes",
            )
        return slice(0, size) if self.location == "start" else slice(object_length - size, object_length)


IndexFormat.DRAFT = IndexFormat(checksum=False)


@dataclass(frozen=True, slots=True, eq=False)
class ShardIndex:
    """Offsets and lengths of a shard's inner chunks, in bytes, each of shape `chunks_per_shard`.

    Both are 2^64 - 1 (`MISSING`) for a missing chunk. Offsets count from the start of the object.
    """

    offsets: Array
    lengths: Array

    @classmethod
    def empty(cls, chunks_per_shard: tuple[int, ...]) -> ShardIndex:
        """An index without chunks; its arrays may be modified."""
        return cls(
            np.full(chunks_per_shard, MISSING, np.uint64), np.full(chunks_per_shard, MISSING, np.uint64)
        )

    @classmethod
    def from_bytes(
        cls, data: bytes | memoryview, chunks_per_shard: tuple[int, ...], form: IndexFormat
    ) -> ShardIndex:
        """Decode an index; ChunkError for a wrong length, a wrong checksum or a half-missing chunk.

        `check`, which receives the object's length, checks that the chunks are within the object.
        """
        view = memoryview(data).cast("B")
        size = form.size(chunks_per_shard)
        if len(view) != size:
            raise ChunkError(
                "a shard index has the wrong length", found=f"{len(view)} bytes", expected=f"{size} bytes"
            )
        body = view[: PAIR_BYTES * prod(chunks_per_shard)]
        if form.checksum:
            # The codec appends the checksum as a little-endian uint32
            # (https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/).
            stored = int.from_bytes(view[len(body) :], "little")
            if stored != (actual := crc32c(body)):
                raise ChunkError(
                    "the checksum of a shard index is wrong",
                    found=f"crc32c {actual:08x}",
                    expected=f"{stored:08x}",
                )
        raw = np.frombuffer(body, dtype="<u8" if form.endian == "little" else ">u8")
        pairs = raw.astype(np.uint64).reshape(*chunks_per_shard, 2)
        index = cls(pairs[..., 0], pairs[..., 1])
        half = (index.offsets == MISSING) != (index.lengths == MISSING)
        if half.any():
            raise _chunk_error(
                index, half, "a chunk is half missing in a shard index", "both values 2^64 - 1 or none"
            )
        return index

    @classmethod
    def of_shard(
        cls, shard: bytes | memoryview, chunks_per_shard: tuple[int, ...], form: IndexFormat
    ) -> ShardIndex:
        """The index of a whole shard, after `check`; ChunkError."""
        view = memoryview(shard)
        index = cls.from_bytes(view[form.place(chunks_per_shard, len(view))], chunks_per_shard, form)
        index.check(len(view), form)
        return index

    def to_bytes(self, form: IndexFormat) -> bytes:
        """The inverse of `from_bytes`."""
        pairs = np.stack([self.offsets, self.lengths], axis=-1)
        body = pairs.astype("<u8" if form.endian == "little" else ">u8").tobytes()
        return body + crc32c(body).to_bytes(CHECKSUM_BYTES, "little") if form.checksum else body

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Mask of the chunks that are not missing."""
        return np.not_equal(self.offsets, MISSING)

    def get(self, coordinates: tuple[int, ...]) -> slice | None:
        """The bytes of a chunk in the object, or None if it is missing."""
        offset, length = int(self.offsets[coordinates]), int(self.lengths[coordinates])
        return None if offset == MISSING else slice(offset, offset + length)

    def check(self, object_length: int, form: IndexFormat) -> None:
        """Raise ChunkError if a chunk extends past the object or into its index, or if two overlap.

        Chunks in any order, gaps between them and chunks of length 0 are valid. (The specification allows
        gaps; it does not forbid two entries that share bytes, but no writer produces them, and a damaged
        index may.)
        """
        index_place = form.place(self.offsets.shape, object_length)
        low = index_place.stop if form.location == "start" else 0
        high = object_length if form.location == "start" else index_place.start
        # Terms are added only once both are known to be small: uint64 wraps around.
        outside = (self.offsets < low) | (self.offsets > high) | (self.lengths > high)
        ends = np.where(outside, np.uint64(0), self.offsets) + np.where(outside, np.uint64(0), self.lengths)
        outside = (outside | (ends > high)) & self.present
        if outside.any():
            raise _chunk_error(
                self, outside, "a chunk lies outside its shard", f"within bytes {low} to {high}"
            )
        filled = np.flatnonzero(self.present & (self.lengths > 0))
        order = filled[np.argsort(self.offsets.ravel()[filled], kind="stable")]
        starts, stops = self.offsets.ravel()[order], ends.ravel()[order]
        clash = np.flatnonzero(starts[1:] < stops[:-1])
        if clash.size:
            first, second = (
                tuple(map(int, np.unravel_index(order[clash[0] + i], self.offsets.shape))) for i in (0, 1)
            )
            raise ChunkError(
                f"chunks {first} and {second} of a shard overlap",
                found=f"bytes {starts[clash[0]]} to {stops[clash[0]]} and from {starts[clash[0] + 1]}",
                expected="chunks apart",
            )


def packed(
    chunks: Iterable[tuple[tuple[int, ...], Any]], chunks_per_shard: tuple[int, ...], form: IndexFormat
) -> bytes:
    """A shard of chunks, each with its position in it, in this order and without gaps."""
    index = ShardIndex.empty(chunks_per_shard)
    at_start = form.location == "start"
    offset = form.size(chunks_per_shard) if at_start else 0
    parts = []
    for place, chunk in chunks:
        part = memoryview(chunk)
        index.offsets[place], index.lengths[place] = offset, part.nbytes
        offset += part.nbytes
        parts.append(part)
    encoded = index.to_bytes(form)
    return b"".join([encoded, *parts] if at_start else [*parts, encoded])


def _chunk_error(index: ShardIndex, bad: npt.NDArray[np.bool_], message: str, expected: str) -> ChunkError:
    place = tuple(int(axis[0]) for axis in np.nonzero(np.atleast_1d(bad)))[: index.offsets.ndim]
    found = f"chunk {place}: offset {index.offsets[place]}, length {index.lengths[place]}"
    return ChunkError(message, found=found, expected=expected)
