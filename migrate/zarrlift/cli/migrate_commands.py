"""The commands that make changes: migrate, resume, gather, finish, undo."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ..recipe.options import VerifyLevel
from . import option_values as values
from . import options as o
from .job_options import JobFile, OptionalSource, Part, Virtual
from .recipe_options import RecipeOptions
from .reference_options import OF_PLACES
from .session import DONE, PARTLY, Answer


def migrate(
    source: OptionalSource = None,
    destination: o.Destination = None,
    *,
    writing: o.Writing,
    virtual: Virtual = False,
    job: JobFile,
    overwrite: o.Overwrite = False,
    take_over: o.TakeOver = False,
    reading: o.Reading,
    recipe: RecipeOptions,
    running: o.Running,
    verify: o.Verify = "sample",
    digest: o.Digest = False,
    link: o.LinkOption = "auto",
    part: Part = None,
    output: o.ObservedOutput,
) -> int:
    """Migrate an archive to DST, or --in-place, which only adds files to the source.

    With --job and --part, do one part of a job.

    \b
    zarrlift migrate old.zarr new.zarr
    zarrlift migrate s3://bucket/scan.n5 scan.zarr --codecs zstd:3 --shards auto
    """  # noqa: D301 - \b is the character that keeps the lines of a paragraph apart
    if part is not None:
        others = [source, destination, virtual, overwrite, take_over, digest, link != "auto", recipe.given()]
        others.append((reading.given() | writing.given()) - OF_PLACES)
        given = {**vars(reading), **vars(writing)}
        storage = o.JobStorage(**{name: given[name] for name in OF_PLACES})
        return _migrate_part(
            part, job, any(others), verify=verify, running=running, storage=storage, output=output
        )

    def work(progress: Any) -> Any:
        import zarrlift

        if source is None:
            raise values.usage("a source is needed", expected="SRC, or --job with --part")
        _check_places(destination, in_place=writing.in_place)
        return zarrlift.migrate(
            source,
            destination,
            recipe=recipe.recipe(),
            verify=verify,
            virtual=virtual,
            digest=digest,
            link=link,
            overwrite=overwrite,
            take_over=take_over,
            progress=progress,
            **output.observers(),
            **job.arguments(),
            **writing.arguments(),
            **reading.arguments(),
            **running.arguments(),
        )

    return moving("migrate", output, work, target=destination or source or "", job=job)


def _migrate_part(
    part: str,
    job: JobFile,
    others: bool,
    *,
    verify: VerifyLevel,
    running: o.Running,
    storage: o.JobStorage,
    output: o.ObservedOutput,
) -> int:
    """Do one part; `others`: whether options were given that belong to the whole job."""

    def work(progress: Any) -> Any:
        import zarrlift

        if job.job is None:
            raise values.usage("--part needs --job", expected="the job file of `zarrlift plan --parts`")
        if others:
            raise values.usage(
                "the job has the places and the changes",
                expected="--part with --job and options to run it",
            )
        return zarrlift.migrate_part(
            job.job,
            part,
            verify=verify,
            progress=progress,
            **output.observers(),
            **running.arguments(),
            **storage.arguments(),
        )

    return moving("migrate", output, work, target=job.job or "", job=job, job_array=True)


def gather(
    target: o.Target,
    *,
    job: JobFile,
    take_over: o.TakeOver = False,
    running: o.Running,
    verify: o.Verify = "sample",
    storage: o.JobStorage,
    output: o.ObservedOutput,
) -> int:
    """Collect what the parts of a job have done; verify and publish the arrays that are complete.

    May be run at any time and again. Exit code 1 as long as tasks are missing, whose parts are listed.
    """

    def work(progress: Any) -> Any:
        import zarrlift

        return zarrlift.gather(
            target,
            take_over=take_over,
            verify=verify,
            progress=progress,
            **output.observers(),
            **job.arguments(),
            **running.arguments(),
            **storage.arguments(),
        )

    return moving("gather", output, work, target=target, job=job, job_array=True)


def resume(
    target: o.Target,
    *,
    job: JobFile,
    source: o.MovedSource = None,
    destination: o.MovedDestination = None,
    take_over: o.TakeOver = False,
    running: o.Running,
    verify: o.VerifyAgain = None,
    storage: o.JobStorage,
    output: o.ObservedOutput,
) -> int:
    """Continue a migration that was interrupted or had failures."""

    def work(progress: Any) -> Any:
        import zarrlift

        return zarrlift.resume(
            target,
            source=source,
            destination=destination,
            take_over=take_over,
            verify=verify,
            progress=progress,
            **output.observers(),
            **job.arguments(),
            **running.arguments(),
            **storage.arguments(),
        )

    return moving("resume", output, work, target=target, job=job)


def undo(
    target: o.Target,
    *,
    job: JobFile,
    take_over: o.TakeOver = False,
    storage: o.JobStorage,
    output: o.QuietOutput,
) -> int:
    """Undo a migration: delete what the job wrote, restore what `finish` deleted."""

    def work(_progress: Any) -> Any:
        import zarrlift

        return zarrlift.undo(target, take_over=take_over, **job.arguments(), **storage.arguments())

    return moving("undo", output, work, target=target, job=job)


def finish(
    target: o.Target,
    *,
    job: JobFile,
    take_over: o.TakeOver = False,
    storage_options: o.StorageOptions = None,
    output: o.QuietOutput,
) -> int:
    """Delete the legacy metadata after a verified migration in place; the job file keeps a copy."""

    def work(_progress: Any) -> Any:
        import zarrlift

        return zarrlift.finish(
            target,
            take_over=take_over,
            storage_options=values.storage_options(storage_options),
            **job.arguments(),
        )

    return moving("finish", output, work, target=target, job=job)


def _check_places(destination: str | None, *, in_place: bool) -> None:
    from zarrstack.core.errors import UsageError

    if destination is None and not in_place:
        raise UsageError("a destination is needed", expected="a destination, or --in-place")
    if destination is not None and in_place:
        raise UsageError(
            "a destination and --in-place exclude each other", found=destination, expected="one of the two"
        )


def moving(
    command: str,
    output: o.QuietOutput,
    work: Callable[[Any], Any],
    *,
    target: str,
    job: JobFile,
    job_array: bool = False,
) -> int:
    """Run work that returns an Outcome, with progress, and with advice if it is interrupted."""
    from ..jobs.command_line import command as command_line
    from ..report import outcome as report_outcome

    def how_to_continue(known: tuple[str, ...] | None) -> str:
        import zarrlift
        from zarrstack.core.errors import ZarrstackError

        if job_array:
            return "Run the same command again."
        try:
            if known is None:
                status = zarrlift.status(target, **job.arguments())
                known = (status.job, *status.options)
        except ZarrstackError:
            return "No job was started; run the same command again."
        again = command if command in ("undo", "finish") else "resume"
        return f"Continue with: {command_line(again, *known)}"

    def answer() -> Answer:
        shown: list[Any] = []
        watching = output.watched(shown) if isinstance(output, o.WatchedOutput) else nullcontext()
        with watching as progress:
            outcome = work(progress)
        return Answer(
            code=DONE if outcome.ok else PARTLY,
            text=lambda page: report_outcome.lines(outcome, page),
            data=outcome.to_json,
            problems=lambda page: report_outcome.problem_lines(outcome, page, shown),
            brief=lambda: report_outcome.brief_lines(outcome, shown),
            wrong=lambda page: report_outcome.lines(outcome, page, whole=True),
        )

    session = output.session(command)
    session.how_to_continue = how_to_continue
    return session.run(answer)
