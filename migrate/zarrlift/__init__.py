"""Convert legacy chunked-array archives to Zarr v3: fast and resumable, with all-or-nothing results.

The functions are loaded on first use, which keeps the import time of this package minimal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zarrstack.base.lazy import loader
from zarrstack.version import __version__ as __version__

from .archive.notebook import made_by as _html_made_by

if TYPE_CHECKING:
    from .archive.nodes import Archive, ArrayNode, GroupNode, Layout
    from .errors import Error, Interrupted
    from .jobs.api import inspect, migrate, plan, resume
    from .jobs.batch.batch import Batch, batch
    from .jobs.batch.rows import BatchRow
    from .jobs.batch.state import BatchOutcome
    from .jobs.finish import finish
    from .jobs.outcome import Outcome
    from .jobs.status import ArrayStatus, Status, status
    from .jobs.undo import undo
    from .jobs.update.steps import NodeUpdate, UpdatePlan
    from .jobs.update.update import plan_update, update
    from .jobs.verification import verify
    from .planning.plans import Plan
    from .recipe.recipe import ArrayRecipe, Recipe
    from .recipe.toml_file import load_recipe
    from .verification.archives import VerificationReport
    from .views.legacy import LegacyView, open, open_array, open_group  # noqa: A004 - a name like zarr's own

_HOMES = {
    "Archive": "archive.nodes",
    "ArrayNode": "archive.nodes",
    "ArrayRecipe": "recipe.recipe",
    "ArrayStatus": "jobs.status",
    "Batch": "jobs.batch.batch",
    "BatchOutcome": "jobs.batch.state",
    "BatchRow": "jobs.batch.rows",
    "Error": "errors",
    "GroupNode": "archive.nodes",
    "Interrupted": "errors",
    "Layout": "archive.nodes",
    "LegacyView": "views.legacy",
    "NodeUpdate": "jobs.update.steps",
    "Outcome": "jobs.outcome",
    "Plan": "planning.plans",
    "Recipe": "recipe.recipe",
    "Status": "jobs.status",
    "UpdatePlan": "jobs.update.steps",
    "VerificationReport": "verification.archives",
    "batch": "jobs.batch.batch",
    "finish": "jobs.finish",
    "inspect": "jobs.api",
    "load_recipe": "recipe.toml_file",
    "migrate": "jobs.api",
    "open": "views.legacy",
    "open_array": "views.legacy",
    "open_group": "views.legacy",
    "plan": "jobs.api",
    "plan_update": "jobs.update.update",
    "resume": "jobs.api",
    "status": "jobs.status",
    "undo": "jobs.undo",
    "update": "jobs.update.update",
    "verify": "jobs.verification",
}

__all__ = [
    "Archive",
    "ArrayNode",
    "ArrayRecipe",
    "ArrayStatus",
    "Batch",
    "BatchOutcome",
    "BatchRow",
    "Error",
    "GroupNode",
    "Interrupted",
    "Layout",
    "LegacyView",
    "NodeUpdate",
    "Outcome",
    "Plan",
    "Recipe",
    "Status",
    "UpdatePlan",
    "VerificationReport",
    "batch",
    "finish",
    "inspect",
    "load_recipe",
    "migrate",
    "open",
    "open_array",
    "open_group",
    "plan",
    "plan_update",
    "resume",
    "status",
    "undo",
    "update",
    "verify",
]


__getattr__ = loader(__name__, _HOMES, globals())


def _html(result: Any) -> str:
    from .report.html.pages import notebook_html

    return notebook_html(result)


_html_made_by(_html)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
