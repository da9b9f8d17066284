"""The commands that make changes: migrate, resume, update, finish, undo.

They ask before something is deleted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from ..recipe.options import JobPlace, Moved, Request, Running, Watching
from . import options as o
from .option_groups import usage
from .recipe_options import RecipeOptions
from .session import DONE, PARTLY, Answer, write
from .verbs import batch_of, moving, run_verb

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSON

    from ..jobs.batch.batch import Batch
    from ..planning.plans import Plan
    from .option_groups import Tables
    from .options import Storage


def migrate(
    source: o.Source,
    destination: o.Destination = None,
    *,
    dry_run: o.DryRun = False,
    options: o.Migrating,
    storage: o.Storage,
    recipe: RecipeOptions,
    yes: o.Yes = False,
    output: o.WatchedOutput,
) -> Answer:
    """Migrate an archive to DST, or --in-place, which only adds files to the source.

    With --dry-run, show what would be done and cost, array by array.

    \b
    zarrlift migrate old.zarr new.zarr
    zarrlift migrate s3://bucket/scan.n5 scan.zarr --codecs zstd:3 --shards auto
    """  # noqa: D301 - \b is the character that keeps the lines of a paragraph apart
    import zarrlift

    def arguments(*tables: type) -> dict[str, Any]:
        _check_places(destination, options, dry_run=dry_run)
        how = {"recipe": recipe.recipe(), **recipe.reading()}
        return {**how, **options.of(Request, *tables), **storage.arguments()}

    def work(progress: Any) -> Any:
        keywords = arguments(JobPlace, Running, Watching)
        return zarrlift.migrate(source, destination, progress=progress, **keywords)

    if dry_run:
        output.session.previews = True
        plan = zarrlift.plan(source, destination, **arguments(JobPlace))
        documents = {}
        if output.session.json:
            from ..jobs.source_documents import source_documents

            documents = source_documents(plan, source, destination, **arguments())
        return _planned(plan, documents)
    question = None
    if "overwrite" in options.given() and destination is not None:
        question = partial(overwrite_question, destination, storage)
    return moving(work, destination or source, options, output, ask(question, yes=yes))


def _planned(plan: Plan, documents: Mapping[str, JSON]) -> Answer:
    from ..core.problems import any_refusal
    from ..report.plan import plan_json

    code = PARTLY if any_refusal(plan.all_problems()) else DONE
    return Answer.of(plan, code, data=lambda: plan_json(plan, documents))


def resume(
    target: o.Target,
    *,
    only: o.Only = None,
    options: o.Continuing,
    verify: o.VerifyAgain = None,
    storage: o.Storage,
    output: o.WatchedOutput,
) -> Answer:
    """Continue a migration that was interrupted or had failures, also of a batch."""
    return run_verb(batch_of(target, only, options) or target, options, storage, output, verify=verify)


def update(
    target: o.Target,
    *,
    only: o.Only = None,
    dry_run: o.DryRun = False,
    updating: o.Updating,
    options: o.Continuing,
    verify: o.VerifyAgain = None,
    storage: o.Storage,
    yes: o.Yes = False,
    output: o.WatchedOutput,
) -> Answer:
    """Bring the result of a migration up to date with a source that has changed since.

    Only objects that differ are moved again, and are replaced one by one. May be run at any time and again.
    """
    changes = updating.arguments()
    preview = {**options.of(JobPlace, Moved), **changes}
    batch = batch_of(target, only, options)
    if dry_run:
        if batch is not None:
            raise usage("--dry-run is for the update of one archive", expected="its job or result")
        import zarrlift

        output.session.previews = True
        plan = zarrlift.plan_update(target, **preview, **storage.arguments())
        return Answer.of(plan, PARTLY if plan.kept else DONE)
    question = partial(deletion_question, target, preview, storage)
    first = ask(question if changes.get("delete") and batch is None else None, yes=yes)
    return run_verb(batch or target, options, storage, output, first, verify=verify, **changes)


def undo(
    target: o.Target,
    *,
    only: o.Only = None,
    options: o.OfJob,
    storage: o.Storage,
    yes: o.Yes = False,
    output: o.WatchedOutput,
) -> Answer:
    """Undo a migration, or a batch: delete what was written, restore what `finish` deleted."""
    place = batch_of(target, only, options) or target
    first = ask(partial(undo_question, place, options), yes=yes, needed="undo")
    return run_verb(place, options, storage, output, first)


def finish(
    target: o.Target,
    *,
    only: o.Only = None,
    options: o.OfJob,
    storage: o.SourceStorage,
    yes: o.Yes = False,
    output: o.WatchedOutput,
) -> Answer:
    """Delete the legacy metadata after a verified migration in place; the job file keeps a copy."""
    place = batch_of(target, only, options) or target
    first = ask(partial(finish_question, place, options), yes=yes, needed="finish")
    return run_verb(place, options, storage, output, first)


def _check_places(destination: str | None, options: o.Migrating, *, dry_run: bool) -> None:
    in_place = "in_place" in options.given()
    if destination is None and not in_place and not dry_run:
        raise usage("a destination is needed", expected="a destination, or --in-place")
    if destination is not None and in_place:
        from zarrstack.core.errors import UsageError

        raise UsageError(
            "a destination and --in-place exclude each other", found=destination, expected="one of the two"
        )


Question: TypeAlias = Callable[[], str | None]
"""What to ask; None if nothing is deleted."""
_MANY = 10_000
"""Objects that are counted."""


def ask(question: Question | None, *, yes: bool, needed: str | None = None) -> Callable[[], None]:
    """A function that asks once, before a command does anything; UsageError if the answer is no.

    `needed` is the name of a command that does nothing without an answer: where no terminal can be asked, it
    requires --yes.
    """

    def first() -> None:
        if question is None or yes:
            return
        if not sys.stdin.isatty():
            if needed is not None:
                raise usage(
                    f"{needed} requires confirmation before it deletes", expected="--yes, or a terminal"
                )
            return
        text = question()
        if text is None:
            return
        write(f"{text} [y/N] ", sys.stderr)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise usage("nothing was deleted")

    return first


def undo_question(target: str | Batch, options: Tables) -> str:
    """Whether to delete what a job, or a batch, wrote."""
    from zarrstack.core.units import count_text

    if isinstance(target, str):
        arrays, place = _arrays_of(target, options)
        return f"Delete what the job wrote of {count_text(arrays, 'array')} at {place}?"
    done = sum(row.begun() and row.state != "undone" for row in target.rows)
    return f"Delete what was written for {count_text(done, 'archive')}?"


def finish_question(target: str | Batch, options: Tables) -> str:
    """Whether to delete the legacy metadata of one archive, or of many."""
    from zarrstack.core.units import count_text

    if isinstance(target, str):
        arrays, place = _arrays_of(target, options)
        return f"Delete the legacy metadata of {count_text(arrays, 'array')} at {place}?"
    rows = target.rows
    ready = sum(row.state == "done" and row.verified is not None for row in rows)
    others = len(rows) - ready
    return (
        f"Delete the legacy metadata of {count_text(ready, 'verified archive')}? "
        f"{count_text(others, 'other archive')} {'is' if others == 1 else 'are'} left as they are."
    )


def deletion_question(target: str, preview: dict[str, Any], storage: Storage) -> str | None:
    """Whether an update is to remove the nodes that the source no longer has."""
    import zarrlift
    from zarrstack.core.units import count_text

    plan = zarrlift.plan_update(target, **preview, **storage.arguments())
    removed = sum(node.action == "removed" for node in plan.nodes)
    return f"Remove {count_text(removed, 'node')} from the result?" if removed else None


def overwrite_question(destination: str, storage: Storage) -> str | None:
    """Whether to replace a place that is not empty."""
    from zarrstack.core.errors import ZarrstackError
    from zarrstack.core.units import count_text

    from ..storage.open_storage import open_storage

    options = storage.arguments().get("dest_storage_options")
    try:
        place = open_storage(destination, storage_options=options)
        count = sum(1 for _ in islice(place.list_prefix(""), _MANY + 1))
    except ZarrstackError:
        return None  # there is none, or the command says what is wrong with it
    amount = f"more than {_MANY:,} objects" if count > _MANY else count_text(count, "object")
    return f"Replace {place.url}, which has {amount}?" if count else None


def _arrays_of(target: str, options: Tables) -> tuple[int, str]:
    """The number of arrays that a job has done, and the place of its result."""
    import zarrlift

    keywords = options.arguments()
    keywords.pop("take_over", None)
    status = zarrlift.status(target, **keywords)
    return status.arrays_done, status.destination
