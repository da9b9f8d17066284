"""Asks before what deletes documents of many archives."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from . import option_values as values
from .session import write

if TYPE_CHECKING:
    from ..jobs.batch.batch import Batch


def confirm_finish(opened: Batch) -> None:
    """Ask once; UsageError if there is no terminal to ask, or if the answer is no."""
    from ..jobs.units import count_text

    rows = [row for row in opened.rows if row.state == "done"]
    ready = sum(row.verified is not None for row in rows)
    others = len(opened.rows) - ready
    question = (
        f"Delete the legacy metadata of {count_text(ready, 'verified archive')}? "
        f"{count_text(others, 'other archive')} {'is' if others == 1 else 'are'} left as they are. [y/N] "
    )
    if not sys.stdin.isatty():
        raise values.usage("finish requires confirmation before it deletes", expected="--yes, or a terminal")
    write(question, sys.stderr)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise values.usage("nothing was deleted")
