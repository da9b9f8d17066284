"""Codecs that add a four-byte checksum: `crc32c`, and those of numcodecs.

Specification of `crc32c`: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/ (little-endian, at
the end). The others follow numcodecs 0.16.6 (`checksum32`, `fletcher32`): `crc32` and `adler32` are at the
start unless `location` is "end", `numcodecs.crc32c` at the end unless it is "start"; `fletcher32` (HDF5's)
and `jenkins_lookup3` always at the end. All are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..errors import ChunkError, UnsupportedError
from ..json_text import canonical
from .base import BytesCodec, HeadAndTail, Size, memory
from .bounds import octets
from .config import Configuration

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..chain.codec_spec import CodecSpec
    from .base import Buffer


@dataclass(frozen=True, slots=True)
class Checksum(BytesCodec):
    """Base class; subclasses compute the checksum."""

    default_location: ClassVar[str] = "end"
    locatable: ClassVar[bool] = False

    at_start: bool
    seed: int = 0

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; configuration: `location`, "start" or "end", if numcodecs supports it."""
        config = Configuration(spec, ("location",) if cls.locatable else ())
        location = cls.default_location
        if cls.locatable and config.value("location", None) is not None:
            location = config.choice("location", ("start", "end"))
        return cls(spec, location == "start")

    @abstractmethod
    def checksum(self, data: npt.NDArray[np.uint8]) -> int:
        """Checksum of the data, 0 to 2**32 - 1."""

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        """Bytes: the checksum breaks the alignment of items."""
        return np.dtype(np.uint8)

    def encoded_size(self, decoded: Size) -> Size:
        """Four bytes more."""
        return Size(decoded.at_most + 4, decoded.exact)

    def encode(self, data: Buffer) -> bytes:
        """Prepend or append the checksum."""
        view = octets(data)
        number = struct.pack("<I", self.checksum(view))
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
        found = int.from_bytes(stored.tobytes(), "little")
        expected = self.checksum(content)
        if found != expected:
            raise ChunkError(
                f"{self.spec.name}: the checksum is wrong", found=f"{found:08x}", expected=f"{expected:08x}"
            )
        return content

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the length, if known."""
        if ends.length < 4:
            raise ChunkError(f"{self.spec.name}: the payload is cut short", found=f"{ends.length} bytes")
        return BytesCodec.check(self, ends, decoded)

    def inner_ends(self, ends: HeadAndTail) -> HeadAndTail | None:
        """The ends without the checksum."""
        length = ends.length - 4
        if self.at_start:
            return HeadAndTail(ends.head[4:], ends.tail[max(0, len(ends.tail) - length) :], length)
        return HeadAndTail(ends.head[:length], ends.tail[:-4], length)


class Crc32c(Checksum):
    """The `crc32c` codec."""

    __slots__ = ()

    def checksum(self, data: npt.NDArray[np.uint8]) -> int:
        """CRC-32C (RFC 3720, B.4)."""
        import crc32c  # the import takes 45 ms

        return crc32c.crc32c(memory(data))


class NumcodecsCrc32c(Crc32c):
    """The `crc32c` codec of numcodecs, which may be at the start."""

    __slots__ = ()
    locatable = True


class Crc32(Checksum):
    """The `crc32` codec of numcodecs."""

    __slots__ = ()
    locatable = True
    default_location = "start"

    def checksum(self, data: npt.NDArray[np.uint8]) -> int:
        """CRC-32 as in gzip."""
        return zlib.crc32(memory(data))


class Adler32(Checksum):
    """The `adler32` codec of numcodecs."""

    __slots__ = ()
    locatable = True
    default_location = "start"

    def checksum(self, data: npt.NDArray[np.uint8]) -> int:
        """Adler-32 as in zlib."""
        return zlib.adler32(memory(data))


class Fletcher32(Checksum):
    """The `fletcher32` codec of numcodecs, as in HDF5."""

    __slots__ = ()

    def checksum(self, data: npt.NDArray[np.uint8]) -> int:
        """HDF5's Fletcher-32 as computed by numcodecs; 0 for empty data, for which numcodecs fails."""
        if not len(data):
            return 0
        from numcodecs import fletcher32

        return int.from_bytes(fletcher32.Fletcher32().encode(data)[-4:], "little")


class JenkinsLookup3(Checksum):
    """The `jenkins_lookup3` codec of numcodecs."""

    __slots__ = ()

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; configuration: `initval`, default 0; `prefix` must be null (JSON cannot represent it)."""
        config = Configuration(spec, ("initval", "prefix"))
        prefix = config.value("prefix", None)
        if prefix is not None:
            raise UnsupportedError("numcodecs.jenkins_lookup3 with a prefix", found=canonical(prefix))
        return cls(spec, False, config.integer("initval", 0, low=0, high=(1 << 32) - 1))

    def checksum(self, data: npt.NDArray[np.uint8]) -> int:
        """Bob Jenkins' lookup3, HDF5's metadata checksum."""
        from numcodecs import jenkins

        return int(jenkins.jenkins_lookup3(data, self.seed))
