"""The options for job files, for jobs in parts, and for what is no job."""

from typing import Annotated, Any, TypeAlias

import typer

from .option_groups import Group, option
from .option_values import storage_options
from .reference_options import FSSPEC

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
Part: TypeAlias = Annotated[
    str | None,
    option(
        "--part",
        heading="Running",
        help="With --job: do one part of a job that `plan` has divided. Its index, or auto, which takes it "
        "from the environment of a job array (Slurm, LSF, Kubernetes, AWS Batch).",
        metavar="INDEX",
    ),
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
Watch: TypeAlias = Annotated[
    bool,
    option("--watch", help="Refresh it until the job ends; if not on a terminal, one line per minute."),
]


class JobFile(Group):
    """Where the job file is."""

    heading = "Running"

    job: Annotated[
        str | None,
        option(
            "--job",
            help="The job file, a path or a URL of a store; by default beside the result.",
            metavar="PATH",
        ),
    ] = None
    job_storage_options: Annotated[
        list[str] | None,
        option("--job-storage-options", help=f"{FSSPEC} For a job file in a store.", metavar="OPTIONS"),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of the public functions that use a job."""
        name = "--job-storage-options"
        return {"job": self.job, "job_storage_options": storage_options(self.job_storage_options, name)}
