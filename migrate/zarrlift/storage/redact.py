"""Places without their secrets: what may stand in a message, a plan or a job.

User names and passwords before a host, and query strings (which is where signed URLs
carry their signature), are never shown; neither is any text out of `storage_options`.
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
    """A text in which no URL carries a user, a password or a query, and no secret stands."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return _QUERY.sub(r"\1?" + _HIDDEN, _USER.sub("", text))


def secrets_of(options: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Every text in `storage_options` long enough to be a secret, longest first.

    Addresses (`endpoint_url`) are no secrets and help in messages; what credentials they hold is
    hidden by `redact` all the same.
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
