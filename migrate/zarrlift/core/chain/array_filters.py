"""numcodecs' array filters in v3 documents, and the byte order that `bytes` states beside them.

In Zarr v2 every filter views its buffer as its configured type. A v3 document lists filters before `bytes`;
the resulting meaning of its `endian` was observed in zarr-python:

- 3.4.2 views the stored bytes as the type that the filters resolve to (the last `astype` or `encode_dtype`
  that one of them states, otherwise the array's type, native), in the byte order `endian`, and converts to
  that type's own byte order. The next filter views the memory of the result as its own type, so the bytes
  must be unchanged: `endian` has to be the byte order of that type.
- 3.1.6 views without converting. With an array filter, `endian` has no effect.
- `bitround` views nothing: beside it the array's byte order counts, in both.
- The registered `scale_offset` and `cast_value` convert values: `endian` is that of what they store.

One `endian` therefore serves both. The array's byte order, which the normal form of a chain keeps in `bytes`,
is then that of the outermost filter's decoded type. "Native" is little-endian here: the behaviour on
big-endian machines was not observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from zarrstack.core.errors import MetadataError, UnsupportedError
from zarrstack.core.json_text import excerpt

from ..codec_table import REGISTERED_FILTERS, TABLE

if TYPE_CHECKING:
    from ..codec_facts import Items
    from ..codec_spec import CodecSpec

Endian: TypeAlias = Literal["little", "big"]


def decoded_type(spec: CodecSpec) -> np.dtype[Any] | None:
    """The decoded type that a filter states, or None. MetadataError if it is invalid."""
    items = _stated_items(spec)
    return _type(spec, None if items is None else items.decoded)


def resolved_type(filters: Sequence[CodecSpec]) -> np.dtype[Any] | None:
    """The type as which zarr-python views the last filter's stored bytes; None for the array's type.

    It uses the encoded type that a filter states (`resolve_metadata`), but ignores that of `quantize`.
    """
    for spec in reversed(filters):
        if spec.name == "numcodecs.packbits":
            return np.dtype(np.uint8)
        items = None if spec.name == "numcodecs.quantize" else _stated_items(spec)
        stated = _type(spec, None if items is None else items.encoded)
        if stated is not None:
            return stated
    return None


def endian_to_json(endian: Endian, filters: Sequence[CodecSpec]) -> Endian:
    """The `endian` of a document, for an array whose items have byte order `endian`.

    Raises UnsupportedError if the outermost filter returns items of the other byte order: Zarr v2 uses their
    bytes, v3 their values.
    """
    viewing = _viewing_filters(filters)
    if not viewing:
        return endian
    decoded_endian = _endian_of(
        decoded_type(viewing[0]), endian if _stated_items(viewing[0]) is None else "little"
    )
    if decoded_endian not in (None, endian):
        raise UnsupportedError(
            "an array filter decodes to another byte order than the array's",
            found=f"{decoded_endian}-endian items from {viewing[0].name}",
            expected=f"{endian}-endian ones",
        )
    return _stated(viewing) or endian


def endian_from_json(endian: Endian, filters: Sequence[CodecSpec]) -> Endian:
    """The byte order of the array's items, if a document states `endian` beside these filters.

    Raises UnsupportedError for an `endian` that zarr-python 3.1.6 and 3.4.2 interpret differently.
    """
    viewing = _viewing_filters(filters)
    if not viewing:
        return endian
    stated = _stated(viewing)
    if stated not in (None, endian):
        raise UnsupportedError(
            "zarr-python 3.1.6 and 3.4.2 read this byte order beside an array filter differently",
            found=f"endian {endian!r} beside {' > '.join(map(str, viewing))}",
            expected=f"endian {stated!r}",
        )
    unsaid: Endian = endian if _stated_items(viewing[0]) is None else "little"
    return _endian_of(decoded_type(viewing[0]), unsaid) or endian


def _viewing_filters(filters: Sequence[CodecSpec]) -> list[CodecSpec]:
    """The filters that view decoded bytes as their own type."""
    return [spec for spec in filters if spec.name not in ("numcodecs.bitround", *REGISTERED_FILTERS)]


def _stated(viewing: Sequence[CodecSpec]) -> Endian | None:
    """The `endian` with which the stored bytes are unchanged; None if it does not matter."""
    return _endian_of(resolved_type(viewing), "little")


def _endian_of(dtype: np.dtype[Any] | None, unsaid: Endian) -> Endian | None:
    """The byte order of a type, `unsaid` for None; None if the type has no byte order."""
    if dtype is None:
        return unsaid
    return {"<": "little", ">": "big"}.get(dtype.str[0])  # type: ignore[return-value]


def _stated_items(spec: CodecSpec) -> Items | None:
    """The members of a filter that state the types of its items; None if zarr-python uses none."""
    facts = TABLE.get(spec.name)
    items = None if facts is None else facts.items
    return None if items is None or items.decoded is None or items.otherwise is not None else items


def _type(spec: CodecSpec, member: str | None) -> np.dtype[Any] | None:
    text = None if member is None else spec.configuration.get(member)
    if text is None:
        return None
    try:
        if isinstance(text, str):
            return np.dtype(text)
    except (TypeError, ValueError):
        pass
    raise MetadataError(f"codec {spec.name!r}: {member} is not a data type", found=excerpt(text))
