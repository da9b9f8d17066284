"""What applications lay on top of an archive, one module per convention.

A convention is a function from an array node to what it makes of it, or None where it sees
nothing of its own. They are asked in order, each on what the one before left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from ..archive import ArrayNode
from ..recipe import ArrayRecipe
from . import xarray
from .base import Recognised

Convention: TypeAlias = Callable[[ArrayNode], Recognised | None]

CONVENTIONS: Final[tuple[Convention, ...]] = (xarray.recognise,)
"""All that are known, in the order they are asked."""


def recognise(node: ArrayNode, recipe: ArrayRecipe) -> Recognised:
    """What the known conventions make of a node; with `conventions: none` it stays as it is."""
    result = Recognised(attributes=node.attributes)
    if recipe.conventions == "none":
        return result
    for convention in CONVENTIONS:
        seen = convention(replace(node, attributes=result.attributes))
        if seen is not None:
            result = Recognised(
                attributes=seen.attributes,
                dimension_names=seen.dimension_names or result.dimension_names,
                problems=(*result.problems, *seen.problems),
            )
    return result


__all__ = ["CONVENTIONS", "Convention", "Recognised", "recognise"]
