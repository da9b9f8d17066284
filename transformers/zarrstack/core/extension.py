"""The form of extension points in documents of Zarr v3: a name and a configuration."""

from __future__ import annotations

from typing import NamedTuple

from .errors import MetadataError, UsageError
from .json_text import JSON, JSONObject, excerpt


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
