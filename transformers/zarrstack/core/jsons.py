"""JSON as plain data: the type, and one canonical text per value."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

JSON: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, or lists and string-keyed dicts of these."""
JSONObject: TypeAlias = dict[str, JSON]


def canonical(value: JSON) -> str:
    """One text per JSON value: sorted keys, no spaces. Equal texts mean equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def document(value: JSON) -> bytes:
    """A metadata document as this project writes it: UTF-8, indented by two, newline at the end.

    Bare NaN and Infinity are written when they are in `value`; callers that want strict
    JSON have replaced them before.
    """
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
