"""How the commands of `zarrlift batch` end: their table or JSON, their page, and their exit code."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from . import options as o
from .session import DONE, PARTLY, Answer

if TYPE_CHECKING:
    from ..jobs.batch.outcome import BatchOutcome


def reported(
    work: Callable[[Any], BatchOutcome], html: str | None, places: dict[str, Any]
) -> Callable[[Any], BatchOutcome]:
    """The same work, and the page on the batch at its end."""
    if html is None:
        return work

    def with_report(progress: Any) -> BatchOutcome:
        from ..jobs.batch.batch import Batch
        from ..report import batch_report

        outcome = work(progress)
        names = ("storage_options", "dest_storage_options")
        options = {name: places.get(name) for name in names}
        batch_report.write(Batch(outcome.job), html, pictures=True, places=options)
        return outcome

    return with_report


def answered(command: str, output: o.Output, work: Callable[[Any], BatchOutcome]) -> int:
    """Run work, with progress, and with advice if it is interrupted."""
    from ..jobs.command_line import command as command_line
    from ..report import batch as report

    def how_to_continue(known: tuple[str, ...] | None) -> str:
        if command == "status":
            return "The batch is not affected."
        if known is None:
            return "Nothing was migrated."
        again = command if command in ("verify", "update", "finish", "undo") else "resume"
        return f"Continue with: {command_line('batch', again, known[0])}"

    def answer() -> Answer:
        watching = output.watched() if isinstance(output, o.WatchedOutput) else nullcontext()
        with watching as progress:
            outcome = work(progress)
        fine = outcome.ok or (command == "status" and outcome.running)
        return Answer(
            code=DONE if fine else PARTLY,
            text=lambda page: report.lines(outcome, page),
            data=outcome.to_json,
            problems=lambda _page: (),  # they are in the table
            brief=lambda: report.brief_lines(outcome),
            wrong=lambda page: report.lines(outcome, page),
        )

    session = output.session(f"batch {command}")
    session.how_to_continue = how_to_continue
    return session.run(answer)
