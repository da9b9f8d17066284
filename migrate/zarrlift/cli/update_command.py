"""The command `update`."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from . import options as o
from .job_options import JobFile
from .migrate_commands import moving
from .option_groups import option
from .session import DONE, PARTLY, Answer

Delete: TypeAlias = Annotated[
    bool, option("--delete", help="Remove nodes from the result that the source no longer has.")
]
Force: TypeAlias = Annotated[bool, option("--force", help="Replace what others have changed in the result.")]


def update(
    target: o.Target,
    *,
    job: JobFile,
    delete: Delete = False,
    force: Force = False,
    dry_run: Annotated[
        bool, option("--dry-run", help="Show what would be done; nothing is changed.")
    ] = False,
    source: o.MovedSource = None,
    destination: o.MovedDestination = None,
    take_over: o.TakeOver = False,
    running: o.Running,
    verify: o.VerifyAgain = None,
    storage: o.JobStorage,
    output: o.ObservedOutput,
) -> int:
    """Bring the result of a migration up to date with a source that has changed since.

    Only objects that differ are moved again, and are replaced one by one. May be run at any time and again.
    """
    places: dict[str, Any] = {"source": source, "destination": destination}

    def show() -> Answer:
        import zarrlift

        from ..report import update_plan as report

        plan = zarrlift.plan_update(
            target, delete=delete, force=force, **places, **job.arguments(), **storage.arguments()
        )
        return Answer(
            code=PARTLY if plan.kept else DONE, text=lambda page: report.lines(plan, page), data=plan.to_json
        )

    def work(progress: Any) -> Any:
        import zarrlift

        return zarrlift.update(
            target,
            delete=delete,
            force=force,
            take_over=take_over,
            verify=verify,
            progress=progress,
            **places,
            **output.observers(),
            **job.arguments(),
            **running.arguments(),
            **storage.arguments(),
        )

    if dry_run:
        session = output.session("update")
        session.previews = True
        return session.run(show)
    return moving("update", output, work, target=target, job=job)
