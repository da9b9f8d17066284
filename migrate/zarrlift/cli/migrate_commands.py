"""The commands that make changes: migrate, resume, update, gather, finish, undo."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ..recipe.options import JobPlace, Moved, Request, Running, TakingOver, Watching
from . import options as o
from . import storage_options as s
from .batch_answers import answered, batch_of, of_batch
from .confirmation import ask, confirm_deletion, confirm_finish, confirm_overwrite, confirm_undo
from .option_groups import Tables
from .option_values import usage
from .recipe_options import RecipeOptions
from .session import DONE, PARTLY, Answer, refused_briefly

if TYPE_CHECKING:
    from ..jobs.batch.batch import Batch
    from .confirmation import Question

Source: TypeAlias = Annotated[
    str | None, typer.Argument(help="The archive: a path or URL; none with --part.", metavar="SRC")
]


def migrate(
    source: Source = None,
    destination: o.Destination = None,
    *,
    dry_run: o.DryRun = False,
    options: o.Migrating,
    virtual: o.Virtual = False,
    storage: s.Storage,
    recipe: RecipeOptions,
    parts: o.Parts = None,
    part: o.Part = None,
    yes: o.Yes = False,
    output: o.WatchedOutput,
) -> int:
    """Migrate an archive to DST, or --in-place, which only adds files to the source.

    With --dry-run, show what would be done and cost, array by array. With --job and --parts, create a job
    whose parts are done by --job and --part, in any order and on any machine, and published by `gather`.

    \b
    zarrlift migrate old.zarr new.zarr
    zarrlift migrate s3://bucket/scan.n5 scan.zarr --codecs zstd:3 --shards auto
    """  # noqa: D301 - \b is the character that keeps the lines of a paragraph apart
    if part is not None:
        of_run = {"job", "verify", *options.of(Running, Watching)} - {"take_over"}
        others = [source, destination, virtual, parts, dry_run, recipe.given(), options.given() - of_run]
        return _migrate_part(part, options, storage, output, others=any(others))

    def arguments(*tables: type) -> dict[str, Any]:
        _check_places(destination, options, dry_run=dry_run)
        return {"recipe": recipe.recipe(), **options.of(Request, *tables), **storage.arguments()}

    def plan() -> Answer:
        import zarrlift

        from ..report import json as report_json
        from ..report import plan as report_plan

        keywords = arguments()
        keywords.pop("job_storage_options", None)
        job = None if dry_run else options.of(JobPlace).get("job")
        if dry_run:
            result = zarrlift.plan(_required(source), destination, virtual=virtual, **keywords)
        elif virtual:
            raise usage(
                "references are written in one run, not in parts", expected="--virtual without --parts"
            )
        elif job is None:
            raise usage("--parts needs --job", expected="the path of the job file to create")
        else:
            keywords |= options.of(TakingOver)
            result = zarrlift.plan_parts(
                _required(source), destination, job=job, parts=parts or 0, **keywords
            )
        refused = any(problem.severity == "refusal" for problem in result.all_problems())
        return Answer(
            code=PARTLY if refused else DONE,
            text=lambda page: report_plan.lines(result, page, job=job),
            data=lambda: report_json.plan_json(result),
            brief=lambda: refused_briefly(len(result.refusals)),
        )

    def work(progress: Any) -> Any:
        import zarrlift

        keywords = arguments(JobPlace, Running, Watching)
        return zarrlift.migrate(
            _required(source), destination, virtual=virtual, progress=progress, **keywords
        )

    if dry_run or parts is not None:
        session = output.session("migrate")
        session.previews = True
        return session.run(plan)
    question = None
    if "overwrite" in options.given() and destination is not None:
        question = confirm_overwrite(destination, storage)
    return moving("migrate", output, work, destination or source or "", options, ask(question, yes=yes))


def _migrate_part(
    part: str, options: o.Migrating, storage: s.Storage, output: o.WatchedOutput, *, others: bool
) -> int:
    """Do one part; `others`: whether options were given that belong to the whole job."""
    job = options.of(JobPlace).get("job")

    def work(progress: Any) -> Any:
        import zarrlift

        if job is None:
            raise usage("--part needs --job", expected="the job file of `zarrlift migrate --parts`")
        if others:
            raise usage(
                "the job has the places and the changes",
                expected="--part with --job and options to run it",
            )
        keywords = {**options.of(Running, Watching), **storage.arguments()}
        keywords |= {name: value for name, value in options.arguments().items() if name == "verify"}
        return zarrlift.migrate_part(job, part, progress=progress, **keywords)

    return moving("migrate", output, work, job or "", options, job_array=True)


def gather(
    target: o.Target,
    *,
    options: o.Gathering,
    verify: o.VerifyAgain = None,
    storage: s.Storage,
    output: o.WatchedOutput,
) -> int:
    """Collect what the parts of a job have done; verify and publish the arrays that are complete.

    May be run at any time and again. Exit code 1 as long as tasks are missing, whose parts are listed.
    """

    def work(progress: Any) -> Any:
        import zarrlift

        keywords = {**options.arguments(), **storage.arguments()}
        return zarrlift.gather(target, verify=verify or "sample", progress=progress, **keywords)

    return moving("gather", output, work, target, options, job_array=True)


def resume(
    target: o.Target,
    *,
    only: o.Only = None,
    options: o.Continuing,
    verify: o.VerifyAgain = None,
    storage: s.Storage,
    output: o.WatchedOutput,
) -> int:
    """Continue a migration that was interrupted or had failures, also of a batch."""
    if (batch := batch_of(target, only, options)) is not None:
        return answered("resume", output, of_batch("resume", batch, options, storage, verify=verify))

    def work(progress: Any) -> Any:
        import zarrlift

        keywords = {**options.arguments(), **storage.arguments()}
        return zarrlift.resume(target, verify=verify, progress=progress, **keywords)

    return moving("resume", output, work, target, options)


def update(
    target: o.Target,
    *,
    only: o.Only = None,
    dry_run: o.DryRun = False,
    updating: o.Updating,
    options: o.Continuing,
    verify: o.VerifyAgain = None,
    storage: s.Storage,
    yes: o.Yes = False,
    output: o.WatchedOutput,
) -> int:
    """Bring the result of a migration up to date with a source that has changed since.

    Only objects that differ are moved again, and are replaced one by one. May be run at any time and again.
    """
    changes = updating.arguments()
    if (batch := batch_of(target, only, options)) is not None:
        if dry_run:
            raise usage("--dry-run is for the update of one archive", expected="its job or result")

        work = of_batch("update", batch, options, storage, verify=verify, **changes)
        return answered("update", output, work)
    preview = {**options.of(JobPlace, Moved), **changes}

    def show() -> Answer:
        import zarrlift

        from ..report import update_plan as report

        plan = zarrlift.plan_update(target, **preview, **storage.arguments())
        return Answer(
            code=PARTLY if plan.kept else DONE, text=lambda page: report.lines(plan, page), data=plan.to_json
        )

    def of_one(progress: Any) -> Any:
        import zarrlift

        keywords = {**options.arguments(), **changes, **storage.arguments()}
        return zarrlift.update(target, verify=verify, progress=progress, **keywords)

    if dry_run:
        session = output.session("update")
        session.previews = True
        return session.run(show)
    question = confirm_deletion(target, preview, storage) if changes.get("delete") else None
    return moving("update", output, of_one, target, options, ask(question, yes=yes))


def undo(
    target: o.Target,
    *,
    only: o.Only = None,
    options: o.OfJob,
    storage: s.Storage,
    yes: o.Yes = False,
    output: o.WatchedOutput,
) -> int:
    """Undo a migration, or a batch: delete what was written, restore what `finish` deleted."""
    return _deleting("undo", confirm_undo, target, only, options, storage, output, yes=yes)


def finish(
    target: o.Target,
    *,
    only: o.Only = None,
    options: o.OfJob,
    storage: s.JobStorage,
    yes: o.Yes = False,
    output: o.WatchedOutput,
) -> int:
    """Delete the legacy metadata after a verified migration in place; the job file keeps a copy."""
    return _deleting("finish", confirm_finish, target, only, options, storage, output, yes=yes)


def _deleting(
    verb: str,
    confirm: Callable[[str | Batch, Tables], Question],
    target: str,
    only: str | None,
    options: Tables,
    storage: s.Storage,
    output: o.WatchedOutput,
    *,
    yes: bool,
) -> int:
    """Run a command that deletes, of one job or of a batch, once that is confirmed."""
    batch = batch_of(target, only, options)
    first = ask(confirm(batch or target, options), yes=yes, needed=verb)
    if batch is not None:
        return answered(verb, output, of_batch(verb, batch, options, storage), first)

    def work(_progress: Any) -> Any:
        import zarrlift

        return getattr(zarrlift, verb)(target, **options.arguments(), **storage.arguments())

    return moving(verb, output, work, target, options, first)


def _required(source: str | None) -> str:
    if source is None:
        raise usage("a source is needed", expected="SRC, or --job with --part")
    return source


def _check_places(destination: str | None, options: o.Migrating, *, dry_run: bool) -> None:
    in_place = "in_place" in options.given()
    if destination is None and not in_place and not dry_run:
        raise usage("a destination is needed", expected="a destination, or --in-place")
    if destination is not None and in_place:
        from zarrstack.core.errors import UsageError

        raise UsageError(
            "a destination and --in-place exclude each other", found=destination, expected="one of the two"
        )


def moving(
    command: str,
    output: o.WatchedOutput,
    work: Callable[[Any], Any],
    target: str,
    options: Tables,
    first: Callable[[], None] = lambda: None,
    *,
    job_array: bool = False,
) -> int:
    """Run work that returns an Outcome, with progress, and with advice if it is interrupted.

    `first` may ask whether it is to be done.
    """
    from ..jobs.command_line import command as command_line
    from ..report import outcome as report_outcome

    def how_to_continue(job_words: tuple[str, ...] | None) -> str:
        import zarrlift
        from zarrstack.core.errors import ZarrstackError

        if job_array:
            return "Run the same command again."
        try:
            if job_words is None:
                status = zarrlift.status(target, **options.of(JobPlace))
                job_words = (status.job, *status.options)
        except ZarrstackError:
            return "No job was started; run the same command again."
        again = command if command in ("undo", "finish") else "resume"
        return f"Continue with: {command_line(again, *job_words)}"

    def answer() -> Answer:
        first()
        logged_problems: list[Any] = []
        watching = output.watched(logged_problems) if command not in ("undo", "finish") else nullcontext()
        with watching as progress:
            outcome = work(progress)
        return Answer(
            code=DONE if outcome.ok else PARTLY,
            text=lambda page: report_outcome.lines(outcome, page),
            data=outcome.to_json,
            problems=lambda page: report_outcome.problem_lines(outcome, page, logged_problems),
            brief=lambda: report_outcome.brief_lines(outcome, logged_problems),
            wrong=lambda page: report_outcome.lines(outcome, page, whole=True),
        )

    session = output.session(command)
    session.how_to_continue = how_to_continue
    return session.run(answer)
