"""Zarr v2 `dtype` -> numpy, strictly.

Facts: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#data-type-encoding.
numpy's own parser receives only strings that match completely: it would accept "f4,i4", "O8" or Python names.
Deviations of actual writers from the specification are noted where they are accepted, with the writer and
version observed.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import MetadataError, UnsupportedError
from zarrstack.core.json_text import JSON, excerpt

from .numpy_types import MAX_DEPTH, MAX_ITEM_BYTES

_TYPESTR: Final = re.compile(
    r"(?P<order>[<>|])(?P<kind>[biufcSUVMmO])(?P<size>0|[1-9][0-9]{0,9})?(?:\[(?P<unit>[0-9]{0,10}[a-zA-Z]+)\])?"
)
_SIZES: Final = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_LONG: Final = {("f", 12), ("f", 16), ("c", 24), ("c", 32)}
"""Long doubles: their format and numpy's support for them depend on the writer's machine."""
_TIME_UNIT: Final = re.compile(
    r"(?P<scale>[1-9][0-9]{0,9})?(?P<unit>Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as|generic)"
)
_TENSORSTORE: Final = re.compile(r"bfloat16|float8_\w+|u?int[24]")
"""Names of tensorstore 0.1.86's own types, which numpy does not have."""
_MAX_SUBARRAY_NDIM: Final = 32


def parse_v2_dtype(data: JSON) -> np.dtype[Any]:
    """The numpy type of a `dtype` member, with its byte order.

    A typestr, or a list of [name, dtype] and [name, dtype, shape]. MetadataError for anything else,
    UnsupportedError for documented types that numpy here does not have (bit fields, a long double of another
    machine). Accepted beyond the specification: a byte order on one-byte types (`<u1`, NCZarr and jzarr),
    times without unit (`<M8`, zarr-python 3.1.6), a field without a name (`""`, the padding of an aligned
    struct, zarr-python 2.4 to 2.18), which is called `f1` after its position, as numpy and therefore
    zarr-python 2 name it. Refused: `|i4` and `=i4`, whose byte order is unknown.
    """
    return _dtype(data, 0)


def _dtype(data: JSON, depth: int) -> np.dtype[Any]:
    if isinstance(data, str):
        return _simple(data)
    if isinstance(data, list) and data:
        if depth >= MAX_DEPTH:
            raise UnsupportedError(f"structs are nested more than {MAX_DEPTH} deep")
        return _struct(data, depth)
    raise _bad(data)


def _simple(text: str) -> np.dtype[Any]:
    if _TENSORSTORE.fullmatch(text):
        raise UnsupportedError("a data type of tensorstore that numpy does not have", found=text)
    match = _TYPESTR.fullmatch(text)
    if match is None:
        raise _bad(text)
    order, kind, unit = match["order"], match["kind"], match["unit"]
    size = None if match["size"] is None else int(match["size"])
    if kind == "O":
        if text != "|O":
            raise _bad(text)
        return np.dtype(object)
    if kind in "Mm":
        return (
            np.dtype(f"{order}{kind}8{_time_unit(text, unit)}")
            if order != "|" and size == 8
            else _refuse(text)
        )
    if unit is not None or size is None:
        raise _bad(text)
    if kind in "SUV":
        if kind == "U" and order == "|" and size:
            raise _bad(text)
        if size * (4 if kind == "U" else 1) > MAX_ITEM_BYTES:
            raise MetadataError("dtype is too large", found=text, expected=f"at most {MAX_ITEM_BYTES} bytes")
        return np.dtype(f"{order if kind == 'U' else '|'}{kind}{size}")
    if (kind, size) in _LONG:
        return _long(text, order)
    if size not in _SIZES[kind] or (order == "|" and size > 1):
        raise _bad(text)
    return np.dtype(f"{order}{kind}{size}")


def _refuse(text: str) -> np.dtype[Any]:
    raise _bad(text)


def _time_unit(text: str, unit: str | None) -> str:
    if unit is None:
        return ""
    match = _TIME_UNIT.fullmatch(unit)
    if match is None or int(match["scale"] or 1) > MAX_ITEM_BYTES:
        raise _bad(text)
    return "" if match["unit"] == "generic" else f"[{unit}]"


def _long(text: str, order: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(text) if order != "|" else None
    except TypeError:
        dtype = None
    if dtype is None:
        raise UnsupportedError("numpy on this machine has no such long double", found=text)
    return dtype


def _struct(data: list[JSON], depth: int) -> np.dtype[Any]:
    members: list[tuple[str, np.dtype[Any]]] = []
    names: set[str] = set()
    total = 0
    for place, item in enumerate(data):
        if not isinstance(item, list) or len(item) not in (2, 3) or not isinstance(item[0], str):
            raise MetadataError(
                "malformed field of a structured dtype",
                found=excerpt(item),
                expected="[name, dtype] or [name, dtype, shape]",
            )
        name = item[0] or f"f{place}"
        if name in names:
            raise MetadataError("two fields of a structured dtype have the same name", found=excerpt(name))
        names.add(name)
        dtype = _dtype(item[1], depth + 1)
        if len(item) == 3:
            dtype = _subarray(dtype, item[2])
        total += dtype.itemsize
        if total > MAX_ITEM_BYTES:
            raise MetadataError(
                "dtype is too large", found=excerpt(data), expected=f"at most {MAX_ITEM_BYTES} bytes"
            )
        members.append((name, dtype))
    return np.dtype(members)


def _subarray(dtype: np.dtype[Any], shape: JSON) -> np.dtype[Any]:
    if (
        not isinstance(shape, list)
        or len(shape) > _MAX_SUBARRAY_NDIM
        or not all(type(n) is int and 0 <= n <= MAX_ITEM_BYTES for n in shape)
    ):
        raise MetadataError(
            "malformed shape of a sub-array field", found=excerpt(shape), expected="a list of lengths"
        )
    if math.prod(shape) * max(dtype.itemsize, 1) > MAX_ITEM_BYTES:
        raise MetadataError(
            "a sub-array field is too large", found=excerpt(shape), expected=f"at most {MAX_ITEM_BYTES} bytes"
        )
    if dtype.itemsize == 0:
        raise UnsupportedError("numpy has no sub-arrays of items of zero bytes", found=excerpt(shape))
    return np.dtype((dtype, tuple(shape))) if shape else dtype


def _bad(data: JSON) -> MetadataError:
    return MetadataError(
        "not a Zarr v2 dtype",
        found=excerpt(data),
        expected="a typestr such as '<f8' or '|S5', or a list of [name, dtype]",
    )
