"""Fill values of `.zarray` as writers left them beside what the specification says."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from zarrstack.core.json_text import JSON

Dtype = np.dtype[Any]


def is_zero(fill: JSON, _: Dtype) -> bool:
    """The integer 0."""
    return type(fill) is int and fill == 0


def is_float(fill: JSON, _: Dtype) -> bool:
    """A number with a fraction, or with the look of one."""
    return isinstance(fill, float)


def is_number(fill: JSON, _: Dtype) -> bool:
    """A number of either kind."""
    return isinstance(fill, int | float) and not isinstance(fill, bool)


def is_number_text(fill: JSON, dtype: Dtype) -> bool:
    """A number as text, which no specified text is."""
    specified = ("NaT",) if dtype.kind in "mM" else ("NaN", "Infinity", "-Infinity")
    return isinstance(fill, str) and fill not in specified


def is_plain_text(fill: JSON, _: Dtype) -> bool:
    """Text that is not base64."""
    if not isinstance(fill, str):
        return False
    try:
        base64.b64decode(fill.encode("utf-8"), validate=True)
    except ValueError:
        return True
    return False


def is_object(fill: JSON, _: Dtype) -> bool:
    """A JSON object."""
    return isinstance(fill, dict)
