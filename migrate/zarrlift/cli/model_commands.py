"""`zarrlift model`: show, schema, validate, diff, create. Loaded for these commands only."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ..core.units import count_text, safe
from ..recipe.options import Describing
from ..report import blocks as b
from .exit_codes import DONE, PARTLY
from .options import Given, usage
from .session import Answer, plain, say

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ..models.creation import Created
    from ..models.differences import Difference

_MAX_JSON_LEVELS: Final = 400
"""Nesting that Python can write with indents within its recursion limit; 200 nested groups."""
_MARKS: Final[dict[str, tuple[str, b.Tone]]] = {
    "added": ("+", "good"),
    "missing": ("-", "bad"),
    "changed": ("~", "warning"),
}


def show(given: Given) -> Answer:
    """Print the hierarchy as a Zarr Object Model. Problems go to standard error."""
    from .. import models
    from ..formats.tree.documents import levels

    recipe = given.recipe_file
    if given.flat and given.consolidated or (recipe is not None and given.as_ is None):
        raise usage("--flat and --consolidated exclude each other, and --recipe requires --as v3")
    result = models.show(
        given.source, recipe=recipe, migrated=given.as_ is not None, **given.of(Describing), **given.storage()
    )
    model = result.model
    if given.flat:
        model = models.flatten(model)
    elif given.consolidated:
        model = models.consolidated(model)
    whole = not given.flat and not given.consolidated
    if given.as_json and whole and levels(model) > _MAX_JSON_LEVELS:
        raise usage("the model is too deep for --json", expected="no --json: the model is JSON itself")

    def text() -> Iterable[b.Block]:
        from ..models.zom import text_lines

        _print_problems(result.problems)
        return plain(text_lines(model) if whole else [json.dumps(model, ensure_ascii=False, indent=2)])

    problems = [problem.to_json() for problem in result.problems]
    return Answer(
        code=PARTLY if result.unread else DONE,
        text=text,
        data=lambda: {"format": result.format, "model": model, "problems": problems},
    )


def schema(given: Given) -> Answer:
    """Write a JSON Schema (draft 2020-12): of all v2 or v3 models, or of one hierarchy."""
    from .. import models
    from ..models.schemas import parts

    if given.source is None:
        if given.leave_open:
            raise usage("--open requires SRC")
        document = models.schema(zarr_format=2 if given.as_ == "v2" else 3)
    elif given.as_ == "v2":
        raise usage("--as v2 is for the schema of the whole format", expected="no SRC")
    else:
        document = models.schema(
            given.source,
            leave_open=parts(given.leave_open or ()),
            migrated=given.as_ is not None,
            **given.of(Describing),
            **given.storage(),
        )
    return Answer(code=DONE, text=lambda: plain([json.dumps(document, indent=2)]), data=lambda: document)


def validate(given: Given) -> Answer:
    """Check any number of archives against one model; every violation is listed with its path."""
    from zarrstack.core.errors import ZarrstackError

    from .. import models
    from ..models.schemas import parts

    *sources, model = given.places
    if not sources:
        raise usage("an archive and a model are needed", expected="SRC... MODEL")
    how = {"migrated": given.as_ is not None, **given.of(Describing), **given.storage()}
    requirement = models.load(model, leave_open=parts(given.leave_open or ()))
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
        text=lambda: _validation(rows, model),
        data=lambda: {
            "model": model,
            "archives": [
                {"url": place, "violations": [problem.to_json() for problem in problems]}
                for place, problems in rows
            ],
        },
    )


def diff(given: Given) -> Answer:
    """Compare the structure of two hierarchies, not values, storage or format. Exit code 1 if it differs."""
    from .. import models

    differences = models.diff(
        given.first, given.second, ignore=given.ignore or (), **given.of(Describing), **given.storage()
    )
    return Answer(
        code=PARTLY if differences else DONE,
        text=lambda: _differences(differences),
        data=lambda: {"differences": [difference.to_json() for difference in differences]},
    )


def create(given: Given) -> Answer:
    """Create groups and arrays with their metadata. The root is written last."""
    from .. import models

    result = models.create(
        given.source,
        given.destination,
        consolidate=given.consolidate,
        migrated=given.as_ is not None,
        storage_options=given.storage().get("dest_storage_options"),
    )
    return Answer(code=DONE, text=lambda: _created(result), data=result.to_json)


def _validation(rows: Sequence[tuple[str, Sequence[Problem]]], model: str) -> Iterator[b.Block]:
    """All violations of all archives, one per line; then the number of conforming archives."""
    for place, problems in rows:
        result = count_text(len(problems), "violation") if problems else "conforms"
        yield b.Lines((f"{safe(place)}: {result}",), indent=0, tone="bad" if problems else "good")
        yield _unbroken(problems)
    if len(rows) > 1:
        good = sum(not problems for _, problems in rows)
        yield b.Text(f"{count_text(good)} of {count_text(len(rows), 'archive')} conform to {safe(model)}.")


def _differences(all_differences: Sequence[Difference]) -> Iterator[b.Block]:
    """All differences, one per line, then their number."""
    for difference in all_differences:
        mark, tone = _MARKS[difference.what]
        yield b.Lines((f"{mark} {safe(str(difference))}",), indent=0, tone=tone)
    if not all_differences:
        yield b.Text("The structures are equal.")
        return
    counts = {what: sum(difference.what == what for difference in all_differences) for what in _MARKS}
    words = ", ".join(f"{count_text(count)} {what}" for what, count in counts.items() if count)
    yield b.Text(f"{count_text(len(all_differences), 'difference')}: {words}.")


def _created(result: Created) -> Iterator[b.Block]:
    """The created nodes, and warnings."""
    what = f"{count_text(result.groups, 'group')} and {count_text(result.arrays, 'array')}"
    yield b.Text(f"Created {safe(result.url)}: {what}, no chunks.", hang=2)
    yield _unbroken(result.problems)


def _unbroken(problems: Iterable[Problem]) -> b.Block:
    """One searchable line per problem."""
    return b.Lines([safe(str(problem)) for problem in problems])


def _print_problems(problems: Iterable[Problem]) -> None:
    """Print problems to standard error; standard output is for the model."""
    from ..report.text import Page, lines

    for line in lines([b.Problems.of(problems, "refused")], Page.of(sys.stderr)):
        say(line.removeprefix("  "))


def _without_credentials(place: str) -> str:
    """A place for display, without credentials in a URL."""
    from ..storage.open_storage import is_url
    from ..storage.redact import redact

    return redact(place) if is_url(place) else place
