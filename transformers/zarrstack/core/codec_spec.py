"""One codec of a chain: its name and configuration, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import MetadataError
from .frozen_json import frozen, thawed
from .json_text import JSON, canonical, excerpt


@dataclass(frozen=True, slots=True)
class CodecSpec:
    """A codec as data: its v3 name and its configuration."""

    name: str
    configuration: Mapping[str, JSON] = field(default_factory=dict)
    must_understand: bool = True
    """Kept so that nothing is lost; a codec that is not understood is refused either way."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "configuration", frozen(self.configuration))

    @classmethod
    def from_json(cls, data: JSON) -> CodecSpec:
        """Read `{"name": ..., "configuration": ...}` or a bare name.

        MetadataError for anything else, unknown members too: what stands beside `configuration`
        might change the bytes (https://zarr-specs.readthedocs.io/en/latest/v3/core/#extension-definition
        knows `name`, `configuration` and `must_understand` only).
        """
        if isinstance(data, str):
            return cls(data)
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            raise MetadataError(
                "a codec must be an object with a name", found=excerpt(data), expected='{"name": ...}'
            )
        name = data["name"]
        configuration = data.get("configuration", {})
        must_understand = data.get("must_understand", True)
        if not isinstance(configuration, dict):
            raise MetadataError(
                f"configuration of codec {name!r} is not an object",
                found=excerpt(configuration),
                expected="{...}",
            )
        if unknown := data.keys() - {"name", "configuration", "must_understand"}:
            raise MetadataError(
                f"unknown members in codec {name!r}",
                found=excerpt(sorted(unknown)),
                expected="name, configuration, must_understand",
            )
        if not isinstance(must_understand, bool):
            raise MetadataError(
                f"must_understand of codec {name!r}", found=excerpt(must_understand), expected="true or false"
            )
        return cls(name, configuration, must_understand)

    def to_json(self) -> dict[str, Any]:
        """As it stands in `zarr.json`; members that say nothing (empty, true) are left out."""
        data: dict[str, Any] = {"name": self.name}
        if self.configuration:
            data["configuration"] = thawed(self.configuration)
        if not self.must_understand:
            data["must_understand"] = False
        return data

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, CodecSpec):
            return NotImplemented
        return self._text() == other._text()

    def __hash__(self) -> int:
        return hash(self._text())

    def _text(self) -> str:
        return canonical([self.name, self.configuration, self.must_understand])

    def __str__(self) -> str:
        short = self.name.removeprefix("numcodecs.")
        level = self.configuration.get("level", self.configuration.get("clevel"))
        parts = [short, self.configuration.get("cname"), level, self.configuration.get("shuffle")]
        if short == "bytes":
            parts.append(self.configuration.get("endian"))
        return ":".join(str(part) for part in parts if part is not None)
