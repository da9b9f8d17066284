"""Data types and fill values of the 2022 draft -> v3's, for both dialects.

Sources: sections "Core data types", "data_type" and "fill_value" of the text (nodes.py names it), its
extensions `data-types/{complex,datetime,string,struct}`, and zarr-python 2.18.7 as observed. The text gives
core types names ("int32", byte order stated by the `endian` codec) but still uses typestrs ("<f8") in its
examples; zarr-python writes typestrs, "bool", "u1" and "i1". Both are read. The text's table has no 64-bit
integers, its examples do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from zarrstack.core.errors import MetadataError, Problem, UnsupportedError
from zarrstack.core.json_text import JSON, canonical, excerpt

from ..data_types.fill_forms import refusing
from ..data_types.numpy_types import CORE, MAX_ITEM_BYTES
from ..data_types.v2 import parse_v2_dtype, v2_fill_to_scalar, v2_object_fill
from ..data_types.v3 import DataType, fill_to_json, zero_fill
from ..problems import warning

Dtype: TypeAlias = np.dtype[Any]

_SPECIFIED: Final[Mapping[str, str]] = {
    "c": "https://purl.org/zarr/spec/extensions/data-types/complex/1.0",
    "Mm": "https://purl.org/zarr/spec/extensions/data-types/datetime/1.0",
    "SU": "https://purl.org/zarr/spec/extensions/data-types/string/1.0",
    "V": "https://purl.org/zarr/spec/extensions/data-types/struct/1.0",
}
"""Kinds of numpy types -> the text's extension, as of December 2022."""
_DOCS: Final = "https://zarr-specs.readthedocs.io/en/"
_ZARR_PYTHON: Final[Mapping[str, str]] = {
    "c": _DOCS + "core-protocol-v3.0-dev/protocol/extensions/complex-dtypes/v1.0.html",
    "Mm": _DOCS + "latest/extensions/data-types/datetime/v1.0.html",
    "S": "TODO: bytestring array protocol URL",
    "U": "TODO: unicode array protocol URL",
    "V": "TODO: structured array protocol URL",
    "O": "TODO: object array protocol URL",
}
"""The extensions of zarr-python 2.18.7, `get_extended_dtype_info`; "TODO" is literal."""
_EARLIER: Final[Mapping[str, str]] = {
    "c": "https://purl.org/zarr/spec/protocol/extensions/complex-dtypes/1.0",
    "Mm": "https://purl.org/zarr/spec/protocol/extensions/datetime-dtypes/1.0",
}
"""The extensions of the draft of 2020."""
_EXTENSIONS: Final[Mapping[str, str]] = {
    uri: kinds for table in (_SPECIFIED, _ZARR_PYTHON, _EARLIER) for kinds, uri in table.items()
}
_SHORT: Final = {"u1": "|u1", "i1": "|i1", "b1": "|b1", "bool": "|b1"}
_RAW: Final = re.compile(r"r([1-9][0-9]{0,11})")
_MAX_FALLBACKS: Final = 32
_BINARY: Final = re.compile(r"0x[0-9a-fA-F]+|0b[01]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftType:
    """A data type as stated in a document."""

    dtype: Dtype
    """With the byte order of the stored values; `object` for arrays of objects."""
    identifier: JSON
    """Its identifier, such as "<f8" or [["a", "<i4"]]: a Zarr v2 dtype, or a core name."""
    ordered: bool
    """Whether it states its byte order; core names leave it to the `endian` codec."""
    raw: bool = False
    """The raw type, `r*`."""


def read_type(data: JSON, *, allow_fallback: bool = False) -> tuple[DraftType, list[Problem]]:
    """Parse the data type of an array, with a warning if a fallback is used.

    UnsupportedError for an unknown extension, unless it has a known fallback and `allow_fallback` permits it;
    MetadataError for malformed types, including a fallback that leads back to its own type. A fallback of
    null means none (zarr-python 2 always writes one).
    """
    try:
        return _known_type(data), []
    except UnsupportedError as error:
        fallback = next(iter(_fallbacks(data)), None)
        if fallback is None:
            raise
        found, expected = excerpt(data), excerpt(fallback.identifier)
        if not allow_fallback:
            raise UnsupportedError(
                "an extension data type is unknown; its fallback would be read as plain values",
                found=found,
                expected=f"a known type, or permission to read {expected}",
                advice="`zarrlift migrate --set allow-fallback=true` reads it as that type.",
            ) from error
        message = "an extension data type is read as its fallback"
        return fallback, [warning("fallback", message, found=found, expected=expected)]


def _known_type(data: JSON) -> DraftType:
    if isinstance(data, str):
        return _core(data)
    if not isinstance(data, dict) or not isinstance(data.get("extension"), str) or "type" not in data:
        raise MetadataError(
            "data_type must be an identifier, or an extension with a type",
            found=excerpt(data),
            expected='"<f8", or {"extension": ..., "type": ...}',
        )
    if unknown := data.keys() - {"extension", "type", "fallback"}:
        raise MetadataError("unknown members in an extension data type", found=excerpt(sorted(unknown)))
    kinds = _EXTENSIONS.get(data["extension"])
    if kinds is None:
        raise UnsupportedError("unknown extension data type", found=excerpt(data))
    identifier = data["type"]
    if isinstance(identifier, list) and len(identifier) == 1 and _is_unnamed(identifier[0]):
        # zarr-python 2 writes plain bytes as a struct of one unnamed field.
        identifier = identifier[0][1]
    dtype = parse_v2_dtype(identifier)
    if dtype.kind not in kinds:
        raise UnsupportedError(
            "an extension data type does not include the type that it names", found=excerpt(data)
        )
    return DraftType(dtype=dtype, identifier=identifier, ordered=True)


def _is_unnamed(field: JSON) -> bool:
    return isinstance(field, list) and len(field) == 2 and field[0] == "" and isinstance(field[1], str)


def _core(name: str) -> DraftType:
    if match := _RAW.fullmatch(name):
        bits = int(match[1])
        if bits % 8 or bits // 8 > MAX_ITEM_BYTES:
            raise MetadataError("a raw type must have whole bytes", found=name, expected="r8, r16, r24, ...")
        return DraftType(dtype=np.dtype(f"V{bits // 8}"), identifier=name, ordered=False, raw=True)
    if name in CORE and name != "bool":
        return DraftType(dtype=np.dtype(name).newbyteorder("<"), identifier=name, ordered=False)
    try:
        dtype = parse_v2_dtype(_SHORT.get(name, name))
    except MetadataError:
        dtype = np.dtype(object)
    if dtype.kind not in "biufc":
        raise UnsupportedError(
            "unknown data type of the core specification",
            found=excerpt(name),
            expected="bool, int8, ..., r*, or a typestr such as <f8",
        )
    return DraftType(dtype=dtype, identifier=name, ordered=dtype.itemsize > 1)


def _fallbacks(data: JSON) -> list[DraftType]:
    """The known types among a type's fallbacks, recursively, in order of preference."""
    fallbacks: list[DraftType] = []
    seen: set[str] = set()

    def visit(item: JSON, path: frozenset[str]) -> None:
        if not isinstance(item, dict) or "fallback" not in item or item["fallback"] is None:
            return
        name = canonical([item.get("extension"), item.get("type")])
        if name in path:
            raise MetadataError("a data type falls back to itself", found=excerpt(item))
        fallback = item["fallback"]
        for candidate in fallback if isinstance(fallback, list) else [fallback]:
            if len(seen) >= _MAX_FALLBACKS or len(path) >= _MAX_FALLBACKS:
                raise MetadataError(
                    "a data type has too many fallbacks", expected=f"{_MAX_FALLBACKS} at most"
                )
            seen.add(canonical(candidate))
            try:
                fallbacks.append(_known_type(candidate))
            except UnsupportedError:
                visit(candidate, path | {name})

    visit(data, frozenset())
    return fallbacks


# ----- fill values


def read_fill(data: JSON, kind: DraftType, data_type: DataType) -> tuple[JSON, bool]:
    """A fill value in v3's JSON form, and whether it was null, which becomes the type's zero.

    The text forbids null; zarr-python 2, zarrita and GDAL write it. Other forms: those of Zarr v2, which
    zarr-python writes; "+Infinity"; and for core types all bits of a value as "0x..." or "0b...", most
    significant first, as in the ratified v3. MetadataError for anything else.
    """
    with refusing(data, str(data_type)):
        if data is None:
            return fill_to_json(zero_fill(data_type), data_type), True
        if data_type.name in ("string", "bytes"):
            return fill_to_json(v2_object_fill(data, data_type), data_type), False
        return fill_to_json(_scalar(data, kind), data_type), False


def _scalar(data: JSON, kind: DraftType) -> Any:
    dtype = kind.dtype
    native = dtype.newbyteorder("=")
    if kind.raw:
        return _bits(data, native) if _is_bits(data) else v2_fill_to_scalar(data, dtype)
    if dtype.kind in "biuf" and _is_bits(data):
        scalar = _bits(data, native)
        if dtype.kind == "b" and scalar.view("u1") > 1:
            raise ValueError("not a truth value")
        return scalar
    if dtype.kind == "f" and data == "+Infinity":
        return native.type(np.inf)
    if dtype.kind == "c" and isinstance(data, list) and len(data) == 2:
        half = np.dtype(f"f{dtype.itemsize // 2}")
        part = DraftType(dtype=half, identifier=half.str, ordered=True)
        return np.array([_scalar(item, part) for item in data], dtype=half).view(native)[0]
    return v2_fill_to_scalar(data, dtype)


def _is_bits(data: JSON) -> bool:
    return isinstance(data, str) and data[:2] in ("0x", "0b")


def _bits(data: str, native: Dtype) -> Any:
    if not _BINARY.fullmatch(data) or len(data) - 2 != native.itemsize * (2 if data[1] == "x" else 8):
        raise MetadataError(
            "a fill value has the wrong number of bits",
            found=excerpt(data),
            expected=f"{native.itemsize * 2} hexadecimal or {native.itemsize * 8} binary digits",
        )
    raw = int(data[2:], 16 if data[1] == "x" else 2).to_bytes(native.itemsize, "big")
    return np.frombuffer(raw, dtype=native.newbyteorder(">")).astype(native)[0]
