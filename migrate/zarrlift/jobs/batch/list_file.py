"""The list of a batch: a row for each archive, which people write and change.

    {"source": "old/a.n5", "destination": "v3/a.zarr", "codecs": "zstd:5"}
    {"source": "old/b.zarr", "in_place": true}

JSON lines, or CSV with the same names as columns. Paths are relative to the folder of the list, so that the
folder can be moved. What was done with an archive is in its job, which is where `migrate` puts it.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from zarrstack.core.errors import UsageError

from ...errors import JobError
from ...recipe.changes import ARRAY_OPTIONS, WHOLE_OPTIONS
from ...recipe.options import Option, Request, require_format
from ...recipe.recipe import Recipe
from ...recipe.toml_file import load_recipe, parse_recipe
from ...storage.local.partial_files import replace_file
from ...storage.open_storage import is_url, refuse_mistyped
from ..ledger.job_places import local_path, with_local_path
from .rows import (
    RELATIVE,
    BatchRow,
    RowRequest,
    conflicts,
    new_row,
    raise_for,
    refuse_overwrite_in_place,
    refuse_secrets,
    stored,
)

_REQUEST: Final[Mapping[str, Option]] = {
    each.name: each.metadata.get("option", Option("", int)) for each in fields(Request)
}
_FLAGS: Final = {
    "consolidate",
    *(name for name, row in {**_REQUEST, **ARRAY_OPTIONS}.items() if row.type is bool),
}
_RECIPE: Final = (*WHOLE_OPTIONS, "arrays", *ARRAY_OPTIONS)
_KNOWN: Final = ("source", "destination", "recipe", *_REQUEST, *_RECIPE)
_SECRET: Final = ("storage_options", "dest_storage_options")
_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_TEMPLATE: Final = re.compile(r"\{(relative|name|parent|number)\}")


def list_text(rows: Iterable[BatchRow], folder: str, *, ascii_only: bool = True) -> str:
    """Archives as a list in a folder; "" as the folder leaves all paths absolute.

    PowerShell reads what a command prints in the encoding of the console: only ASCII survives that.
    """
    return "".join(f"{_line(row, folder, ascii_only=ascii_only)}\n" for row in rows)


def _line(row: BatchRow, folder: str, *, ascii_only: bool) -> str:
    places = {"source": row.source, "destination": row.destination}
    if row.in_place:
        del places["destination"]
    if folder:
        places = {name: stored(place, folder) for name, place in places.items()}
    line = {**places, **row.request.to_row()}
    text = json.dumps(line, ensure_ascii=ascii_only)
    # A name that is not UTF-8 (PEP 383) can only be written as escapes.
    return text if text.isascii() or not _has_surrogates(text) else json.dumps(line)


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def write_list(path: Path, rows: Iterable[BatchRow]) -> None:
    """Write a list, which appears complete, or replace one; JobError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(str(path), list_text(rows, str(path.parent), ascii_only=False).encode())
    except OSError as error:
        raise JobError("cannot write the list", key=str(path), found=error.strerror) from error


def read_list(path: str | os.PathLike[str]) -> list[BatchRow]:
    """The archives of a list, as if nothing had been done.

    Raises
    ------
    JobError
        If the file cannot be read.
    UsageError
        With all rows that are wrong.
    """
    file = Path(os.path.abspath(os.path.expanduser(os.fspath(path))))
    reading = _Reading(file)
    rows = []
    try:
        for line, given in _lines(file, _text(file)):
            try:
                rows.append(reading.row(line, given))
            except UsageError as error:
                reading.wrong(line, error)
    except ValueError as error:  # what follows cannot be read
        reading.problems.append(str(error))
    problems = reading.problems or list(conflicts(rows, lambda row: f"line {row.number}"))
    if not rows and not problems:
        problems.append("it has no rows")
    raise_for(problems, str(file))
    return rows


def _text(path: Path) -> str:
    """The text of a file in UTF-8 or UTF-16, as editors and the shells of Windows write it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise JobError(
            "cannot read the list",
            key=str(path),
            found=error.strerror,
            expected="a list of archives: JSON lines or CSV",
        ) from error
    encoding = "utf-8"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif 0 in data[:2]:  # the first letter is in ASCII
        encoding = "utf-16-be" if data[0] == 0 else "utf-16-le"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UsageError(
            "the list is not a text",
            key=str(path),
            found=f"{error.reason} at byte {error.start:,}",
            expected="UTF-8 or UTF-16",
        ) from error


def _lines(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    """(number of the line, row), with a text in place of a row that is not JSON; ValueError."""
    if path.suffix.lower() == ".csv":
        reader = csv.DictReader(io.StringIO(text.lstrip("\ufeff"), newline=""), strict=True)
        try:
            for row in reader:
                given = {name: value for name, value in row.items() if value not in (None, "")}
                if given:
                    yield reader.line_num, given
        except csv.Error as error:
            raise ValueError(f"line {reader.line_num}: not a row; found {error}; expected CSV") from error
        return
    for number, line in enumerate(text.split("\n"), 1):
        if content := line.strip("\ufeff \t\r"):  # files with marks may have been joined
            try:
                yield number, json.loads(content)
            except (ValueError, RecursionError) as error:
                yield number, str(error)


class _Reading:
    """Makes archives of the rows of a list, and collects what is wrong with them."""

    def __init__(self, file: Path) -> None:
        self.problems: list[str] = []
        self._file = file
        self._folder = str(file.parent)
        self._requests: dict[str, RowRequest] = {}
        self._recipes: dict[str, Recipe] = {}

    def wrong(self, line: int, error: UsageError) -> None:
        """Add what is wrong with a row."""
        self.problems.append(f"line {line}: {error}")

    def row(self, line: int, given: Any) -> BatchRow:
        """The archive of a row; UsageError, after others have been added to the problems."""
        if not isinstance(given, dict):
            found = given if isinstance(given, str) else repr(given)
            raise UsageError("not a row", found=f"{found:.80}", expected="a JSON object")
        members: dict[str, Any] = {}
        for name, value in given.items():
            member = "format" if name == "from" else str(name).strip().replace("-", "_")
            if member not in _KNOWN:
                self.wrong(line, _unknown(name, member))
            elif value is not None:
                members[member] = value
        name, goal = members.pop("source", None), members.pop("destination", None)
        try:
            request = self._request(members)
        except UsageError as error:
            self.wrong(line, error)
            request = RowRequest()
        source = self._place("source", name)
        if request.in_place and goal is not None:
            found = f"{goal!r:.80}"
            raise UsageError("a migration in place has no destination", key="destination", found=found)
        destination = source if request.in_place else self._place("destination", goal)
        if destination is not source and _TEMPLATE.search(destination):
            raise UsageError(
                "a row has no template",
                key="destination",
                found=goal,
                expected="the path of one archive",
                advice="zarrlift batch list replaces the fields of a template.",
            )
        return new_row(line, name, source, destination, request, self._file.parent)

    def _place(self, key: str, text: Any) -> str:
        """A place of a row, with an absolute path; UsageError."""
        if not isinstance(text, str) or not text:
            found = None if text is None else f"{text!r:.80}"
            raise UsageError(f"a {key} is needed", key=key, found=found, expected="a path or a URL")
        refuse_secrets(text, key)
        if is_url(text):
            path = local_path(text)
            if path is None or not path.startswith(RELATIVE):
                return text
            path = os.path.normpath(os.path.join(self._folder, path.removeprefix(RELATIVE)))
            return with_local_path(text, path)
        refuse_mistyped(text)
        return os.path.normpath(os.path.join(self._folder, os.path.expanduser(text)))

    def _request(self, members: dict[str, Any]) -> RowRequest:
        """What a row asks for; UsageError."""
        text = json.dumps(members) if members else ""
        if text not in self._requests:
            for name in members.keys() & _FLAGS:
                members[name] = _flag(name, members[name])
            asked = {name: _value(name, members[name]) for name in members.keys() & _REQUEST.keys()}
            request = RowRequest(recipe=self._recipe(members), **asked)
            refuse_overwrite_in_place(request)
            self._requests[text] = request
        return self._requests[text]

    def _recipe(self, members: Mapping[str, Any]) -> Recipe:
        """The recipe of a row: that of its file, changed by its other members."""
        recipe = Recipe()
        if (name := members.get("recipe")) is not None:
            if not isinstance(name, str):
                raise UsageError("not a recipe", key="recipe", found=f"{name!r:.80}", expected="a TOML file")
            if name not in self._recipes:
                self._recipes[name] = load_recipe(os.path.join(self._folder, name))
            recipe = self._recipes[name]
        own = {name: members[name] for name in _RECIPE if name in members}
        if not own:
            return recipe
        parsed = parse_recipe(own, name=str(self._file))  # a model is beside it
        base = {name: getattr(parsed.base, name) for name in own if name in ARRAY_OPTIONS}
        whole = {name: getattr(parsed, name) for name in own if name in WHOLE_OPTIONS}
        sections = (*recipe.sections, *parsed.sections)
        return replace(recipe, base=replace(recipe.base, **base), sections=sections, **whole)


def _unknown(name: object, member: str) -> UsageError:
    if name is None:
        return UsageError("more values than columns")
    if member in _SECRET:
        return UsageError(
            "a batch does not store options that may be secret",
            key=str(name),
            advice="Give --storage-options on the command line.",
        )
    near = get_close_matches(member, _KNOWN, 1)
    advice = f"Did you mean {near[0]!r}?" if near else None
    return UsageError(
        "unknown option",
        key=str(name),
        expected="source, destination, or an option of migrate",
        advice=advice,
    )


def _value(name: str, value: Any) -> Any:
    """The value of an option of a request; UsageError for one that it does not take."""
    option = _REQUEST[name]
    if option.choices and value not in option.choices:
        raise UsageError("unknown value", key=name, found=repr(value), expected=", ".join(option.choices))
    if option.type in (int, str) and type(value) is not option.type:
        kind = "a number" if option.type is int else "a text"
        raise UsageError("wrong type", key=name, found=f"{value!r:.80}", expected=kind)
    if name == "format":
        require_format(value)
    return value


def _flag(name: str, value: Any) -> bool:
    flag = value if isinstance(value, bool) else _WORDS.get(str(value).lower())
    if flag is None:
        raise UsageError("unknown value", key=name, found=repr(value), expected="true or false")
    return flag
