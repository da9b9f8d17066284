"""Removes secrets from places, for messages, plans and jobs.

User names and passwords before a host, query strings (which contain the signature of signed URLs), and texts
from `storage_options` are never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_USER: Final = re.compile(r"(?<=://)[^/\s@'\"]+@")
_QUERY: Final = re.compile(r"(\w://[^\s?'\"]*)\?[^\s'\")>]+")
_SHORTEST: Final = 6
"""Shorter texts in `storage_options` are words such as "us" or "anon", not secrets."""
_CONNECTION: Final = re.compile(r"(?:AccountKey|SharedAccessSignature)=([^;]+)")
"""Secrets in a connection string of Azure, which also has addresses."""
_HIDDEN: Final = "..."
_VARIABLE: Final = re.compile(r"(AWS|AZURE|GOOGLE)_\w*(KEY|SECRET|TOKEN|STRING|PASSWORD)\w*")
_given: Final[set[str]] = set()
"""What `secrets_of` has found in this process."""


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
    secrets = set(_texts(options or {}))
    _given.update(secrets)
    return tuple(sorted(secrets, key=len, reverse=True))


def redact_foreign(text: str) -> str:
    """A text of another library, such as a traceback, without any secret that this process knows.

    These are the options of all places that it has opened, and those of the environment. A place itself is
    not treated in this way: its name may be equal to one of many variables.
    """
    return redact(text, secrets_of_process())


def secrets_of_process() -> list[str]:
    """The secrets that this process knows, longest first: options of places, and of the environment."""
    variables = _texts([value for name, value in os.environ.items() if _VARIABLE.fullmatch(name)])
    return sorted(_given.union(variables), key=len, reverse=True)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= _SHORTEST and "://" not in value:
            yield value
        yield from _CONNECTION.findall(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
