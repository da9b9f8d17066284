"""`batch`: many archives as one job."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

from zarrstack.core.errors import JobError, any_refusal

from ...recipe.keywords import PlacesKeywords, RunningKeywords, UpdatingKeywords, WatchingKeywords
from ...recipe.options import Places, Running, Updating, Watching
from ...recipe.signatures import explicit, given
from ..current_status import is_locked
from ..observed import Observed, observed
from ..parts.part_index import part_index
from ..processes.executors import RunOptions
from ..progress import ProgressChoice
from ..progress_display import chosen_progress
from .batch_file import BatchFile
from .life_cycle import finish_one, undo_one, update_all, verify_all
from .outcome import BatchOutcome, state_of, table
from .places import batch_path
from .rows import BatchRow, amounts
from .run_batch import Act, BatchOptions, BatchRun, absorb, migrate
from .settle import settle
from .split import require_part

_AGAIN: Final = frozenset({"pending", "incomplete", "refused", "failed"})
_ALL: Final = _AGAIN | {"done", "finished", "undone"}


class How(RunningKeywords, PlacesKeywords, WatchingKeywords):
    """How a batch is run; the arguments are those of `migrate`."""


class _Updating(How, UpdatingKeywords):
    """The arguments of `update`."""


class Batch:
    """A batch in a job file: its archives, and what was done with them last.

    Examples
    --------
    >>> batch = zarrlift.batch(".", to="v3/{relative}.zarr", job="all.db", run=False)
    >>> batch.run(workers=2).ok
    True
    >>> zarrlift.Batch("all.db").verify(full=True).ok
    True
    """

    def __init__(self, job: str | os.PathLike[str]) -> None:
        """`job` is the job file, or a place whose batch is next to it. JobError if there is none."""
        self.path = batch_path(job)
        with self._open(write=False):
            pass
        self.last: BatchOutcome | None = None
        """The outcome of the last call on this object."""

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
        with self._open(write=False) as file:
            planned = file.rows()
            rows = [self._newest(file, row) for row in planned]
            parts, began = file.fact("parts"), file.fact("began")
        running = is_locked(self.path)
        done, total = amounts(planned, rows)
        return BatchOutcome(
            job=str(self.path),
            state=state_of(rows),
            rows=tuple(rows),
            running=running,
            parts=None if parts is None else int(parts),
            bytes_done=done,
            bytes_total=total,
            rate=_rate(began, done) if running and began is not None else None,
        )

    @explicit
    def run(self, *, progress: ProgressChoice = None, **how: Unpack[How]) -> BatchOutcome:
        """Migrate what is not done, also what was undone. Raises Interrupted (Ctrl-C)."""
        return self._act(migrate, _AGAIN | {"undone"}, progress, *given(how, Running, Places, Watching))

    @explicit
    def resume(self, *, progress: ProgressChoice = None, **how: Unpack[How]) -> BatchOutcome:
        """Migrate what is not done; what was refused or failed is tried again. Interrupted as in `run`."""
        return self._act(migrate, _AGAIN, progress, *given(how, Running, Places, Watching))

    @explicit
    def run_part(
        self, part: int | str, *, progress: ProgressChoice = None, **how: Unpack[How]
    ) -> BatchOutcome:
        """Run one part of a batch in parts, which writes to the folder next to the job file only.

        "auto" takes its index from the environment of a job array. Its archives are the outcome's rows.
        """
        started = time.monotonic()
        index = part_index(part)
        running, places, watching = given(how, Running, Places, Watching)
        with self._open(write=False) as file:
            require_part(file, index)
            rows = [self._newest(file, row) for row in settle(file) if row.part == index]
            todo = [row for row in rows if row.state in _AGAIN]
            with self._observed(progress, watching) as run:
                options = BatchOptions(run=RunOptions.of(running), places=places, progress=run.progress)
                ran = BatchRun(file, options, packs=False)(todo)
                run.ok = state_of(ran) == "done"
        rows = list({row.number: row for row in (*rows, *ran)}.values())
        state = state_of(rows) if todo else "nothing to do"
        seconds = time.monotonic() - started
        return BatchOutcome(job=str(self.path), state=state, rows=tuple(rows), ran=len(ran), seconds=seconds)

    def gather(self) -> BatchOutcome:
        """Collect what the parts have done; may be called at any time, and again."""
        return self._work(lambda _file, _rows: [], frozenset())

    @explicit
    def verify(
        self, *, full: bool = False, progress: ProgressChoice = None, **how: Unpack[How]
    ) -> BatchOutcome:
        """Compare the results with their sources; differences are problems of their archives."""
        return self._act(
            verify_all(full=full), frozenset({"done"}), progress, *given(how, Running, Places, Watching)
        )

    @explicit
    def update(self, *, progress: ProgressChoice = None, **options: Unpack[_Updating]) -> BatchOutcome:
        """Bring the results up to date with sources that have changed since, as `update` does."""
        updating, running, places, watching = given(options, Updating, Running, Places, Watching)
        states = frozenset({"done", "refused"})
        return self._act(update_all(updating), states, progress, running, places, watching)

    @explicit
    def finish(self, *, progress: ProgressChoice = None, **how: Unpack[How]) -> BatchOutcome:
        """In place: remove the legacy metadata of all archives that are verified; JobError for copies."""
        if not any(row.source == row.destination for row in self.rows):
            raise JobError("there is nothing to finish: copies keep their sources", key=str(self.path))
        return self._act(finish_one, frozenset({"done"}), progress, *given(how, Running, Places, Watching))

    @explicit
    def undo(self, *, progress: ProgressChoice = None, **how: Unpack[How]) -> BatchOutcome:
        """Take back what was written, as `undo` does."""
        outcome = self._act(
            undo_one, _ALL - {"pending", "undone"}, progress, *given(how, Running, Places, Watching)
        )
        pending = [row.number for row in outcome.rows if row.state == "pending"]
        if pending and all(row.state in ("pending", "undone") for row in outcome.rows):
            # A run that was killed before an archive had a job may have left files.
            with self._open(write=True) as file:
                for number in pending:
                    file.ledgers.remove(number)
                file.ledgers.tidy()
        if len(pending) == len(outcome.rows):
            self.last = replace(outcome, state="nothing to do")
        return self.outcome

    @contextmanager
    def ledger(self, number: int, *, write: bool = False) -> Iterator[Path | None]:
        """The job file of one archive; None if it has none, since nothing of it was begun.

        Without `write`, it is a copy unless the archive is under way. With it, no other process may run the
        batch, and changes are packed again.
        """
        with self._open(write=write) as file, contextlib.ExitStack() as stack:
            if write:
                settle(file)
            path = file.ledgers.path(number)
            if path.exists():
                yield path
            elif not write:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zarrlift-")))
                content = file.ledger(number)
                if content is None:
                    yield None
                else:
                    copy = folder / path.name
                    copy.write_bytes(content)
                    yield copy
            elif not file.unpack(number):
                yield None
            else:
                yield path
                absorb(file)
                file.ledgers.tidy()

    def _open(self, *, write: bool) -> BatchFile:
        return BatchFile.open(self.path, write=write)

    def _newest(self, file: BatchFile, row: BatchRow) -> BatchRow:
        if not file.ledgers.exists(row.number):
            return row
        try:
            return file.ledgers.read(row, write=False)
        except JobError:
            return replace(row, state="incomplete")

    def _act(
        self,
        act: Act,
        states: frozenset[str],
        progress: ProgressChoice,
        running: Running,
        places: Places,
        watching: Watching,
    ) -> BatchOutcome:
        with self._observed(progress, watching) as run:
            options = BatchOptions(run=RunOptions.of(running), places=places, progress=run.progress)
            outcome = self._work(lambda file, rows: BatchRun(file, options, act)(rows), states)
            run.ok = outcome.ok
        return outcome

    def _observed(self, choice: ProgressChoice, watching: Watching) -> AbstractContextManager[Observed]:
        progress, place = chosen_progress(choice), str(self.path)
        return observed(False if progress is None else progress, place, place, watching)

    def _work(
        self, work: Callable[[BatchFile, list[BatchRow]], list[BatchRow]], states: frozenset[str]
    ) -> BatchOutcome:
        """Call `work` with the archives in some states, as the only process that runs the batch."""
        started = time.monotonic()
        with self._open(write=True) as file:
            settle(file)
            absorb(file)
            rows = file.rows()
            todo = [row for row in rows if row.state in states]
            file.note(began=json.dumps([time.time(), amounts(rows, rows)[0]]))
            done = work(file, todo) if todo else []
            if not file.ledgers.found():
                file.ledgers.tidy()
        self.last = replace(self.status(), ran=len(done), seconds=time.monotonic() - started, running=False)
        if states and not todo and self.last.state != "incomplete":
            self.last = replace(self.last, state="nothing to do")
        elif any(any_refusal(row.problems) for row in done):
            self.last = replace(self.last, state="incomplete")
        return self.last


def _rate(began: str, done: int) -> float | None:
    """Bytes per second since a run began."""
    start, before = json.loads(began)
    seconds = time.time() - start
    return (done - before) / seconds if seconds > 0 and done > before else None
