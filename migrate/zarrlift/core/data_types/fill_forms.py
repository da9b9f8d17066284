"""The JSON forms of fill values that Zarr v2 and v3 have in common, by numpy's kinds, written and read."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import numpy as np

from zarrstack.core.errors import MetadataError, ZarrstackError
from zarrstack.core.json_text import JSON, excerpt

from .compare import same_bits

NAT: Final = -(2**63)
"""The int64 that represents numpy's "not a time"."""

OddNaN: TypeAlias = Callable[[Any], JSON] | None
"""The form of a NaN with another payload or sign than numpy's; None for "NaN", which loses them."""

Dialect: TypeAlias = Callable[[JSON, np.dtype[Any]], JSON]
"""The form that `read_fill` knows for one that a format has besides, by the type; other forms unchanged."""


def fill_form(scalar: Any, stored: np.dtype[Any], odd_nan: OddNaN = None) -> JSON:
    """The form of a scalar of fixed size: numbers and text are JSON's, complex numbers pairs, times integers.

    Bytes and structs are base64, structs in the byte order of `stored`, the type. Floats that JSON lacks are
    "NaN", "Infinity" and "-Infinity".
    """
    match stored.kind:
        case "f":
            return _float(scalar, odd_nan)
        case "c":
            return [_float(scalar.real, odd_nan), _float(scalar.imag, odd_nan)]
        case "M" | "m":
            return int(scalar.view("i8"))
        case "S":
            return to_base64(scalar.item())
        case "V":
            return to_base64(np.asarray(scalar).astype(stored).tobytes())
    return scalar.item()


def read_fill(data: JSON, stored: np.dtype[Any], dialect: Dialect = lambda data, _: data) -> Any:
    """The native scalar with a form of `fill_form`, bit for bit; `stored` has the byte order of structs.

    Accepted besides: hexadecimal bits of floats; bare NaN and Infinity, which Python's JSON parser accepts;
    whole numbers written as floats; "NaT"; "" for zero bytes; an object with a value per field for structs.
    MetadataError, or a plain error (see `refusing`), for anything else, and for numbers beyond the type.
    """
    form, native = dialect(data, stored), stored.newbyteorder("=")
    match stored.kind:
        case "b":
            return np.bool_(expect(form, bool))
        case "i" | "u":
            return whole_number(_whole(form), native)[()]
        case "f":
            return _read_float(form, native)
        case "c":
            half = native.type(0).real.dtype
            real, imaginary = (read_fill(part, half, dialect) for part in expect(form, list | tuple))
            return np.stack([real, imaginary]).view(native)[0]
        case "M" | "m":
            return whole_number(NAT if form == "NaT" else _whole(form), np.dtype("i8")).view(native)[()]
        case "U":
            return _sized(expect(form, str), native, data, native.itemsize // 4, "characters")
        case "S":
            return _sized(from_base64(form), native, data, native.itemsize, "bytes")
    if isinstance(form, dict) and stored.names is not None:
        return _read_struct(form, stored, dialect)
    # zarr-python 3.1.6 writes "" for zeros of `raw_bytes`, 2.4 to 2.18 for structs and |V.
    raw = from_base64(form) or bytes(stored.itemsize)
    if len(raw) != stored.itemsize:
        raise MetadataError(
            "a fill value has the wrong length",
            found=f"{len(raw)} bytes",
            expected=f"{stored.itemsize} bytes of base64",
        )
    return np.ndarray((), stored, raw).astype(native)[()]


@contextmanager
def refusing(data: JSON, expected: str) -> Iterator[None]:
    """Raise MetadataError with `data` as found for the plain errors of a conversion of it."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, ZarrstackError):
            raise
        raise MetadataError("bad fill value", found=excerpt(data), expected=expected) from error


def whole_number(value: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A 0-d integer array; OverflowError if the type cannot represent the value (numpy 1.26 wraps it)."""
    info = np.iinfo(dtype)
    if not info.min <= value <= info.max:
        raise OverflowError(f"not from {info.min} to {info.max}")
    return np.array(value, dtype=dtype)


def expect(value: Any, kind: Any) -> Any:
    """The same value; TypeError if it is of another type."""
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__}")
    return value


def to_base64(data: bytes) -> str:
    """Bytes as text."""
    return base64.b64encode(data).decode("ascii")


def from_base64(data: JSON) -> bytes:
    """The bytes of base64; TypeError or ValueError for anything else."""
    return base64.b64decode(expect(data, str).encode("ascii"), validate=True)


def listed(data: list[JSON]) -> bytes:
    """The bytes whose numbers a list has; TypeError or ValueError for anything else."""
    return bytes(expect(byte, int) for byte in data)


def _float(scalar: Any, odd_nan: OddNaN) -> JSON:
    if np.isnan(scalar):
        # "NaN" is one NaN only: sign 0, the mantissa's first bit 1 and all others 0 (v3 core).
        if odd_nan is None or same_bits(scalar, np.array(np.nan, dtype=scalar.dtype)):
            return "NaN"
        return odd_nan(scalar)
    if np.isinf(scalar):
        return "Infinity" if scalar > 0 else "-Infinity"
    return float(scalar)


def _read_float(form: JSON, native: np.dtype[Any]) -> Any:
    if isinstance(form, str) and form.startswith("0x"):
        raw = bytes.fromhex(form[2:])
        if len(form) != 2 + 2 * native.itemsize or len(raw) != native.itemsize:
            raise ValueError("wrong length")
        return np.frombuffer(raw, dtype=native.newbyteorder(">")).astype(native)[0]
    if isinstance(form, bool) or (isinstance(form, str) and form not in ("NaN", "Infinity", "-Infinity")):
        raise ValueError("not a number")
    number = float(expect(form, str | int | float))
    with np.errstate(over="ignore"):
        result = np.array(number, dtype=native)[()]
    if np.isinf(result) and not np.isinf(number):
        raise ValueError("out of range")
    return result


def _read_struct(form: dict[str, JSON], stored: np.dtype[Any], dialect: Dialect) -> Any:
    assert stored.fields is not None
    if form.keys() != stored.fields.keys():
        raise ValueError("other fields")
    result = np.zeros((), dtype=stored.newbyteorder("="))
    for name, (field, *_) in stored.fields.items():
        with refusing(form[name], f"a value of dtype {field.str if field.names is None else field}"):
            result[name] = read_fill(form[name], field, dialect)
    return result[()]


def _whole(form: JSON) -> int:
    """An integer; `0.0` counts, as in every reader observed, `true` does not."""
    number = int(form) if isinstance(form, float) and form.is_integer() else form
    if type(number) is not int:
        raise TypeError("not an integer")
    return number


def _sized(value: Any, native: np.dtype[Any], data: JSON, length: int, unit: str) -> Any:
    """Text, without the zeros that pad it, or bytes; numpy would truncate what is too long."""
    if len(value.rstrip("\0") if native.kind == "U" else value) > length:
        raise MetadataError("a fill value is too long", found=excerpt(data), expected=f"{length} {unit}")
    return np.array(value, dtype=native)[()]
