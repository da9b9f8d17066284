"""`imagecodecs_*`: the codecs that `imagecodecs.numcodecs.register_codecs` gives zarr-python 2.

Source: imagecodecs 2024.12.30 and 2026.3.6, `imagecodecs/numcodecs.py`. The configuration has settings of the
encoder; those that its decoder uses are in the table of codecs.

Images are decoded into an array of the chunk's shape, with which imagecodecs compares the header of an image
before it takes memory. Other payloads are decoded into memory for one byte more than the chunk, so that
neither an excess nor a lack goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from zarrstack.core.errors import ChunkError, UnsupportedError

from ..codec_table import require_facts
from .base import HeadAndTail, Size, items_as_octets, memory, require_fit
from .optional import DecodedOnly, require_exact
from .tiff_directories import tiff_bytes

if TYPE_CHECKING:
    from ..codec_spec import CodecSpec
    from .base import Buffer

_PREFIX: Final = "imagecodecs_"
_ALL: Final = "index"
"""An argument of which None, all images, is not what the decoder does without it."""
_UNUSED: Final = ("tables", "header")
"""Members of a JPEG's configuration with parts of each payload, which JSON cannot hold as they are."""


@dataclass(frozen=True, slots=True)
class ImageCodec(DecodedOnly):
    """One of these codecs."""

    name: str
    arguments: Mapping[str, Any]
    image_end: bytes | None
    """What an image ends with if its decoder makes up what a truncated one lacks; None for other payloads."""
    number: np.dtype[Any]
    shape: tuple[int, ...] = ()
    """Of the chunk; images of an array in order F have it reversed."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; UnsupportedError for settings that are not supported."""
        facts = require_facts(spec.name)
        name = spec.name.removeprefix(_PREFIX)
        configuration = spec.configuration
        if name == "jpeg" and any(configuration.get(member) is not None for member in _UNUSED):
            raise UnsupportedError(
                f"codec {spec.name!r} with separate tables is not supported", found=str(spec)
            )
        if name == "tiff":
            _require_plain_tiff(spec)
        arguments = facts.parameters["arguments"]
        values = {argument: configuration.get(member) for argument, member in arguments.items()}
        used = {
            argument: value for argument, value in values.items() if value is not None or argument == _ALL
        }
        number = np.dtype(np.uint8) if item is None else item.newbyteorder("=")
        return cls(spec, name, used, facts.parameters["image_end"], number)

    def for_chunk(self, shape: tuple[int, ...]) -> Self:
        return replace(self, shape=shape)

    def encoded_size(self, decoded: Size) -> Size:
        """Unchanged by differences; otherwise a generous upper bound."""
        return decoded if self.name == "delta" else DecodedOnly.encoded_size(self, decoded)

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        size = require_exact(self.spec, decoded)
        payload = bytes(memory(data))
        function = self._decoder()
        try:
            if self.image_end is not None:
                self._require_whole(payload, decoded)
                result = self._image(function, payload, size)
            elif self.name == "delta":
                result = self._sums(function, payload, decoded)
            else:
                # Some return as much as fits, others raise an error.
                result = np.frombuffer(
                    function(payload, out=np.empty(size + 1, np.uint8), **self.arguments), np.uint8
                )
        except (ChunkError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - each codec has its own
            found = f"{type(error).__name__}: {error}"[:200]
            raise ChunkError(f"{self.spec.name}: the payload does not decode", found=found) from None
        require_fit(self.spec.name, len(result), decoded)
        return result

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        return False

    def _decoder(self) -> Any:
        import imagecodecs

        try:
            return getattr(imagecodecs, f"{self.name}_decode")
        except AttributeError:
            raise UnsupportedError(
                f"this imagecodecs has no codec {self.name!r}", found=f"imagecodecs {imagecodecs.__version__}"
            ) from None

    def _require_whole(self, payload: bytes, decoded: Size) -> None:
        """Raise ChunkError for an image that is cut short, or a TIFF file that takes too much memory."""
        least: int | None = 0
        if self.name == "tiff":
            least = tiff_bytes(payload, self.arguments[_ALL])
        if least is None or (self.image_end or b"") not in payload[-64:]:
            raise ChunkError(
                f"{self.spec.name}: the payload is not a whole image",
                found=f"{len(payload)} bytes, beginning with {payload[:8].hex() or 'nothing'}",
            )
        if least > decoded.at_most:
            raise ChunkError(
                f"{self.spec.name}: the image is larger than its chunk",
                found=f"{least} bytes or more",
                expected=f"{decoded.at_most} bytes",
            )

    def _sums(self, function: Any, payload: bytes, decoded: Size) -> np.ndarray[Any, Any]:
        """The values of differences, which the configuration gives a type and a shape."""
        require_fit(self.spec.name, len(payload), decoded)
        dtype, shape = (self.spec.configuration.get(member) for member in ("dtype", "shape"))
        numbers = np.frombuffer(payload, np.dtype(np.uint8) if dtype is None else np.dtype(dtype))
        return items_as_octets(
            function(numbers if shape is None else numbers.reshape(shape), **self.arguments)
        )

    def _image(self, function: Any, payload: bytes, size: int) -> np.ndarray[Any, Any]:
        """The values of an image, all of which it must have.

        libtiff does not report every strip that ends early, such as a damaged one with a predictor. So a TIFF
        file is decoded over zeros and over ones, which differ where nothing is written.
        """
        try:
            result = self._decoded(function, payload, np.zeros(size, np.uint8))
        except ChunkError:
            if self.name != "tiff":
                raise
            # imagecodecs 2026.3.6 lets libtiff make colours of a JPEG if it is given memory. The directories
            # bound what it takes, and such images are written completely.
            return items_as_octets(np.ascontiguousarray(function(payload, **self.arguments)))
        if self.name == "tiff":
            over_ones = self._decoded(function, payload, np.full(size, 255, np.uint8))
            if missing := np.count_nonzero(result != over_ones):
                found = f"{missing} of {size} bytes without a value"
                raise ChunkError(f"{self.spec.name}: the image is not whole", found=found)
        return result

    def _decoded(self, function: Any, payload: bytes, out: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Decode an image into memory of the chunk."""
        shape = self.shape
        if prod(shape) * self.number.itemsize != len(out):
            shape = (len(out) // self.number.itemsize,)
        for each in dict.fromkeys((shape, shape[::-1])):
            try:
                function(payload, out=out.view(self.number).reshape(each), **self.arguments)
            except ValueError as error:
                if not str(error).startswith("invalid out"):
                    raise
                found = str(error)
            else:
                return out
        raise ChunkError(
            f"{self.spec.name}: the image does not have the shape and the type of its chunk",
            found=found[:200],
            expected=f"{' x '.join(map(str, shape))} {self.number.name}",
        )


def _require_plain_tiff(spec: CodecSpec) -> None:
    """Raise UnsupportedError for settings that read something else of a file than its values."""
    index = spec.configuration.get("index")
    if spec.configuration.get("asrgb"):
        # libtiff leaves strips black that it cannot read (imagecodecs 2026.3.6 and 2026.10.10).
        raise UnsupportedError(f"codec {spec.name!r} with asrgb is not supported", found=str(spec))
    if index is not None and (isinstance(index, bool) or not isinstance(index, int) or index < 0):
        raise UnsupportedError(f"codec {spec.name!r} needs the number of an image, or none", found=str(spec))
