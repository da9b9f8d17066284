"""What a command line says, as values and as arguments of the public functions."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..recipe.changes import ARRAY_OPTIONS, WHOLE_OPTIONS
from ..recipe.options import Option, Reading, flag_of, rows
from .options import PLACES, SETTABLE, Command, default_of
from .session import Session

if TYPE_CHECKING:
    from ..recipe.recipe import Recipe

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
        from ..recipe import recipe
        from ..recipe.parsing import parse_conventions, require_conventions

        given = {name: value for name, value in vars(self).items() if value not in (None, False)}
        base = {name: value for name, value in given.items() if name in ARRAY_OPTIONS}
        require_conventions(parse_conventions(base.get("conventions", "auto")))
        base |= {name: value for name, value in self._settings().items() if name in ARRAY_OPTIONS}
        if "casting" in base and self.recipe_file is None and "dtype" not in base:
            raise usage("--set casting=... requires --dtype", expected="--dtype NAME")
        whole = {name: vars(self)[name] for name in WHOLE_OPTIONS if vars(self)[name] is not None}
        for name in whole.keys() & {"include", "exclude"}:
            whole[name] = tuple(whole[name])
        if "model" in whole:
            from ..models.requirement import load as load_model

            whole["model"] = load_model(whole["model"]).named()
        result = load_recipe(self.recipe_file) or recipe.Recipe()
        return replace(result, base=replace(result.base, **base), **whole)

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
            if (choices := choices_of(row)) and value not in choices:
                raise usage(f"--set {name}: {value!r}", expected=", ".join(choices))
            settings[name] = TRUTHS[value] if row.type is bool else value
        return settings


def choices_of(row: Option) -> tuple[str, ...]:
    """The values that `--set` takes for an option; empty if any."""
    return tuple(TRUTHS) if row.type is bool else row.choices


def usage(message: str, *, expected: str | None = None, advice: str | None = None) -> Exception:
    """An error of the command line; its class is loaded only here."""
    from zarrstack.core.errors import UsageError

    return UsageError(message, expected=expected, advice=advice)


def load_recipe(path: str | None) -> Recipe | None:
    """The recipe in a TOML file, if one is given; raises UsageError."""
    if path is None:
        return None
    from ..recipe.toml_file import load_recipe as load

    return load(path)


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
