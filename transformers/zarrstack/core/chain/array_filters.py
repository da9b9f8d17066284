"""numcodecs' array filters in v3 documents, and the byte order that `bytes` states beside them.

In Zarr v2 every filter views the buffer it is handed as its own configured type. A v3 document
names filters before `bytes`, and what its `endian` then says was observed in zarr-python:

- 3.4.2 views the stored bytes as the type that the filters resolve to (the last `astype` or
  `encode_dtype` that one of them states, else the array's own type, native), in the byte order
  `endian`, and converts to that type's own byte order. The filter next to it views the result's
  memory as its own type, so the bytes must arrive unchanged: `endian` has to be the byte order
  of that type.
- 3.1.6 views without converting. With an array filter any `endian` reads alike.
- `bitround` views nothing: behind it the array's own byte order counts, in both.

So one `endian` serves both. The array's own byte order, which the normal form of a chain keeps
at `bytes`, is then that of the outermost filter's decoded type. "Native" is little-endian here:
what a big-endian machine makes of such a document was not observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from ..errors import MetadataError, UnsupportedError
from ..json_text import excerpt

if TYPE_CHECKING:
    from .codec_spec import CodecSpec

Endian: TypeAlias = Literal["little", "big"]

ARRAY_FILTERS: Final = frozenset(
    f"numcodecs.{name}"
    for name in ("delta", "fixedscaleoffset", "quantize", "bitround", "astype", "packbits", "categorize")
)
"""numcodecs filters that zarr-python 3 lists before the array-to-bytes codec."""

_DECODED: Final[Mapping[str, str]] = {
    "numcodecs.delta": "dtype",
    "numcodecs.fixedscaleoffset": "dtype",
    "numcodecs.quantize": "dtype",
    "numcodecs.astype": "decode_dtype",
}
"""Filter -> the member of its configuration that says what it decodes to."""
_RESOLVED: Final[Mapping[str, str]] = {
    "numcodecs.delta": "astype",
    "numcodecs.fixedscaleoffset": "astype",
    "numcodecs.astype": "encode_dtype",
}
"""Filter -> the member that zarr-python takes for the type of what it stores (`resolve_metadata`).

It has none for `quantize`, whose `astype` it passes over.
"""


def decoded_type(spec: CodecSpec) -> np.dtype[Any] | None:
    """What a filter says it decodes to; None if it says nothing. MetadataError for nonsense."""
    return _type(spec, _DECODED.get(spec.name))


def resolved_type(filters: Sequence[CodecSpec]) -> np.dtype[Any] | None:
    """The type as which zarr-python views what the last filter stores; None is the array's own."""
    for spec in reversed(filters):
        if spec.name == "numcodecs.packbits":
            return np.dtype(np.uint8)
        stated = _type(spec, _RESOLVED.get(spec.name))
        if stated is not None:
            return stated
    return None


def endian_to_json(endian: Endian, filters: Sequence[CodecSpec]) -> Endian:
    """The `endian` of a document, for an array whose items lie in byte order `endian`.

    Raises UnsupportedError where the outermost filter gives items of the other byte order:
    Zarr v2 takes their bytes, v3 their values.
    """
    looking = _looking(filters)
    if not looking:
        return endian
    given = _endian_of(decoded_type(looking[0]), endian if looking[0].name not in _DECODED else "little")
    if given not in (None, endian):
        raise UnsupportedError(
            "an array filter gives items of another byte order than the array's",
            found=f"{given}-endian items from {looking[0].name}",
            expected=f"{endian}-endian ones",
        )
    return _stated(looking) or endian


def endian_from_json(endian: Endian, filters: Sequence[CodecSpec]) -> Endian:
    """The byte order of the array's items, where a document says `endian` beside these filters.

    Raises UnsupportedError for an `endian` that zarr-python 3.1.6 and 3.4.2 read differently.
    """
    looking = _looking(filters)
    if not looking:
        return endian
    stated = _stated(looking)
    if stated not in (None, endian):
        raise UnsupportedError(
            "zarr-python 3.1.6 and 3.4.2 read this byte order beside an array filter differently",
            found=f"endian {endian!r} beside {' > '.join(map(str, looking))}",
            expected=f"endian {stated!r}",
        )
    unsaid: Endian = "little" if looking[0].name in _DECODED else endian
    return _endian_of(decoded_type(looking[0]), unsaid) or endian


def _looking(filters: Sequence[CodecSpec]) -> list[CodecSpec]:
    """The filters that view what they decode as a type of their own."""
    return [spec for spec in filters if spec.name != "numcodecs.bitround"]


def _stated(looking: Sequence[CodecSpec]) -> Endian | None:
    """What `endian` has to be for the stored bytes to arrive unchanged; None if it says nothing."""
    return _endian_of(resolved_type(looking), "little")


def _endian_of(dtype: np.dtype[Any] | None, unsaid: Endian) -> Endian | None:
    """The byte order of a type, `unsaid` if there is none, None if it has no byte order."""
    if dtype is None:
        return unsaid
    return {"<": "little", ">": "big"}.get(dtype.str[0])  # type: ignore[return-value]


def _type(spec: CodecSpec, member: str | None) -> np.dtype[Any] | None:
    text = None if member is None else spec.configuration.get(member)
    if text is None:
        return None
    try:
        if isinstance(text, str):
            return np.dtype(text)
    except (TypeError, ValueError):
        pass
    raise MetadataError(f"codec {spec.name!r}: {member} is no data type", found=excerpt(text))
