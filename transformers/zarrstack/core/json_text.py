"""JSON of documents: as plain data, as canonical text, and the extension points of Zarr v3."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple, TypeAlias

from .errors import MetadataError, UsageError

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


class Extension(NamedTuple):
    """One entry of a document, such as a codec or a storage transformer."""

    name: str
    configuration: JSONObject
    must_understand: bool

    @classmethod
    def from_json(
        cls, entry: JSON, what: str, error: type[MetadataError | UsageError] = MetadataError
    ) -> Extension:
        """Parse an entry, `what` in messages: `{"name": ..., "configuration": {...}}`, or the name alone.

        The error for anything else, unknown members too: what stands beside `configuration` might change
        what is stored (https://zarr-specs.readthedocs.io/en/latest/v3/core/#extension-definition knows
        `name`, `configuration` and `must_understand` only).
        """
        entry = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            expected = '{"name": "...", "configuration": {...}}'
            raise error(f"this is not a {what}", found=excerpt(entry), expected=expected)
        own = f"{what} {entry['name']!r}"
        configuration, must_understand = entry.get("configuration", {}), entry.get("must_understand", True)
        if not isinstance(configuration, dict):
            found = excerpt(configuration)
            raise error(f"the configuration of {own} is not a JSON object", found=found, expected="{...}")
        if unknown := sorted(entry.keys() - {"name", "configuration", "must_understand"}):
            expected = "name, configuration, must_understand"
            raise error(f"unknown members of {own}", found=", ".join(unknown), expected=expected)
        if not isinstance(must_understand, bool):
            found = excerpt(must_understand)
            raise error(f"must_understand of {own}", found=found, expected="true or false")
        return cls(entry["name"], configuration, must_understand)
