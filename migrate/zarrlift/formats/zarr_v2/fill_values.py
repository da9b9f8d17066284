"""Forms of fill values in `.zarray` that deviate from the specification, and their specified form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from zarrstack.core.json_text import JSON

from ...core.data_types.fill_forms import fill_form, from_base64, to_base64
from ...core.data_types.v2 import v2_fill_to_scalar

Dtype = np.dtype[Any]
Apply: TypeAlias = Callable[[Mapping[str, JSON], Dtype | None], Mapping[str, JSON]]
"""Members to set in a document with a deviation, otherwise empty; the dtype is None if it is unreadable."""


def is_zero(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is the integer 0."""
    return type(fill) is int and fill == 0


def is_float(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is a float, even with an integral value."""
    return isinstance(fill, float)


def is_number(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is an integer or a float."""
    return isinstance(fill, int | float) and not isinstance(fill, bool)


def is_number_text(fill: JSON, dtype: Dtype) -> bool:
    """Whether the fill value is a number as text, other than the specified texts."""
    specified = ("NaT",) if dtype.kind in "mM" else ("NaN", "Infinity", "-Infinity")
    return isinstance(fill, str) and fill not in specified


def is_plain_text(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is text that is not base64."""
    if not isinstance(fill, str):
        return False
    try:
        from_base64(fill)
    except ValueError:
        return True
    return False


def is_object(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is a JSON object."""
    return isinstance(fill, dict)


def read_as_value(kinds: str, odd: Callable[[JSON, Dtype], bool]) -> Apply:
    """A row for the fill value of dtypes of some kinds; the core reads the value itself."""

    def apply(document: Mapping[str, JSON], dtype: Dtype | None) -> Mapping[str, JSON]:
        if dtype is None or dtype.kind not in kinds or dtype.hasobject or "fill_value" not in document:
            return {}
        fill = document["fill_value"]
        if fill is None or not odd(fill, dtype):
            return {}
        try:
            return {"fill_value": specified_fill(v2_fill_to_scalar(fill, dtype), dtype)}
        except ValueError:
            return {}

    return apply


def _object_codec(document: Mapping[str, JSON], dtype: Dtype | None) -> JSON:
    """The id of the codec of an array of objects, None for other arrays."""
    filters = document.get("filters")
    if dtype is None or dtype.kind != "O" or not isinstance(filters, list) or not filters:
        return None
    return filters[0].get("id") if isinstance(filters[0], dict) else None


def zero_object(document: Mapping[str, JSON], dtype: Dtype | None) -> Mapping[str, JSON]:
    """Replace the fill value 0 of an array of text or bytes objects."""
    fill = document.get("fill_value")
    named = _object_codec(document, dtype) in ("vlen-utf8", "vlen-bytes", "categorize")
    return {"fill_value": ""} if named and type(fill) is int and fill == 0 else {}


def cut_text(document: Mapping[str, JSON], dtype: Dtype | None) -> Mapping[str, JSON]:
    """Truncate a fill value that is longer than the text type."""
    fill = document.get("fill_value")
    if dtype is None or dtype.kind != "U" or not isinstance(fill, str):
        return {}
    length = dtype.itemsize // 4
    return {"fill_value": fill[:length]} if len(fill.rstrip("\0")) > length else {}


def specified_fill(scalar: Any, dtype: Dtype) -> JSON:
    """A scalar in the form of the specification (section "Fill value encoding")."""
    if dtype.kind == "S":
        return to_base64(bytes(scalar).ljust(dtype.itemsize, b"\0"))
    return fill_form(scalar, dtype)
