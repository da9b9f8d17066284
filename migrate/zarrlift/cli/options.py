"""The arguments and options that several commands share.

Annotations are not postponed here and in `recipe_options`: compiling them from text takes 10 ms of `--help`.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from ..recipe import options as table
from ..recipe.options import VerifyLevel
from .option_groups import Group, Tables, option, whole_number
from .run_display import watched
from .session import Session

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


Source: TypeAlias = Annotated[str, typer.Argument(help="The archive: a path or URL.", metavar="SRC")]
Destination: TypeAlias = Annotated[
    str | None, typer.Argument(help="Where to write the result; must not exist yet.", metavar="DST")
]
Target: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="The destination of the job (in place, the archive), the job file, or the list of a batch.",
        metavar="TARGET",
    ),
]
Only: TypeAlias = Annotated[
    str | None,
    option(
        "--only",
        heading="What to convert",
        help="Of a list: only archives whose name or destination in the list matches, such as '2019/*'.",
        metavar="GLOB",
    ),
]
VerifyAgain: TypeAlias = Annotated[
    VerifyLevel | None, option("--verify", help="How much is compared; by default as in earlier runs.")
]
Virtual: TypeAlias = Annotated[
    bool,
    option(
        "--virtual",
        heading="Where",
        help="Copy no chunk: DST refers to those of SRC. DST is an Icechunk repository, or a .json file or a "
        ".parquet directory of kerchunk references.",
    ),
]
Part: TypeAlias = Annotated[
    str | None,
    option(
        "--part",
        heading="Running",
        help="With --job: do one part of a job that --parts has divided. Its index, or auto, which takes it "
        "from the environment of a job array (Slurm, LSF, Kubernetes, AWS Batch).",
        metavar="INDEX",
    ),
]
Parts: TypeAlias = Annotated[
    int | None,
    option(
        "--parts",
        heading="Running",
        help="With --job: create a job of N parts, each done by --part; nothing is migrated.",
        metavar="N",
        parser=whole_number(1),
    ),
]
DryRun: TypeAlias = Annotated[
    bool, option("--dry-run", "-n", help="Show what would be done and cost; write nothing.", heading="Output")
]
Show: TypeAlias = Annotated[
    str | None,
    option(
        "--show",
        help="With --dry-run: show the metadata of a node before and after, as a diff.",
        metavar="PATH",
        heading="Output",
    ),
]
Full: TypeAlias = Annotated[bool, option("--full", help="Compare every value, not samples.")]
Html: TypeAlias = Annotated[
    str | None,
    option("--html", help="Write one self-contained HTML page to a file.", metavar="FILE", heading="Output"),
]
Yes: TypeAlias = Annotated[
    bool, option("--yes", "-y", help="Do not ask before something is deleted.", heading="Running")
]


Reading: TypeAlias = Annotated[Tables, table.Describing]
"""How a source is read."""
ReadingBoth: TypeAlias = Annotated[Tables, table.Reading]
"""How several archives are read."""
Migrating: TypeAlias = Annotated[Tables, table.Request, table.JobPlace, table.Running, table.Watching]
"""What is asked for an archive, and how it is migrated."""
MigratingMany: TypeAlias = Annotated[Tables, table.Request, table.Running, table.Watching]
"""What is asked for archives, and how they are migrated."""
Continuing: TypeAlias = Annotated[Tables, table.JobPlace, table.Moved, table.Running, table.Watching]
"""How a job goes on."""
Gathering: TypeAlias = Annotated[Tables, table.JobPlace, table.Running, table.Watching]
"""How the parts of a job are collected."""
Comparing: TypeAlias = Annotated[Tables, table.Describing, table.JobPlace, table.Executing]
"""How a source is read, and what compares it."""
OfJob: TypeAlias = Annotated[Tables, table.JobPlace, table.TakingOver]
"""Where a job is, and whose place it has."""
JobFile: TypeAlias = Annotated[Tables, table.JobPlace]
"""Where a job is."""
Updating: TypeAlias = Annotated[Tables, table.Updating]
"""What an update may do."""


class Json(Group):
    """Output as JSON."""

    heading = "Output"

    as_json: Annotated[bool, option("--json", help="Print one JSON document on standard output.")] = False

    def __init__(self, session: Session, **values: Any) -> None:
        super().__init__(session, **values)
        session.json = self.as_json
        session.quiet = getattr(self, "quiet", False)
        session.everything = getattr(self, "show_all", False)
        session.color = getattr(self, "color", "auto")


class Output(Json):
    """The form of a report."""

    show_all: Annotated[
        bool, option("--all", help="Show every row and every location, not only the first few.")
    ] = False
    color: Annotated[
        Literal["auto", "always", "never"],
        option("--color", help="Colours; by default on a terminal, unless NO_COLOR is set."),
    ] = "auto"


class QuietOutput(Output):
    """The form of a report that may be omitted."""

    quiet: Annotated[bool, option("--quiet", "-q", help="Show only errors, on standard error.")] = False


class WatchedOutput(QuietOutput):
    """The form of a report and of the progress before it."""

    verbose: Annotated[
        bool, option("--verbose", "-v", help="Report each array on standard error as it is processed.")
    ] = False

    def watched(self, logged_problems: list[Any] | None = None) -> "AbstractContextManager[Any]":
        """The progress of the command, shown as requested; `logged_problems` as for `run_display.watched`."""
        return watched(quiet=self.quiet, verbose=self.verbose, logged_problems=logged_problems)
