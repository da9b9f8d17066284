"""The commands that change nothing: inspect, verify, list."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from . import options as o
from .option_groups import Group, option, usage
from .recipe_options import Recipe, load_recipe
from .session import DONE, PARTLY, Answer, plain
from .verbs import batch_of, run_verb


class Census(Group):
    """How many archives are assessed."""

    heading = "Output"

    no_list: Annotated[
        bool, option("--no-list", help="Many archives: do not list chunks; no amounts, no cost.")
    ] = False
    rate: Annotated[
        str | None,
        option(
            "--rate", help="Many archives: bytes per second, for the time, such as 200MB/s.", metavar="RATE"
        ),
    ] = None
    recipe: Recipe = None

    def wanted(self, source: str, reading: dict[str, Any]) -> bool:
        """Whether these options, or what is in a place, ask for a census."""
        has_options = bool(self.given())
        if has_options and "format" in reading:
            raise usage("--from is for one archive, the options of a census are for many")
        if has_options or "format" in reading:
            return has_options
        from zarrstack.core.errors import ZarrstackError

        from ..formats.globs import divided
        from ..formats.search import is_tree
        from ..storage.open_storage import open_storage

        if divided(source)[1] is not None:
            return True
        options = reading.get("storage_options")
        try:
            return is_tree(source, open_storage(source, storage_options=options), storage_options=options)
        except ZarrstackError:
            return False  # `inspect` raises it again

    def arguments(self) -> dict[str, Any]:
        """Arguments of `census`."""
        from zarrstack.core.sizes import parse_rate

        rate = None if self.rate is None else parse_rate(self.rate)
        if self.rate is not None and not rate:
            raise usage(f"--rate is not a rate: {self.rate}", expected="such as 200MB/s")
        return {"listing": not self.no_list, "rate": rate, "recipe": load_recipe(self.recipe)}


def inspect(
    source: Annotated[
        str,
        typer.Argument(
            help="The archive, or a folder, prefix or glob with many: a path or URL.", metavar="SRC"
        ),
    ],
    html: o.Html = None,
    *,
    reading: o.Reading,
    storage: o.SourceStorage,
    census: Census,
    output: o.Output,
) -> Answer:
    """Show the content of an archive in Zarr v3 terms, and every problem found in it.

    The exit code is 1 if a migration without options would refuse a node. In a store, chunks are not listed:
    `migrate --dry-run` finds more.

    For a folder, a store prefix or a glob with many archives: a census of what they contain, and of what a
    migration of all would do and cost.
    """
    import zarrlift

    from ..core.problems import any_refusal
    from ..report.archive import archive_json

    keywords = {**reading.arguments(), **storage.arguments()}
    if census.wanted(source, keywords):
        return _census(source, {**keywords, **census.arguments()}, html)
    archive = zarrlift.inspect(source, **keywords)
    if html is not None:
        from ..report.html.pages import page_of
        from ..report.html.rendering import write_page

        write_page(html, page_of(source, **keywords))
    code = PARTLY if any_refusal(archive.all_problems()) else DONE
    return Answer.of(archive, code, data=lambda: archive_json(archive))


def _census(source: str, keywords: dict[str, Any], html: str | None) -> Answer:
    import zarrlift

    from .run_display import counted

    with counted("archives") as count:
        result = zarrlift.census(source, **keywords, progress=count)
    if html is not None:
        from ..report.html.pages import census_page
        from ..report.html.rendering import write_page

        write_page(html, census_page(result))
    return Answer.of(result, DONE if result.complete else PARTLY)


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


def list_(
    what: Annotated[
        Literal["readers", "layers", "formats", "executors"],
        typer.Argument(help="What is listed.", metavar="readers|layers|formats|executors"),
    ],
    names: Annotated[
        str | None,
        typer.Argument(help="Readers, such as gdal,xarray or 'gdal 3.10'; all by default.", metavar="NAMES"),
    ] = None,
    feature: Annotated[
        str | None,
        option("--feature", help="Readers: only features with this in their name.", metavar="TEXT"),
    ] = None,
    *,
    output: o.Json,
) -> Answer:
    """List what can be named: readers and what they can read of a result, layers, formats, executors.

    `migrate --dry-run` shows for an archive who can read its result, and --for adapts a result to the readers
    that it names. Layers are the storage transformers for --source-through, --dest-through and zarrstack.
    """
    if what != "readers" and (names is not None or feature is not None):
        raise usage("NAMES and --feature are for readers", expected=f"list {what}")
    if what == "readers":
        from ..report import readers as report_readers

        which, features = report_readers.chosen(names, feature)
        return Answer(
            code=DONE,
            text=lambda: report_readers.blocks(which, features),
            data=lambda: report_readers.data(which, features),
        )
    if what == "layers":
        return _layers()
    from ..recipe.format_names import known_names
    from ..transfer.executors.choice import known_executors

    known = list(known_names() if what == "formats" else known_executors())
    return Answer(code=DONE, text=lambda: plain(known), data=lambda: {what: known})


def _layers() -> Answer:
    from dataclasses import asdict

    from zarrstack.base.registry import registered

    from ..report import readers as report_readers

    layers = registered()
    return Answer(
        code=PARTLY if any(layer.problem for layer in layers) else DONE,
        text=lambda: report_readers.layers(layers),
        data=lambda: {"transformers": [asdict(layer) for layer in layers]},
    )
