"""A model as text: one member of metadata per line, nodes indented below their parents.

The standard library indents in Python code, ten times slower than it writes, and recurses, which matters for
ten thousand nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from zarrstack.core.json_text import JSON, JSONObject

from .zom import MEMBERS

_UNICODE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_ASCII: Final = json.JSONEncoder(allow_nan=False).encode


def _text(value: JSON) -> str:
    """JSON in Unicode; ASCII if a lone surrogate, which UTF-8 cannot encode, occurs."""
    text = _UNICODE(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return _ASCII(value)
    return text


def lines(model: JSONObject) -> Iterator[str]:
    """The lines of a model as strict JSON; ValueError for NaN or an infinity."""
    # (indent, text before the node, node, text after it), or a complete line.
    waiting: list[tuple[str, str, JSONObject, str] | str] = [("", "", model, "")]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
            continue
        indent, before, node, after = item
        inner = indent + "  "
        own = [(key, value) for key, value in node.items() if key != MEMBERS or not isinstance(value, dict)]
        members = node.get(MEMBERS)
        yield f"{indent}{before}{{"
        for place, (key, value) in enumerate(own):
            last = place == len(own) - 1 and not isinstance(members, dict)
            yield from _member(inner, key, value, "" if last else ",")
        waiting.append(f"{indent}}}{after}")
        if isinstance(members, dict):
            if not members:
                yield f'{inner}"{MEMBERS}": {{}}'
                continue
            yield f'{inner}"{MEMBERS}": {{'
            waiting.append(f"{inner}}}")
            names = list(members)
            waiting.extend(
                (inner + "  ", f"{_text(name)}: ", members[name], "" if name == names[-1] else ",")
                for name in reversed(names)
            )


def _member(indent: str, key: str, value: JSON, comma: str) -> Iterator[str]:
    if key != "attributes" or not isinstance(value, dict) or not value:
        yield f"{indent}{_text(key)}: {_text(value)}{comma}"
        return
    yield f"{indent}{_text(key)}: {{"
    for place, (name, item) in enumerate(value.items()):
        yield f"{indent}  {_text(name)}: {_text(item)}{'' if place == len(value) - 1 else ','}"
    yield f"{indent}}}{comma}"
