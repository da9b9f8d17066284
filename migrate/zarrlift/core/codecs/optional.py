"""The base of codecs that other packages decode: they never encode, and name the package that they need."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import numpy as np

from zarrstack.core.errors import MetadataError, UnsupportedError

from .base import BytesCodec, Size

if TYPE_CHECKING:
    from typing import Any

    from ..codec_spec import CodecSpec
    from .base import Buffer

_LARGEST: Final = 256
"""Bytes of a payload per byte of its chunk, in the worst case: zfp pads a block of one element to 4^4."""


class DecodedOnly(BytesCodec):
    """Base class of codecs that no result uses."""

    __slots__ = ()

    def encoded_size(self, decoded: Size) -> Size:
        """A generous upper bound."""
        return Size(_LARGEST * decoded.at_most + 65536, exact=False)

    def encode(self, data: Buffer) -> Buffer:
        """Refused."""
        raise UnsupportedError(
            f"codec {self.spec.name!r} is read, but not written",
            found=str(self.spec),
            advice="Choose other codecs for this array, such as --codecs portable.",
        )


def require_package(spec: CodecSpec, package: str) -> None:
    """Raise UnsupportedError unless a package is installed; it is imported only when a chunk is decoded."""
    if find_spec(package) is None:
        raise UnsupportedError(
            f"codec {spec.name.removeprefix('numcodecs.')!r} needs a package that is not installed",
            found=str(spec),
            expected=package,
            advice=f"Install it: pip install {package} (the extra codecs).",
        )


def native_number(spec: CodecSpec, item: np.dtype[Any] | None, kinds: frozenset[str]) -> np.dtype[Any]:
    """The number type of a codec for items of one type, times being integers; MetadataError for others.

    Both libraries encode native numbers only, so a type of the other byte order has never been stored.
    """
    number = None if item is None else np.dtype("<i8") if item.kind in "mM" else item
    if number is None or item is None or item.str[0] == ">" or number.str[1:] not in kinds:
        raise MetadataError(
            f"codec {spec.name!r} does not encode these items",
            found="bytes" if item is None else item.str,
            expected="little-endian numbers: " + ", ".join(sorted(kinds)),
        )
    return number


def require_exact(spec: CodecSpec, decoded: Size) -> int:
    """The size of a chunk; UnsupportedError if it is not known before decoding."""
    if not decoded.exact:
        raise UnsupportedError(f"codec {spec.name!r} needs chunks of a known size", found=str(spec))
    return decoded.at_most
