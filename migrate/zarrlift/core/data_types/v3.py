"""v3 data types as data, and bitwise conversion of their fill values to and from JSON.

`numpy_types.py` has the names and their numpy types. `object` is this project's: it describes legacy arrays
of Python objects, occurs in saved plans, and is never written to a v3 document.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from zarrstack.core.errors import CastError, UnsupportedError
from zarrstack.core.json_text import JSON, canonical

from ..frozen_json import frozen, thawed
from .fill_forms import (
    NAT,
    expect,
    fill_form,
    from_base64,
    listed,
    read_fill,
    refusing,
    to_base64,
    whole_number,
)
from .numpy_types import (
    BFLOAT16,
    LENGTHS,
    PLAIN,
    RAW_BITS,
    STRUCTS,
    TIMES,
    VARIABLE,
    fields,
    parse_name,
    to_numpy,
    to_v3,
)

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class DataType:
    """A v3 data type: its name and configuration; equal if their JSON is equal."""

    name: str
    configuration: Mapping[str, JSON] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "configuration", frozen(self.configuration))

    @classmethod
    def from_json(cls, data: JSON) -> DataType:
        """Parse the `data_type` of a v3 document or of a saved plan.

        Raises UnsupportedError for an unknown name, MetadataError for a malformed one.
        """
        name, configuration = parse_name(data)
        to_numpy(name, configuration)
        return cls(name, configuration)

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> DataType:
        """The data type of a numpy type, without byte order, which the `bytes` codec states.

        Raises UnsupportedError, naming the type, if v3 has no widely supported name: sub-array fields, long
        double, `object`, types of zero bytes, structs with padding.
        """
        return cls.from_json(to_v3(dtype))

    def to_json(self) -> JSON:
        """The `data_type` of a `zarr.json`: a string if there is no configuration."""
        if self.configuration:
            return {"name": self.name, "configuration": thawed(self.configuration)}
        return self.name

    @property
    def known(self) -> DataType:
        """The same type under the name that zarr-python reads since 3.1.

        zarr-python 3.4.2 writes `struct`, which 3.1.6 does not know; and both write `variable_length_bytes`,
        although they also read `bytes`.
        """
        if self.name in STRUCTS or RAW_BITS.fullmatch(self.name):
            return DataType.from_numpy(self.numpy)
        return DataType("bytes") if self.name == "variable_length_bytes" else self

    @property
    def registered(self) -> DataType:
        """The same type under its registered name, which fewer readers know."""
        if self.name == "raw_bytes":
            return DataType(f"r{8 * self.numpy.itemsize}")
        if self.name != "structured":
            return self
        types = ((label, inner.registered if inner.fields else inner) for label, inner in self.fields)
        return DataType(
            "struct", {"fields": [{"name": label, "data_type": inner.to_json()} for label, inner in types]}
        )

    @property
    def numpy(self) -> np.dtype[Any]:
        """The native-endian numpy type of values in memory; `object` for string, bytes, object.

        Structs are packed: fields are contiguous, without padding.
        """
        return PLAIN[self.name] if self.name in PLAIN else _numpy(self)

    @property
    def itemsize(self) -> int | None:
        """Bytes per element under the `bytes` codec; None for types of variable length."""
        return None if self.name in VARIABLE else self.numpy.itemsize

    @property
    def fields(self) -> tuple[tuple[str, DataType], ...]:
        """Names and types of a struct's fields, in order; empty for all other types."""
        if self.name not in STRUCTS:
            return ()
        return tuple((label, DataType(*parse_name(inner))) for label, inner in fields(self.configuration))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DataType):
            return NotImplemented
        return self._text() == other._text()

    def __hash__(self) -> int:
        return hash(self._text())

    def _text(self) -> str:
        return canonical([self.name, self.configuration])

    def __str__(self) -> str:
        if self.name in LENGTHS:
            return f"{self.name}[{self.configuration['length_bytes']}]"
        if self.name in TIMES:
            scale = self.configuration["scale_factor"]
            return f"{self.name}[{'' if scale == 1 else scale}{self.configuration['unit']}]"
        if self.name in STRUCTS:
            return f"{self.name}{{{', '.join(f'{label}: {inner}' for label, inner in self.fields)}}}"
        return self.name


@lru_cache(maxsize=4096)
def _numpy(data_type: DataType) -> np.dtype[Any]:
    return to_numpy(data_type.name, data_type.configuration)


def zero_fill(data_type: DataType) -> Any:
    """Default for an undefined fill value: 0, False, '', b'', NaT, zero bytes; None for `object`."""
    dtype = data_type.numpy
    if dtype.kind == "O":
        return {"string": "", "object": None}.get(data_type.name, b"")
    if dtype.kind in "Mm":
        return np.array(NAT, dtype="i8").view(dtype)[()]
    return np.zeros((), dtype=dtype)[()]


def fill_to_json(value: Any, data_type: DataType) -> JSON:
    """Convert a fill value to v3 JSON, from which `fill_from_json` restores every bit.

    `value` is a scalar of the data type or an equivalent Python value (a float is rounded to the type,
    nothing else changes). CastError for other values; UnsupportedError for a datetime without unit that is
    not NaT, which zarr-python 3.1.6 cannot read.

    Forms (https://zarr-specs.readthedocs.io/en/latest/v3/data-types/#permitted-fill-values, and as read by
    zarr-python 3.1.6 and 3.4.2, observed): numbers; "NaN", "Infinity", "-Infinity", hexadecimal strings for
    NaNs with another payload or sign; pairs for complex; times as int64; text for `fixed_length_utf32` and
    `string`; base64 for all other bytes, and for structs, packed and little-endian; for the registered
    `struct`, an object with a value per field. tensorstore 0.1.86 reads `r16` with base64 only, zarrs both
    that and the core's list. Values of `object` are unchanged.
    """
    if data_type.name == "object":
        return value
    scalar = _scalar(value, data_type)
    if data_type.name == "bfloat16":
        single = np.array(int(scalar.view("<u2")) << 16, "u4").view("f4")
        return fill_form(single, single.dtype, lambda nan: str(_hexadecimal(nan))[:6])
    kind = scalar.dtype.kind
    if data_type.name == "struct":
        return {label: fill_to_json(scalar[label][()], inner) for label, inner in data_type.fields}
    if kind == "O":
        return scalar.item() if data_type.name == "string" else to_base64(scalar.item())
    if kind == "M" and np.datetime_data(scalar.dtype)[0] == "generic":
        # zarr-python 3.1.6 reads no number here: numpy requires a unit to make a datetime of one.
        if (number := int(scalar.view("i8"))) != NAT:
            raise UnsupportedError(
                "zarr-python 3.1.6 cannot read this fill value of a datetime without unit",
                found=str(number),
                expected="NaT",
            )
        return "NaT"
    stored = scalar.dtype.newbyteorder("<") if kind == "V" else scalar.dtype
    return fill_form(scalar, stored, _hexadecimal)


def fill_from_json(data: JSON, data_type: DataType) -> Any:
    """Parse the fill value of a v3 document: a numpy scalar, str for `string`, bytes for `bytes`.

    Bit-exact: "0x7fc00001" keeps its payload, -0.0 its sign. Accepted besides the forms of `fill_to_json`:
    bare NaN and Infinity, which Python's JSON parser accepts; whole numbers written as floats; 0 and 1 for
    bool; "" for bytes that are all zero; lists of bytes (the core's form of `r*`, and the registered one of
    `bytes`, which zarr-python 3.0 writes); objects with a value per field for structs (zarr-extensions,
    data-types/struct; zarr-python 3.4.2 writes these). MetadataError, with the data found and the type
    expected, for anything else.
    """
    if data_type.name == "object":
        return data
    with refusing(data, str(data_type)):
        if data_type.name in VARIABLE:
            if data_type.name == "string":
                return expect(data, str)
            return listed(data) if isinstance(data, list) else from_base64(data)
        if data_type.name == "bfloat16":
            return _bfloat16(data)
        return read_fill(data, data_type.numpy.newbyteorder("<"), _other_forms)


def _bfloat16(data: JSON) -> Any:
    """The bytes of the nearest bfloat16, ties to even, as tensorstore 0.1.86 rounds; a NaN keeps its bits."""
    is_bits = isinstance(data, str) and data.startswith("0x")
    single = read_fill(f"{data}0000" if is_bits else data, np.dtype("<f4"))
    bits = int(single.view("u4"))
    if not np.isnan(single):
        bits += 0x7FFF + (bits >> 16 & 1)
    return np.array(bits >> 16, "<u2").view(BFLOAT16)[()]


def _other_forms(data: JSON, stored: np.dtype[Any]) -> JSON:
    """Base64 for a list of bytes, a boolean for 0 and 1."""
    if stored.kind == "b" and type(data) is int and data in (0, 1):
        return bool(data)
    if stored.kind != "V" or stored.names is not None or not isinstance(data, list) or not data:
        return data
    return to_base64(listed(data))


def _scalar(value: Any, data_type: DataType) -> Array:
    """A 0-d array that holds a value, or CastError."""
    try:
        return _array(value, data_type)
    except (ValueError, TypeError, OverflowError, FloatingPointError) as error:
        found = f"{type(value).__name__} {value!r}"[:200]
        raise CastError("not a value of the data type", found=found, expected=str(data_type)) from error


def _array(value: Any, data_type: DataType) -> Array:
    dtype = data_type.numpy
    kind = dtype.kind
    if kind == "O":
        result = np.empty((), dtype=object)
        result[()] = expect(value, str if data_type.name == "string" else bytes)
        return result
    if kind in "US":
        result = np.array(expect(value, str if kind == "U" else bytes), dtype=dtype)
        # numpy drops trailing zeros, which pad such values, and truncates values that are too long.
        if result.item() != np.array(value).item():
            raise ValueError("too long")
        return result
    if kind == "V" and isinstance(value, bytes):
        if len(value) != dtype.itemsize:
            raise ValueError("wrong length")
        return np.frombuffer(value, dtype=dtype).reshape(())
    if kind == "b":
        return np.array(expect(value, bool | np.bool_), dtype=dtype)
    if kind in "iu":
        return whole_number(operator.index(value), dtype)
    if kind in "Mm" and isinstance(value, int):
        return whole_number(value, np.dtype("i8")).view(dtype)
    result = np.asarray(value)
    if result.dtype.kind in "VMm" and result.dtype.newbyteorder("=") != dtype:
        raise TypeError("another struct or unit")
    with np.errstate(over="raise"):
        result = result.astype(dtype, casting="same_kind")
    if result.shape != ():
        raise TypeError("not a scalar")
    return result


def _hexadecimal(nan: Array) -> JSON:
    return "0x" + nan.astype(nan.dtype.newbyteorder(">")).tobytes().hex()
