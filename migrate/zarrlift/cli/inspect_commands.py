"""The commands that change nothing: inspect, verify."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from . import options as o
from .option_groups import option, usage
from .recipe_options import Recipe, load_recipe
from .session import DONE, PARTLY, Answer
from .verbs import batch_of, run_verb


def inspect(
    source: Annotated[str, typer.Argument(help="The archive: a path or URL.", metavar="SRC")],
    *,
    reading: o.Reading,
    storage: o.SourceStorage,
    output: o.Output,
) -> Answer:
    """Show the content of an archive in Zarr v3 terms, and every problem found in it.

    The exit code is 1 if a migration without options would refuse a node. In a store, chunks are not listed:
    `migrate --dry-run` finds more. Of many archives, `batch run --dry-run` shows the formats and sizes.
    """
    import zarrlift

    from ..core.problems import any_refusal
    from ..report.archive import archive_json

    keywords = {**reading.arguments(), **storage.arguments()}
    archive = zarrlift.inspect(source, **keywords)
    code = PARTLY if any_refusal(archive.all_problems()) else DONE
    return Answer.of(archive, code, data=lambda: archive_json(archive))


def verify(
    source: Annotated[
        str, typer.Argument(help="The source (any archive), or the job of a migration.", metavar="SRC")
    ],
    destination: Annotated[
        str | None,
        typer.Argument(help="The result, or another archive; by default the job's result.", metavar="DST"),
    ] = None,
    *,
    only: o.Only = None,
    full: Annotated[bool, option("--full", help="Compare every value, not samples.")] = False,
    no_list: Annotated[
        bool,
        option(
            "--no-list", help="Do not compare the names and sizes of all objects first (for 10^9 objects)."
        ),
    ] = False,
    recipe_file: Recipe = None,
    options: o.Comparing,
    storage: o.ComparedStorage,
    output: o.WatchedOutput,
) -> Answer:
    """Compare source and result: structure, attributes, data types, fill values and values.

    Or any two archives, as they would be in Zarr v3: --from A,B names the formats of both.

    Of a batch: all results with their sources.
    """
    batch = None if destination is not None else batch_of(source, only, options)
    if batch is not None:
        if no_list or recipe_file is not None:
            raise usage("--no-list and --recipe are for one archive", expected="SRC and DST")
        return run_verb(batch, options, storage, output, full=full)

    import zarrlift

    with output.watched() as progress:
        report = zarrlift.verify(
            source,
            destination,
            full=full,
            no_list=no_list,
            recipe=load_recipe(recipe_file),
            progress=progress,
            **options.arguments(),
            **storage.of(source, destination),
        )
    answer = Answer.of(report, DONE if report.ok else PARTLY)
    return replace(answer, wrong=answer.text)
