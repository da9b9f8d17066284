"""JSON as plain data: the type, and a canonical text per value."""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

JSON: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, or lists and string-keyed dicts of these."""
JSONObject: TypeAlias = dict[str, JSON]

EXCERPT = 200
"""Characters of a value shown in an error message."""


def canonical(value: JSON) -> str:
    """Canonical text of a JSON value: sorted keys, no spaces. Equal texts mean equal values.

    `1` and `1.0` are different texts, and so are `0.0` and `-0.0`.
    """
    return _CANONICAL(value)


_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
"""Created once: `json.dumps` with options creates an encoder for every value."""


def excerpt(value: Any) -> str:
    """A value for an error message: its JSON, truncated; never raises."""
    try:
        text = canonical(value)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= EXCERPT else text[:EXCERPT] + "..."
