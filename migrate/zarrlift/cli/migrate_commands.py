"""The commands that make changes: migrate, resume, finish, undo."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from . import options as o
from .recipe_options import RecipeOptions
from .session import DONE, PARTLY, Answer


def migrate(
    source: o.Source,
    destination: o.Destination = None,
    *,
    writing: o.Writing,
    job: o.JobFile,
    overwrite: o.Overwrite = False,
    take_over: o.TakeOver = False,
    reading: o.Reading,
    recipe: RecipeOptions,
    running: o.Running,
    verify: o.Verify = "sample",
    digest: o.Digest = False,
    link: o.LinkOption = "auto",
    output: o.WatchedOutput,
) -> int:
    """Migrate an archive to DST, or --in-place, which only adds files to the source."""

    def work(progress: Any) -> Any:
        import zarrlift

        _check_places(destination, in_place=writing.in_place)
        return zarrlift.migrate(
            source,
            destination,
            recipe=recipe.recipe(),
            verify=verify,
            digest=digest,
            link=link,
            overwrite=overwrite,
            take_over=take_over,
            progress=progress,
            **job.arguments(),
            **writing.arguments(),
            **reading.arguments(),
            **running.arguments(),
        )

    return _moving("migrate", output, work, target=destination or source, job=job)


def resume(
    target: o.Target,
    *,
    job: o.JobFile,
    source: o.MovedSource = None,
    destination: o.MovedDestination = None,
    take_over: o.TakeOver = False,
    running: o.Running,
    verify: o.VerifyAgain = None,
    storage: o.JobStorage,
    output: o.WatchedOutput,
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
            **job.arguments(),
            **running.arguments(),
            **storage.arguments(),
        )

    return _moving("resume", output, work, target=target, job=job)


def undo(
    target: o.Target,
    *,
    job: o.JobFile,
    take_over: o.TakeOver = False,
    storage: o.JobStorage,
    output: o.QuietOutput,
) -> int:
    """Undo a migration: delete what the job wrote, restore what `finish` deleted."""

    def work(_progress: Any) -> Any:
        import zarrlift

        return zarrlift.undo(target, take_over=take_over, **job.arguments(), **storage.arguments())

    return _moving("undo", output, work, target=target, job=job)


def finish(
    target: o.Target,
    *,
    job: o.JobFile,
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
            storage_options=o.storage_options(storage_options),
            **job.arguments(),
        )

    return _moving("finish", output, work, target=target, job=job)


def _check_places(destination: str | None, *, in_place: bool) -> None:
    from zarrstack.core.errors import UsageError

    if destination is None and not in_place:
        raise UsageError("a destination is needed", expected="a destination, or --in-place")
    if destination is not None and in_place:
        raise UsageError("a destination and --in-place exclude each other", found=destination)


def _moving(
    command: str, output: o.QuietOutput, work: Callable[[Any], Any], *, target: str, job: o.JobFile
) -> int:
    """Run work that returns an Outcome, with progress, and with advice if it is interrupted."""
    from ..report import outcome as report_outcome

    def how_to_continue(known: tuple[str, ...] | None) -> str:
        import zarrlift
        from zarrstack.core.errors import ZarrstackError

        try:
            if known is None:
                status = zarrlift.status(target, **job.arguments())
                known = (status.job, *status.options)
        except ZarrstackError:
            return "No job was started; run the same command again."
        again = command if command in ("undo", "finish") else "resume"
        return f"Continue with: {report_outcome.command(again, *known)}"

    def answer() -> Answer:
        watching = output.watched() if isinstance(output, o.WatchedOutput) else nullcontext()
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

    session = output.session(command)
    session.how_to_continue = how_to_continue
    return session.run(answer)
