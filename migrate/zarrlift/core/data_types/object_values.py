"""Conversion of Python objects in legacy object arrays to v3's strings or bytes.

json2, msgpack2 and categorize arrays hold arbitrary objects. In Zarr v3 they become `string` if every value
is a str; other values are refused by name, or every value is written as JSON text with `--set objects=json`.

Values that JSON lacks have two forms. Where all values of an array have one type (`vlen-array`, structs), it
is the form of v3 fill values: "NaN", base64. Where an object can be anything, it is an object with one
member, whose name begins with `$`, so that NaN differs from the text "NaN", and bytes from text:

    {"$float": "NaN"}   {"$bytes": "YWI="}   {"$complex": [1.0, 0.0]}   {"$longdouble": "1.5e+00"}
    {"$datetime64[s]": 5}   {"$timedelta64[ns]": "NaT"}   {"$object": {"$mine": 1}}

The last one is an object of the source with such a name.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from zarrstack.core.errors import CastError

from ..codec_table import require_facts


def may_be_anything(codec: str) -> bool:
    """Whether the values of an array with this array-to-bytes codec may be of different types."""
    return require_facts(codec).objects in ("document", "pickle", "labels")


def to_strings(
    array: npt.NDArray[Any], objects: Literal["refuse", "json"], *, tagged: bool = False
) -> npt.NDArray[np.object_]:
    """Convert every value to str; CastError that names the first value of another type.

    `tagged`: values of different types have different JSON (`may_be_anything`).
    """
    form = tagged_form if tagged else plain
    result = np.empty(array.shape, dtype=object)
    flat, values = result.reshape(-1), array.reshape(-1)
    for index in range(array.size):
        value = values[index]
        if objects == "json":
            flat[index] = json.dumps(form(value), ensure_ascii=False, allow_nan=False)
        elif isinstance(value, str):
            flat[index] = str(value)
        else:
            place = tuple(int(n) for n in np.unravel_index(index, array.shape))
            raise CastError(
                "an object is not a str",
                found=f"{type(value).__name__} {value!r:.80} at {place} of the chunk",
                expected="str in every place",
                advice="Use --set objects=json to write each value as JSON text.",
            )
    return result


def plain(value: Any) -> Any:
    """Convert a value to JSON types; values that JSON lacks take the form of v3 fill values.

    Arrays are lists, structs are objects, complex numbers are pairs, long doubles are decimal text, times are
    whole numbers of their unit, bytes are base64, and non-finite numbers are "NaN", "Infinity", "-Infinity"
    or "NaT".
    """
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.void) and value.dtype.names:
        return {name: plain(value[name]) for name in value.dtype.names}
    if isinstance(value, np.generic):
        return _plain_scalar(value)
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise CastError(
        "an object has no JSON form", found=f"{type(value).__name__} {value!r:.80}", expected="JSON values"
    )


def tagged_form(value: Any) -> Any:
    """Convert a value to JSON types so that different values differ, as described at the top.

    Lists, tuples and arrays are lists, structs are objects, and numpy's numbers are numbers.
    """
    if isinstance(value, np.ndarray | list | tuple):
        return [tagged_form(item) for item in value]
    if isinstance(value, np.void) and value.dtype.names:
        value = {name: value[name] for name in value.dtype.names}
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return plain(value)  # raises
        members = {str(key): tagged_form(item) for key, item in value.items()}
        return {"$object": members} if any(key.startswith("$") for key in members) else members
    tag = _tag(value)
    return plain(value) if tag is None else {f"${tag}": plain(value)}


def _tag(value: Any) -> str | None:
    """The name of a value's type, if its plain form could be that of a value of another type."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value.dtype).lstrip("<>=|")
    if isinstance(value, np.longdouble):
        return "longdouble"
    if isinstance(value, complex | np.complexfloating):
        return "complex"
    if isinstance(value, float | np.floating):
        return None if np.isfinite(value) else "float"
    return "bytes" if isinstance(value, bytes | np.void) else None


def _plain_scalar(value: np.generic) -> Any:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return "NaT" if np.isnat(value) else int(value.view("i8"))
    if value.dtype.kind == "c":
        complex_value: Any = value
        return [plain(complex_value.real), plain(complex_value.imag)]
    if value.dtype.char == "g" and np.isfinite(value):
        return np.format_float_scientific(value, trim="0")  # type: ignore[arg-type]
    if value.dtype.kind == "f":
        return plain(float(value))
    return plain(value.tobytes() if value.dtype.kind == "V" else value.item())
