"""`zarrlift batch`: many archives, each with a job of its own. Loaded for these commands only."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import typer

from . import options as o
from .option_groups import added, option, usage
from .recipe_options import RecipeOptions
from .session import Answer
from .verbs import moving

_HELP: Final = """Migrate many archives, each with a job of its own.

\b
  zarrlift batch run old/ --to 'v3/{relative}.zarr'  migrate all in a folder
  zarrlift status v3                                 show all states
  zarrlift verify v3 --full                          compare every value
  zarrlift undo v3                                   take everything back

A LIST is a folder or store prefix to search, a glob, or a manifest (.csv, .jsonl, .toml) with the columns
source, destination, recipe, and any option of migrate. What it contains is written to a list next to the
results, NAME.zarrlift.jsonl, which is a LIST too. An archive that is refused or fails does not stop the
others; the exit code is then 1.

The verbs for one job do the same for a list: resume, status, verify, update, finish, undo.
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
ListFile: TypeAlias = Annotated[
    str | None,
    option(
        "--list",
        heading="Running",
        help="The list to write, NAME.zarrlift.jsonl; by default next to the results.",
        metavar="FILE",
    ),
]
Plan: TypeAlias = Annotated[
    bool, option("--dry-run", "-n", help="Plan all, write the list; migrate nothing.", heading="Output")
]
Add: TypeAlias = Annotated[
    bool,
    option("--update", help="Add archives that the list does not have.", heading="What to convert"),
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


@added(app, "batch run", "Migrate every archive; again: resume, or do nothing.")
def run(
    lists: Lists = None,
    to: To = None,
    *,
    only: o.Only = None,
    dry_run: Plan = False,
    options: o.MigratingMany,
    update: Add = False,
    list_file: ListFile = None,
    storage: o.Storage,
    recipe: RecipeOptions,
    output: o.WatchedOutput,
) -> Answer:
    """Migrate every archive of LIST.

    A second run resumes an interrupted batch, and tries again what was refused or failed. Several processes
    may run one list, also on several machines, such as the elements of a job array: each takes the archives
    that no other one has claimed. With --dry-run, plan every archive, write the list, and migrate nothing;
    archives that cannot be migrated are listed with the cause.
    """
    if not lists:
        raise usage("a list of archives is needed", expected="a folder, a glob or a manifest")
    places = list(lists)

    def work(progress: Any) -> Any:
        import zarrlift

        how: dict[str, Any] = {"to": to, "list_file": list_file, "only": only, "update": update}
        how |= {"run": not dry_run, "recipe": recipe.recipe(), "progress": progress, **recipe.reading()}
        return zarrlift.batch(*places, **how, **options.arguments(), **storage.arguments()).outcome

    return moving(work, None, options, output)
