"""The arguments and options that several commands share, and those that open places.

Annotations are not postponed here and in `recipe_options`: compiling them from text takes 10 ms of `--help`.
"""

import json
from collections.abc import Iterable
from functools import cache
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import typer

from ..recipe import options as table
from ..recipe.options import VerifyLevel
from .option_groups import Group, Tables, option, parameter, usage
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
DryRun: TypeAlias = Annotated[
    bool, option("--dry-run", "-n", help="Show what would be done and cost; write nothing.", heading="Output")
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


class Output(Json):
    """The form of a report."""

    show_all: Annotated[
        bool, option("--all", help="Show every row and every location, not only the first few.")
    ] = False


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


_ARGUMENTS = {"src": "storage_options", "dst": "dest_storage_options"}
_WORDS = {
    "src": "the source",
    "dst": "the destination",
}


class Storage(Group):
    """How the places of a command are opened."""

    heading = "Where"
    places: ClassVar[tuple[str, ...]] = ("src", "dst")
    """Those that the command has."""
    unnamed: ClassVar[tuple[str, ...]] = ("src",)
    """Those that get options without a place."""

    @classmethod
    @cache
    def parameters(cls) -> tuple[Parameter, ...]:
        """The option."""
        text = "fsspec options: KEY=VALUE (repeatable) or one JSON object"
        if len(cls.places) > 1:
            places = ", ".join(f"{place}: for {_WORDS[place]}" for place in cls.places)
            unnamed = " and ".join(_WORDS[place] for place in cls.unnamed)
            text += f", after the place they are for ({places}); without one, for {unnamed}"
        words = option("--storage-options", help=f"{text}.", metavar="[PLACE:]KEY=VALUE", heading=cls.heading)
        return (parameter("storage_options", Annotated[list[str] | None, words], None),)

    def arguments(self) -> dict[str, Any]:
        """Arguments of the public functions; UsageError."""
        return self.given_for(self.unnamed)

    def given_for(self, unnamed: tuple[str, ...]) -> dict[str, Any]:
        """`arguments`, with options without a place for these places."""
        per_place = by_place(vars(self)["storage_options"], self.places, unnamed)
        return {_ARGUMENTS[place]: options for place, options in per_place.items() if options}


class ComparedStorage(Storage):
    """How two archives that are compared are opened, and their job."""

    unnamed = ("src", "dst")

    def of(self, source: str, destination: str | None) -> dict[str, Any]:
        """`arguments`, where options without a place are for those of the two that are URLs."""
        from ..storage.open_storage import is_url

        named = {"src": source, "dst": destination or ""}
        return self.given_for(tuple(place for place in self.unnamed if is_url(named[place])) or ("src",))


SourceStorage: TypeAlias = Annotated[Storage, {"places": ("src",)}]
DestinationStorage: TypeAlias = Annotated[Storage, {"places": ("dst",), "unnamed": ("dst",)}]
"""Which places a command opens."""


def by_place(
    texts: Iterable[str] | None, places: tuple[str, ...], unnamed: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Fsspec options by place, from `[PLACE:]KEY=VALUE` words and JSON objects; later ones win. UsageError.

    A place stands at the start of the key only. The value of a pair is JSON if it can be parsed as such
    (`anon=true`, `timeout=5`), otherwise text. What is given for one place goes to no other.
    """
    general: dict[str, dict[str, Any]] = {}
    specific: dict[str, dict[str, Any]] = {}
    for text in texts or ():
        key, equals, content = text.partition("=")
        start, colon, _ = key.partition(":")
        place = start.strip() if colon and start.strip() in _WORDS else None
        if place is not None and place not in places:
            raise usage(f"--storage-options: this command has no {place}:", expected=", ".join(places))
        word = text if place is None else text.partition(":")[2]
        if word.lstrip().startswith("{"):
            options = _object(word)
        elif not equals or not (name := word.partition("=")[0]):
            # The word may be a secret in the wrong form, so it is not repeated.
            raise usage(
                "--storage-options takes [PLACE:]KEY=VALUE or a JSON object", expected="such as anon=true"
            )
        else:
            try:
                options = {name: json.loads(content)}
            except ValueError:
                options = {name: content}
        for each in unnamed if place is None else (place,):
            (general if place is None else specific).setdefault(each, {}).update(options)
    return {
        place: general.get(place, {}) | specific.get(place, {}) for place in general.keys() | specific.keys()
    }


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise usage(f"--storage-options is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise usage("--storage-options is not a JSON object")
    return data
