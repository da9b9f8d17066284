"""How an archive is to be read, where its documents leave that open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeAlias

from zarrstack.core.errors import UsageError
from zarrstack.core.json_text import JSONObject

from ..storage.local.files import DOCUMENT, Bound

Axes: TypeAlias = Literal["reversed", "kept"]
AXES: Final[tuple[Axes, ...]] = ("reversed", "kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a reader is told besides the storage; a job keeps it, so that every run reads alike."""

    follow_links: bool = False
    """Whether symbolic links may lead out of the archive."""
    axes: Axes = "reversed"
    """The axis order that N5 arrays are given: (z, y, x), or (x, y, z) as N5's documents have it."""
    allow_fallback: bool = False
    """Whether arrays of the 2022 draft may be read by their `fallback` data type."""
    max_document_size: int = DOCUMENT.most
    """Bytes of a metadata document at most."""

    @property
    def document_bound(self) -> Bound:
        """What is read of a metadata document."""
        return Bound(self.max_document_size, "document")

    @classmethod
    def asked(
        cls,
        *,
        follow_links: bool,
        axes: Axes | None,
        allow_fallback: bool,
        max_document_size: int | None = None,
        in_place: bool = False,
    ) -> Self:
        """What was asked for; `axes` not given is "reversed" for copies, "kept" in place.

        In place the codec for N5's blocks transposes them already, so their axes cannot be reversed.
        """
        order = ("kept" if in_place else "reversed") if axes is None else axes
        if order not in AXES:
            raise UsageError("unknown order of axes", found=repr(axes), expected=", ".join(AXES))
        return cls(
            follow_links=follow_links,
            axes=order,
            allow_fallback=allow_fallback,
            max_document_size=DOCUMENT.most if max_document_size is None else max_document_size,
        )

    def to_json(self) -> JSONObject:
        """Without loss."""
        return {
            "follow_links": self.follow_links,
            "axes": self.axes,
            "allow_fallback": self.allow_fallback,
            "max_document_size": self.max_document_size,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`; other members are passed over, and missing ones have their defaults."""
        return cls(**{name: data[name] for name in cls.__slots__ if name in data})
