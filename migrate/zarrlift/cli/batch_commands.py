"""`zarrlift batch`: many archives as one job. Loaded for these commands only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import typer

from . import option_values as values
from . import options as o
from .batch_answers import answered, reported
from .batch_options import Add, BatchJob, BatchTarget, Lists, Parts, ReportFile, To, Yes
from .confirmation import confirm_finish
from .job_options import Part, Watch
from .option_groups import Command, expanded
from .recipe_options import RecipeOptions
from .reference_options import OF_PLACES
from .session import DONE
from .update_command import Delete, Force

if TYPE_CHECKING:
    from ..jobs.batch.batch import Batch
    from ..jobs.batch.outcome import BatchOutcome

_HELP: Final = """Migrate many archives as one job.

\b
  zarrlift batch plan old/ --to 'v3/{relative}.zarr'  plan all below a folder
  zarrlift batch run old/ --to 'v3/{relative}.zarr'   migrate them, or resume
  zarrlift batch status v3                            show all states
  zarrlift batch verify v3 --full                     compare every value
  zarrlift batch undo v3                              take everything back

A LIST is a folder or store prefix to search, a glob, or a manifest (.csv, .jsonl, .toml) with the columns
source, destination, recipe, and any option of migrate. An archive that is refused or fails does not stop
the others; the exit code is then 1.
"""

app = typer.Typer(
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.command(cls=Command, short_help="Plan every archive, and create the job file; nothing is migrated.")
@expanded
def plan(
    lists: Lists = None,
    to: To = None,
    *,
    job: BatchJob = None,
    parts: Parts = None,
    writing: o.Writing,
    overwrite: o.Overwrite = False,
    reading: o.Reading,
    recipe: RecipeOptions,
    verify: o.Verify = "sample",
    digest: o.Digest = False,
    link: o.LinkOption = "auto",
    running: o.Running,
    output: o.WatchedOutput,
) -> int:
    """Plan every archive, and create the job file of the batch; nothing is migrated.

    Archives that cannot be migrated are listed with the cause.
    """

    def work(progress: Any) -> BatchOutcome:
        asked = _asked(writing, overwrite, reading, recipe, verify=verify, digest=digest, link=link)
        how = {**running.arguments(), "progress": progress}
        made = _start(lists, to=to, job=job, run=False, parts=parts, **asked, **how)
        return made.outcome

    return answered("plan", output, work)


@app.command(cls=Command, short_help="Migrate every archive; again: resume, or do nothing.")
@expanded
def run(
    lists: Lists = None,
    to: To = None,
    *,
    job: BatchJob = None,
    part: Part = None,
    update: Add = False,
    writing: o.Writing,
    overwrite: o.Overwrite = False,
    take_over: o.TakeOver = False,
    reading: o.Reading,
    recipe: RecipeOptions,
    verify: o.Verify = "sample",
    digest: o.Digest = False,
    link: o.LinkOption = "auto",
    running: o.Running,
    report: ReportFile = None,
    output: o.ObservedOutput,
) -> int:
    """Migrate every archive of LIST, or of a batch that was planned: run JOB.

    A second run resumes an interrupted batch, and tries again what was refused or failed.
    """

    def work(progress: Any) -> BatchOutcome:
        asked = _asked(writing, overwrite, reading, recipe, verify=verify, digest=digest, link=link)
        how = {**running.arguments(), **output.observers(), "take_over": take_over, "progress": progress}
        planned = _planned(lists, job)
        if planned is None and part is None:
            return _start(lists, to=to, job=job, update=update, **asked, **how).outcome
        named = {"storage_options", "dest_storage_options"}
        if (
            to is not None
            or update
            or overwrite
            or recipe.given()
            or (reading.given() | writing.given()) - OF_PLACES
        ):
            raise values.usage(
                "the batch has the places and the changes", expected="JOB and options to run it"
            )
        if planned is None:
            raise values.usage("--part is for a batch that was planned", expected="run JOB --part INDEX")
        places = {name: asked[name] for name in named}
        return planned.run(**how, **places) if part is None else planned.run_part(part, **how, **places)

    return answered("run", output, reported(work, report, {**reading.arguments(), **writing.arguments()}))


@app.command(cls=Command, short_help="Collect what the parts have done.")
@expanded
def gather(target: BatchTarget, *, output: o.QuietOutput) -> int:
    """Collect what the parts have done. May be run at any time and again."""
    return answered("gather", output, lambda _progress: _open(target).gather())


@app.command(cls=Command, short_help="Continue a batch that was interrupted or had failures.")
@expanded
def resume(
    target: BatchTarget,
    *,
    take_over: o.TakeOver = False,
    running: o.Running,
    storage: o.JobStorage,
    report: ReportFile = None,
    output: o.ObservedOutput,
) -> int:
    """Continue a batch; archives that were refused or failed are tried again."""

    def work(progress: Any) -> BatchOutcome:
        how = {**running.arguments(), **storage.arguments(), **output.observers()}
        how |= {"take_over": take_over, "progress": progress}
        return _open(target).resume(**how)

    return answered("resume", output, reported(work, report, storage.arguments()))


@app.command(cls=Command, short_help="Show the state of each archive.")
@expanded
def status(target: BatchTarget, *, watch: Watch = False, output: o.Output) -> int:
    """Show the state of each archive; a running batch is not affected.

    With --watch until no process runs it.
    """

    def work(_progress: Any) -> BatchOutcome:
        opened = _open(target)
        if not watch:
            return opened.status()
        from . import watching

        stream = sys.stderr if output.as_json else sys.stdout
        return watching.watch(opened.status, stream, watching.a_batch(), everything=output.show_all)

    return answered("status", output, work)


@app.command(cls=Command, short_help="Compare the results with their sources.")
@expanded
def verify(
    target: BatchTarget,
    *,
    full: o.Full = False,
    running: o.Executing,
    storage: o.JobStorage,
    output: o.WatchedOutput,
) -> int:
    """Compare the results with their sources; `finish` requires it."""

    def work(progress: Any) -> BatchOutcome:
        how = {**running.arguments(), **storage.arguments(), "progress": progress}
        return _open(target).verify(full=full, **how)

    return answered("verify", output, work)


@app.command(cls=Command, short_help="Bring the results up to date with sources that have changed since.")
@expanded
def update(
    target: BatchTarget,
    *,
    delete: Delete = False,
    force: Force = False,
    take_over: o.TakeOver = False,
    running: o.Running,
    storage: o.JobStorage,
    report: ReportFile = None,
    output: o.ObservedOutput,
) -> int:
    """Bring the results up to date with sources that have changed since, as `zarrlift update` does.

    Archives that are new in LIST are added by `run LIST --update`.
    """

    def work(progress: Any) -> BatchOutcome:
        how = {**running.arguments(), **storage.arguments(), **output.observers()}
        how |= {"take_over": take_over, "progress": progress}
        return _open(target).update(delete=delete, force=force, **how)

    return answered("update", output, reported(work, report, storage.arguments()))


@app.command(cls=Command, short_help="In place: delete the legacy metadata of all verified archives.")
@expanded
def finish(
    target: BatchTarget,
    *,
    yes: Yes = False,
    take_over: o.TakeOver = False,
    storage_options: o.StorageOptions = None,
    output: o.WatchedOutput,
) -> int:
    """In place: delete the legacy metadata of all verified archives; the job file keeps a copy."""

    def work(progress: Any) -> BatchOutcome:
        opened = _open(target)
        if not yes:
            confirm_finish(opened)
        options = values.storage_options(storage_options)
        return opened.finish(take_over=take_over, storage_options=options, progress=progress)

    return answered("finish", output, work)


@app.command(cls=Command, short_help="Undo the whole batch.")
@expanded
def undo(
    target: BatchTarget,
    *,
    take_over: o.TakeOver = False,
    storage: o.JobStorage,
    output: o.WatchedOutput,
) -> int:
    """Delete what the batch wrote, and restore what `finish` deleted."""

    def work(progress: Any) -> BatchOutcome:
        return _open(target).undo(take_over=take_over, progress=progress, **storage.arguments())

    return answered("undo", output, work)


def run_command(words: list[str]) -> int:
    """Run one command of `zarrlift batch`; command line errors are raised as typer raises them."""
    command = typer.main.get_command(app)
    done = command.main(args=words, prog_name="zarrlift batch", standalone_mode=False)
    return int(done or DONE)


def _asked(
    writing: o.Writing, overwrite: bool, reading: o.Reading, recipe: RecipeOptions, **others: Any
) -> dict[str, Any]:
    """Arguments of `zarrlift.batch` that say what is asked for each archive."""
    given = writing.arguments()
    if given.pop("inventory") is not None:
        raise values.usage("an inventory is of one archive", expected="a column of the manifest")
    return {**given, **reading.arguments(), "recipe": recipe.recipe(), "overwrite": overwrite, **others}


def _start(lists: list[str] | None, **arguments: Any) -> Batch:
    import zarrlift

    if not lists:
        raise values.usage("a list of archives is needed", expected="a folder, a glob or a manifest")
    return zarrlift.batch(*lists, **arguments)


def _planned(lists: list[str] | None, job: str | None) -> Batch | None:
    """The existing batch that `run` names instead of a list: as its only word, or by --job."""
    from ..jobs.batch.batch import Batch
    from ..jobs.batch.places import is_batch

    if lists is not None and len(lists) == 1 and job is None and is_batch(lists[0]):
        return Batch(lists[0])
    return Batch(job) if not lists and job is not None else None


def _open(target: str) -> Batch:
    from ..jobs.batch.batch import Batch

    return Batch(target)
