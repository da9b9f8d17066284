"""What a command of the command line takes: its arguments and options, and how the help shows them.

Options that several commands share stand here once, or in `recipe.options` if Python has them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from ..recipe.changes import ARRAY_OPTIONS, WHOLE_OPTIONS
from ..recipe.options import Option, Reading, VerifyLevel, flag_of, rows


class Argument(NamedTuple):
    """An argument of a command."""

    metavar: str
    help: str
    number: Literal["?", "*", "+"] | None = None
    """How often it may be given; None: once."""
    default: Any = None


class Command(NamedTuple):
    """A command, or a group of commands."""

    description: str
    """Paragraphs; the lines of those that begin with spaces are kept."""
    module: str | None = None
    """The module with its function, which has the last word of its name; None for a group."""
    arguments: Mapping[str, Argument] = {}
    options: Mapping[str, Option] = {}
    places: tuple[str, ...] = ()
    """The places that `--storage-options` may name."""
    unnamed: tuple[str, ...] = ("src",)
    """Those that get options without a place."""

    def all_options(self) -> dict[str, Option]:
        """Its options with those that are made for it, by name."""
        made = {"storage_options": _storage(self)} if self.places else {}
        options = {**self.options, **made, **_HELP}
        return {name: row for name, row in options.items() if not row.rare}  # `--set` takes those


_HEADINGS: Final = ("What to convert", "How", "Where", "Result", "Running", "Output", "Options")
_MANY: Final = 16
"""Options from which on they are shown under headings."""
PLACES: Final = {"src": "the source", "dst": "the destination"}

SOURCE: Final = Argument("SRC", "The archive: a path or URL.")
TARGET: Final = {
    "target": Argument(
        "TARGET",
        "The destination of the job (in place, the archive), the job file, or the list of a batch.",
    )
}
HIERARCHY: Final = {"source": Argument("SRC", "An archive, or a file with a model; - for stdin.")}

_HELP: Final = {"help": Option("Show this message and exit.", bool, flag="--help -h")}
TO: Final = {
    "to": Option(
        "The destination of each archive, such as 'v3/{relative}.zarr'. Fields: relative, name, parent, "
        "number.",
        metavar="TEMPLATE",
        heading="Where",
    )
}
ONLY: Final = {
    "only": Option(
        "Of a list: only archives whose source or destination in the list matches, such as '*/2019/*'.",
        metavar="GLOB",
        heading="What to convert",
    )
}
VERIFY_AGAIN: Final = {
    "verify": Option("How much is compared; by default as in earlier runs.", VerifyLevel, heading="Result")
}
DRY_RUN: Final = {
    "dry_run": Option(
        "Show what would be done and cost; write nothing.", bool, flag="--dry-run -n", heading="Output"
    )
}
YES: Final = {
    "yes": Option("Do not ask before something is deleted.", bool, flag="--yes -y", heading="Running")
}
JSON: Final = {
    "as_json": Option("Print one JSON document on standard output.", bool, flag="--json", heading="Output")
}
OUTPUT: Final = {
    "show_all": Option(
        "Show every row and every location, not only the first few.", bool, flag="--all", heading="Output"
    ),
    **JSON,
}
QUIET: Final = {
    "quiet": Option("Show only errors, on standard error.", bool, flag="--quiet -q", heading="Output"),
    **OUTPUT,
}
WATCHED: Final = {
    "verbose": Option(
        "Report each array on standard error as it is processed.",
        bool,
        flag="--verbose -v",
        heading="Output",
    ),
    **QUIET,
}
"""Of commands that report their progress."""
RECIPE_FILE: Final = {
    "recipe_file": Option("A TOML recipe: that of the migration.", metavar="FILE.toml", flag="--recipe")
}
SETTABLE: Final = {name: row for name, row in {**ARRAY_OPTIONS, **rows(Reading)}.items() if row.rare}
"""What `--set` takes."""
RECIPE: Final = {
    "recipe_file": Option(
        "A TOML recipe. Options on the command line replace its general part; its sections for paths have "
        "priority over both.",
        metavar="FILE.toml",
        flag="--recipe",
    ),
    **{name: row for name, row in ARRAY_OPTIONS.items() if not row.rare},
    "rare": Option(
        f"A rare option (repeatable): {', '.join(SETTABLE).replace('_', '-')}.",
        list[str],
        metavar="NAME=VALUE",
        flag="--set",
    ),
    **WHOLE_OPTIONS,
}
"""The changes that a recipe describes."""
AS: Final = {"as_": Option("v3: the result of a migration; chunks are not read.", Literal["v3"], flag="--as")}
OPEN: Final = {
    "leave_open": Option(
        "A part that may have any value: shape, chunks, codecs, fill_value, keys, attributes, members. "
        "Repeatable.",
        list[str],
        metavar="PART",
        flag="--open",
    )
}


def _storage(command: Command) -> Option:
    """The option that says how the places of a command are opened."""
    text = "fsspec options: KEY=VALUE (repeatable) or one JSON object"
    if len(command.places) > 1:
        places = ", ".join(f"{place}: for {PLACES[place]}" for place in command.places)
        unnamed = " and ".join(PLACES[place] for place in command.unnamed)
        text += f", after the place they are for ({places}); without one, for {unnamed}"
    return Option(f"{text}.", list[str], metavar="[PLACE:]KEY=VALUE", heading="Where")


def flags(name: str, row: Option) -> list[str]:
    """The words of an option, the long one first; of a pair, what says yes."""
    return flag_of(name, row).partition("/")[0].split()


def default_of(row: Option) -> Any:
    """The value of an option that is not given."""
    return False if row.type is bool and row.default is None and not is_pair(row) else row.default


def metavar_of(name: str, row: Option) -> str | None:
    """What stands for the value of an option; None if it takes none."""
    return None if row.type is bool else row.metavar or "|".join(row.choices) or name.upper()


def names_text(words: Iterable[str], metavar: str | None) -> str:
    """An option as the help shows it, such as `-j, --workers N`."""
    return ", ".join(sorted(words, key=len)) + (f" {metavar}" if metavar else "")


def help_text(name: str, row: Option) -> str:
    """What the help says of an option."""
    default = flags(name, row)[0] if row.default is True else row.default
    return row.help + (f" [default: {default}]" if default else "")


def is_pair(row: Option) -> bool:
    """Whether an option has another one that says no."""
    return "/" in (row.flag or "")


def words_of(command: Command) -> Iterator[tuple[str, str, Option]]:
    """Each word that is an option of a command, with the option's name and row."""
    for name, row in command.all_options().items():
        for word in flag_of(name, row).replace("/", " ").split():
            yield word, name, row


def sections(command: Command) -> dict[str, dict[str, Argument | Option]]:
    """The arguments and the options by heading; without empty headings."""
    options = command.all_options()
    many = len(command.arguments) + len(options) >= _MANY
    found: dict[str, dict[str, Argument | Option]] = {"Arguments": {**command.arguments}}
    found |= {heading: {} for heading in _HEADINGS}
    for name, row in options.items():
        found[row.heading if many and name != "help" else "Options"][name] = row
    return {heading: items for heading, items in found.items() if items}
