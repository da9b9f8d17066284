"""Every option that several functions share: its name, type, default, help and heading, in one line.

The functions of Python, the command line, TOML files, the list of a batch and the records of jobs take them
from here. Imports nothing heavy, because `--help` needs it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args, get_origin

from zarrstack.core.errors import UsageError
from zarrstack.core.similar_names import did_you_mean

from ..core.format_table import FORMATS as FORMAT_ROWS
from ..errors import JobError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ..storage.open_storage import Place

Heading: TypeAlias = Literal["What to convert", "How", "Where", "Result", "Running", "Output"]
"""Where `--help` of a command with many options shows one."""


class Size(int):
    """Marks a number of bytes, which may be given as a text such as 512MB."""


class Option(NamedTuple):
    """An option as the command line and TOML files show it."""

    help: str
    type: Any = str
    """bool, int, `Size`, list[str], a Literal with the choices, or str, also for what is parsed later."""
    metavar: str | None = None
    flag: str | None = None
    """Option of the command line, if it is not the field's name with hyphens."""
    heading: Heading = "How"
    rare: bool = False
    """Whether the command line takes it by `--set` only."""
    default: Any = None
    changes: Literal["payloads", "objects"] | None = None
    """What of the chunks a recipe's option changes: payloads, or only the objects and keys that hold them."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The permitted values; empty unless the type is a Literal."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()


def flag_of(name: str, row: Option) -> str:
    """The words of an option on the command line."""
    return row.flag or ("--set " if row.rare else "--") + name.replace("_", "-")


PathText: TypeAlias = str | os.PathLike[str]
StorageOptions: TypeAlias = Mapping[str, Any] | None
"""Options for fsspec."""

Format: TypeAlias = str
"""Name of a source format: one of `FORMATS`."""
FORMATS: Final = tuple(sorted(FORMAT_ROWS))
"""The names of formats that zarrlift reads."""
Axes: TypeAlias = Literal["reversed", "kept"]
"""Axis orders of N5 arrays."""
VerifyLevel: TypeAlias = Literal["none", "sample", "full"]
"""Extents of the verification before an array is published."""
ExecutorChoice: TypeAlias = "str | Executor | Any"
"""A name, an executor of `concurrent.futures`, or a client or cluster of Dask."""
Link: TypeAlias = Literal["auto", "hard"]
"""Methods of copying unchanged chunks."""


def option(
    default: Any,
    help: str,
    type: Any = str,
    heading: Heading = "What to convert",
    *,
    metavar: str | None = None,
    flag: str | None = None,
    rare: bool = False,
) -> Any:
    """A field of a table of options, with what the command line says of it."""
    row = Option(help, type, metavar, flag, heading, rare=rare, default=default)
    return field(default=default, metadata={"option": row})


class Table:
    """What tables of options have alike: dataclasses would compile it for each while `--help` waits."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        members = fields(self)  # type: ignore[arg-type]
        texts = (f"{each.name}={getattr(self, each.name)!r}" for each in members if each.repr)
        return f"{type(self).__name__}({', '.join(texts)})"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reading(Table):
    """How an archive is read; a job stores it, so that all its runs read in the same way."""

    follow_links: bool = option(False, "Follow symbolic links to targets outside the archive.", bool)
    axes: Axes | None = option(
        None,
        "N5 only: reversed, to (z, y, x), is the default for copies; in place, only kept is valid.",
        Axes,
    )
    allow_fallback: bool = option(
        False, "2022 draft of v3 only: read unknown data types as their fallback types.", bool, rare=True
    )
    max_document_size: int = 64 << 20
    """Of a metadata document, in bytes; only Python sets it."""

    def __post_init__(self) -> None:
        if self.axes not in (None, *get_args(Axes)):
            from zarrstack.core.errors import UsageError  # not needed by --help

            raise UsageError(
                "unknown order of axes", found=repr(self.axes), expected=", ".join(get_args(Axes))
            )

    def settled(self, *, in_place: bool = False) -> Reading:
        """The same with an order of axes, which depends on where the result is, and without other options.

        In place, the codec for N5's blocks already transposes them, so their axes cannot be reversed.
        """
        order: Axes = self.axes or ("kept" if in_place else "reversed")
        return Reading(**(values(self, Reading) | {"axes": order}))

    def to_json(self) -> dict[str, Any]:
        """The options as JSON."""
        return values(self.settled(), Reading)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reading:
        """Inverse of `to_json`; unknown members are ignored, missing ones have their defaults."""
        return Reading(**{each.name: data[each.name] for each in fields(Reading) if each.name in data})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Describing(Reading):
    """How an archive is described."""

    format: Format | None = option(
        None,
        f"The source's format, if several are present: {', '.join(FORMATS)}.",
        metavar="NAME",
        flag="--from",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Request(Describing):
    """What is asked for one archive besides its places and its recipe; a batch stores it for each."""

    in_place: bool = option(
        False, "Add v3 metadata to the source; its chunks are unchanged.", bool, heading="Where"
    )
    source_through: str | None = option(
        None,
        "Storage transformers over the source, such as retry,throttle:50MB/s,log:events.jsonl.",
        metavar="LAYERS",
    )
    dest_through: str | None = option(
        None, "Storage transformers over the destination.", heading="Where", metavar="LAYERS"
    )
    link: Link = option(
        "auto", "hard: hard links for unchanged chunks, which then share bytes with SRC.", Link, "Where"
    )
    overwrite: bool = option(
        False, "Replace DST; the old content is deleted after the new is complete.", bool, "Where"
    )
    verify: VerifyLevel = option(
        "sample", "How much is compared before an array is published.", VerifyLevel, "Result"
    )

    @property
    def reading(self) -> Reading:
        """How the source is read."""
        return self.settled(in_place=self.in_place)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SourceOptions(Table):
    """How a source is opened."""

    storage_options: StorageOptions = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Places(SourceOptions):
    """How the places of a migration are opened; nothing stores it, since it may be secret."""

    dest_storage_options: StorageOptions = field(default=None, repr=False)

    def of_result(self, *, in_place: bool) -> StorageOptions:
        """The options that open the place of the result."""
        return self.storage_options if in_place else self.dest_storage_options


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JobPlace(Table):
    """Where the job file is."""

    job: PathText | None = option(
        None,
        "The job file; by default beside the result.",
        heading="Running",
        metavar="PATH",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Moved(Table):
    """Where the places of a job are now."""

    source: Place | None = option(None, "The current place of the source, if it was moved.", metavar="SRC")
    destination: Place | None = option(
        None, "The current place of the destination, if it was moved.", heading="Where", metavar="DST"
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Executing(Table):
    """What runs the work."""

    workers: int | None = option(
        None,
        "Number of workers; by default those of the executor, or as many as suit the work and the machine.",
        int,
        "Running",
        metavar="N",
        flag="--workers -j",
    )
    executor: ExecutorChoice | None = option(
        None,
        "threads (default), processes, mpi, or dask, also with a scheduler: dask=tcp://host:8786.",
        heading="Running",
        metavar="NAME",
    )
    bwlimit: str | float | None = option(
        None,
        "Bytes per second at each end, such as 50MB/s, of all workers together.",
        heading="Running",
        metavar="RATE",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TakingOver(Table):
    """Whose place a job writes to."""

    take_over: bool = option(
        False,
        "Continue although a process on another host has claimed the destination. Use it only if that "
        "process has certainly ended.",
        bool,
        "Running",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Running(Executing, TakingOver):
    """How a job is run."""

    fsync: bool = option(False, "Protect the result against power failures too; slower.", bool, "Running")
    no_list: bool = option(
        False,
        "Do not list what was written before an array is published, and when a job continues or ends (for "
        "10^9 objects).",
        bool,
        "Running",
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Watching(Table):
    """What is written of a run for those who watch it."""

    log: PathText | None = option(
        None, "Append what happens to a file, as JSON lines.", heading="Output", metavar="FILE"
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Updating(Table):
    """What an update may do to a result."""

    delete: bool = option(
        False, "Remove nodes from the result that the source no longer has.", bool, "Result"
    )
    force: bool = option(False, "Replace what others have changed in the result.", bool, "Result")


TABLES: Final = (
    Reading, Describing, Request, SourceOptions, Places, JobPlace, Moved, Executing, TakingOver, Running,
    Watching, Updating,
)  # fmt: skip
"""Those above that inherit from another follow it."""


def rows(*tables: type) -> dict[str, Option]:
    """The options of tables as the command line and files show them, by name; later tables follow."""
    return {each.name: each.metadata["option"] for table in tables for each in fields(table) if each.metadata}


def values(options: Any, table: type) -> dict[str, Any]:
    """The values of those options that a table has, by name."""
    return {each.name: getattr(options, each.name) for each in fields(table)}


def require_format(name: Format | None) -> None:
    """Raise UsageError unless this is the name of a format; None is any format."""
    if name is not None and name not in FORMATS:
        raise UsageError(
            f"unknown format {name!r}", expected=", ".join(FORMATS), advice=did_you_mean(name, FORMATS)
        )


def require_readable(name: Format) -> None:
    """Raise JobError unless the format of a job's source is one that this zarrlift reads."""
    if name not in FORMATS:
        raise JobError(
            f"the source of this job has the format {name!r}, which this zarrlift does not read",
            expected=", ".join(FORMATS),
            advice="Use the version of zarrlift that has begun the job.",
        )
