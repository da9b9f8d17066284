"""Plans every archive of a batch before anything moves: what it costs, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from zarrstack.core.errors import ZarrstackError

from ...errors import JobError
from ...planning.regrid.blocks import memory_budget
from ...planning.unapplied_options import refuse_unapplied
from ...transfer.unexpected_errors import unexpected_error
from ..places import refuse_existing
from ..processes.executors import RunOptions
from ..run_job import refuse_unsuitable
from .rows import BatchRow
from .run_batch import BatchOptions, archive_request, waits
from .side_by_side import shared

LARGE: Final = 64 << 20
"""Bytes from which an archive is run alone, with all workers: it keeps them busy for longer than a thread
takes to start.
"""


def assessed(rows: Sequence[BatchRow], options: BatchOptions) -> list[BatchRow]:
    """The rows with what planning finds; archives that cannot be planned are refused."""
    known = {row.number: row for row in rows}
    todo = [row for row in rows if row.state == "pending" and not row.begun()]
    with shared(options.run, waits=any(map(waits, todo)), runs=False) as common:

        def work(row: BatchRow, _: RunOptions) -> BatchRow:
            return _assess(row, options, common.threads)

        for row in common.each(work, todo):
            known[row.number] = row
    return list(known.values())


def _assess(row: BatchRow, options: BatchOptions, beside: int) -> BatchRow:
    try:
        request = archive_request(row, options.places)
        ends = request.open()
        if not row.in_place:
            refuse_existing(ends.destination, overwrite=request.overwrite)
        plan, _ = ends.plan(request.recipe, request.format, inventory=request.inventory)
        refuse_unsuitable(plan)
        refuse_unapplied(plan)
    except ZarrstackError as error:
        state = "failed" if isinstance(error, JobError) else "refused"
        return replace(row, state=state, problems=(*row.problems, error.problem))  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - see `unexpected_error`
        return replace(row, state="failed", problems=(*row.problems, unexpected_error("", error)))
    problems = [problem for problem in plan.problems if problem.severity == "refusal"]
    problems += [problem for refusal in plan.refusals for problem in refusal.problems]
    nbytes = sum(array.bytes_in for array in plan.arrays)
    memory = max((array.memory or 0 for array in plan.arrays), default=0)
    return replace(
        row,
        format=plan.format,
        state="refused" if plan.refusals and not plan.arrays else "pending",
        problems=(*row.problems, *problems),
        arrays=len(plan.arrays) + sum(refusal.kind == "array" for refusal in plan.refusals),
        objects=sum(array.chunks for array in plan.arrays),
        bytes_in=nbytes,
        large=nbytes >= LARGE or memory * beside > memory_budget(plan.recipe.memory),
    )
