"""`zarrlift model`: show, schema, validate, diff, create. Loaded for these commands only."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from . import options as o
from .option_groups import added, usage
from .recipe_options import Recipe, load_recipe
from .session import DONE, PARTLY, Answer, plain, say

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..report.blocks import Block

_HELP: Final = """Describe, compare, validate and create hierarchies by Zarr Object Models (ZEP 6).

\b
  zarrlift model show old.zarr > model.json    print the structure as JSON
  zarrlift model show old.zarr --as v3         ... as after a migration
  zarrlift model validate new.zarr model.json  check against a model
  zarrlift model diff old.zarr new.zarr        compare two structures
  zarrlift model create model.json empty.zarr  create it without values

A MODEL is a ZOM or a JSON Schema in a file (- for stdin).
"""

_MAX_JSON_LEVELS: Final = 400
"""Nesting that Python can write with indents within its recursion limit; 200 nested groups."""

app = typer.Typer(
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


AsOption: TypeAlias = Annotated[
    Literal["v3"] | None,
    typer.Option("--as", help="v3: the result of a migration; chunks are not read."),
]
Place: TypeAlias = Annotated[
    str, typer.Argument(help="An archive, or a file with a model; - for stdin.", metavar="SRC")
]
Open: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--open",
        help="A part that may have any value: shape, chunks, codecs, fill_value, keys, attributes, "
        "members. Repeatable.",
        metavar="PART",
    ),
]


@added(app, "model show", "Print the structure of a hierarchy as JSON.")
def show(
    source: Place,
    as_: AsOption = None,
    flat: Annotated[
        bool, typer.Option("--flat", help="Print one object: path -> node without members.")
    ] = False,
    consolidated: Annotated[
        bool, typer.Option("--consolidated", help="Print the consolidated metadata of the model.")
    ] = False,
    recipe_file: Recipe = None,
    *,
    reading: o.Reading,
    storage: o.SourceStorage,
    output: o.Json,
) -> Answer:
    """Print the hierarchy as a Zarr Object Model. Problems go to standard error."""
    from .. import models
    from ..formats.tree.documents import levels

    recipe = load_recipe(recipe_file)
    if flat and consolidated or (recipe is not None and as_ is None):
        raise usage("--flat and --consolidated exclude each other, and --recipe requires --as v3")
    result = models.show(
        source, recipe=recipe, migrated=as_ is not None, **reading.arguments(), **storage.arguments()
    )
    model = result.model
    if flat:
        model = models.flatten(model)
    elif consolidated:
        model = models.consolidated(model)
    whole = not flat and not consolidated
    if output.as_json and whole and levels(model) > _MAX_JSON_LEVELS:
        raise usage("the model is too deep for --json", expected="no --json: the model is JSON itself")

    def text() -> Iterable[Block]:
        from ..models.text import lines

        _print_problems(result.problems)
        return plain(lines(model) if whole else [json.dumps(model, ensure_ascii=False, indent=2)])

    problems = [problem.to_json() for problem in result.problems]
    return Answer(
        code=PARTLY if result.unread else DONE,
        text=text,
        data=lambda: {"format": result.format, "model": model, "problems": problems},
    )


@added(app, "model schema", "Write the JSON Schema of a format or of one hierarchy.")
def schema(
    source: Annotated[
        str | None,
        typer.Argument(help="An archive or model; without it, the schema of a whole format.", metavar="SRC"),
    ] = None,
    leave_open: Open = None,
    as_: Annotated[
        Literal["v2", "v3"] | None,
        typer.Option(
            "--as", help="v3: the result of a migration of SRC. Without SRC: the format; v3 by default."
        ),
    ] = None,
    *,
    reading: o.Reading,
    storage: o.SourceStorage,
) -> Answer:
    """Write a JSON Schema (draft 2020-12): of all v2 or v3 models, or of one hierarchy."""
    from .. import models
    from ..models.schemas import parts

    if source is None:
        if leave_open:
            raise usage("--open requires SRC")
        document = models.schema(zarr_format=2 if as_ == "v2" else 3)
    elif as_ == "v2":
        raise usage("--as v2 is for the schema of the whole format", expected="no SRC")
    else:
        document = models.schema(
            source,
            leave_open=parts(leave_open or ()),
            migrated=as_ is not None,
            **reading.arguments(),
            **storage.arguments(),
        )
    return Answer(code=DONE, text=lambda: plain([json.dumps(document, indent=2)]), data=lambda: document)


@added(app, "model validate", "Check archives against a model.")
def validate(
    places: Annotated[
        list[str], typer.Argument(help="Archives (or models), then the MODEL.", metavar="SRC... MODEL")
    ],
    leave_open: Open = None,
    as_: AsOption = None,
    *,
    reading: o.Reading,
    storage: o.SourceStorage,
    output: o.Json,
) -> Answer:
    """Check any number of archives against one model; every violation is listed with its path."""
    from zarrstack.core.errors import ZarrstackError

    from .. import models
    from ..models.schemas import parts
    from ..report import models as report_models

    *sources, model = places
    if not sources:
        raise usage("an archive and a model are needed", expected="SRC... MODEL")
    how = {"migrated": as_ is not None, **reading.arguments(), **storage.arguments()}
    requirement = models.load(model, leave_open=parts(leave_open or ()))
    rows: list[tuple[str, tuple[Problem, ...]]] = []
    for source in sources:
        try:
            problems = models.validate(source, requirement, **how)
        except ZarrstackError as error:
            if len(sources) == 1:
                raise
            problems = (error.problem,)
        rows.append((_without_credentials(source), problems))

    return Answer(
        code=PARTLY if any(problems for _, problems in rows) else DONE,
        text=lambda: report_models.validation(rows, model),
        data=lambda: {
            "model": model,
            "archives": [
                {"url": place, "violations": [problem.to_json() for problem in problems]}
                for place, problems in rows
            ],
        },
    )


@added(app, "model diff", "Show where two hierarchies differ in structure.")
def diff(
    first: Annotated[
        str, typer.Argument(help="An archive, or a file with a model; - for stdin.", metavar="A")
    ],
    second: Annotated[str, typer.Argument(help="The other archive or model.", metavar="B")],
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore", help="A metadata member to skip, such as codecs; repeatable.", metavar="MEMBER"
        ),
    ] = None,
    *,
    reading: o.ReadingBoth,
    storage: o.SourceStorage,
    output: o.Json,
) -> Answer:
    """Compare the structure of two hierarchies, not values, storage or format. Exit code 1 if it differs."""
    from .. import models
    from ..report import models as report_models

    differences = models.diff(
        first, second, ignore=ignore or (), **reading.arguments(), **storage.arguments()
    )
    return Answer(
        code=PARTLY if differences else DONE,
        text=lambda: report_models.differences(differences),
        data=lambda: {"differences": [difference.to_json() for difference in differences]},
    )


@added(app, "model create", "Create the hierarchy of a model, without chunks.")
def create(
    source: Annotated[
        str, typer.Argument(help="A model in a file, - for stdin, or an archive.", metavar="ZOM")
    ],
    destination: Annotated[str, typer.Argument(help="Where to create it; must be empty.", metavar="DST")],
    as_: AsOption = None,
    consolidate: Annotated[
        bool, typer.Option("--consolidate", help="Also write consolidated metadata.")
    ] = False,
    *,
    storage: o.DestinationStorage,
    output: o.Json,
) -> Answer:
    """Create groups and arrays with their metadata. The root is written last."""
    from .. import models
    from ..report import models as report_models

    result = models.create(
        source,
        destination,
        consolidate=consolidate,
        migrated=as_ is not None,
        storage_options=storage.arguments().get("dest_storage_options"),
    )
    return Answer(code=DONE, text=lambda: report_models.created(result), data=result.to_json)


def _print_problems(problems: Iterable[Problem]) -> None:
    """Print problems to standard error; standard output is for the model."""
    from ..report.blocks import Problems
    from ..report.page import Page
    from ..report.text import lines

    for line in lines([Problems.of(problems, "refused")], Page.of(sys.stderr)):
        say(line.removeprefix("  "))


def _without_credentials(place: str) -> str:
    """A place for display, without credentials in a URL."""
    from ..storage.open_storage import is_url
    from ..storage.redact import redact

    return redact(place) if is_url(place) else place
