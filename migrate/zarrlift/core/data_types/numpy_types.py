"""v3 data type names and configurations <-> numpy types.

The names are those that both zarr-python 3.1.6 and 3.4.2 read (`tests/zarrlift/core/data_types/test_v3.py`
checks the installed version; `struct` is read by 3.4.2 only): the core names of
https://zarr-specs.readthedocs.io/en/latest/v3/data-types/, `numpy.datetime64`, `numpy.timedelta64`, `string`,
`bytes` and `struct` as registered in https://github.com/zarr-developers/zarr-extensions/tree/main/data-types,
and zarr-python's own `fixed_length_utf32`, `null_terminated_bytes`, `raw_bytes`, `structured`,
`variable_length_bytes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import MetadataError, UnsupportedError
from zarrstack.core.json_text import JSON, excerpt

CORE: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
VARIABLE: Final = frozenset({"string", "bytes", "variable_length_bytes", "object"})
"""Types of variable length; `object` is this project's and never written."""
BFLOAT16: Final = np.dtype("V2", metadata={"v3": "bfloat16"})
"""The stored bytes of `bfloat16`, little-endian: numpy has no such numbers, so nothing computes with them."""
PLAIN: Final[Mapping[str, np.dtype[Any]]] = {
    **{name: np.dtype(name) for name in CORE},
    "bfloat16": BFLOAT16,
    **dict.fromkeys(sorted(VARIABLE), np.dtype(object)),
}
"""Types without a configuration."""
LENGTHS: Final[Mapping[str, tuple[str, int]]] = {
    "fixed_length_utf32": ("U", 4),
    "null_terminated_bytes": ("S", 1),
    "raw_bytes": ("V", 1),
}
"""Types with `length_bytes` -> numpy kind, and bytes per unit of numpy's length."""
TIMES: Final = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}
STRUCTS: Final = ("structured", "struct")
UNITS: Final = ("generic", "Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "ps", "fs", "as")

_OTHER_NAMES: Final = {"complex_float32": "complex64", "complex_float64": "complex128"}
"""Registered aliases (zarr-extensions, data-types), which zarr-python does not know."""
RAW_BITS: Final = re.compile(r"r([1-9][0-9]{0,10})")
"""The core name of raw bits, which zarrs and tensorstore write; zarr-python reads `raw_bytes` only."""

MAX_ITEM_BYTES: Final = 2**31 - 1
"""numpy stores an element's size, and a time's scale, in a C int."""
MAX_DEPTH: Final = 32
"""Limit on the nesting of structs: deeper nesting is an attack on the stack, not an archive."""

_BY_KIND: Final = {(PLAIN[name].kind, PLAIN[name].itemsize): name for name in CORE}
_BY_LENGTH_KIND: Final = {kind: name for name, (kind, _) in LENGTHS.items()}
_FIRST_USER_TYPE: Final = 256
"""numpy's own types have smaller numbers; others (ml_dtypes' bfloat16, ...) share their kinds."""


def parse_name(data: JSON) -> tuple[str, Mapping[str, JSON]]:
    """Name, as zarr-python has it, and configuration of a v3 data type in JSON; neither is validated.

    `must_understand` is ignored: a data type must always be understood
    (https://zarr-specs.readthedocs.io/en/latest/v3/core/#extension-definition). MetadataError for anything
    else that is not a name or an object with a name.
    """
    if isinstance(data, str):
        if (bits := RAW_BITS.fullmatch(data)) and int(bits[1]) % 8 == 0:
            return "raw_bytes", {"length_bytes": int(bits[1]) // 8}
        return _OTHER_NAMES.get(data, data), {}
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        raise MetadataError(
            "a data type must be a name or an object with one", found=excerpt(data), expected='{"name": ...}'
        )
    name = data["name"]
    configuration = data.get("configuration", {})
    if not isinstance(configuration, dict):
        raise MetadataError(f"configuration of {name!r} is not an object", found=excerpt(configuration))
    if unknown := data.keys() - {"name", "configuration", "must_understand"}:
        raise MetadataError(f"unknown members in data type {name!r}", found=excerpt(sorted(unknown)))
    return name, configuration


def to_numpy(name: str, configuration: Mapping[str, JSON], *, depth: int = 0) -> np.dtype[Any]:
    """The native-endian numpy type; `object` for variable length; structs packed.

    Raises UnsupportedError for an unknown name and for types that numpy does not have, MetadataError for a
    malformed configuration.
    """
    if name in PLAIN:
        _members(name, configuration)
        return PLAIN[name]
    if (bits := RAW_BITS.fullmatch(name)) and int(bits[1]) % 8 == 0:
        _members(name, configuration)
        name, configuration = "raw_bytes", {"length_bytes": int(bits[1]) // 8}
    if name in LENGTHS:
        _members(name, configuration, "length_bytes")
        kind, unit = LENGTHS[name]
        # zarr-python 3.1.6 and 3.4.2 and tensorstore 0.1.86 all refuse a length of 0 (observed).
        length = _integer(name, configuration["length_bytes"], low=unit)
        if length % unit:
            raise MetadataError(
                f"length_bytes of {name} holds whole characters of {unit} bytes", found=str(length)
            )
        return np.dtype(f"{kind}{length // unit}")
    if name in TIMES:
        _members(name, configuration, "unit", "scale_factor")
        time_unit = configuration["unit"]
        if time_unit not in UNITS:
            raise MetadataError(f"unknown unit of {name}", found=excerpt(time_unit), expected=" ".join(UNITS))
        scale = _integer(name, configuration["scale_factor"], low=1)
        return np.dtype(TIMES[name] if time_unit == "generic" else f"{TIMES[name]}[{scale}{time_unit}]")
    if name in STRUCTS:
        if depth >= MAX_DEPTH:
            raise UnsupportedError(f"structs are nested more than {MAX_DEPTH} deep")
        members = [
            (label, to_numpy(*parse_name(inner), depth=depth + 1)) for label, inner in fields(configuration)
        ]
        if any(dtype.hasobject or dtype.metadata for _, dtype in members):
            raise UnsupportedError(
                "a struct may not hold fields of variable length or of bfloat16", found=excerpt(configuration)
            )
        if sum(dtype.itemsize for _, dtype in members) > MAX_ITEM_BYTES:
            raise UnsupportedError("a struct is too large", expected=f"at most {MAX_ITEM_BYTES} bytes")
        return np.dtype(members)
    raise UnsupportedError(f"unknown data type {name!r}")


def fields(configuration: Mapping[str, JSON]) -> tuple[tuple[str, JSON], ...]:
    """Names and types of a struct's fields, from its configuration.

    `structured` lists [name, type] pairs (zarr-python 3.1.6); `struct` lists objects with `name` and
    `data_type` (zarr-extensions, data-types/struct). Both forms are accepted under both names, as in
    zarr-python 3.4.2.
    """
    _members("struct", configuration, "fields")
    items = configuration["fields"]
    if not isinstance(items, list | tuple) or not items:
        raise MetadataError("a struct must have at least one field", found=excerpt(items))
    result: dict[str, JSON] = {}
    for item in items:
        if isinstance(item, dict) and item.keys() == {"name", "data_type"}:
            label, inner = item["name"], item["data_type"]
        elif isinstance(item, list | tuple) and len(item) == 2:
            label, inner = item
        else:
            raise MetadataError("malformed field of a struct", found=excerpt(item), expected="[name, type]")
        if not isinstance(label, str) or not label or label in result:
            raise MetadataError(
                "fields of a struct must have distinct, non-empty names", found=excerpt(label)
            )
        result[label] = inner
    return tuple(result.items())


def to_v3(dtype: np.dtype[Any], *, depth: int = 0) -> JSON:
    """The v3 JSON of a numpy type without byte order, which the `bytes` codec states.

    Raises UnsupportedError, naming the type, if v3 has no widely supported name: sub-array fields, long
    double, `object`, types of zero bytes, structs with padding.
    """
    if dtype.subdtype is not None:
        raise UnsupportedError("a sub-array field has no v3 data type", found=str(dtype))
    if dtype.kind == "T":
        return "string"
    if dtype.metadata is not None and "v3" in dtype.metadata:
        return str(dtype.metadata["v3"])
    if dtype.num < _FIRST_USER_TYPE:
        if (plain := _BY_KIND.get((dtype.kind, dtype.itemsize))) is not None:
            return plain
        if dtype.kind in "Mm":
            unit, scale = np.datetime_data(dtype)
            name = "numpy.datetime64" if dtype.kind == "M" else "numpy.timedelta64"
            return {"name": name, "configuration": {"unit": unit, "scale_factor": scale}}
        if dtype.names is not None:
            return _struct_to_v3(dtype, depth)
        if dtype.kind in _BY_LENGTH_KIND:
            if dtype.itemsize == 0:
                raise UnsupportedError("no reader supports a data type of zero bytes", found=dtype.str)
            return {"name": _BY_LENGTH_KIND[dtype.kind], "configuration": {"length_bytes": dtype.itemsize}}
    raise UnsupportedError(f"data type {dtype.name} has no v3 name", found=dtype.str)


def _struct_to_v3(dtype: np.dtype[Any], depth: int) -> JSON:
    if depth >= MAX_DEPTH:
        raise UnsupportedError(f"structs are nested more than {MAX_DEPTH} deep")
    assert dtype.names is not None
    assert dtype.fields is not None
    inner = [dtype.fields[name] for name in dtype.names]
    offset = 0
    for field in inner:
        if field[1] != offset:
            raise UnsupportedError("a struct with padding or overlaps has no v3 name", found=str(dtype))
        offset += field[0].itemsize
    if offset != dtype.itemsize:
        raise UnsupportedError("a struct with padding has no v3 name", found=str(dtype))
    if not inner:
        raise UnsupportedError("no reader supports a struct without fields", found=dtype.str)
    pairs = [[name, to_v3(field[0], depth=depth + 1)] for name, field in zip(dtype.names, inner, strict=True)]
    return {"name": "structured", "configuration": {"fields": pairs}}


def _members(name: str, configuration: Mapping[str, JSON], *expected: str) -> None:
    if configuration.keys() != set(expected):
        raise MetadataError(
            f"wrong members in the configuration of data type {name!r}",
            found=excerpt(sorted(configuration)),
            expected=excerpt(expected),
        )


def _integer(name: str, value: JSON, *, low: int) -> int:
    if type(value) is not int or not low <= value <= MAX_ITEM_BYTES:
        raise MetadataError(
            f"bad number in the configuration of data type {name!r}",
            found=excerpt(value),
            expected=f"an integer from {low} to {MAX_ITEM_BYTES}",
        )
    return value
