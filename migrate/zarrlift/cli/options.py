"""The options of the command line, and their conversion to arguments of the public functions.

Annotations are not postponed here and in `recipe_options`: compiling them from text takes 10 ms of `--help`.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from ..recipe.options import FORMATS, Axes, Link, VerifyLevel
from .option_groups import Group, option
from .option_values import formats, size, storage_options
from .reference_options import FSSPEC, References
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
        help="The destination of the job (in place, the archive), or the job file.", metavar="TARGET"
    ),
]
Overwrite: TypeAlias = Annotated[
    bool,
    option(
        "--overwrite",
        heading="Where",
        help="Replace DST; the old content is deleted after the new is complete.",
    ),
]
MovedSource: TypeAlias = Annotated[
    str | None, option("--source", help="The current place of the source, if it was moved.", metavar="SRC")
]
MovedDestination: TypeAlias = Annotated[
    str | None,
    option("--destination", help="The current place of the destination, if it was moved.", metavar="DST"),
]
TakeOver: TypeAlias = Annotated[
    bool,
    option(
        "--take-over",
        heading="Running",
        help="Continue although a process on another host has claimed the destination. Use it only if that "
        "process has certainly ended.",
    ),
]
StorageOptions: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--storage-options", heading="What to convert", help=f"{FSSPEC} For the source.", metavar="OPTIONS"
    ),
]
Verify: TypeAlias = Annotated[
    VerifyLevel,
    option("--verify", heading="Result", help="How much is compared before an array is published."),
]
VerifyAgain: TypeAlias = Annotated[
    VerifyLevel | None, option("--verify", help="How much is compared; by default as in earlier runs.")
]
LinkOption: TypeAlias = Annotated[
    Link,
    option(
        "--link",
        heading="Where",
        help="hard: hard links for unchanged chunks, which then share bytes with SRC.",
    ),
]
Digest: TypeAlias = Annotated[
    bool, option("--digest", heading="Result", help="Store a digest of the values of each array in the job.")
]
Full: TypeAlias = Annotated[bool, option("--full", help="Compare every value, not samples.")]


class ReadingBoth(References):
    """How several archives are read."""

    heading = "What to convert"

    follow_links: Annotated[
        bool, option("--follow-links", help="Follow symbolic links to targets outside the archive.")
    ] = False
    axes: Annotated[
        Axes | None,
        option(
            "--axes",
            help="N5 only: reversed, to (z, y, x), is the default for copies; in place, only kept is valid.",
        ),
    ] = None
    allow_fallback: Annotated[
        bool,
        option(
            "--allow-fallback", help="2022 draft of v3 only: read unknown data types as their fallback types."
        ),
    ] = False
    max_document_size: Annotated[
        str | None,
        option(
            "--max-document-size",
            help="Maximum size of a metadata document; 64MiB by default.",
            metavar="SIZE",
        ),
    ] = None
    storage_options: Annotated[
        list[str] | None, option("--storage-options", help=f"{FSSPEC} For both archives.", metavar="OPTIONS")
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of the public functions that read an archive."""
        return {
            "follow_links": self.follow_links,
            "axes": self.axes,
            "allow_fallback": self.allow_fallback,
            "max_document_size": size(self.max_document_size, "--max-document-size"),
            "storage_options": self.source_options(self.storage_options),
        }


class Reading(ReadingBoth):
    """How the source is read."""

    from_: Annotated[
        str | None,
        option(
            "--from",
            help=f"The source's format, if several are present: {', '.join(FORMATS)}, or that of a plug-in.",
            metavar="NAME",
            autocompletion=formats,
        ),
    ] = None
    storage_options: StorageOptions = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of the public functions that read an archive."""
        return {"format": self.from_, **super().arguments()}


class DestinationStorage(Group):
    """How the destination is opened."""

    heading = "Where"

    dest_storage_options: Annotated[
        list[str] | None,
        option("--dest-storage-options", help=f"{FSSPEC} For the destination.", metavar="OPTIONS"),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of the public functions that open a destination."""
        name = "--dest-storage-options"
        return {"dest_storage_options": storage_options(self.dest_storage_options, name)}


class JobStorage(DestinationStorage, References):
    """How the places of a job are opened."""

    storage_options: StorageOptions = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of the public functions that continue a job."""
        return {"storage_options": self.source_options(self.storage_options), **super().arguments()}


class Writing(DestinationStorage):
    """Where and through which layers the result is written."""

    in_place: Annotated[
        bool, option("--in-place", help="Add v3 metadata to the source; its chunks are unchanged.")
    ] = False
    inventory: Annotated[
        str | None,
        option(
            "--inventory",
            heading="What to convert",
            help="An S3 Inventory of the source (CSV or its manifest.json), used instead of listing.",
            metavar="FILE",
        ),
    ] = None
    source_through: Annotated[
        str | None,
        option(
            "--source-through",
            heading="What to convert",
            help="Storage transformers over the source, such as retry,throttle:50MB/s,log:events.jsonl.",
            metavar="LAYERS",
        ),
    ] = None
    dest_through: Annotated[
        str | None,
        option("--dest-through", help="Storage transformers over the destination.", metavar="LAYERS"),
    ] = None

    provenance: Annotated[
        bool,
        option(
            "--provenance",
            heading="Result",
            help="Write where the result comes from into an attribute of its root.",
        ),
    ] = False
    ro_crate: Annotated[
        bool,
        option(
            "--ro-crate", heading="Result", help="Write ro-crate-metadata.json beside the root's zarr.json."
        ),
    ] = False

    def arguments(self) -> dict[str, Any]:
        """Arguments of `plan` and `migrate`."""
        return {
            "in_place": self.in_place,
            "inventory": self.inventory,
            "provenance": self.provenance,
            "ro_crate": self.ro_crate,
            "source_through": self.source_through,
            "dest_through": self.dest_through,
            **super().arguments(),
        }


class Executing(Group):
    """What runs the work."""

    heading = "Running"

    executor: Annotated[
        str | None,
        option(
            "--executor",
            help="threads, processes, dask, or a name that another package registers; threads by default.",
            metavar="NAME",
        ),
    ] = None
    dask_address: Annotated[
        str | None,
        option(
            "--dask-address",
            help="The scheduler for --executor dask, such as tcp://host:8786; by default processes here.",
            metavar="URL",
        ),
    ] = None
    workers: Annotated[
        int | None,
        option(
            "--workers",
            help="Number of workers; by default those of the executor, or as many as suit the work and the "
            "machine.",
            metavar="N",
            min=1,
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of the functions that run something."""
        return {"executor": self.executor, "dask_address": self.dask_address, "workers": self.workers}


class Running(Executing):
    """How a job is run."""

    fsync: Annotated[
        bool, option("--fsync", help="Protect the result against power failures too; slower.")
    ] = False

    def arguments(self) -> dict[str, Any]:
        """Arguments of `migrate` and `resume`."""
        return {**super().arguments(), "fsync": self.fsync}


class Json(Group):
    """Output as JSON."""

    heading = "Output"

    as_json: Annotated[bool, option("--json", help="Print one JSON document on standard output.")] = False

    def session(self, command: str) -> Session:
        """The session of a command with these options."""
        return Session(
            command=command,
            json=self.as_json,
            quiet=getattr(self, "quiet", False),
            everything=getattr(self, "show_all", False),
            color=getattr(self, "color", "auto"),
        )


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

    def watched(self, shown: list[Any] | None = None) -> "AbstractContextManager[Any]":
        """The progress of the command, shown as requested; `shown` as for `run_display.watched`."""
        return watched(quiet=self.quiet, verbose=self.verbose, shown=shown)


class ObservedOutput(WatchedOutput):
    """What is shown of a run, and written for those who watch it."""

    log: Annotated[
        str | None, option("--log", help="Append what happens to a file, as JSON lines.", metavar="FILE")
    ] = None
    metrics: Annotated[
        str | None,
        option(
            "--metrics",
            help="Write figures to a file at intervals, in Prometheus' text format.",
            metavar="FILE",
        ),
    ] = None

    def observers(self) -> dict[str, Any]:
        """Arguments of the public functions that run a job."""
        return {"log": self.log, "metrics": self.metrics}
