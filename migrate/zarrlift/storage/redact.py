"""Removes secrets from places, for messages, plans and jobs.

User names and passwords before a host, query strings (which contain the signature of signed URLs), and texts
from `storage_options` are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_USER: Final = re.compile(r"(?<=://)[^/\s@'\"]+@")
_QUERY: Final = re.compile(r"(\w://[^\s?'\"]*)\?[^\s'\")>]+")
_SHORTEST: Final = 6
"""Shorter texts in `storage_options` are words such as "us" or "anon", not secrets."""
_HIDDEN: Final = "..."


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without users, passwords or queries in URLs, and without secrets."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return _QUERY.sub(r"\1?" + _HIDDEN, _USER.sub("", text))


def secrets_of(options: Mapping[str, Any] | None) -> tuple[str, ...]:
    """All texts in `storage_options` that are long enough to be secrets, longest first.

    Addresses (`endpoint_url`) are not secrets and help in messages; credentials in them are still hidden by
    `redact`.
    """
    return tuple(sorted(set(_texts(options or {})), key=len, reverse=True))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= _SHORTEST and "://" not in value:
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
