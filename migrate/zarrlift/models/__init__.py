"""Zarr Object Models (ZEP 6): hierarchies without their values, as JSON.

    model = zarrlift.models.show("survey.zarr").model
    zarrlift.models.diff("survey.zarr", "survey-v3.zarr")

The functions are loaded on first use. JSON Schemas to check against and `to_pydantic` need the packages of
the extra `models`; everything else works without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarrstack.base.lazy import loader

if TYPE_CHECKING:
    from .creation import create
    from .differences import Difference
    from .functions import diff, schema, show, to_pydantic, validate
    from .hierarchy import Hierarchy
    from .model_storage import consolidated
    from .requirement import Requirement, load
    from .zom import flatten, unflatten

_HOMES = {
    "Difference": "differences",
    "Hierarchy": "hierarchy",
    "Requirement": "requirement",
    "consolidated": "model_storage",
    "create": "creation",
    "diff": "functions",
    "flatten": "zom",
    "load": "requirement",
    "schema": "functions",
    "show": "functions",
    "to_pydantic": "functions",
    "unflatten": "zom",
    "validate": "functions",
}

__all__ = [
    "Difference",
    "Hierarchy",
    "Requirement",
    "consolidated",
    "create",
    "diff",
    "flatten",
    "load",
    "schema",
    "show",
    "to_pydantic",
    "unflatten",
    "validate",
]


__getattr__ = loader(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
