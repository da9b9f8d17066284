"""The arguments and options of `zarrlift batch` alone."""

from typing import Annotated, TypeAlias

import typer

from .option_groups import option

Lists: TypeAlias = Annotated[
    list[str] | None, typer.Argument(help="Folders, store prefixes, globs or manifests.", metavar="LIST...")
]
To: TypeAlias = Annotated[
    str | None,
    option(
        "--to",
        help="The destination of each archive, such as 'v3/{relative}.zarr'. Fields: relative, name, parent, "
        "number.",
        metavar="TEMPLATE",
    ),
]
BatchJob: TypeAlias = Annotated[
    str | None, option("--job", help="The job file; by default next to the results.", metavar="PATH")
]
Add: TypeAlias = Annotated[bool, option("--update", help="Add archives that LIST has and the batch has not.")]
Parts: TypeAlias = Annotated[
    int | None,
    option(
        "--parts", help="Divide the archives by bytes between N processes: run --part.", metavar="N", min=1
    ),
]
BatchTarget: TypeAlias = Annotated[
    str,
    typer.Argument(help="The job file of the batch, or the place that it is next to.", metavar="JOB"),
]
ReportFile: TypeAlias = Annotated[
    str | None,
    option("--report", help="At the end, write a page on all archives.", metavar="FILE.html"),
]
Yes: TypeAlias = Annotated[bool, option("--yes", "-y", help="Do not ask.")]
