"""Codecs that add a four-byte checksum: `crc32c`, and those of numcodecs.

Specification of `crc32c`: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/ (little-endian, at
the end). The others follow numcodecs 0.16.6 (`checksum32`, `fletcher32`): `crc32` and `adler32` are at the
start unless `location` is "end", `numcodecs.crc32c` at the end unless it is "start"; `fletcher32` (HDF5's)
and `jenkins_lookup3` always at the end. All are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from zarrstack.core.errors import ChunkError, UnsupportedError
from zarrstack.core.json_text import canonical

from ..codec_table import require_facts
from .base import BytesCodec, HeadAndTail, Size, found, memory, octets

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..codec_spec import CodecSpec
    from .base import Buffer

    Octets = npt.NDArray[np.uint8]


def fletcher32(data: Octets, _: int) -> int:
    """HDF5's Fletcher-32 as computed by numcodecs; 0 for empty data, for which numcodecs fails."""
    if not len(data):
        return 0
    from numcodecs.fletcher32 import Fletcher32

    return int.from_bytes(Fletcher32().encode(data)[-4:], "little")


def jenkins_lookup3(data: Octets, seed: int) -> int:
    """Bob Jenkins' lookup3, HDF5's metadata checksum."""
    from numcodecs import jenkins

    return int(jenkins.jenkins_lookup3(data, seed))


@dataclass(frozen=True, slots=True)
class Checksum(BytesCodec):
    """A codec with a checksum of four bytes."""

    checksum: Callable[[Any, int], int]
    """The checksum of octets with a seed, 0 to 2**32 - 1."""
    at_start: bool
    seed: int

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; `prefix` must be null: JSON cannot represent it."""
        facts = require_facts(spec.name)
        values = {**facts.parameters, **facts.read(spec)}
        if values.get("prefix") is not None:
            raise UnsupportedError(
                "numcodecs.jenkins_lookup3 with a prefix", found=canonical(spec.configuration["prefix"])
            )
        location = values.get("location")
        at_start = values["at_start"] if location is None else location == "start"
        return cls(spec, found(values["function"]), at_start, values.get("initval", values["seed"]))

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        """Bytes: the checksum breaks the alignment of items."""
        return np.dtype(np.uint8)

    def encoded_size(self, decoded: Size) -> Size:
        return Size(decoded.at_most + 4, decoded.exact)

    def encode(self, data: Buffer) -> bytes:
        view = octets(data)
        number = struct.pack("<I", self.checksum(view, self.seed))
        content = memory(view)
        return b"".join((number, content) if self.at_start else (content, number))

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Verify the checksum and return a view of the data."""
        view = octets(data)
        encoded = self.encoded_size(decoded)
        if not 4 <= len(view) <= encoded.at_most or (encoded.exact and len(view) != encoded.at_most):
            raise ChunkError(
                f"{self.spec.name}: the payload has the wrong length",
                found=f"{len(view)} bytes",
                expected=f"{'' if encoded.exact else '4 to '}{encoded.at_most} bytes",
            )
        stored, content = (view[:4], view[4:]) if self.at_start else (view[-4:], view[:-4])
        stated = int.from_bytes(stored.tobytes(), "little")
        expected = self.checksum(content, self.seed)
        if stated != expected:
            raise ChunkError(
                f"{self.spec.name}: the checksum is wrong", found=f"{stated:08x}", expected=f"{expected:08x}"
            )
        return content

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        if ends.length < 4:
            raise ChunkError(f"{self.spec.name}: the payload is cut short", found=f"{ends.length} bytes")
        return BytesCodec.check(self, ends, decoded)

    def inner_ends(self, ends: HeadAndTail) -> HeadAndTail | None:
        length = ends.length - 4
        if self.at_start:
            return HeadAndTail(ends.head[4:], ends.tail[max(0, len(ends.tail) - length) :], length)
        return HeadAndTail(ends.head[:length], ends.tail[:-4], length)
