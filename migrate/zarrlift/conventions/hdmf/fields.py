"""The fields of compound datasets with object rows, and their conversion.

Sources: hdmf-zarr 0.11 to 0.13, `ZarrIO.write_dataset`: `zarr_dtype` is a list of {name, dtype}, in which
"object" is a reference and numbers have numpy's or Python's names. 0.14 stores text and paths as fixed-size
text of 512 characters or more (`COMPOUND_DTYPE_MIN_STRING_LENGTH`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import CastError, ZarrstackError
from zarrstack.core.json_text import JSON, excerpt

from ...core.codecs.hdmf import is_absent, number, text
from ...core.data_types.v2 import parse_v2_dtype
from ...core.data_types.v3 import DataType

_SHORTEST: Final = 512
"""Minimum number of characters of a text field."""
_TEXTS: Final = frozenset(
    {"str", "str_", "bytes", "bytes_", "string_", "text", "utf", "utf8", "utf-8", "ascii"}
)
_WHOLE: Final = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
_NUMBERS: Final = {name: name for name in _WHOLE} | {
    "float16": "float16", "float32": "float32", "float64": "float64", "double": "float64", "float": "float64",
    "int": "int64", "uint": "uint64", "bool": "bool", "bool_": "bool", "long": "int64",
}  # fmt: skip
_WIDER: Final = {"b": "bool", "i": "int64", "u": "uint64", "f": "float64"}


class FieldValues:
    """The fields of one dataset, updated as its rows are read."""

    def __init__(
        self, names: tuple[str, ...], kinds: tuple[str, ...], types: list[np.dtype[Any] | None]
    ) -> None:
        self.names = names
        self.kinds = kinds
        """Kind of each field: "value", "text" or "reference"."""
        self._types = types
        self._widths = [_SHORTEST] * len(names)

    @property
    def references(self) -> tuple[str, ...]:
        """The names of the fields that contain references."""
        return tuple(name for name, kind in zip(self.names, self.kinds, strict=True) if kind == "reference")

    def add_row(self, row: tuple[Any, ...]) -> Iterator[Any]:
        """Update widths and number types from a row; yields its references. CastError for an invalid row."""
        if len(row) != len(self.kinds):
            raise CastError("a row has a different number of fields", found=str(len(row)))
        for place, (value, kind) in enumerate(zip(row, self.kinds, strict=True)):
            if kind == "text":
                self._widths[place] = max(self._widths[place], len(text(value)))
            elif kind == "reference":
                if isinstance(value, dict):
                    self._widths[place] = max(self._widths[place], len(str(value.get("path"))) + 1)
                if not is_absent(value):
                    yield value
            else:
                self._number(place, value)

    def _number(self, place: int, value: Any) -> None:
        dtype = self._types[place]
        assert dtype is not None
        try:
            number(value, dtype)
        except CastError:
            # A row stored as a plain tuple may exceed the types in zarr_dtype.
            wider = np.dtype(_WIDER[dtype.kind])
            number(value, wider)
            self._types[place] = wider

    def data_type(self) -> DataType:
        """The struct that can hold every row read so far."""
        members = [
            (name, f"<U{width}") if dtype is None else (name, dtype)
            for name, dtype, width in zip(self.names, self._types, self._widths, strict=True)
        ]
        return DataType.from_numpy(np.dtype(members))


def fields_from(dtype: list[JSON], stored: JSON) -> FieldValues | str:
    """The fields in `zarr_dtype`, or a text that describes why it is invalid.

    `stored` is the `dtype` of `.zarray` if that is a struct: the numbers then have these types.
    """
    names, kinds = [], []
    types: list[np.dtype[Any] | None] = []
    for place, field in enumerate(dtype):
        if not isinstance(field, dict) or not isinstance(field.get("name"), str):
            return f"zarr_dtype contains an entry that is not a field: {excerpt(field)}"
        name, type_name = field["name"], field.get("dtype")
        names.append(name)
        if stored is not None and (place >= len(stored) or stored[place][0] != name):
            return "the fields of zarr_dtype do not match those of the array"
        if type_name == "object":
            kinds.append("reference")
            types.append(None)
        elif type_name in _TEXTS or type_name == "object_":
            kinds.append("text")
            types.append(None)
        else:
            number_type = _number_type(type_name, stored, place)
            if number_type is None:
                return (
                    f"a field of a type that hdmf-zarr does not write in compound data: {excerpt(type_name)}"
                )
            kinds.append("value")
            types.append(number_type)
    if not names or len(set(names)) != len(names) or (stored is not None and len(stored) != len(names)):
        return "the fields of zarr_dtype do not match those of the array"
    return FieldValues(tuple(names), tuple(kinds), types)


def _number_type(type_name: JSON, stored: JSON, place: int) -> np.dtype[Any] | None:
    if stored is None:
        name = _NUMBERS.get(type_name) if isinstance(type_name, str) else None
        return None if name is None else np.dtype(name)
    try:
        number_type = parse_v2_dtype(stored[place][1]).newbyteorder("=")
    except ZarrstackError:
        return None
    return number_type if number_type.kind in _WIDER else None
