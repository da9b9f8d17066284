"""Which report shows a result: the command line and notebooks ask here."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

_HOMES: Final = {
    "Archive": "archive.",
    "Plan": "plan.",
    "Status": "status.",
    "UpdatePlan": "previews.update_",
    "VerificationReport": "outcome.verification_",
}
"""Result -> the module with its `blocks` and `brief_lines`, if it has some, and how their names begin."""


def shown(what: str, result: object) -> Iterable[Any]:
    """The `blocks` of a result, or its `brief_lines`, which say what is wrong with it."""
    module, _, start = _HOMES[type(result).__name__].partition(".")
    maker = getattr(import_module(f".{module}", __package__), start + what, lambda _: ())
    return maker(result)
