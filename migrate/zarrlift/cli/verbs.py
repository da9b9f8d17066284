"""What commands do with a job, a result or a list of archives, and how they answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from ..recipe.options import JobPlace, Places, Running, Watching, values
from . import options as o
from .option_groups import usage
from .session import DONE, PARTLY, Answer

if TYPE_CHECKING:
    from ..jobs.batch.batch import Batch
    from ..jobs.batch.rows import BatchOutcome
    from ..jobs.outcome import Outcome
    from .option_groups import Tables
    from .options import Storage


def batch_of(target: str, only: str | None, options: Tables) -> Batch | None:
    """The batch whose list a command names; None for the job or the result of one archive."""
    from ..jobs.batch.list_file import is_list, list_at
    from ..jobs.ledger.find_job import has_job

    is_one = "job" in options.given()
    if not is_one and list_at(target) is not None and (is_list(target) or not has_job(target)):
        from ..jobs.batch.batch import Batch

        return Batch(target, only=only)
    if only is not None:
        raise usage("--only is for a list of archives", expected="the list, or a place next to it")
    return None


def run_verb(
    target: str | Batch,
    options: Tables,
    storage: Storage,
    output: o.QuietOutput,
    first: Callable[[], None] = lambda: None,
    **more: Any,
) -> Answer:
    """Do what the command is called on one job or on each archive of a batch; `first` may ask whether to."""
    verb = output.session.command
    given = {**options.arguments(), **storage.arguments()}
    if isinstance(target, str):
        import zarrlift

        work = partial(getattr(zarrlift, verb), target, **given, **more)
        if verb in ("undo", "finish"):
            return moving(lambda _: work(), target, options, output, first, watched=False)
    else:
        supported = {name for table in (Running, Places, Watching) for name in values(table(), table)}
        if more.pop("verify", None) is not None or given.keys() - supported:
            raise usage(
                "options of one archive or of its job are given for a batch",
                expected="the result of the archive, or its job file",
            )
        work = partial(getattr(target, verb), **given, **more)
    return moving(lambda progress: work(progress=progress), target, options, output, first)


def moving(
    work: Callable[[Any], Outcome | BatchOutcome],
    target: str | Batch | None,
    options: Tables,
    output: o.Output,
    first: Callable[[], None] = lambda: None,
    *,
    watched: bool = True,
) -> Answer:
    """Do work, with progress, and with advice if it is interrupted; a `target` of None is a new batch."""
    output.session.how_to_continue = partial(_how_to_continue, output, target, options)
    first()
    logged_problems: list[Any] = []
    watching: AbstractContextManager[Any] = nullcontext()
    if watched and isinstance(output, o.WatchedOutput):
        watching = output.watched(logged_problems)
    with watching as progress:
        outcome = work(progress)
    return answer_of(outcome, output.session.command, logged_problems)


def answer_of(outcome: Outcome | BatchOutcome, command: str, logged_problems: list[Any]) -> Answer:
    """How a command answers with the result of a call."""
    from ..jobs.outcome import Outcome

    if isinstance(outcome, Outcome):
        from ..report import outcome as report_outcome

        return Answer(
            code=DONE if outcome.ok else PARTLY,
            text=lambda: report_outcome.blocks(outcome),
            data=outcome.to_json,
            problems=lambda: report_outcome.problem_blocks(outcome, logged_problems),
            brief=lambda: report_outcome.brief_lines(outcome, logged_problems),
            wrong=lambda: report_outcome.blocks(outcome, whole=True),
        )
    from ..report import batch as report_batch

    fine = outcome.ok or (command == "status" and outcome.running)
    return Answer(
        code=DONE if fine else PARTLY,
        text=lambda: report_batch.blocks(outcome),
        data=outcome.to_json,
        brief=lambda: () if command == "status" else report_batch.brief_lines(outcome, logged_problems),
        wrong=lambda: report_batch.blocks(outcome),
    )


def _how_to_continue(
    output: o.Output,
    target: str | Batch | None,
    options: Tables,
    job_words: tuple[str, ...] | None,
) -> str:
    """Advice in one line after an interruption, given the job's path and options if known."""
    from zarrstack.core.errors import ZarrstackError

    from ..core.problems import command as command_line

    again = {"undo", "finish"}
    if not isinstance(target, str):
        if job_words is None:
            return "Nothing was migrated."
        job_words, again = job_words[:1], again | {"verify", "update"}
    elif job_words is None:
        import zarrlift

        try:
            status = zarrlift.status(target, **options.of(JobPlace))
        except ZarrstackError:
            return "No job was started; run the same command again."
        job_words = (status.job, *status.options)
    verb = output.session.command
    return f"Continue with: {command_line(verb if verb in again else 'resume', *job_words)}"
