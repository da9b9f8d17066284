"""Zarr v2's `bz2` and `lzma` (`numcodecs.bz2`, `numcodecs.lzma`): concatenated streams within a limit.

Both libraries collect the pieces of a result and join them at its end, which takes twice the memory; large
results are therefore requested in steps.

`bz2`: one or more streams of libbz2: "BZh", a digit for the block size, blocks that start with the digits of
pi, and an end marker that starts with those of its square root.

`lzma`: xz, lzma-alone or raw LZMA streams (numcodecs 0.16.6 `numcodecs.lzma`). Formats and checks are
numbered as in Python's lzma module (FORMAT_XZ is 1, FORMAT_RAW is 3). numcodecs passes `filters` to the
decoder, which Python allows only for FORMAT_RAW; an xz stream names its own filters, so xz archives with
`filters` can be read here. GDAL writes `delta`, the distance of its delta filter, which the stream states as
well.
"""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from zarrstack.core.errors import ChunkError, MetadataError, UnsupportedError
from zarrstack.core.json_text import canonical

from ..codec_facts import wrong_member
from ..codec_table import require_facts
from .base import MIN_STEP, STEPS, BytesCodec, HeadAndTail, Size, memory, require_fit, too_large

if TYPE_CHECKING:
    import numpy as np

    from ..codec_spec import CodecSpec
    from .base import Buffer


Stream: TypeAlias = bz2.BZ2Decompressor | lzma.LZMADecompressor


def unpack(
    codec: str,
    data: Buffer,
    decoded: Size,
    new_stream: Callable[[], Stream],
    errors: tuple[type[Exception], ...],
    padding: Callable[[bytes], bytes],
) -> bytes | bytearray:
    """Unpack all streams; `padding` removes permitted padding after one.

    ChunkError if a stream is invalid (raises one of `errors`) or incomplete, or if the total size is not
    allowed by `decoded`.
    """
    parts: list[bytearray] = []
    left = decoded.at_most
    rest: memoryview | bytes = memory(data)
    while len(rest) or not parts:
        stream = new_stream()
        try:
            part = _unpack_one(stream, rest, left)
        except errors as error:
            raise ChunkError(f"{codec}: the payload does not unpack", found=str(error)) from None
        if len(part) > left:
            raise too_large(codec, decoded)
        if not stream.eof:
            raise ChunkError(
                f"{codec}: the payload is cut short", found=f"{len(part)} decoded bytes and no end"
            )
        parts.append(part)
        left -= len(part)
        rest = padding(stream.unused_data)
    result = parts[0] if len(parts) == 1 else b"".join(parts)
    require_fit(codec, len(result), decoded)
    return result


def _unpack_one(stream: Stream, data: memoryview | bytes, left: int) -> bytearray:
    """Unpack up to one byte more than is left, to detect an excess."""
    step = max(MIN_STEP, left // STEPS)
    result = bytearray()
    while True:
        result += stream.decompress(data, min(left + 1 - len(result), step))
        if len(result) > left or stream.eof or stream.needs_input:
            return result
        data = b""  # the stream buffers its unprocessed input


_BLOCK = b"\x31\x41\x59\x26\x53\x59"
_END = b"\x17\x72\x45\x38\x50\x90"


@dataclass(frozen=True, slots=True)
class Bz2(BytesCodec):
    """The `bz2` codec of numcodecs."""

    level: int

    def encode(self, data: Buffer) -> bytes:
        return bz2.compress(memory(data), self.level)

    def decode(self, data: Buffer, decoded: Size) -> bytes | bytearray:
        """Decode all streams; trailing bytes, which Python's bz2 ignores, raise ChunkError."""
        return unpack("bz2", data, decoded, bz2.BZ2Decompressor, (OSError, ValueError), bytes)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check the header and the marker of the first block."""
        head = ends.head
        level = head[3:4]
        if head[:3] != b"BZh" or level not in b"123456789" or head[4:10] not in (_BLOCK, _END):
            raise ChunkError("bz2: the payload has no bzip2 header", found=head[:10].hex(" "))
        return True


MEMORY_LIMIT: Final = 256 << 20
"""Memory limit of the decoder in bytes; `xz -9` needs 65 MiB."""

_XZ_HEADER: Final = b"\xfd7zXZ\x00"
_XZ_FOOTER: Final = b"YZ"


@dataclass(frozen=True, slots=True)
class Lzma(BytesCodec):
    """The `lzma` codec of numcodecs."""

    format: int
    check_id: int
    preset: int | None
    filters: Sequence[Mapping[str, Any]] | None

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        values = require_facts(spec.name).read(spec)
        filters = values["filters"]
        if filters is not None and (
            not isinstance(filters, list | tuple) or not all(isinstance(entry, Mapping) for entry in filters)
        ):
            raise wrong_member(spec, "filters", "a list of objects, or null")
        codec = cls(spec, values["format"], values["check"], values["preset"], filters)
        if codec.format == lzma.FORMAT_RAW:
            codec._require_sane_filters()
        return codec

    def encode(self, data: Buffer) -> bytes:
        """Encode one stream. Format 0 (detect) writes xz, which every reader of it detects."""
        kind = self.format or lzma.FORMAT_XZ
        try:
            return lzma.compress(
                memory(data),
                format=kind,
                check=self.check_id,
                preset=self.preset,
                filters=_plain(self.filters),
            )
        except (lzma.LZMAError, ValueError, TypeError) as error:
            raise UnsupportedError(
                "lzma cannot encode with this configuration",
                found=f"{canonical(self.spec.to_json())}: {error}",
            ) from None

    def decode(self, data: Buffer, decoded: Size) -> bytes | bytearray:
        """Decode all streams; only zero padding may follow one (the xz format, section 2.2)."""
        errors = (lzma.LZMAError, EOFError, ValueError)
        return unpack("lzma", data, decoded, self._decoder, errors, _without_padding)

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check an xz stream's magic numbers; with padding after the footer the result is False."""
        if self.format != lzma.FORMAT_XZ:
            return True
        if ends.head[:6] != _XZ_HEADER or ends.length < 32:
            raise ChunkError("lzma: the payload has no xz header", found=ends.head[:6].hex(" "))
        return ends.tail[-2:] == _XZ_FOOTER

    def _decoder(self) -> lzma.LZMADecompressor:
        if self.format == lzma.FORMAT_RAW:
            return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_plain(self.filters))
        return lzma.LZMADecompressor(self.format, memlimit=MEMORY_LIMIT)

    def _require_sane_filters(self) -> None:
        # A raw decoder has no memory limit, and its dictionary size comes from the metadata.
        for entry in self.filters or ():
            size = entry.get("dict_size", 0)
            if isinstance(size, int) and size > MEMORY_LIMIT:
                raise UnsupportedError(
                    "lzma: the dictionary is too large",
                    found=f"{size} bytes",
                    expected=f"at most {MEMORY_LIMIT} bytes",
                )
        try:
            self._decoder()
        except (lzma.LZMAError, ValueError, TypeError, OverflowError) as error:
            raise MetadataError(
                "lzma: the raw filters are invalid",
                found=f"{canonical(self.spec.to_json())}: {error}",
            ) from None


def _without_padding(rest: bytes) -> bytes:
    """Remove padding, which consists of words of four zero bytes."""
    return rest.lstrip(b"\0") if len(rest) % 4 == 0 else rest


def _plain(filters: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    return None if filters is None else [dict(entry) for entry in filters]
