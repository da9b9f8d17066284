"""What a convention makes of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zarrstack.core.errors import Problem
from zarrstack.core.jsons import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """A node's attributes and dimension names, and what there is to say about them."""

    attributes: Mapping[str, JSON]
    dimension_names: tuple[str | None, ...] | None = None
    """None leaves what the layout says."""
    problems: tuple[Problem, ...] = ()
