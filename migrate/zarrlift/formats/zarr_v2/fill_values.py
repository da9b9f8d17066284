"""Forms of fill values in `.zarray` that deviate from the specification."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from zarrstack.core.json_text import JSON

Dtype = np.dtype[Any]


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
        base64.b64decode(fill.encode("utf-8"), validate=True)
    except ValueError:
        return True
    return False


def is_object(fill: JSON, _: Dtype) -> bool:
    """Whether the fill value is a JSON object."""
    return isinstance(fill, dict)
