"""The options for jobs in parts."""

from typing import Annotated, TypeAlias

import typer

from .option_groups import option

OptionalSource: TypeAlias = Annotated[
    str | None, typer.Argument(help="The archive: a path or URL; none with --part.", metavar="SRC")
]
PlannedJob: TypeAlias = Annotated[
    str | None,
    option("--job", help="With --parts: create this job file. Else nothing is written.", metavar="PATH"),
]
Parts: TypeAlias = Annotated[
    int | None,
    option(
        "--parts",
        help="With --job: the number of parts, each done by `migrate`.",
        metavar="N",
        min=1,
    ),
]
First: TypeAlias = Annotated[
    int, option("--first", help="With --parts: the index of the first part, 0 or 1.", min=0, max=1)
]
Part: TypeAlias = Annotated[
    str | None,
    option(
        "--part",
        help="With --job: do one part of a job that `plan` has divided. Its index, or auto, which takes it "
        "from the environment of a job array (Slurm, LSF, Kubernetes, AWS Batch).",
        metavar="INDEX",
    ),
]
