"""The commands that change nothing: inspect, plan, status, verify, digest, transformers, readers."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from . import options as o
from .assess_options import Assessing, DigestFile, HtmlFile, NoList, SearchedSource
from .job_options import JobFile, Parts, PlannedJob, Virtual, Watch
from .option_groups import option
from .option_values import usage
from .recipe_options import RecipeOptions, VerifyRecipe, load_recipe
from .session import DONE, PARTLY, Answer, refused_briefly


def inspect(
    source: SearchedSource,
    html: HtmlFile = None,
    *,
    reading: o.Reading,
    assessing: Assessing,
    output: o.Output,
) -> int:
    """Show the content of an archive in Zarr v3 terms, and every problem found in it.

    The exit code is 1 if a migration without options would refuse a node. In a store, chunks are not listed:
    `plan` finds more.

    For a folder, a store prefix or a glob with many archives: a census of what they contain, and of what a
    migration of all would do and cost.
    """

    def work() -> Answer:
        import zarrlift
        from zarrstack.core.errors import any_refusal

        from ..report import archive as report_archive
        from ..report import json as report_json

        if assessing.wanted(source, reading):
            return _census(source, reading, assessing, html)
        archive = zarrlift.inspect(source, **reading.arguments())
        if html is not None:
            from ..report.html.archive_page import page_of
            from ..report.html.rendering import write_page

            write_page(html, page_of(source, **reading.arguments()))
        refused = sum(node.refused for node in archive.nodes)
        return Answer(
            code=PARTLY if any_refusal(archive.all_problems()) else DONE,
            text=lambda page: report_archive.lines(archive, page),
            data=lambda: report_json.archive_json(archive),
            brief=lambda: refused_briefly(refused),
        )

    return output.session("inspect").run(work)


def _census(source: str, reading: o.Reading, assessing: Assessing, html: str | None) -> Answer:
    import zarrlift

    from ..report import census as report_census
    from .run_display import counted

    arguments = reading.arguments()
    arguments.pop("format")
    with counted("archives") as count:
        found = zarrlift.census(source, **arguments, **assessing.arguments(), progress=count)
    if html is not None:
        from ..report.html.census_page import census_page
        from ..report.html.rendering import write_page

        write_page(html, census_page(found))
    return Answer(
        code=DONE if found.complete else PARTLY,
        text=lambda page: report_census.lines(found, page),
        data=found.to_json,
        brief=lambda: report_census.brief_lines(found),
    )


def plan(
    source: o.Source,
    destination: o.Destination = None,
    *,
    writing: o.Writing,
    virtual: Virtual = False,
    reading: o.Reading,
    recipe: RecipeOptions,
    job: PlannedJob = None,
    parts: Parts = None,
    digest: o.Digest = False,
    link: o.LinkOption = "auto",
    output: o.Output,
) -> int:
    """Show what a migration would do and cost, array by array.

    Writes nothing, except for --job with --parts: they create a job, whose parts `migrate` does in any order
    and on any machine, and `gather` publishes.
    """

    def work() -> Answer:
        import zarrlift

        from ..report import json as report_json
        from ..report import plan as report_plan

        arguments: dict[str, Any] = {
            "recipe": recipe.recipe(),
            **writing.arguments(),
            **reading.arguments(),
        }
        if job is None and parts is None:
            if digest or link != "auto":
                raise usage("--digest and --link are for a job", expected="--job and --parts too")
            made = zarrlift.plan(source, destination, virtual=virtual, **arguments)
        elif job is None or parts is None:
            raise usage("--job and --parts are given together", expected="both, or neither")
        elif virtual:
            raise usage("references are written in one run, not in parts", expected="--virtual without --job")
        else:
            arguments |= {"job": job, "parts": parts, "digest": digest, "link": link}
            made = zarrlift.plan_parts(source, destination, **arguments)
        refused = any(problem.severity == "refusal" for problem in made.all_problems())
        return Answer(
            code=PARTLY if refused else DONE,
            text=lambda page: report_plan.lines(made, page, job=job),
            data=lambda: report_json.plan_json(made),
            brief=lambda: refused_briefly(len(made.refusals)),
        )

    return output.session("plan").run(work)


def status(target: o.Target, *, watch: Watch = False, job: JobFile, output: o.Output) -> int:
    """Show the progress of a job.

    With --watch until it ends: exit code 0 if everything is done, 1 if not, 130 after Ctrl-C.
    """

    def work() -> Answer:
        import zarrlift

        from ..report import status as report_status

        def ask() -> Any:
            return zarrlift.status(target, **job.arguments())

        code = DONE
        if watch:
            from . import watching

            stream = sys.stderr if output.as_json else sys.stdout
            found = watching.watch(ask, stream, watching.a_job(), everything=output.show_all)
            code = DONE if found.state in ("done", "finished") else PARTLY
        else:
            found = ask()
        return Answer(code=code, text=lambda page: report_status.lines(found, page), data=found.to_json)

    session = output.session("status")
    session.how_to_continue = lambda _: "The job is not affected."
    return session.run(work)


def verify(
    source: Annotated[str, typer.Argument(help="The source, or the job of a migration.", metavar="SRC")],
    destination: Annotated[
        str | None, typer.Argument(help="The result; by default that of the job.", metavar="DST")
    ] = None,
    *,
    full: o.Full = False,
    no_list: NoList = False,
    digests: DigestFile = None,
    job: JobFile,
    recipe_file: VerifyRecipe = None,
    reading: o.Reading,
    storage: o.DestinationStorage,
    executing: o.Executing,
    output: o.WatchedOutput,
) -> int:
    """Compare source and result: structure, attributes, data types, fill values and values."""

    def work() -> Answer:
        import zarrlift

        from ..report import outcome as report_outcome

        with output.watched() as progress:
            found = zarrlift.verify(
                source,
                destination,
                full=full,
                no_list=no_list,
                digests=digests,
                recipe=load_recipe(recipe_file),
                progress=progress,
                **job.arguments(),
                **reading.arguments(),
                **storage.arguments(),
                **executing.arguments(),
            )
        return Answer(
            code=DONE if found.ok else PARTLY,
            text=lambda page: report_outcome.verification_lines(found, page),
            data=found.to_json,
            brief=lambda: report_outcome.verification_brief(found),
            wrong=lambda page: report_outcome.verification_lines(found, page),
        )

    return output.session("verify").run(work)


def digest(
    source: Annotated[str, typer.Argument(help="An archive, or a job file.", metavar="SRC")],
    *,
    output_file: Annotated[
        str | None,
        option("--output", "-o", help="Write the digests to a file, for verify --digest.", metavar="FILE"),
    ] = None,
    reading: o.Reading,
    output: o.WatchedOutput,
) -> int:
    """Compute a digest of the values of each array, which does not depend on how they are stored."""

    def work() -> Answer:
        import zarrlift

        from ..jobs.digests import write_digests
        from ..report import digest as report_digest

        with output.watched() as progress:
            found = zarrlift.digest(source, progress=progress, **reading.arguments())
        if output_file is not None:
            write_digests(found, output_file)
        return Answer(
            code=PARTLY if found.problems else DONE,
            text=lambda page: report_digest.lines(found, page),
            data=found.to_json,
            brief=lambda: report_digest.brief(found),
        )

    return output.session("digest").run(work)


def transformers(output: o.Json) -> int:
    """List the storage transformers for --source-through, --dest-through and zarrstack."""

    def work() -> Answer:
        from dataclasses import asdict

        from zarrstack.base.registry import registered

        from ..report import transformers as report_transformers

        layers = registered()
        return Answer(
            code=PARTLY if any(layer.problem for layer in layers) else DONE,
            text=lambda page: report_transformers.lines(layers, page),
            data=lambda: {"transformers": [asdict(layer) for layer in layers]},
        )

    return output.session("transformers").run(work)


def readers(
    names: Annotated[
        str | None,
        typer.Argument(help="Readers, such as gdal,xarray or 'gdal 3.10'; all by default.", metavar="NAMES"),
    ] = None,
    feature: Annotated[
        str | None, option("--feature", help="Only features with this in their name.", metavar="TEXT")
    ] = None,
    *,
    output: o.Json,
) -> int:
    """Show who can read what of a result: data types, codecs, shards, keys and names, by reader.

    `plan` shows the same for an archive, and --for adapts a result to the readers that it names.
    """

    def work() -> Answer:
        from ..report import readers as report_readers

        which, features = report_readers.chosen(names, feature)
        return Answer(
            code=DONE,
            text=lambda page: report_readers.lines(page, readers=which, features=features),
            data=lambda: report_readers.data(which, features),
        )

    return output.session("readers").run(work)
