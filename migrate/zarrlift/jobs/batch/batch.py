"""`Batch`: the archives of a list, each with an ordinary job, and what is done with all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, Unpack

from zarrstack.core.errors import Problem, UsageError, ZarrstackError

from ...core.problems import any_refusal
from ...errors import Interrupted, JobError
from ...recipe.keywords import PlacesKeywords, RunningKeywords, UpdatingKeywords, WatchingKeywords
from ...recipe.options import JobPlace, Moved, Places, Running, Updating, Watching, values
from ...recipe.signatures import explicit, given
from ...storage.base import BESIDE
from ...storage.local.partial_files import sweep_partial
from ...storage.local.sibling_names import sibling
from ...storage.open_storage import is_url, open_storage
from ..archive_run import migrate_archive
from ..claim import sweep_claim
from ..executors import RunOptions
from ..finish import finish
from ..ledger.database import HeldError
from ..ledger.ledger import Job
from ..opened_job import claim_and_open, unclaimed_job
from ..progress import ProgressChoice
from ..progress_display import observed
from ..resume.published_arrays import incomplete_arrays
from ..source_check import remove_inventory
from ..undo import undo
from ..update.update import update_job
from ..verification import verify
from .list_file import ListEvents, ListFile, list_path
from .rows import COMPLETE, BatchOutcome, BatchRow, amounts, of_job, state_of, table
from .run_batch import Act, ArchiveCall, BatchRun, archive_request

_AGAIN: Final = frozenset({"pending", "incomplete", "refused", "failed"})


class How(RunningKeywords, PlacesKeywords, WatchingKeywords):
    """How a batch is run; the arguments are those of `migrate`."""


class _Updating(How, UpdatingKeywords):
    """The arguments of `update`."""


class Batch:
    """A list of archives, and what was done with them.

    Several processes, also on several machines, may run one batch: each takes the archives that no other one
    has claimed.

    Examples
    --------
    >>> batch = zarrlift.batch(".", to="v3/{relative}.zarr", list_file="all.zarrlift.jsonl", run=False)
    >>> batch.run(workers=2).ok
    True
    >>> zarrlift.Batch("all.zarrlift.jsonl", only="cells*").verify(full=True).ok
    True
    """

    def __init__(self, list_file: str | os.PathLike[str], *, only: str | None = None) -> None:
        """`list_file` is the list, or a place whose list is next to it. JobError if there is none.

        `only`: a glob, which the archives' names in the list or their destinations must match.
        """
        self.path = list_path(list_file)
        self._file = ListFile(self.path)
        self._only = only
        self.last: BatchOutcome | None = None
        """The outcome of the last call on this object."""
        self._listed()

    @property
    def rows(self) -> tuple[BatchRow, ...]:
        """The archives as they are now."""
        return self.status().rows

    @property
    def outcome(self) -> BatchOutcome:
        """The outcome of the last call on this object, or else the status."""
        return self.last or self.status()

    def table(self) -> str:
        """The archives as text, one line each."""
        return table(self.rows)

    def status(self) -> BatchOutcome:
        """The current state; does not affect a running batch."""
        events = self._file.read_events()
        return self._status(events, [self._file.of(row, events) for row in self._listed()])

    @explicit
    def run(self, *, progress: ProgressChoice = None, **how: Unpack[How]) -> BatchOutcome:
        """Migrate what is not done, also what was undone. Raises Interrupted (Ctrl-C)."""
        return self._act(migrate, self._wanted(_AGAIN | {"undone"}, how), progress, how)

    @explicit
    def resume(self, *, progress: ProgressChoice = None, **how: Unpack[How]) -> BatchOutcome:
        """Migrate what is not done; what was refused or failed is tried again. Interrupted as in `run`."""
        return self._act(migrate, self._wanted(_AGAIN, how), progress, how)

    @explicit
    def verify(
        self, *, full: bool = False, progress: ProgressChoice = None, **how: Unpack[How]
    ) -> BatchOutcome:
        """Compare the results with their sources; differences are problems of their archives."""
        act = partial(verify_one, full=full)
        return self._act(act, lambda row: row.state == "done", progress, how)

    @explicit
    def update(self, *, progress: ProgressChoice = None, **options: Unpack[_Updating]) -> BatchOutcome:
        """Bring the results up to date with sources that have changed since, as `update` does."""
        updating = Updating(delete=options.pop("delete", False), force=options.pop("force", False))
        return self._act(partial(update_one, updating=updating), _is_updated, progress, options)

    @explicit
    def finish(self, *, progress: ProgressChoice = None, **how: Unpack[How]) -> BatchOutcome:
        """In place: remove the legacy metadata of all archives that are verified; JobError for copies."""
        if not any(row.in_place for row in self._listed()):
            raise JobError("there is nothing to finish: copies keep their sources", key=str(self.path))
        return self._act(finish_one, lambda row: row.in_place and row.state == "done", progress, how)

    @explicit
    def undo(self, *, progress: ProgressChoice = None, **how: Unpack[How]) -> BatchOutcome:
        """Take back what was written, as `undo` does."""
        outcome = self._act(undo_one, lambda row: row.state != "undone" or may_be_claimed(row), progress, how)
        if {row.state for row in outcome.rows} == {"pending"}:
            self.last = replace(outcome, state="nothing to do", ran=0)
        return self.outcome

    def _wanted(self, again: AbstractSet[str], how: Mapping[str, Any]) -> Callable[[BatchRow], bool]:
        """Whether an archive is migrated: results that are complete are listed, and repaired or named."""
        if not how.get("no_list"):
            again = again | COMPLETE
        return lambda row: row.state in again or may_be_restored(row)

    def _listed(self) -> list[BatchRow]:
        """The archives of the list that are meant."""
        rows = self._file.rows()
        if self._only is None:
            return rows
        matching = [row for row in rows if self._is_meant(row, self._only)]
        if not matching:
            raise UsageError("no archive of the list matches", found=self._only, key=str(self.path))
        return matching

    def _is_meant(self, row: BatchRow, only: str) -> bool:
        return any(fnmatchcase(name, only) for name in (row.relative, self._file.stored(row.destination)))

    def _status(self, events: ListEvents, rows: Sequence[BatchRow]) -> BatchOutcome:
        began = events.running()
        done, total = amounts(rows, lambda row: self._file.planned(row, events))
        return BatchOutcome(
            list_file=str(self.path),
            state=state_of(rows),
            rows=tuple(rows),
            running=began is not None or any(row.running for row in rows),
            bytes_done=done,
            bytes_total=total,
            rate=None if began is None else _rate(*began, done),
        )

    def _act(
        self,
        act: Act,
        wanted: Callable[[BatchRow], bool],
        progress: ProgressChoice,
        how: Mapping[str, Any],
    ) -> BatchOutcome:
        """Work on the archives that are wanted."""
        running, places, watching = given(how, Running, Places, Watching)
        started, number = time.monotonic(), 0
        place = str(self.path)
        before = self.status()
        rows = {row.number: row for row in before.rows}
        todo = [row for row in before.rows if wanted(row)]
        with observed(progress, place, place, watching) as display:
            if todo:
                work = BatchRun(RunOptions.of(running), places, display, act)
                number = self._work(work, todo, rows, before.bytes_done)
            now = self._status(self._file.read_events(), list(rows.values()))
            refused = any(any_refusal(rows[row.number].problems) for row in todo)
            self.last = replace(
                now,
                state="incomplete" if refused else now.state,
                ran=number,
                left=sum(rows[row.number].running for row in todo),
                seconds=time.monotonic() - started,
                running=False,
                rate=None,
            )
            if not number and not self.last.left and self.last.state != "incomplete":
                self.last = replace(self.last, state="nothing to do")
        return self.last

    def _work(self, run: BatchRun, todo: list[BatchRow], rows: dict[int, BatchRow], bytes_done: int) -> int:
        """Work on some archives, whose `rows` are replaced; returns how many this call did."""
        number = 0
        try:
            with self._file.run(bytes_done), closing(run(todo)) as done:
                for row, ran in done:
                    before = rows[row.number]
                    changed = (row.state, row.problems) != (before.state, before.problems)
                    if ran and changed and not row.begun():
                        self._file.note([row])
                    elif row.stamp and row.state in COMPLETE and not row.problems:
                        self._file.note_done(row)
                    rows[row.number] = row
                    number += ran
        except KeyboardInterrupt:
            raise Interrupted(str(self.path)) from None
        return number


def _is_updated(row: BatchRow) -> bool:
    """Whether an update may change an archive: it was begun, also by an update that was interrupted."""
    return row.state == "refused" or (row.begun() and row.state not in ("finished", "undone"))


def _rate(began: float, before: int, done: int) -> float | None:
    """Bytes per second since a run began."""
    seconds = time.time() - began
    return (done - before) / seconds if seconds > 0 and done > before else None


def migrate(call: ArchiveCall) -> tuple[Problem, ...] | None:
    """Migrate an archive, or resume its job, unless another process has its claim, or has done it."""
    row = call.row
    if row.state not in COMPLETE and row.begun() and of_job(row).state in COMPLETE:
        return None
    if row.state in COMPLETE and not may_be_restored(row) and not incomplete(row, call.places):
        return None
    request = archive_request(row, call.places)
    options = replace(call.options, verify=row.request.verify)
    try:
        ends = request.open().limited(options.limit)
        outcome = migrate_archive(request, ends, call.job, options, call.progress)
    except HeldError:  # also of a process that has given its claim back, and closes its job next
        return None
    # Another process may have done it after the look above.
    return None if outcome.state == "nothing to do" and not outcome.problems else outcome.problems


def incomplete(row: BatchRow, places: Places) -> tuple[Problem, ...]:
    """A problem for each published array of a complete archive that lacks objects; changes nothing."""
    with Job.open(Path(row.job), write=False) as job:
        return incomplete_arrays(job, archive_request(row, places))


def may_be_restored(row: BatchRow) -> bool:
    """Whether an archive that was migrated in place may have been restored since: its document is gone."""
    is_local = row.in_place and row.state in COMPLETE and not is_url(row.destination)
    return is_local and not os.path.lexists(os.path.join(row.destination, "zarr.json"))


def verify_one(call: ArchiveCall, /, *, full: bool) -> tuple[Problem, ...]:
    """Compare a result with its source; the job of one that is equal says so."""
    options = call.options
    with options.heeding_stop():
        report = verify(
            call.job,
            full=full,
            **values(call.places, Places),
            executor=None if options.engine is None else options.executor,
            workers=options.workers,
            bwlimit=options.limit,  # type: ignore[arg-type]  # shared by all archives
        )
    return tuple(report.problems)


def update_one(call: ArchiveCall, /, *, updating: Updating) -> tuple[Problem, ...]:
    """Bring a result up to date with its source."""
    if not call.row.begun():
        return call.row.problems  # nothing of it could be migrated
    row = call.row
    unclaimed = unclaimed_job(
        call.job,
        "update",
        JobPlace(),
        call.places,
        call.options,
        moved=Moved() if row.in_place else Moved(source=row.source),  # of two, the one that the list names
        verify=row.request.verify,
    )
    with claim_and_open(unclaimed, call.progress) as open_job:
        return open_job.end(update_job(open_job, updating)).problems


def finish_one(call: ArchiveCall) -> tuple[Problem, ...]:
    """Remove the legacy metadata of an archive that was migrated in place and verified."""
    if call.row.verified is None:
        raise JobError(
            "the result has not been verified since it was written", advice="Verify the batch first."
        )
    opening = call.places.storage_options
    return finish(call.job, take_over=call.options.take_over, storage_options=opening).problems


def may_be_claimed(row: BatchRow) -> bool:
    """Whether an undo that was killed may have left its claim; in a store, only a request could tell."""
    return is_url(row.destination) or os.path.lexists(sibling(Path(row.destination), BESIDE))


def undo_one(call: ArchiveCall) -> tuple[Problem, ...]:
    """Take back what was written, and what a run left that was killed before the archive had a job."""
    if call.row.begun():
        return undo(call.job, take_over=call.options.take_over, **values(call.places, Places)).problems
    sweep_partial(str(call.job))
    remove_inventory(call.job)
    place, options = call.row.destination, call.places.of_result(in_place=call.row.in_place)
    if not is_url(place) and os.path.isdir(os.path.dirname(place)):
        with suppress(ZarrstackError):  # in place, the archive may be gone
            sweep_claim(open_storage(place, storage_options=options, mode="w"), call.job)
    return ()
