"""JSON as plain data: the type, a canonical text per value, and this project's formatting."""

from __future__ import annotations

import json
from collections.abc import Callable
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


def document(value: JSONObject) -> bytes:
    """Serialise a metadata document: UTF-8, one member per line, newline at the end.

    Members of `attributes` have one line each too; deeper values are on one line. (The standard library
    indents in Python, ten times slower than without, which is noticeable with thousands of documents.) Bare
    NaN and Infinity in `value` are written as such; callers that want strict JSON replace them first. Text
    with half a surrogate pair, which JSON can escape and UTF-8 cannot represent, makes the whole document
    ASCII.
    """
    try:
        return _lines(value, _UNICODE).encode()
    except UnicodeEncodeError:
        return _lines(value, _ASCII).encode()


_UNICODE: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_ASCII: Final = json.JSONEncoder().encode


def _lines(value: JSONObject, text: Callable[[JSON], str]) -> str:
    members = ",\n".join([_line(name, member, text) for name, member in value.items()])
    return f"{{\n{members}\n}}\n"


def _line(name: str, member: JSON, text: Callable[[JSON], str]) -> str:
    if name == "attributes" and isinstance(member, dict) and member:
        inner = ",\n".join([f"    {text(key)}: {text(item)}" for key, item in member.items()])
        return f"  {text(name)}: {{\n{inner}\n  }}"
    return f"  {text(name)}: {text(member)}"
