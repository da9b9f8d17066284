"""Zarr Object Models (ZEP 6): hierarchies without their values, as JSON.

    model = zarrlift.models.show("survey.zarr").model
    zarrlift.models.diff("survey.zarr", "survey-v3.zarr")

The functions are loaded on first use. Typed models and JSON Schemas need the packages of the extra `models`;
everything else works without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarrstack.base.lazy import loader

if TYPE_CHECKING:
    from .creation import create
    from .differences import Difference
    from .functions import diff, schema, show, validate, validate_many
    from .hierarchy import Hierarchy
    from .model_storage import consolidated
    from .pydantic_types import as_instance, from_instance
    from .requirement import Requirement, load
    from .zom import flatten, unflatten

_HOMES = {
    "Difference": "differences",
    "Hierarchy": "hierarchy",
    "Requirement": "requirement",
    "as_instance": "pydantic_types",
    "consolidated": "model_storage",
    "create": "creation",
    "diff": "functions",
    "flatten": "zom",
    "from_instance": "pydantic_types",
    "load": "requirement",
    "schema": "functions",
    "show": "functions",
    "unflatten": "zom",
    "validate": "functions",
    "validate_many": "functions",
}

__all__ = [
    "Difference",
    "Hierarchy",
    "Requirement",
    "as_instance",
    "consolidated",
    "create",
    "diff",
    "flatten",
    "from_instance",
    "load",
    "schema",
    "show",
    "unflatten",
    "validate",
    "validate_many",
]


__getattr__ = loader(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
