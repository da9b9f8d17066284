"""`zarrlift model`: show, schema, validate, diff, create. Loaded for these commands only."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from . import options as o
from .session import DONE, PARTLY, Answer, Session, say

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..report.page import Page

_HELP: Final = """Describe, compare, check and make hierarchies by Zarr Object Models (ZEP 6).

\b
  zarrlift model show old.zarr > model.json        its structure, as JSON
  zarrlift model show old.zarr --as v3             what migration would make of it
  zarrlift model validate new.zarr model.json      is it so?
  zarrlift model diff old.zarr new.zarr            where do they differ?
  zarrlift model create model.json empty.zarr      the same hierarchy without values

\b
A MODEL is a ZOM or a JSON Schema in a file (- for stdin), or a Python type, module:Name.
"""

_MOST_JSON_LEVELS: Final = 400
"""Nesting that Python can write with indents within its recursion limit; 200 nested groups."""

app = typer.Typer(
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


class As(StrEnum):
    """Formats in which an archive is shown."""

    V3 = "v3"


class ZarrFormat(StrEnum):
    """Formats of models."""

    V2 = "2"
    V3 = "3"


AsOption: TypeAlias = Annotated[
    As | None, typer.Option("--as", help="v3: what migration would make of it; chunks are not looked at.")
]
Place: TypeAlias = Annotated[
    str, typer.Argument(help="An archive, or a file with a model; - for stdin.", metavar="SRC")
]
Open: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--open",
        help="Leave a part open: shape, chunks, codecs, fill_value, keys, attributes, members. Repeatable.",
        metavar="PART",
    ),
]


def _reading(
    as_: As | None,
    from_: Any,
    follow_links: bool,
    axes: Any,
    allow_fallback: bool,
    max_document_size: str | None,
    storage_options: list[str] | None,
) -> dict[str, Any]:
    """Arguments of `zarrlift.models.show` for reading an archive."""
    return {
        "migrated": as_ is not None,
        "format": o.value(from_),
        "follow_links": follow_links,
        "axes": o.value(axes),
        "allow_fallback": allow_fallback,
        "max_document_size": o.size(max_document_size, "--max-document-size"),
        "storage_options": o.storage_options(storage_options),
    }


@app.command(short_help="Print the structure of a hierarchy as JSON.")
def show(
    source: Place,
    as_: AsOption = None,
    flat: Annotated[bool, typer.Option("--flat", help="One object: path -> node without members.")] = False,
    consolidated: Annotated[
        bool, typer.Option("--consolidated", help="The consolidated metadata that follows from the model.")
    ] = False,
    recipe_file: o.ViewRecipe = None,
    from_: o.From = None,
    follow_links: o.FollowLinks = False,
    axes: o.AxesOption = None,
    allow_fallback: o.AllowFallback = False,
    max_document_size: o.MaxDocumentSize = None,
    storage_options: o.StorageOptions = None,
    as_json: o.Json = False,
) -> int:
    """Print the hierarchy as a Zarr Object Model. Problems go to standard error."""

    def work() -> Answer:
        from .. import models
        from ..formats.tree.documents import levels

        reading = _reading(as_, from_, follow_links, axes, allow_fallback, max_document_size, storage_options)
        recipe = None if recipe_file is None else o.load_recipe(recipe_file)
        if flat and consolidated or (recipe is not None and as_ is None):
            raise _usage("--flat or --consolidated, and --recipe with --as v3")
        found = models.show(source, recipe=recipe, **reading)
        model = found.model
        if flat:
            model = models.flatten(model)
        elif consolidated:
            model = models.consolidated(model)
        whole = not flat and not consolidated
        if as_json and whole and levels(model) > _MOST_JSON_LEVELS:
            raise _usage("the model is too deep for --json", expected="no --json: the model is JSON itself")

        def text(_page: Page) -> Iterable[str]:
            from ..models.text import lines

            _tell(found.problems)
            return lines(model) if whole else iter((json.dumps(model, ensure_ascii=False, indent=2),))

        problems = [problem.to_json() for problem in found.problems]
        return Answer(
            code=PARTLY if found.unread else DONE,
            text=text,
            data=lambda: {"format": found.format, "model": model, "problems": problems},
        )

    return Session(command="model show", json=as_json).run(work)


@app.command(short_help="Write the JSON Schema of a format or of one hierarchy.")
def schema(
    source: Annotated[
        str | None, typer.Argument(help="An archive or model; left out: all of a format.", metavar="SRC")
    ] = None,
    zarr_format: Annotated[
        ZarrFormat | None, typer.Option("--format", help="Without SRC: the format; 3 if not given.")
    ] = None,
    leave_open: Open = None,
    as_: AsOption = None,
    from_: o.From = None,
    follow_links: o.FollowLinks = False,
    axes: o.AxesOption = None,
    allow_fallback: o.AllowFallback = False,
    max_document_size: o.MaxDocumentSize = None,
    storage_options: o.StorageOptions = None,
) -> int:
    """Write a JSON Schema (draft 2020-12): of all v2 or v3 models, or of exactly this hierarchy."""

    def work() -> Answer:
        from .. import models
        from ..models.schemas import parts

        if source is None:
            if leave_open or as_ is not None:
                raise _usage("--open and --as are about one hierarchy", expected="SRC before them")
            made = models.schema(format=2 if zarr_format == ZarrFormat.V2 else 3)
        else:
            if zarr_format is not None:
                raise _usage("a hierarchy has its own format", expected="no --format, or no SRC")
            reading = _reading(
                as_, from_, follow_links, axes, allow_fallback, max_document_size, storage_options
            )
            made = models.schema(source, leave_open=parts(leave_open or ()), **reading)
        return Answer(code=DONE, text=lambda _: (json.dumps(made, indent=2),), data=lambda: made)

    return Session(command="model schema").run(work)


@app.command(short_help="Check archives against a model.")
def validate(
    places: Annotated[
        list[str], typer.Argument(help="Archives (or models), then the MODEL.", metavar="SRC... MODEL")
    ],
    leave_open: Open = None,
    as_: AsOption = None,
    from_: o.From = None,
    follow_links: o.FollowLinks = False,
    axes: o.AxesOption = None,
    allow_fallback: o.AllowFallback = False,
    max_document_size: o.MaxDocumentSize = None,
    storage_options: o.StorageOptions = None,
    as_json: o.Json = False,
) -> int:
    """Check any number of archives against one model; every violation is listed with its path."""

    def work() -> Answer:
        from .. import models
        from ..models.schemas import parts
        from ..report import models as report_models

        *sources, model = places
        if not sources:
            raise _usage("an archive and a model are needed", expected="SRC... MODEL")
        reading = _reading(as_, from_, follow_links, axes, allow_fallback, max_document_size, storage_options)
        requirement = models.load(model, leave_open=parts(leave_open or ()))
        if len(sources) == 1:
            rows = [(_shown(sources[0]), models.validate(sources[0], requirement, **reading))]
        else:
            checked = models.validate_many(sources, requirement, **reading)
            rows = [(_shown(str(place)), problems) for place, problems in checked]

        def text(page: Page) -> Iterator[str]:
            _tell(requirement.notes)
            yield from report_models.validation_lines(rows, model, page)

        return Answer(
            code=PARTLY if any(problems for _, problems in rows) else DONE,
            text=text,
            data=lambda: {
                "model": model,
                "archives": [
                    {"url": place, "violations": [problem.to_json() for problem in problems]}
                    for place, problems in rows
                ],
            },
        )

    return Session(command="model validate", json=as_json).run(work)


@app.command(short_help="Show where two hierarchies differ in structure.")
def diff(
    first: Annotated[
        str, typer.Argument(help="An archive, or a file with a model; - for stdin.", metavar="A")
    ],
    second: Annotated[str, typer.Argument(help="The other one.", metavar="B")],
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", help="A member to pass over, such as codecs; repeatable.", metavar="MEMBER"),
    ] = None,
    follow_links: o.FollowLinks = False,
    axes: o.AxesOption = None,
    allow_fallback: o.AllowFallback = False,
    max_document_size: o.MaxDocumentSize = None,
    storage_options: o.BothOptions = None,
    as_json: o.Json = False,
) -> int:
    """Compare structure: values, storage and formats aside. Exit code 1 if they differ."""

    def work() -> Answer:
        from .. import models
        from ..report import models as report_models

        reading = _reading(None, None, follow_links, axes, allow_fallback, max_document_size, storage_options)
        found = models.diff(first, second, ignore=ignore or (), **reading)
        return Answer(
            code=PARTLY if found else DONE,
            text=lambda page: report_models.difference_lines(found, page),
            data=lambda: {"differences": [difference.to_json() for difference in found]},
        )

    return Session(command="model diff", json=as_json).run(work)


@app.command(short_help="Make the hierarchy of a model, without chunks.")
def create(
    source: Annotated[
        str, typer.Argument(help="A model in a file, - for stdin, or an archive.", metavar="ZOM")
    ],
    destination: Annotated[str, typer.Argument(help="Where; nothing may be there yet.", metavar="DST")],
    as_: AsOption = None,
    consolidate: Annotated[
        bool, typer.Option("--consolidate", help="Write consolidated metadata too.")
    ] = False,
    dest_storage_options: o.DestOptions = None,
    as_json: o.Json = False,
) -> int:
    """Make groups and arrays with their metadata. The root comes last: it appears whole or not at all."""

    def work() -> Answer:
        from .. import models
        from ..report import models as report_models

        made = models.create(
            source,
            destination,
            consolidate=consolidate,
            migrated=as_ is not None,
            storage_options=o.storage_options(dest_storage_options, "--dest-storage-options"),
        )
        return Answer(code=DONE, text=lambda page: report_models.created_lines(made, page), data=made.to_json)

    return Session(command="model create", json=as_json).run(work)


def run(words: list[str]) -> int:
    """Run one command of `zarrlift model`; command line errors are raised as typer raises them."""
    command = typer.main.get_command(app)
    done = command.main(args=words, prog_name="zarrlift model", standalone_mode=False)
    return int(done or DONE)


def _tell(problems: Iterable[Problem]) -> None:
    """Print problems to standard error; standard output is for the model."""
    from ..report import problems as report_problems
    from ..report.page import Page

    shown = tuple(problems)
    for line in report_problems.lines(shown, Page.of(sys.stderr), refusal="refused") if shown else ():
        say(line.removeprefix("  "))


def _shown(place: str) -> str:
    """A place for display, without credentials in a URL."""
    from ..storage.open_storage import is_url
    from ..storage.redact import redact

    return redact(place) if is_url(place) else place


def _usage(message: str, *, expected: str | None = None) -> Exception:
    from zarrstack.core.errors import UsageError

    return UsageError(message, expected=expected)
