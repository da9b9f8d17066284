"""`zarrlift batch`: many archives as one job. Loaded for these commands only."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import typer

from ..recipe.options import Request, values
from . import options as o
from . import storage_options as s
from .batch_answers import answered
from .option_groups import Command, expanded, option
from .option_values import usage
from .recipe_options import RecipeOptions
from .session import DONE

_HELP: Final = """Migrate many archives as one job.

\b
  zarrlift batch run old/ --to 'v3/{relative}.zarr'  migrate all in a folder
  zarrlift status v3                                 show all states
  zarrlift verify v3 --full                          compare every value
  zarrlift undo v3                                   take everything back

A LIST is a folder or store prefix to search, a glob, or a manifest (.csv, .jsonl, .toml) with the columns
source, destination, recipe, and any option of migrate. An archive that is refused or fails does not stop
the others; the exit code is then 1.

The verbs for one job do the same for a batch: resume, status, verify, update, gather, finish, undo.
"""

Lists: TypeAlias = Annotated[
    list[str] | None, typer.Argument(help="Folders, store prefixes, globs or manifests.", metavar="LIST...")
]
To: TypeAlias = Annotated[
    str | None,
    option(
        "--to",
        heading="Where",
        help="The destination of each archive, such as 'v3/{relative}.zarr'. Fields: relative, name, parent, "
        "number.",
        metavar="TEMPLATE",
    ),
]
Plan: TypeAlias = Annotated[
    bool,
    option(
        "--dry-run",
        "-n",
        help="Plan all, create the job file of the batch; migrate nothing.",
        heading="Output",
    ),
]
Add: TypeAlias = Annotated[
    bool,
    option("--update", help="Add archives that LIST has and the batch has not.", heading="What to convert"),
]

app = typer.Typer(
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback()
def _verbs() -> None:
    """Without this, typer would take the only command for the whole program."""


@app.command(cls=Command, short_help="Migrate every archive; again: resume, or do nothing.")
@expanded
def run(
    lists: Lists = None,
    to: To = None,
    *,
    dry_run: Plan = False,
    options: o.Migrating,
    update: Add = False,
    parts: o.Parts = None,
    part: o.Part = None,
    storage: s.BothStorage,
    recipe: RecipeOptions,
    html: o.Html = None,
    output: o.WatchedOutput,
) -> int:
    """Migrate every archive of LIST, or of a batch that was planned: run JOB.

    A second run resumes an interrupted batch, and tries again what was refused or failed. With --dry-run,
    plan every archive, create the job file of the batch, and migrate nothing; archives that cannot be
    migrated are listed with the cause.
    """

    def work(progress: Any) -> Any:
        import zarrlift

        given = {**options.arguments(), **storage.arguments()}
        job = given.pop("job", None)
        known = _planned(lists, job)
        if known is None and part is None:
            if not lists:
                raise usage("a list of archives is needed", expected="a folder, a glob or a manifest")
            how = {"to": to, "job": job, "run": not dry_run, "update": update, "parts": parts}
            made = zarrlift.batch(*lists, **how, recipe=recipe.recipe(), progress=progress, **given)
            return made.outcome
        asked = given.keys() & values(Request(), Request).keys()
        if to is not None or update or parts or dry_run or recipe.given() or asked:
            raise usage("the batch has the places and the changes", expected="JOB and options to run it")
        if known is None:
            raise usage("--part is for a batch that was planned", expected="run JOB --part INDEX")
        return (
            known.run(progress=progress, **given)
            if part is None
            else known.run_part(part, progress=progress, **given)
        )

    def reported(progress: Any) -> Any:
        outcome = work(progress)
        if html is not None:
            from ..jobs.batch.batch import Batch
            from ..report import batch_report

            batch_report.write(Batch(outcome.job), html, pictures=True, places=storage.arguments())
        return outcome

    return answered("batch run", output, reported)


def run_command(words: list[str]) -> int:
    """Run one command of `zarrlift batch`; command line errors are raised as typer raises them."""
    command = typer.main.get_command(app)
    done = command.main(args=words, prog_name="zarrlift batch", standalone_mode=False)
    return int(done or DONE)


def _planned(lists: list[str] | None, job: str | None) -> Any:
    """The existing batch that `run` names instead of a list: as its only word, or by --job."""
    from ..jobs.batch.batch import Batch
    from ..jobs.batch.places import is_batch

    if lists is not None and len(lists) == 1 and job is None and is_batch(lists[0]):
        return Batch(lists[0])
    return Batch(job) if not lists and job is not None else None
