"""The commands for an archive or its job, and for each of a list: inspect, migrate, resume and so on.

They ask before something is deleted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..recipe.options import (
    Describing,
    Executing,
    JobPlace,
    Moved,
    Places,
    Request,
    Running,
    Updating,
    Watching,
    values,
)
from .exit_codes import DONE, PARTLY
from .options import Given, usage
from .session import Answer, write

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSON

    from ..jobs.batch.batch import Batch
    from ..jobs.batch.state import BatchOutcome
    from ..jobs.outcome import Outcome
    from ..jobs.status import Status
    from ..planning.plans import Plan


def inspect(given: Given) -> Answer:
    """Show the content of an archive."""
    import zarrlift

    from ..core.problems import any_refusal
    from ..report.archive import archive_json

    archive = zarrlift.inspect(given.source, given.node, **given.of(Describing), **given.storage())
    code = PARTLY if any_refusal(archive.all_problems()) else DONE
    return Answer.of(archive, code, data=lambda: archive_json(archive))


def migrate(given: Given) -> Answer:
    """Migrate an archive, or show what would be done."""
    import zarrlift

    source: str = given.source
    destination: str | None = given.destination

    def arguments(*tables: type) -> dict[str, Any]:
        _check_places(given)
        how = {"recipe": given.recipe(), **given.reading()}
        return {**how, **given.of(Request, *tables), **given.storage()}

    def work(progress: Any) -> Any:
        keywords = arguments(JobPlace, Running, Watching)
        return zarrlift.migrate(source, destination, progress=progress, **keywords)

    if given.dry_run:
        given.session.previews = True
        plan = zarrlift.plan(source, destination, **arguments(JobPlace))
        documents = {}
        if given.as_json:
            from ..jobs.archive_run import source_documents

            documents = source_documents(plan, source, destination, **arguments())
        return _planned(plan, documents)
    question = None
    if given.overwrite and destination is not None:
        question = partial(overwrite_question, destination, given)
    return moving(work, destination or source, given, ask(question, yes=given.yes))


def _check_places(given: Given) -> None:
    if given.destination is None and not given.in_place and not given.dry_run:
        raise usage("a destination is needed", expected="a destination, or --in-place")
    if given.destination is not None and given.in_place:
        from zarrstack.core.errors import UsageError

        raise UsageError(
            "a destination and --in-place exclude each other",
            found=given.destination,
            expected="one of the two",
        )


def _planned(plan: Plan, documents: Mapping[str, JSON]) -> Answer:
    from ..core.problems import any_refusal
    from ..report.plan import plan_json

    code = PARTLY if any_refusal(plan.all_problems()) else DONE
    return Answer.of(plan, code, data=lambda: plan_json(plan, documents))


def verify(given: Given) -> Answer:
    """Compare source and result, any two archives, or the results of a list with their sources."""
    source: str = given.source
    destination: str | None = given.destination
    batch = None if destination is not None else batch_of(given, source)
    if batch is not None:
        if given.no_list or given.recipe_file is not None:
            raise usage("--no-list and --recipe are for one archive", expected="SRC and DST")
        return run_verb(batch, given, full=given.full)

    import zarrlift

    from ..storage.open_storage import is_url

    # Options without a place are for those of the two that are URLs.
    unnamed = tuple(place for place, named in (("src", source), ("dst", destination)) if is_url(named or ""))
    from ..jobs.progress_display import watched

    with watched(quiet=given.quiet, verbose=given.verbose) as progress:
        report = zarrlift.verify(
            source,
            destination,
            full=given.full,
            no_list=given.no_list,
            recipe=given.recipe_file,
            progress=progress,
            **given.of(Describing, JobPlace, Executing),
            **given.storage(unnamed or ("src",)),
        )
    answer = Answer.of(report, DONE if report.ok else PARTLY)
    return answer._replace(wrong=answer.text)


def resume(given: Given) -> Answer:
    """Continue a migration that was interrupted or had failures, also of a batch."""
    return run_verb(batch_of(given, given.target) or given.target, given, verify=given.verify)


def update(given: Given) -> Answer:
    """Bring the result of a migration up to date with a source that has changed since."""
    changes = given.of(Updating)
    preview = {**given.of(JobPlace, Moved), **changes}
    batch = batch_of(given, given.target)
    if given.dry_run:
        if batch is not None:
            raise usage("--dry-run is for the update of one archive", expected="its job or result")
        import zarrlift

        given.session.previews = True
        plan = zarrlift.plan_update(given.target, **preview, **given.storage())
        return Answer.of(plan, PARTLY if plan.kept else DONE)
    question = partial(deletion_question, given, preview)
    first = ask(question if given.delete and batch is None else None, yes=given.yes)
    return run_verb(batch or given.target, given, first, verify=given.verify, **changes)


def undo(given: Given) -> Answer:
    """Undo a migration, or a batch: delete what was written, restore what `finish` deleted."""
    place = batch_of(given, given.target) or given.target
    return run_verb(place, given, ask(partial(undo_question, place, given), yes=given.yes, needed="undo"))


def finish(given: Given) -> Answer:
    """Delete the legacy metadata after a verified migration in place, or the job file of a verified copy."""
    place = batch_of(given, given.target) or given.target
    return run_verb(place, given, ask(partial(finish_question, place, given), yes=given.yes, needed="finish"))


_OF_JOBS: Final = (JobPlace, Moved, Running, Watching, Describing)
"""The options of commands for a job, of which each has some."""


def batch_of(given: Given, target: str) -> Batch | None:
    """The batch whose list a command names; None for the job or the result of one archive."""
    from ..jobs.ledger.job_places import is_list

    only: str | None = given.only
    if given.job is None and is_list(target):
        from ..jobs.batch.batch import Batch

        return Batch(target, only=only)
    if only is not None:
        raise usage("--only is for a list of archives", expected="the file of a list: .jsonl or .csv")
    return None


def run_verb(
    target: str | Batch, given: Given, first: Callable[[], None] = lambda: None, **more: Any
) -> Answer:
    """Do what the command is called on one job or on each archive of a batch; `first` may ask whether to."""
    verb = given.session.command
    how = {**given.of(*_OF_JOBS), **given.storage()}
    if isinstance(target, str):
        import zarrlift

        work = partial(getattr(zarrlift, verb), target, **how, **more)
        if verb in ("undo", "finish"):
            return moving(lambda _: work(), target, given, first, is_watched=False)
    else:
        supported = {name for table in (Running, Places, Watching) for name in values(table(), table)}
        if more.pop("verify", None) is not None or how.keys() - supported:
            raise usage(
                "options of one archive or of its job are given for a batch",
                expected="the result of the archive, or its job file",
            )
        work = partial(getattr(target, verb), **how, **more)
    return moving(lambda progress: work(progress=progress), target, given, first)


def moving(
    work: Callable[[Any], Outcome | BatchOutcome],
    target: str | Batch | None,
    given: Given,
    first: Callable[[], None] = lambda: None,
    *,
    is_watched: bool = True,
) -> Answer:
    """Do work, with progress, and with advice if it is interrupted; a `target` of None is a new batch."""
    given.session.how_to_continue = partial(_how_to_continue, target, given)
    first()
    logged_problems: list[Any] = []
    watching: AbstractContextManager[Any] = nullcontext()
    if is_watched:
        from ..jobs.progress_display import watched

        watching = watched(quiet=given.quiet, verbose=given.verbose, logged_problems=logged_problems)
    with watching as progress:
        outcome = work(progress)
    return answer_of(outcome, given.session.command, logged_problems)


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
    only_reports = command == "status" or outcome.state == "planned"
    return Answer(
        code=DONE if fine else PARTLY,
        text=lambda: report_batch.blocks(outcome, whole=only_reports),
        data=outcome.to_json,
        problems=None if only_reports else lambda: report_batch.problem_blocks(outcome, logged_problems),
        brief=lambda: () if command == "status" else report_batch.brief_lines(outcome, logged_problems),
        wrong=lambda: report_batch.blocks(outcome),
    )


def _how_to_continue(target: str | Batch | None, given: Given, job_words: tuple[str, ...] | None) -> str:
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
            status = zarrlift.status(target, **given.of(JobPlace))
        except ZarrstackError:
            return "No job was started; run the same command again."
        job_words = (status.job, *status.options)
    verb = given.session.command
    return f"Continue with: {command_line(verb if verb in again else 'resume', *job_words)}"


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
        is_terminal = sys.stdin.isatty()
        if question is None or yes or not (is_terminal or needed):
            return
        text = question()  # first, since it says if there is nothing to delete
        if text is None:
            return
        if not is_terminal:
            raise usage(f"{needed} requires confirmation before it deletes", expected="--yes, or a terminal")
        write(f"{text} [y/N] ", sys.stderr)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise usage("nothing was deleted")

    return first


def undo_question(target: str | Batch, given: Given) -> str:
    """Whether to delete what a job, or a batch, wrote."""
    from ..core.units import count_text

    if isinstance(target, str):
        status = _status_of(target, given)
        arrays = count_text(status.arrays_done, "array")
        return f"Delete what the job wrote of {arrays} at {status.destination}?"
    done = sum(row.begun() and row.state != "undone" for row in target.rows)
    return f"Delete what was written for {count_text(done, 'archive')}?"


def finish_question(target: str | Batch, given: Given) -> str:
    """Whether to delete the legacy metadata of one archive, or of many, or the job file of a copy."""
    from ..core.units import count_text

    if isinstance(target, str):
        status = _status_of(target, given)
        where = f"of {count_text(status.arrays_done, 'array')} at {status.destination}?"
        if status.in_place:
            return f"Delete the legacy metadata {where}"
        if status.state == "incomplete":  # of an Icechunk repository
            return f"Leave out what failed, and let readers see the rest {where}"
        return f"Delete the job file {where} Without it, the result cannot be undone or updated."
    rows = target.rows
    ready = sum(row.state == "done" and row.verified is not None for row in rows)
    others = len(rows) - ready
    return (
        f"Delete the legacy metadata of {count_text(ready, 'verified archive')}? "
        f"{count_text(others, 'other archive')} {'is' if others == 1 else 'are'} left as they are."
    )


def deletion_question(given: Given, preview: dict[str, Any]) -> str | None:
    """Whether an update is to remove the nodes that the source no longer has."""
    import zarrlift

    from ..core.units import count_text

    plan = zarrlift.plan_update(given.target, **preview, **given.storage())
    removed = sum(node.action == "removed" for node in plan.nodes)
    return f"Remove {count_text(removed, 'node')} from the result?" if removed else None


def overwrite_question(destination: str, given: Given) -> str | None:
    """Whether to replace a place that is not empty."""
    from zarrstack.core.errors import ZarrstackError

    from ..core.units import count_text
    from ..storage.open_storage import open_storage

    options = given.storage().get("dest_storage_options")
    try:
        place = open_storage(destination, storage_options=options)
        count = sum(1 for _ in islice(place.list_prefix(""), _MANY + 1))
    except ZarrstackError:
        return None  # there is none, or the command says what is wrong with it
    amount = f"more than {_MANY:,} objects" if count > _MANY else count_text(count, "object")
    return f"Replace {place.url}, which has {amount}?" if count else None


def _status_of(target: str, given: Given) -> Status:
    import zarrlift

    return zarrlift.status(target, **given.of(JobPlace))
