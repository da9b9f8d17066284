"""One codec of a chain: its name and configuration, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zarrstack.core.json_text import JSON, Extension, canonical

from .frozen_json import frozen, thawed


@dataclass(frozen=True, slots=True)
class CodecSpec:
    """A codec as data: its v3 name and its configuration."""

    name: str
    configuration: Mapping[str, JSON] = field(default_factory=dict)
    must_understand: bool = True
    """Kept so that nothing is lost; a codec that is not understood is refused either way."""
    _text: str = field(init=False, repr=False)
    """What is compared and hashed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "configuration", frozen(self.configuration))
        text = canonical([self.name, self.configuration, self.must_understand])
        object.__setattr__(self, "_text", text)

    @classmethod
    def from_json(cls, data: JSON) -> CodecSpec:
        """Parse `{"name": ..., "configuration": ...}` or a bare name; MetadataError for anything else."""
        return cls(*Extension.from_json(data, "codec"))

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
        return self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        short = self.name.removeprefix("numcodecs.")
        level = self.configuration.get("level", self.configuration.get("clevel"))
        parts = [short, self.configuration.get("cname"), level, self.configuration.get("shuffle")]
        if short == "bytes":
            parts.append(self.configuration.get("endian"))
        return ":".join(str(part) for part in parts if part is not None)
