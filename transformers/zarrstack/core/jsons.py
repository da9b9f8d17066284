"""JSON as plain data: the type, one canonical text per value, and what we write."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

JSON: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, or lists and string-keyed dicts of these."""
JSONObject: TypeAlias = dict[str, JSON]

EXCERPT = 200
"""Characters of a value that an error message shows."""


def canonical(value: JSON) -> str:
    """One text per JSON value: sorted keys, no spaces. Equal texts mean equal values.

    `1` and `1.0` are different texts, and so are `0.0` and `-0.0`.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def excerpt(value: Any) -> str:
    """A value as an error message shows it: its JSON, cut short; never an error of its own."""
    try:
        text = canonical(value)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= EXCERPT else text[:EXCERPT] + "..."


def document(value: JSON) -> bytes:
    """A metadata document as this project writes it: UTF-8, indented by two, newline at the end.

    Bare NaN and Infinity are written when they are in `value`; callers that want strict
    JSON have replaced them before. Text with half a surrogate pair, which JSON can escape and
    UTF-8 cannot hold, makes the whole document ASCII.
    """
    try:
        return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(value, indent=2) + "\n").encode()
