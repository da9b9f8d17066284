"""Converts the words of options to values, and tells what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSONObject


def storage_options(texts: Iterable[str] | None, name: str = "--storage-options") -> JSONObject | None:
    """Options for fsspec from `key=value` words and JSON objects; later ones win. UsageError for others.

    The value of a pair is JSON if it can be parsed as such (`anon=true`, `timeout=5`), otherwise text.
    """
    options: JSONObject = {}
    for text in texts or ():
        if text.lstrip().startswith("{"):
            options.update(_object(text, name))
            continue
        key, equals, content = text.partition("=")
        if not equals or not key:
            # The word may be a secret in the wrong form, so it is not repeated.
            raise usage(f"{name} takes KEY=VALUE or a JSON object", expected="such as anon=true")
        try:
            options[key] = json.loads(content)
        except ValueError:
            options[key] = content
    return options or None


def _object(text: str, name: str) -> JSONObject:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise usage(f"{name} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise usage(f"{name} is not a JSON object")
    return data


def size(text: str | None, name: str) -> int | None:
    """Bytes for a text such as 512MB, 2GB or 1GiB; None if no text is given. UsageError."""
    from zarrstack.core.sizes import parse_size

    if text is None:
        return None
    number = parse_size(text)
    if number is None:
        raise usage(f"{name} is not a size: {text}", expected="such as 512MB or 2GB")
    return int(number)


def usage(message: str, *, expected: str | None = None) -> Exception:
    """An error of the command line; its class is loaded only here."""
    from zarrstack.core.errors import UsageError

    return UsageError(message, expected=expected)


def formats() -> list[str]:
    """The formats that `--from` may name, for completion."""
    from ..recipe.format_names import known_names

    return list(known_names())
