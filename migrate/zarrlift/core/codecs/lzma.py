"""`numcodecs.lzma`: xz, lzma-alone or raw LZMA streams, Zarr v2's `lzma`.

Facts: numcodecs 0.16.6 `numcodecs.lzma`; formats and checks are numbered as in Python's lzma module
(FORMAT_XZ is 1, FORMAT_RAW is 3). numcodecs passes `filters` to the decoder, which Python allows only for
FORMAT_RAW; an xz stream names its own filters, so xz archives with `filters` can be read here. GDAL writes
`delta`, the distance of its delta filter, which the stream states as well.
"""

from __future__ import annotations

import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from zarrstack.core.errors import ChunkError, MetadataError, UnsupportedError
from zarrstack.core.json_text import canonical

from .base import BytesCodec, HeadAndTail, Size, memory
from .config import Configuration
from .streams import unpack

if TYPE_CHECKING:
    import numpy as np

    from ..codec_spec import CodecSpec
    from .base import Buffer

MEMORY_LIMIT: Final = 256 << 20
"""Memory limit of the decoder in bytes; `xz -9` needs 65 MiB."""

_XZ_HEADER: Final = b"\xfd7zXZ\x00"
_XZ_FOOTER: Final = b"YZ"


@dataclass(frozen=True, slots=True)
class Lzma(BytesCodec):
    """The `lzma` codec of numcodecs."""

    format: int
    integrity: int
    preset: int | None
    filters: Sequence[Mapping[str, Any]] | None

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; configuration: `format`, `check`, `preset`, `filters`, as in numcodecs; GDAL's `delta`."""
        config = Configuration(spec, ("format", "check", "preset", "filters", "delta"))
        kind = config.choice("format", (0, 1, 2, 3), 1)
        preset = config.value("preset", None)
        if preset is not None:
            preset = config.integer("preset", low=0, high=(1 << 32) - 1)
        filters = config.value("filters", None)
        if filters is not None and (
            not isinstance(filters, list) or not all(isinstance(entry, dict) for entry in filters)
        ):
            raise config.wrong("filters", filters, "a list of objects, or null")
        codec = cls(spec, kind, config.integer("check", -1, low=-1, high=15), preset, filters)
        if kind == lzma.FORMAT_RAW:
            codec._require_sane_filters()
        return codec

    def encode(self, data: Buffer) -> bytes:
        """Encode one stream. Format 0 (detect) writes xz, which every reader of it detects."""
        kind = self.format or lzma.FORMAT_XZ
        try:
            return lzma.compress(
                memory(data),
                format=kind,
                check=self.integrity,
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
