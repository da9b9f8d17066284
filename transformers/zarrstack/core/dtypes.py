"""v3 data types <-> numpy, and fill values both ways, bit for bit.

Names and configurations are those that both zarr-python 3.1.6 and 3.4.2 read (observed; the
table of who reads what is `readers.py`): the core names of
https://zarr-specs.readthedocs.io/en/latest/v3/data-types/, and zarr-python's own for what the
core leaves out. `struct` (fields as objects) and `variable_length_bytes` are read here too
and kept by name; `object` is ours and never stands in a v3 document.
"""

from __future__ import annotations

import base64
import binascii
import operator
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np

from .errors import CastError, MetadataError, UnsupportedError
from .jsons import JSON, canonical

_CORE: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_VARIABLE: Final = frozenset({"string", "bytes", "variable_length_bytes", "object"})
_PLAIN: Final[Mapping[str, np.dtype[Any]]] = {
    **{name: np.dtype(name) for name in _CORE},
    **dict.fromkeys(_VARIABLE, np.dtype(object)),
}
_BY_KIND: Final = {(_PLAIN[name].kind, _PLAIN[name].itemsize): name for name in _CORE}
_LENGTHS: Final[Mapping[str, tuple[str, int]]] = {
    "fixed_length_utf32": ("U", 4),
    "null_terminated_bytes": ("S", 1),
    "raw_bytes": ("V", 1),
}
"""Name -> numpy kind and bytes per unit of numpy's length."""
_BY_LENGTH_KIND: Final = {kind: (name, unit) for name, (kind, unit) in _LENGTHS.items()}
_TIMES: Final = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}
_UNITS: Final = ("generic", "Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "ps", "fs", "as")
_STRUCTS: Final = ("structured", "struct")

MAX_ITEM_BYTES: Final = 2**31 - 1
"""numpy keeps an element's size in a C int."""
MAX_DEPTH: Final = 32
"""Structs in structs; deeper nesting is no archive but an attack on the stack."""
NAT: Final = -(2**63)
"""The int64 that numpy's "not a time" is stored as."""


@dataclass(frozen=True, slots=True)
class DataType:
    """A v3 data type as data: its name and configuration; equal where their JSON is equal."""

    name: str
    configuration: Mapping[str, JSON] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: JSON) -> DataType:
        """Read the `data_type` of a v3 document, or of a saved plan.

        Raises UnsupportedError for a name that is not known here, MetadataError for a
        malformed configuration.
        """
        if isinstance(data, str):
            data = {"name": data}
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            raise MetadataError(
                "a data type is a name or an object with one", found=_text(data), expected='{"name": ...}'
            )
        configuration = data.get("configuration", {})
        if not isinstance(configuration, dict):
            raise MetadataError(
                f"configuration of data type {data['name']!r} is not an object", found=_text(configuration)
            )
        if unknown := data.keys() - {"name", "configuration", "must_understand"}:
            raise MetadataError(f"unknown members in data type {data['name']!r}", found=_text(sorted(unknown)))
        result = cls(data["name"], configuration)
        _build(result, 0)
        return result

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> DataType:
        """The v3 name of a numpy type, its byte order dropped (the `bytes` codec carries it).

        Raises UnsupportedError, naming the type, where v3 has no name that readers know: sub-array
        fields, long double, `object`, zero-length types, structs with padding.
        """
        return cls.from_json(_name(dtype, 0))

    def to_json(self) -> JSON:
        """As `data_type` stands in `zarr.json`: a bare string where there is no configuration."""
        if self.configuration:
            return {"name": self.name, "configuration": dict(self.configuration)}
        return self.name

    @property
    def numpy(self) -> np.dtype[Any]:
        """The native-endian numpy type its values have in memory; `object` for string, bytes, object.

        Structs are packed: fields one after another, no padding.
        """
        return _PLAIN.get(self.name) or _cached(self)

    @property
    def itemsize(self) -> int | None:
        """Bytes per element under the `bytes` codec; None for variable-length types."""
        return None if self.name in _VARIABLE else self.numpy.itemsize

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DataType):
            return NotImplemented
        return self.name == other.name and canonical(self.to_json()) == canonical(other.to_json())

    def __hash__(self) -> int:
        return hash(canonical(self.to_json()))

    def __str__(self) -> str:
        if self.name in _LENGTHS:
            return f"{self.name}[{self.configuration['length_bytes']}]"
        if self.name in _TIMES:
            scale = self.configuration["scale_factor"]
            return f"{self.name}[{'' if scale == 1 else scale}{self.configuration['unit']}]"
        if self.name in _STRUCTS:
            fields = (f"{name}: {inner}" for name, inner in _fields(self))
            return f"{self.name}{{{', '.join(fields)}}}"
        return self.name


# ----- data types <-> numpy


@lru_cache(maxsize=4096)
def _cached(data_type: DataType) -> np.dtype[Any]:
    return _build(data_type, 0)


def _build(data_type: DataType, depth: int) -> np.dtype[Any]:
    """The numpy type of a data type; checks its configuration on the way."""
    name, configuration = data_type.name, data_type.configuration
    if name in _PLAIN:
        _members(data_type)
        return _PLAIN[name]
    if name in _LENGTHS:
        _members(data_type, "length_bytes")
        kind, unit = _LENGTHS[name]
        length = _integer(data_type, configuration["length_bytes"], unit, MAX_ITEM_BYTES)
        if length % unit:
            raise MetadataError(
                f"length_bytes of {name} is no multiple of {unit}", found=str(length), expected="4 per character"
            )
        return np.dtype((kind, length // unit)) if kind != "V" else np.dtype(f"V{length}")
    if name in _TIMES:
        _members(data_type, "unit", "scale_factor")
        unit_name = configuration["unit"]
        if unit_name not in _UNITS:
            raise MetadataError(f"unknown unit of {name}", found=_text(unit_name), expected=", ".join(_UNITS))
        scale = _integer(data_type, configuration["scale_factor"], 1, MAX_ITEM_BYTES)
        if unit_name == "generic":
            return np.dtype(_TIMES[name])
        return np.dtype(f"{_TIMES[name]}[{scale}{unit_name}]")
    if name in _STRUCTS:
        if depth >= MAX_DEPTH:
            raise UnsupportedError(f"structs are nested more than {MAX_DEPTH} deep")
        fields = [(label, _build(inner, depth + 1)) for label, inner in _fields(data_type)]
        if any(dtype.hasobject for _, dtype in fields):
            raise UnsupportedError(
                "a struct may not hold variable-length fields", found=_text(data_type.to_json())
            )
        if sum(dtype.itemsize for _, dtype in fields) > MAX_ITEM_BYTES:
            raise MetadataError("a struct is too large", expected=f"at most {MAX_ITEM_BYTES} bytes")
        return np.dtype(fields)
    raise UnsupportedError(f"unknown data type {name!r}", found=_text(data_type.to_json()))


def _fields(data_type: DataType) -> list[tuple[str, DataType]]:
    """Names and types of a struct's fields.

    `structured` lists [name, type] pairs (zarr-python 3.1.6); `struct` lists objects with `name`
    and `data_type` (zarr-extensions, data-types/struct). Either form is read under either name, as
    zarr-python 3.4.2 does.
    """
    _members(data_type, "fields")
    fields = data_type.configuration["fields"]
    result: list[tuple[str, DataType]] = []
    if not isinstance(fields, list | tuple) or not fields:
        raise MetadataError("a struct has at least one field", found=_text(fields))
    for item in fields:
        if isinstance(item, dict) and item.keys() == {"name", "data_type"}:
            item = (item["name"], item["data_type"])
        if not isinstance(item, list | tuple) or len(item) != 2 or not isinstance(item[0], str):
            raise MetadataError("malformed field of a struct", found=_text(item), expected="[name, type]")
        label, inner = item
        if not label or any(label == known for known, _ in result):
            raise MetadataError("the fields of a struct have distinct, non-empty names", found=_text(label))
        result.append((label, _shallow(inner)))
    return result


def _shallow(data: JSON) -> DataType:
    """A field's type without looking into its configuration; `_build` does, with its depth."""
    if isinstance(data, str):
        return DataType(data)
    if isinstance(data, dict) and isinstance(data.get("name"), str):
        configuration = data.get("configuration", {})
        if isinstance(configuration, dict):
            return DataType(data["name"], configuration)
    raise MetadataError("malformed type of a struct's field", found=_text(data))


def _members(data_type: DataType, *names: str) -> None:
    if set(data_type.configuration) != set(names):
        raise MetadataError(
            f"wrong members in the configuration of data type {data_type.name!r}",
            found=_text(sorted(data_type.configuration)),
            expected=_text(list(names)),
        )


def _integer(data_type: DataType, value: JSON, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise MetadataError(
            f"bad number in the configuration of data type {data_type.name!r}",
            found=_text(value),
            expected=f"an integer from {low} to {high}",
        )
    return value


def _name(dtype: np.dtype[Any], depth: int) -> JSON:
    if dtype.subdtype is not None:
        raise UnsupportedError("a sub-array in a struct has no v3 data type", found=str(dtype))
    if dtype.kind == "T":
        return "string"
    if dtype.num < 256:  # numpy's own types; the others (ml_dtypes' bfloat16, ...) share its kinds
        if (plain := _BY_KIND.get((dtype.kind, dtype.itemsize))) is not None:
            return plain
        if dtype.kind in "Mm":
            unit, scale = np.datetime_data(dtype)
            name = "numpy.datetime64" if dtype.kind == "M" else "numpy.timedelta64"
            return {"name": name, "configuration": {"unit": unit, "scale_factor": scale}}
        if dtype.names is not None:
            return _struct_name(dtype, depth)
        if dtype.kind in _BY_LENGTH_KIND:
            if dtype.itemsize == 0:
                # zarr-python 3.1.6, 3.4.2 and tensorstore 0.1.86 all refuse length_bytes 0.
                raise UnsupportedError("no reader knows a v3 data type of zero bytes", found=dtype.str)
            name, _ = _BY_LENGTH_KIND[dtype.kind]
            return {"name": name, "configuration": {"length_bytes": dtype.itemsize}}
    raise UnsupportedError(f"data type {dtype} has no v3 name", found=dtype.str)


def _struct_name(dtype: np.dtype[Any], depth: int) -> JSON:
    if depth >= MAX_DEPTH:
        raise UnsupportedError(f"structs are nested more than {MAX_DEPTH} deep")
    assert dtype.names is not None
    assert dtype.fields is not None
    inner = [dtype.fields[name][0] for name in dtype.names]
    if sum(item.itemsize for item in inner) != dtype.itemsize:
        raise UnsupportedError("a struct with padding or overlapping fields has no v3 name", found=str(dtype))
    pairs = [[name, _name(item, depth + 1)] for name, item in zip(dtype.names, inner, strict=True)]
    return {"name": "structured", "configuration": {"fields": pairs}}


# ----- fill values


def zero_fill(data_type: DataType) -> Any:
    """What an undefined fill value becomes: 0, False, '', b'', NaT, zero bytes; None for `object`."""
    dtype = data_type.numpy
    if dtype.kind == "O":
        return {"string": "", "object": None}.get(data_type.name, b"")
    if dtype.kind in "Mm":
        return np.array(NAT, dtype="i8").view(dtype)[()]
    return np.zeros((), dtype=dtype)[()]


def fill_to_json(value: Any, data_type: DataType) -> JSON:
    """The v3 JSON form of a fill value, which `fill_from_json` gives back bit for bit.

    `value` is a scalar of the data type, or a Python value that numpy turns into one; CastError
    where it cannot be one. Forms: https://zarr-specs.readthedocs.io/en/latest/v3/data-types/
    (numbers, "NaN", "Infinity", hexadecimal strings for other NaNs, pairs for complex); times as
    int64; `fixed_length_utf32` and `string` as text; all other bytes, and structs packed
    little-endian, as base64 (observed: zarr-python 3.1.6 and 3.4.2 read these).
    """
    if data_type.name == "object":
        return value
    if data_type.name == "string":
        return str(_expect(value, str, data_type))
    if data_type.name in _VARIABLE:
        return _base64(bytes(_expect(value, bytes, data_type)))
    scalar = _scalar(value, data_type)
    kind = scalar.dtype.kind
    if kind == "b":
        return bool(scalar)
    if kind in "iu":
        return int(scalar)
    if kind == "f":
        return _float_to_json(scalar)
    if kind == "c":
        return [_float_to_json(scalar.real), _float_to_json(scalar.imag)]
    if kind in "Mm":
        number = int(scalar.view("i8"))
        # zarr-python 3.1.6 reads no number for a datetime without a unit, but "NaT".
        generic = kind == "M" and data_type.configuration["unit"] == "generic"
        return "NaT" if generic and number == NAT else number
    if kind == "U":
        return str(scalar[()])
    if kind == "S":
        return _base64(bytes(scalar[()]))
    return _base64(scalar.astype(scalar.dtype.newbyteorder("<")).tobytes())


def fill_from_json(data: JSON, data_type: DataType) -> Any:
    """The fill value of a v3 document: a numpy scalar, str for `string`, bytes for `bytes`.

    Bit-exact: "0x7fc00001" keeps its payload, -0.0 its sign. MetadataError for what is no value
    of the data type.
    """
    try:
        return _fill_from_json(data, data_type)
    except (ValueError, TypeError, OverflowError, struct.error) as error:
        if isinstance(error, MetadataError | UnsupportedError):
            raise
        raise MetadataError(f"bad fill value for {data_type}", found=_text(data)) from error


def _fill_from_json(data: JSON, data_type: DataType) -> Any:
    if data_type.name == "object":
        return data
    if data_type.name == "string":
        return _expect(data, str, data_type)
    if data_type.name in _VARIABLE:
        return _bytes_from_json(data)
    dtype = data_type.numpy
    match dtype.kind:
        case "b":
            return np.bool_(_expect(data, bool, data_type))
        case "i" | "u":
            return _scalar(_whole(data), data_type)[()]
        case "f":
            return _float_from_json(data, dtype)[()]
        case "c":
            real, imaginary = _expect(data, list | tuple, data_type)
            parts = np.array([_float_from_json(part, dtype.type(0).real.dtype) for part in (real, imaginary)])
            return parts.view(dtype)[0]
        case "M" | "m":
            number = NAT if isinstance(data, str) and data == "NaT" else _whole(data)
            return np.array(number, dtype="i8").view(dtype)[()]
        case "U":
            return _scalar(_expect(data, str, data_type), data_type)[()]
        case "S":
            return _scalar(_bytes_from_json(data), data_type)[()]
    if isinstance(data, dict):  # `struct`: one member per field
        return _struct_from_json(data, data_type)[()]
    raw = _bytes_from_json(data)
    if not raw:  # zarr-python writes "" for a raw_bytes fill of zeros
        raw = bytes(dtype.itemsize)
    if len(raw) != dtype.itemsize:
        raise MetadataError(
            f"fill value of {data_type} has the wrong length", found=f"{len(raw)} bytes", expected=str(dtype.itemsize)
        )
    return np.frombuffer(raw, dtype=dtype.newbyteorder("<"))[0].astype(dtype)


def _struct_from_json(data: dict[str, JSON], data_type: DataType) -> np.ndarray[Any, Any]:
    """The form of zarr-extensions' `struct`, and what zarr-python 3.4.2 writes for both names."""
    fields = _fields(data_type)
    if data.keys() != {name for name, _ in fields}:
        raise MetadataError("fill value of a struct has other fields than its type", found=_text(data))
    result = np.zeros((), dtype=data_type.numpy)
    for name, inner in fields:
        result[name] = fill_from_json(data[name], inner)
    return result


def _scalar(value: Any, data_type: DataType) -> np.ndarray[Any, Any]:
    """A 0-d array that holds a value, or CastError; floats are rounded, nothing else changes."""
    dtype = data_type.numpy
    try:
        if dtype.kind in "iu":
            value = operator.index(value)
        if dtype.kind in "Mm" and isinstance(value, int):
            return np.array(value, dtype="i8").view(dtype)
        if dtype.kind == "V" and isinstance(value, bytes):
            if len(value) != dtype.itemsize:
                raise ValueError("wrong length")
            return np.frombuffer(value, dtype=dtype).reshape(())
        with np.errstate(over="raise"):
            result = np.array(value, dtype=dtype)
        if result.shape != ():
            raise ValueError("not a scalar")
        if dtype.kind in "US" and result[()] != value.rstrip("\0" if dtype.kind == "U" else b"\0"):
            raise ValueError("too long")
    except (ValueError, TypeError, OverflowError, FloatingPointError, AttributeError) as error:
        raise CastError(
            "a fill value cannot be represented", found=repr(value)[:200], expected=str(data_type)
        ) from error
    return result


def _float_to_json(scalar: Any) -> JSON:
    bits = np.asarray(scalar)
    if np.isnan(bits):
        # "NaN" is one NaN only: sign 0, the mantissa's first bit 1, all others 0 (v3 core, data types).
        return "NaN" if same_bits(bits, np.array(np.nan, dtype=bits.dtype)) else f"0x{_big_endian(bits).hex()}"
    if np.isinf(bits):
        return "Infinity" if bits > 0 else "-Infinity"
    return float(bits)


def _float_from_json(data: JSON, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if isinstance(data, str):
        if data in ("NaN", "Infinity", "-Infinity"):
            return np.array(float(data), dtype=dtype)
        if not data.startswith("0x") or len(data) != 2 + 2 * dtype.itemsize:
            raise ValueError(data)
        return np.frombuffer(bytes.fromhex(data[2:]), dtype=dtype.newbyteorder(">"))[:1].astype(dtype).reshape(())
    if type(data) not in (int, float):
        raise TypeError(data)
    with np.errstate(over="ignore"):
        result = np.array(float(data), dtype=dtype)
    if np.isinf(result) and not np.isinf(float(data)):
        raise OverflowError(data)
    return result


def _big_endian(array: np.ndarray[Any, Any]) -> bytes:
    return array.astype(array.dtype.newbyteorder(">")).tobytes()


def _whole(data: JSON) -> int:
    """An integer; `0.0` counts, as in every reader seen, `true` does not."""
    if isinstance(data, float) and data.is_integer():
        return int(data)
    if type(data) is not int:
        raise TypeError(data)
    return data


def _bytes_from_json(data: JSON) -> bytes:
    if not isinstance(data, str):
        raise TypeError(data)
    try:
        return base64.b64decode(data.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeError) as error:
        raise MetadataError("a fill value of bytes is base64", found=_text(data)) from error


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _expect(value: Any, kind: Any, data_type: DataType) -> Any:
    if not isinstance(value, kind):
        raise MetadataError(f"bad fill value for {data_type}", found=_text(value))
    return value


def _text(value: Any) -> str:
    """A value for an error message; never long, never a traceback."""
    try:
        return canonical(value)[:200]
    except (TypeError, ValueError, RecursionError):
        return repr(value)[:200]


def same_bits(a: Any, b: Any) -> bool:
    """Whether two scalars or arrays hold the same values bit for bit; byte order does not count.

    NaN payloads and the sign of zero do. Types must be the same (`U3` is not `U4`); objects are
    compared as values, floats among them by their bits.
    """
    left, right = np.asarray(a), np.asarray(b)
    if left.shape != right.shape:
        return False
    kinds = left.dtype.kind + right.dtype.kind
    if kinds in ("OT", "TO", "TT", "OO"):
        return all(_same_object(x, y) for x, y in zip(left.ravel().tolist(), right.ravel().tolist(), strict=True))
    if left.dtype.newbyteorder("=") != right.dtype.newbyteorder("="):
        return False
    if left.dtype.names is not None:
        return all(same_bits(left[name], right[name]) for name in left.dtype.names)
    native = left.dtype.newbyteorder("=")
    if native.itemsize == 0:
        return True
    left, right = (np.ascontiguousarray(x.astype(native, copy=False)).reshape(-1).view(np.uint8) for x in (left, right))
    return bool(np.array_equal(left, right))


def _same_object(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same_object, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same_object(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray | np.generic | float) and isinstance(b, np.ndarray | np.generic | float):
        return same_bits(a, b)
    return type(a) is type(b) and bool(a == b)
