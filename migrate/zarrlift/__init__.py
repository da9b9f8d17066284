"""Lift legacy chunked-array archives to Zarr v3: fast, resumably, never half-finished.

The functions are loaded when they are first used, so that importing this package costs
next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarrstack.lazy import loader

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .archive import Archive, ArrayNode, GroupNode, Layout
    from .finishing import finish, undo
    from .job_status import NodeStatus, Status
    from .migration import inspect, migrate, plan, resume, status
    from .outcome import Interrupted, Outcome
    from .plans import Plan
    from .recipe import ArrayRecipe, Recipe
    from .reverse_view import ReverseView, present
    from .verifying.report import VerificationReport
    from .verifying.verification import verify
    from .view import LegacyView, open  # noqa: A004 - a name like zarr's own

_HOMES = {
    "Archive": "archive",
    "ArrayNode": "archive",
    "ArrayRecipe": "recipe",
    "GroupNode": "archive",
    "Interrupted": "outcome",
    "Layout": "archive",
    "LegacyView": "view",
    "NodeStatus": "job_status",
    "Outcome": "outcome",
    "Plan": "plans",
    "Recipe": "recipe",
    "ReverseView": "reverse_view",
    "Status": "job_status",
    "VerificationReport": "verifying.report",
    "finish": "finishing",
    "inspect": "migration",
    "migrate": "migration",
    "open": "view",
    "plan": "migration",
    "present": "reverse_view",
    "resume": "migration",
    "status": "migration",
    "undo": "finishing",
    "verify": "verifying.verification",
}

__all__ = [
    "Archive",
    "ArrayNode",
    "ArrayRecipe",
    "GroupNode",
    "Interrupted",
    "Layout",
    "LegacyView",
    "NodeStatus",
    "Outcome",
    "Plan",
    "Recipe",
    "ReverseView",
    "Status",
    "VerificationReport",
    "finish",
    "inspect",
    "migrate",
    "open",
    "plan",
    "present",
    "resume",
    "status",
    "undo",
    "verify",
]


__getattr__ = loader(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
