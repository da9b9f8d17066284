"""The JSON forms of fill values that Zarr v2 and v3 have in common, by numpy's kinds."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..json_text import JSON
from .bits import same_bits

OddNaN: TypeAlias = Callable[[Any], JSON] | None
"""The form of a NaN with another payload or sign than numpy's; None for "NaN", which loses them."""


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


def _float(scalar: Any, odd_nan: OddNaN) -> JSON:
    if np.isnan(scalar):
        # "NaN" is one NaN only: sign 0, the mantissa's first bit 1 and all others 0 (v3 core).
        if odd_nan is None or same_bits(scalar, np.array(np.nan, dtype=scalar.dtype)):
            return "NaN"
        return odd_nan(scalar)
    if np.isinf(scalar):
        return "Infinity" if scalar > 0 else "-Infinity"
    return float(scalar)


def to_base64(data: bytes) -> str:
    """Bytes as text."""
    return base64.b64encode(data).decode("ascii")


def from_base64(data: JSON) -> bytes:
    """The bytes of base64; TypeError or ValueError for anything else."""
    if not isinstance(data, str):
        raise TypeError(f"a {type(data).__name__}")
    return base64.b64decode(data.encode("ascii"), validate=True)
