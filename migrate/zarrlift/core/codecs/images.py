"""`imagecodecs_*`: the codecs that `imagecodecs.numcodecs.register_codecs` gives zarr-python 2.

Source: imagecodecs 2024.12.30 and 2026.3.6, `imagecodecs/numcodecs.py`. The configuration has settings of the
encoder; those that its decoder uses are in the table below.

Images are decoded only if their header states a size that the chunk can have. Other payloads are decoded into
memory for one byte more than the chunk, so that neither an excess nor a lack goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from zarrstack.core.errors import ChunkError, UnsupportedError

from .base import HeadAndTail, Size, memory
from .bounds import items_as_octets, require_fit
from .image_headers import LEAST_BYTES, tiff_bytes
from .optional import DecodedOnly, require_exact, require_package

if TYPE_CHECKING:
    from ..codec_spec import CodecSpec
    from .base import Buffer

_PREFIX: Final = "imagecodecs_"
_ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "deflate": {"raw": "raw"},
    "delta": {"axis": "axis", "dist": "dist"},
    "jpeg": {"colorspace": "colorspace_jpeg", "outcolorspace": "colorspace_data"},
    "jpeg2k": {"planar": "planar"},
    "jpegxl": {"keeporientation": "keeporientation"},
    "lz4": {"header": "header"},
    "tiff": {"index": "index"},
    "webp": {"hasalpha": "hasalpha"},
}
"""Codec -> argument of the decoder -> member of the configuration; the others have none."""
_FRAMES: Final = frozenset({"jpegxl"})
"""Formats whose chunk may be a stack of frames, which are decoded one by one."""
_ALL: Final = "index"
"""An argument of which None, all images, is not what the decoder does without it."""
_UNUSED: Final = ("tables", "header")
"""Members of a JPEG's configuration with parts of each payload, which JSON cannot hold as they are."""


@dataclass(frozen=True, slots=True)
class ImageCodec(DecodedOnly):
    """One of these codecs."""

    name: str
    arguments: Mapping[str, Any]

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; UnsupportedError if imagecodecs is not installed, or was built without this format."""
        require_package(spec, "imagecodecs")
        name = spec.name.removeprefix(_PREFIX)
        configuration = spec.configuration
        if name == "jpeg" and any(configuration.get(member) is not None for member in _UNUSED):
            raise UnsupportedError(
                f"codec {spec.name!r} with separate tables is not supported", found=str(spec)
            )
        if name == "tiff":
            _require_plain_tiff(spec)
        table = _ARGUMENTS.get(name, {})
        values = {argument: configuration.get(member) for argument, member in table.items()}
        used = {
            argument: value for argument, value in values.items() if value is not None or argument == _ALL
        }
        return cls(spec, name, used)

    def encoded_size(self, decoded: Size) -> Size:
        """Unchanged by differences; otherwise a generous upper bound."""
        return decoded if self.name == "delta" else DecodedOnly.encoded_size(self, decoded)

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        size = require_exact(self.spec, decoded)
        payload = bytes(memory(data))
        function = self._decoder()
        try:
            if self.name in LEAST_BYTES or self.name == "tiff":
                self._require_header(payload, decoded)
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

    def _require_header(self, payload: bytes, decoded: Size) -> None:
        if self.name == "tiff":
            least = tiff_bytes(payload, self.arguments[_ALL])
        else:
            least = LEAST_BYTES[self.name](payload)
        if least is None:
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
        if self.name == "tiff":
            return self._written(function, payload)
        if self.name not in _FRAMES:
            return items_as_octets(np.ascontiguousarray(function(payload, **self.arguments)))
        frames: list[np.ndarray[Any, Any]] = []
        left = size
        while left > 0 or not frames:
            frame = function(payload, index=len(frames), **self.arguments)
            frames.append(items_as_octets(np.ascontiguousarray(frame)))
            left -= max(len(frames[-1]), 1)
        return frames[0] if len(frames) == 1 else np.concatenate(frames)

    def _written(self, function: Any, payload: bytes) -> np.ndarray[Any, Any]:
        """The values of a TIFF file, all of which it must have.

        libtiff does not report every strip that ends early, such as a damaged one with a predictor, and what
        it did not write would be the content of memory. So the image is decoded over zeros and over ones.
        """
        first = function(payload, **self.arguments)
        zeros, ones = (np.full(first.nbytes, octet, np.uint8) for octet in (0, 255))
        for out in (zeros, ones):
            try:
                function(payload, out=out.view(first.dtype).reshape(first.shape), **self.arguments)
            except ValueError:
                # imagecodecs 2026.3.6 lets libtiff make colours of a JPEG, which it writes completely.
                return items_as_octets(np.ascontiguousarray(first))
        if missing := np.count_nonzero(zeros != ones):
            found = f"{missing} of {len(zeros)} bytes without a value"
            raise ChunkError(f"{self.spec.name}: the image is not whole", found=found)
        return zeros


def _require_plain_tiff(spec: CodecSpec) -> None:
    """Raise UnsupportedError for settings that read something else of a file than its values."""
    index = spec.configuration.get("index")
    if spec.configuration.get("asrgb"):
        # libtiff leaves strips black that it cannot read (imagecodecs 2026.3.6 and 2026.10.10).
        raise UnsupportedError(f"codec {spec.name!r} with asrgb is not supported", found=str(spec))
    if index is not None and (isinstance(index, bool) or not isinstance(index, int) or index < 0):
        raise UnsupportedError(f"codec {spec.name!r} needs the number of an image, or none", found=str(spec))
