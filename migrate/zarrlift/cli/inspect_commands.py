"""The commands that change nothing: inspect, plan, status, verify."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options as o
from .run_display import watched
from .session import DONE, PARTLY, Answer, Session, refused_briefly


def inspect(
    source: o.Source,
    from_: o.From = None,
    follow_links: o.FollowLinks = False,
    axes: o.AxesOption = None,
    allow_fallback: o.AllowFallback = False,
    max_document_size: o.MaxDocumentSize = None,
    storage_options: o.StorageOptions = None,
    show_all: o.All = False,
    as_json: o.Json = False,
) -> int:
    """Show what an archive holds, in Zarr v3 terms, and what is wrong with it."""

    def work() -> Answer:
        import zarrlift

        from ..report import archive as report_archive
        from ..report import json as report_json

        archive = zarrlift.inspect(
            source,
            storage_options=o.storage_options(storage_options),
            format=o.value(from_),
            follow_links=follow_links,
            axes=o.value(axes),
            allow_fallback=allow_fallback,
            max_document_size=o.size(max_document_size, "--max-document-size"),
        )
        refused = any(node.refused for node in archive.nodes)
        return Answer(
            code=PARTLY if refused else DONE,
            text=lambda page: report_archive.lines(archive, page),
            data=lambda: report_json.archive_json(archive),
            brief=lambda: refused_briefly(sum(node.refused for node in archive.nodes)),
        )

    return Session(command="inspect", json=as_json, everything=show_all).run(work)


def plan(
    source: o.Source,
    destination: o.Destination = None,
    in_place: o.InPlace = False,
    from_: o.From = None,
    follow_links: o.FollowLinks = False,
    axes: o.AxesOption = None,
    allow_fallback: o.AllowFallback = False,
    max_document_size: o.MaxDocumentSize = None,
    storage_options: o.StorageOptions = None,
    dest_storage_options: o.DestOptions = None,
    source_through: o.SourceThrough = None,
    dest_through: o.DestThrough = None,
    recipe_file: o.RecipeFile = None,
    codecs: o.Codecs = None,
    dtype: o.Dtype = None,
    clamp: o.Clamp = False,
    round_: o.Round = False,
    endian: o.EndianOption = None,
    order: o.OrderOption = None,
    key_encoding: o.KeyEncoding = None,
    separator: o.SeparatorOption = None,
    chunks: o.Chunks = None,
    shards: o.Shards = None,
    shard_index: o.ShardIndexOption = None,
    shard_index_location: o.IndexLocation = None,
    memory: o.Memory = None,
    include: o.Include = None,
    exclude: o.Exclude = None,
    drop_empty: o.DropEmpty = False,
    objects: o.ObjectsOption = None,
    allow_pickle: o.AllowPickle = False,
    attributes: o.AttributesOption = None,
    conventions: o.ConventionsOption = None,
    multiscale: o.MultiscaleOption = None,
    consolidate: o.Consolidate = None,
    model: o.ModelOption = None,
    show_all: o.All = False,
    as_json: o.Json = False,
) -> int:
    """Show what a migration would do and cost, array by array. Writes nothing."""
    given = dict(locals())

    def work() -> Answer:
        import zarrlift

        from ..report import json as report_json
        from ..report import plan as report_plan

        made = zarrlift.plan(
            source,
            destination,
            recipe=o.recipe(given),
            in_place=in_place,
            format=o.value(from_),
            storage_options=o.storage_options(storage_options),
            dest_storage_options=o.storage_options(dest_storage_options, "--dest-storage-options"),
            source_through=source_through,
            dest_through=dest_through,
            follow_links=follow_links,
            axes=o.value(axes),
            allow_fallback=allow_fallback,
            max_document_size=o.size(max_document_size, "--max-document-size"),
        )
        refused = any(problem.severity == "refusal" for problem in made.all_problems())
        return Answer(
            code=PARTLY if refused else DONE,
            text=lambda page: report_plan.lines(made, page),
            data=lambda: report_json.plan_json(made),
            brief=lambda: refused_briefly(len(made.refusals)),
        )

    return Session(command="plan", json=as_json, everything=show_all).run(work)


def status(target: o.Target, job: o.Job = None, show_all: o.All = False, as_json: o.Json = False) -> int:
    """Show how far a job is."""

    def work() -> Answer:
        import zarrlift

        from ..report import status as report_status

        found = zarrlift.status(target, job=job)
        return Answer(code=DONE, text=lambda page: report_status.lines(found, page), data=found.to_json)

    return Session(command="status", json=as_json, everything=show_all).run(work)


def verify(
    source: Annotated[str, typer.Argument(help="The source, or the job of a migration.", metavar="SRC")],
    destination: Annotated[
        str | None, typer.Argument(help="The result; found by the job if left out.", metavar="DST")
    ] = None,
    full: o.Full = False,
    job: o.Job = None,
    recipe_file: o.VerifyRecipe = None,
    from_: o.From = None,
    follow_links: o.FollowLinks = False,
    axes: o.AxesOption = None,
    allow_fallback: o.AllowFallback = False,
    max_document_size: o.MaxDocumentSize = None,
    storage_options: o.StorageOptions = None,
    dest_storage_options: o.DestOptions = None,
    show_all: o.All = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    log_file: o.LogFile = None,
) -> int:
    """Compare source and result: structure, attributes, data types, fill values and values."""

    def work() -> Answer:
        import zarrlift

        from ..jobs.progress import Ticker
        from ..report import outcome as report_outcome

        with watched(quiet=quiet, verbose=verbose, log_file=log_file) as progress, Ticker(progress):
            found = zarrlift.verify(
                source,
                destination,
                full=full,
                recipe=None if recipe_file is None else o.load_recipe(recipe_file),
                job=job,
                format=o.value(from_),
                storage_options=o.storage_options(storage_options),
                dest_storage_options=o.storage_options(dest_storage_options, "--dest-storage-options"),
                follow_links=follow_links,
                axes=o.value(axes),
                allow_fallback=allow_fallback,
                max_document_size=o.size(max_document_size, "--max-document-size"),
                progress=progress,
            )
        return Answer(
            code=DONE if found.ok else PARTLY,
            text=lambda page: report_outcome.verification_lines(found, page),
            data=found.to_json,
            brief=lambda: report_outcome.verification_brief(found),
            wrong=lambda page: report_outcome.verification_lines(found, page),
        )

    return Session(command="verify", json=as_json, quiet=quiet, everything=show_all).run(work)


def transformers(as_json: o.Json = False) -> int:
    """List the storage transformers that --source-through, --dest-through and zarrstack know."""

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

    return Session(command="transformers", json=as_json).run(work)
