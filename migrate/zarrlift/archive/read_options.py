"""Options for reading an archive, for cases that its documents leave open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, get_args

from zarrstack.core.errors import UsageError
from zarrstack.core.json_text import JSONObject

from ..recipe.options import Axes
from ..storage.local.files import DOCUMENT, ReadLimit

AXES: Final[tuple[Axes, ...]] = get_args(Axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a reader; a job stores them, so that all its runs read in the same way."""

    follow_links: bool = False
    """Whether symbolic links to targets outside the archive are followed."""
    axes: Axes = "reversed"
    """Axis order presented for N5 arrays: "reversed" is (z, y, x), "kept" (x, y, z) as in N5's documents."""
    allow_fallback: bool = False
    """Whether arrays of the 2022 draft may be read by their `fallback` data type."""
    max_document_size: int = DOCUMENT.most
    """Maximum size of a metadata document in bytes."""

    @property
    def document_bound(self) -> ReadLimit:
        """The size limit of a metadata document."""
        return ReadLimit(self.max_document_size, "document")

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
        """Options from arguments; `axes=None` is "reversed" for copies, "kept" in place.

        In place, the codec for N5's blocks already transposes them, so their axes cannot be reversed.
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
        """The options as JSON."""
        return {
            "follow_links": self.follow_links,
            "axes": self.axes,
            "allow_fallback": self.allow_fallback,
            "max_document_size": self.max_document_size,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`; unknown members are ignored, missing ones have their defaults."""
        return cls(**{name: data[name] for name in cls.__slots__ if name in data})
