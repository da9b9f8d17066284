"""What commands do with a list of archives: the batch that they name, and how they end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ..recipe.options import Places, Running, Watching, values
from . import options as o
from .option_groups import Tables
from .option_values import usage
from .session import DONE, PARTLY, Answer

if TYPE_CHECKING:
    from ..jobs.batch.batch import Batch
    from ..jobs.batch.outcome import BatchOutcome
    from ..recipe.options import VerifyLevel
    from .storage_options import Storage


def batch_of(target: str, only: str | None, options: Tables | None = None) -> Batch | None:
    """The batch whose list a command names; None for the job or the result of one archive."""
    from ..jobs.batch.list_file import is_list, list_at
    from ..jobs.ledger.find_job import has_job

    is_one = options is not None and "job" in options.given()
    if not is_one and list_at(target) is not None and (is_list(target) or not has_job(target)):
        from ..jobs.batch.batch import Batch

        return Batch(target, only=only)
    if only is not None:
        raise usage("--only is for a list of archives", expected="the list, or a place next to it")
    return None


def of_batch(
    verb: str,
    batch: Batch,
    options: Tables,
    storage: Storage,
    *,
    verify: VerifyLevel | None = None,
    **more: Any,
) -> Callable[[Any], BatchOutcome]:
    """The work of a verb on a batch; UsageError for options that are for one archive."""

    def work(progress: Any) -> BatchOutcome:
        keywords = {**options.arguments(), **storage.arguments()}
        supported = {name for table in (Running, Places, Watching) for name in values(table(), table)}
        if verify is not None or keywords.keys() - supported:
            raise usage(
                "options of one archive or of its job are given for a batch",
                expected="the result of the archive, or its job file",
            )
        outcome: BatchOutcome = getattr(batch, verb)(progress=progress, **keywords, **more)
        return outcome

    return work


def answered(
    command: str,
    output: o.Output,
    work: Callable[[Any], BatchOutcome],
    first: Callable[[], None] = lambda: None,
) -> int:
    """Run work, with progress, and with advice if it is interrupted; `first` may ask whether to do it."""
    from ..jobs.command_line import command as command_line
    from ..report import batch as report

    def how_to_continue(job_words: tuple[str, ...] | None) -> str:
        if command == "status":
            return "The batch is not affected."
        if job_words is None:
            return "Nothing was migrated."
        again = command if command in ("verify", "update", "finish", "undo") else "resume"
        return f"Continue with: {command_line(again, job_words[0])}"

    def answer() -> Answer:
        first()
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

    session = output.session(command)
    session.how_to_continue = how_to_continue
    return session.run(answer)
