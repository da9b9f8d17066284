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
    from .creation import create as create
    from .differences import Difference as Difference
    from .functions import diff as diff
    from .functions import schema as schema
    from .functions import show as show
    from .functions import to_pydantic as to_pydantic
    from .functions import validate as validate
    from .hierarchy import Hierarchy as Hierarchy
    from .model_storage import consolidated as consolidated
    from .requirement import Requirement as Requirement
    from .requirement import load as load
    from .zom import flatten as flatten
    from .zom import unflatten as unflatten

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

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the table states the names once

__getattr__ = loader(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
