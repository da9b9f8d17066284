"""The commands that make changes: migrate, resume, finish, undo."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from . import options as o
from .choices import Check, Link
from .run_display import watched
from .session import DONE, PARTLY, Answer, Session


def migrate(
    source: o.Source,
    destination: o.Destination = None,
    in_place: o.InPlace = False,
    from_: o.From = None,
    job: o.Job = None,
    overwrite: o.Overwrite = False,
    take_over: o.TakeOver = False,
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
    workers: o.Workers = None,
    processes: o.Processes = False,
    verify: o.Verify = Check.SAMPLE,
    fsync: o.Fsync = False,
    link: o.LinkOption = Link.AUTO,
    show_all: o.All = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    log_file: o.LogFile = None,
) -> int:
    """Migrate an archive to DST, or --in-place. The source is never changed, only added to in place."""
    given = dict(locals())

    def work(progress: Any) -> Any:
        import zarrlift

        _check_places(destination, in_place=in_place)
        return zarrlift.migrate(
            source,
            destination,
            recipe=o.recipe(given),
            in_place=in_place,
            format=o.value(from_),
            job=job,
            workers=workers,
            processes=processes,
            verify=verify.value,
            fsync=fsync,
            link=link.value,
            overwrite=overwrite,
            take_over=take_over,
            follow_links=follow_links,
            axes=o.value(axes),
            allow_fallback=allow_fallback,
            max_document_size=o.size(max_document_size, "--max-document-size"),
            storage_options=o.storage_options(storage_options),
            dest_storage_options=o.storage_options(dest_storage_options, "--dest-storage-options"),
            source_through=source_through,
            dest_through=dest_through,
            progress=progress,
        )

    session = Session(command="migrate", json=as_json, quiet=quiet, everything=show_all)
    watching = watched(quiet=quiet, verbose=verbose, log_file=log_file)
    return _moving(session, work, target=destination or source, job=job, watching=watching)


def resume(
    target: o.Target,
    job: o.Job = None,
    source: o.MovedSource = None,
    destination: o.MovedDestination = None,
    take_over: o.TakeOver = False,
    workers: o.Workers = None,
    processes: o.Processes = False,
    verify: o.VerifyAgain = None,
    fsync: o.Fsync = False,
    storage_options: o.StorageOptions = None,
    dest_storage_options: o.DestOptions = None,
    show_all: o.All = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    log_file: o.LogFile = None,
) -> int:
    """Go on with a migration that was interrupted or had failures."""

    def work(progress: Any) -> Any:
        import zarrlift

        return zarrlift.resume(
            target,
            source=source,
            destination=destination,
            take_over=take_over,
            workers=workers,
            processes=processes,
            verify=o.value(verify),
            fsync=fsync,
            storage_options=o.storage_options(storage_options),
            dest_storage_options=o.storage_options(dest_storage_options, "--dest-storage-options"),
            job=job,
            progress=progress,
        )

    session = Session(command="resume", json=as_json, quiet=quiet, everything=show_all)
    watching = watched(quiet=quiet, verbose=verbose, log_file=log_file)
    return _moving(session, work, target=target, job=job, watching=watching)


def undo(
    target: o.Target,
    job: o.Job = None,
    take_over: o.TakeOver = False,
    storage_options: o.StorageOptions = None,
    dest_storage_options: o.DestOptions = None,
    show_all: o.All = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Take a migration back: delete what the job wrote, restore what `finish` deleted."""

    def work(_progress: Any) -> Any:
        import zarrlift

        return zarrlift.undo(
            target,
            job=job,
            take_over=take_over,
            storage_options=o.storage_options(storage_options),
            dest_storage_options=o.storage_options(dest_storage_options, "--dest-storage-options"),
        )

    session = Session(command="undo", json=as_json, quiet=quiet, everything=show_all)
    return _moving(session, work, target=target, job=job)


def finish(
    target: o.Target,
    job: o.Job = None,
    take_over: o.TakeOver = False,
    storage_options: o.StorageOptions = None,
    show_all: o.All = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Delete the legacy metadata after a verified migration in place; the job file keeps a copy."""

    def work(_progress: Any) -> Any:
        import zarrlift

        return zarrlift.finish(
            target, job=job, take_over=take_over, storage_options=o.storage_options(storage_options)
        )

    session = Session(command="finish", json=as_json, quiet=quiet, everything=show_all)
    return _moving(session, work, target=target, job=job)


def _check_places(destination: str | None, *, in_place: bool) -> None:
    from zarrstack.core.errors import UsageError

    if destination is None and not in_place:
        raise UsageError("nothing says where the result goes", expected="a destination, or --in-place")
    if destination is not None and in_place:
        raise UsageError("a migration goes to a destination or happens in place, not both", found=destination)


def _moving(
    session: Session,
    work: Callable[[Any], Any],
    *,
    target: str,
    job: str | None,
    watching: AbstractContextManager[Any] = nullcontext(),  # noqa: B008 - it does nothing
) -> int:
    """Run work that returns an Outcome, with progress, and with advice if it is interrupted."""
    from ..report import outcome as report_outcome

    def go_on(known: tuple[str, ...] | None) -> str:
        import zarrlift
        from zarrstack.core.errors import ZarrstackError

        try:
            if known is None:
                status = zarrlift.status(target, job=job)
                known = (status.job, *status.options)
        except ZarrstackError:
            return "No job had been started yet; run the same command again."
        again = session.command if session.command in ("undo", "finish") else "resume"
        return f"Go on with: {report_outcome.command(again, *known)}"

    def answer() -> Answer:
        with watching as progress:
            outcome = work(progress)
        return Answer(
            code=DONE if outcome.ok else PARTLY,
            text=lambda page: report_outcome.lines(outcome, page),
            data=outcome.to_json,
            problems=lambda page: report_outcome.problem_lines(outcome, page),
            brief=lambda: report_outcome.brief_lines(outcome),
            wrong=lambda page: report_outcome.whole(outcome, page),
        )

    session.how_to_go_on = go_on
    return session.run(answer)
