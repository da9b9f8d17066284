"""A model as text: one member of metadata per line, nodes indented below their parents.

The standard library indents in Python code, ten times slower than it writes, and breaks every list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from zarrstack.core.json_text import JSON, JSONObject

from .zom import MEMBERS

_UNICODE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_ASCII: Final = json.JSONEncoder(allow_nan=False).encode


def lines(model: JSONObject) -> Iterator[str]:
    """The lines of a model as strict JSON; ValueError for NaN or an infinity."""
    yield "{"
    yield from _members(model, "  ")
    yield "}"


def _members(content: JSONObject, indent: str) -> Iterator[str]:
    """The lines of what is between the braces of a node, of its attributes or of its members."""
    for place, (name, value) in enumerate(content.items(), 1):
        comma = "," if place < len(content) else ""
        key = f"{indent}{_text(name)}: "
        is_node = isinstance(value, dict) and "zarr_format" in value
        if isinstance(value, dict) and value and (is_node or name in ("attributes", MEMBERS)):
            yield f"{key}{{"
            yield from _members(value, indent + "  ")
            yield f"{indent}}}{comma}"
        else:
            yield f"{key}{_text(value)}{comma}"


def _text(value: JSON) -> str:
    """JSON in Unicode; ASCII if a lone surrogate, which UTF-8 cannot encode, occurs."""
    text = _UNICODE(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return _ASCII(value)
    return text
