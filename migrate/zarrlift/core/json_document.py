"""Metadata documents as bytes, in this project's formatting."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from zarrstack.core.json_text import JSON, JSONObject


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
