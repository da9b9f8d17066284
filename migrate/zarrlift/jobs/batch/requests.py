"""What is asked for an archive of a batch, as its list has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from zarrstack.core.json_text import JSONObject

from ...recipe.options import Request, values
from ...recipe.recipe import Recipe

_DEFAULTS: Final = values(Request(), Request)


@dataclass(frozen=True, kw_only=True)
class RowRequest(Request):
    """What is asked for an archive, without its places and without storage options, which may be secret."""

    recipe: Recipe = field(default_factory=Recipe)

    @cached_property
    def recipe_json(self) -> JSONObject:
        """The recipe as a job has it."""
        found: JSONObject = json.loads(json.dumps(self.recipe.to_json()))
        return found

    @cached_property
    def text(self) -> str:
        """The JSON as text."""
        return json.dumps(self.to_json())

    def to_json(self) -> JSONObject:
        """JSON for the list: what differs from the defaults."""
        given = {name: value for name, value in values(self, Request).items() if value != _DEFAULTS[name]}
        return given if self.recipe == Recipe() else {**given, "recipe": self.recipe.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RowRequest:
        """Inverse of `to_json`."""
        recipe = Recipe.from_json(data["recipe"]) if "recipe" in data else Recipe()
        return cls(**{**data, "recipe": recipe})
