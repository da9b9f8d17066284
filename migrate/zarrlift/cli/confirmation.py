"""Asks before something is deleted, with what it concerns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from .option_values import usage
from .session import write

if TYPE_CHECKING:
    from ..jobs.batch.batch import Batch
    from .option_groups import Tables
    from .storage_options import Storage

Question: TypeAlias = Callable[[], str | None]
"""What to ask; None if nothing is deleted."""
_MANY = 10_000
"""Objects that are counted."""


def ask(question: Question | None, *, yes: bool, needed: str | None = None) -> Callable[[], None]:
    """A function that asks once, before a command does anything; UsageError if the answer is no.

    `needed` is the name of a command that does nothing without an answer: where no terminal can be asked, it
    requires --yes.
    """

    def first() -> None:
        if question is None or yes:
            return
        if not sys.stdin.isatty():
            if needed is not None:
                raise usage(
                    f"{needed} requires confirmation before it deletes", expected="--yes, or a terminal"
                )
            return
        text = question()
        if text is None:
            return
        write(f"{text} [y/N] ", sys.stderr)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise usage("nothing was deleted")

    return first


def undo_question(target: str | Batch, options: Tables) -> str:
    """Whether to delete what a job, or a batch, wrote."""
    from ..jobs.units import count_text

    if isinstance(target, str):
        arrays, place = _arrays_of(target, options)
        return f"Delete what the job wrote of {count_text(arrays, 'array')} at {place}?"
    done = sum(row.begun() and row.state != "undone" for row in target.rows)
    return f"Delete what was written for {count_text(done, 'archive')}?"


def finish_question(target: str | Batch, options: Tables) -> str:
    """Whether to delete the legacy metadata of one archive, or of many."""
    from ..jobs.units import count_text

    if isinstance(target, str):
        arrays, place = _arrays_of(target, options)
        return f"Delete the legacy metadata of {count_text(arrays, 'array')} at {place}?"
    rows = target.rows
    ready = sum(row.state == "done" and row.verified is not None for row in rows)
    others = len(rows) - ready
    return (
        f"Delete the legacy metadata of {count_text(ready, 'verified archive')}? "
        f"{count_text(others, 'other archive')} {'is' if others == 1 else 'are'} left as they are."
    )


def deletion_question(target: str, preview: dict[str, Any], storage: Storage) -> str | None:
    """Whether an update is to remove the nodes that the source no longer has."""
    import zarrlift

    from ..jobs.units import count_text

    plan = zarrlift.plan_update(target, **preview, **storage.arguments())
    removed = sum(node.action == "removed" for node in plan.nodes)
    return f"Remove {count_text(removed, 'node')} from the result?" if removed else None


def overwrite_question(destination: str, storage: Storage) -> str | None:
    """Whether to replace a place that is not empty."""
    from zarrstack.core.errors import ZarrstackError

    from ..jobs.units import count_text
    from ..storage.open_storage import open_storage

    options = storage.arguments().get("dest_storage_options")
    try:
        place = open_storage(destination, storage_options=options)
        count = sum(1 for _ in islice(place.list_prefix(""), _MANY + 1))
    except ZarrstackError:
        return None  # there is none, or the command says what is wrong with it
    amount = f"more than {_MANY:,} objects" if count > _MANY else count_text(count, "object")
    return f"Replace {place.url}, which has {amount}?" if count else None


def _arrays_of(target: str, options: Tables) -> tuple[int, str]:
    """The number of arrays that a job has done, and the place of its result."""
    import zarrlift

    keywords = options.arguments()
    keywords.pop("take_over", None)
    status = zarrlift.status(target, **keywords)
    done = sum(node.kind == "array" and node.state == "done" for node in status.nodes)
    return done, status.destination
