"""What a command of the command line takes, how the help shows it, and what is given as values.

Options that several commands share stand here once, or in `recipe.options` if Python has them too.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ..recipe.changes import ARRAY_OPTIONS, WHOLE_OPTIONS
from ..recipe.options import Option, Reading, Size, VerifyLevel, flag_of, rows
from .session import Session

if TYPE_CHECKING:
    from ..recipe.recipe import Recipe


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


TRUTHS: Final = {"true": True, "false": False}
_ARGUMENTS: Final = {"src": "storage_options", "dst": "dest_storage_options"}


class Given(Namespace):
    """The words of a command line: an attribute for each argument and option of the command."""

    command: Command
    session: Session

    def of(self, *tables: type) -> dict[str, Any]:
        """Those options of tables that have other values than their defaults, as arguments; UsageError."""
        options = self.command.all_options()
        given = {
            name: vars(self)[name]
            for name in rows(*tables)
            if name in options and vars(self)[name] != default_of(options[name])
        }
        if str(given.get("job", "")).isdigit():
            raise usage(
                f"--job names a job file, found {given['job']}", expected=f"-j {given['job']} for workers"
            )
        return given

    def storage(self, unnamed: tuple[str, ...] | None = None) -> dict[str, Any]:
        """How the places are opened, as arguments; `unnamed` places get what names none. UsageError."""
        places = self.command.places
        per_place = by_place(self.storage_options, places, unnamed or self.command.unnamed)
        return {_ARGUMENTS[place]: options for place, options in per_place.items() if options}

    def recipe(self) -> Recipe:
        """The recipe of the file, or the default one, modified by the other options; UsageError."""
        from ..recipe.asked import asked_recipe

        given = {name: value for name, value in vars(self).items() if value not in (None, False)}
        base = {name: value for name, value in given.items() if name in ARRAY_OPTIONS}
        base |= {name: value for name, value in self._settings().items() if name in ARRAY_OPTIONS}
        if "casting" in base and self.recipe_file is None and "dtype" not in base:
            raise usage("--set casting=... requires --dtype", expected="--dtype NAME")
        whole = {name: vars(self)[name] for name in WHOLE_OPTIONS if vars(self)[name] is not None}
        return asked_recipe(self.recipe_file, {**base, **whole})

    def reading(self) -> dict[str, Any]:
        """What `--set` gives of how an archive is read, as arguments; UsageError."""
        return {name: value for name, value in self._settings().items() if name in rows(Reading)}

    def _settings(self) -> dict[str, Any]:
        """The options that `--set` gives, by name; UsageError."""
        from zarrstack.core.similar_names import did_you_mean

        known = {**ARRAY_OPTIONS, **rows(Reading)}
        names = [name.replace("_", "-") for name in SETTABLE]
        settings: dict[str, Any] = {}
        for text in self.rare or ():
            name, equals, value = text.partition("=")
            name = name.strip().replace("-", "_")
            row = known.get(name)
            if row is not None and not row.rare:
                raise usage(f"--set {name}: this has an option of its own", expected=flag_of(name, row))
            if row is None or not equals:
                near = did_you_mean(name.replace("_", "-"), names)
                raise usage(f"--set takes NAME=VALUE, found {text}", expected=", ".join(names), advice=near)
            try:
                settings[name] = value_of(row, value)
            except ValueError as error:
                raise usage(f"--set {name}: {value!r}", expected=str(error)) from None
        return settings


def choices_of(row: Option) -> tuple[str, ...]:
    """The values that `--set` takes for an option; empty if any."""
    return tuple(TRUTHS) if row.type is bool else row.choices


def value_of(row: Option, text: str) -> Any:
    """The value of an option that a word gives; the text of a ValueError is what the option takes."""
    if row.type is int:
        if text.isdecimal() and int(text) >= 1:
            return int(text)
        raise ValueError("a whole number of at least 1")
    if row.type is Size:
        from zarrstack.core.sizes import parse_size

        if (number := parse_size(text)) is not None and number >= 1:
            return int(number)
        raise ValueError("a size such as 512MB or 2GB")
    if (choices := choices_of(row)) and text not in choices:
        raise ValueError(", ".join(choices))
    return TRUTHS[text] if row.type is bool else text


def usage(message: str, *, expected: str | None = None, advice: str | None = None) -> Exception:
    """An error of the command line; its class is loaded only here."""
    from zarrstack.core.errors import UsageError

    return UsageError(message, expected=expected, advice=advice)


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
        place = start.strip() if colon and start.strip() in PLACES else None
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
