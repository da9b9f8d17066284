"""`Batch`: the archives of a list, each with an ordinary job, and what is done with all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, Final, Unpack

from zarrstack.core.errors import UsageError
from zarrstack.system.this import system

from ...core.problems import any_refusal, command
from ...errors import Interrupted, JobError
from ...recipe.asked import RecipeForm
from ...recipe.keywords import (
    PlacesKeywords,
    RecipeKeywords,
    RequestKeywords,
    RunningKeywords,
    UpdatingKeywords,
    WatchingKeywords,
)
from ...recipe.options import PathText, Places, Running, Updating, Watching, values
from ...recipe.signatures import explicit, given, with_recipe
from ...storage.local.own_names import sibling, with_suffix
from ...storage.open_storage import is_url
from ...storage.redact import redact
from ..executors import RunOptions
from ..ledger.job_places import LIST_SUFFIX, is_list
from ..progress import ProgressChoice
from ..progress_display import observed
from .acts import Act, finish_one, may_be_restored, migrate_one, plan_one, undo_one, update_one, verify_one
from .each import ELSEWHERE, BatchRun
from .list_file import read_list, write_list
from .rows import BatchRow, RowRequest, find_archives, refuse_secrets, stored
from .state import COMPLETE, BatchOutcome, may_be_claimed, state, state_of

_AGAIN: Final = frozenset({"pending", "incomplete", "refused", "failed"})


class How(RunningKeywords, PlacesKeywords, WatchingKeywords):
    """How a batch is run; the arguments are those of `migrate`."""


class _Updating(How, UpdatingKeywords):
    """The arguments of `update`."""


class Batch:
    """A list of archives, and what was done with them.

    Several processes, also on several machines, may run one list: each takes the archives that no other one
    has claimed.

    Examples
    --------
    >>> batch = zarrlift.batch(".", to="v3/{relative}.zarr", list_file="all.jsonl", run=False)
    >>> batch.run(workers=2).ok
    True
    >>> zarrlift.Batch("all.jsonl", only="cells*").verify(full=True).ok
    True
    """

    def __init__(self, list_file: PathText, *, only: str | None = None) -> None:
        """`list_file` is a list in JSON lines or CSV, which is read once. JobError, UsageError.

        `only`: a glob, which the archives' sources or destinations must match as they are in the list.
        """
        path = Path(os.path.abspath(os.path.expanduser(os.fspath(list_file))))
        self._set(path, read_list(path), only)

    def _set(self, path: Path, rows: Sequence[BatchRow], only: str | None) -> None:
        self.path = path
        self.last: BatchOutcome | None = None
        """The outcome of the last call on this object."""
        if only is not None:
            folder = str(path.parent)
            names = [(row, row.name, stored(row.destination, folder)) for row in rows]
            rows = [row for row, *texts in names if any(fnmatch(text, only) for text in texts)]
            if not rows:
                raise UsageError("no archive of the list matches", found=only, key=str(path))
        self._rows = rows

    @property
    def rows(self) -> tuple[BatchRow, ...]:
        """The archives as they are now."""
        return self.status().rows

    @property
    def outcome(self) -> BatchOutcome:
        """The outcome of the last call on this object, or else the status."""
        return self.last or self.status()

    def status(self) -> BatchOutcome:
        """The current state; does not affect a running batch."""
        return self._status([state(row) for row in self._rows])

    def _status(self, rows: Sequence[BatchRow], **more: Any) -> BatchOutcome:
        running = any(row.running for row in rows) or _is_running(self.path)
        outcome = BatchOutcome(
            list_file=str(self.path), state=state_of(rows), rows=tuple(rows), running=running
        )
        return replace(outcome, **more)

    @explicit
    def plan(self, **how: Unpack[How]) -> BatchOutcome:
        """Plan every archive that has no job, and say what is refused; nothing is written."""
        _, places, _ = given(how, Running, Places, Watching)
        rows = _planned(self.status().rows, places)
        self.last = self._status(rows, state="planned")
        return self.last

    @explicit
    def run(self, *, progress: ProgressChoice = None, **how: Unpack[How]) -> BatchOutcome:
        """Migrate what is not done, also what was undone. Raises Interrupted (Ctrl-C)."""
        return self._act(migrate_one, self._wanted(_AGAIN | {"undone"}, how), progress, how)

    @explicit
    def resume(self, *, progress: ProgressChoice = None, **how: Unpack[How]) -> BatchOutcome:
        """Migrate what is not done; what was refused or failed is tried again. Interrupted as in `run`."""
        return self._act(migrate_one, self._wanted(_AGAIN, how), progress, how)

    @explicit
    def verify(
        self, *, full: bool = False, progress: ProgressChoice = None, **how: Unpack[How]
    ) -> BatchOutcome:
        """Compare the results with their sources; differences are problems of their archives."""
        return self._act(partial(verify_one, full=full), lambda row: row.state == "done", progress, how)

    @explicit
    def update(self, *, progress: ProgressChoice = None, **options: Unpack[_Updating]) -> BatchOutcome:
        """Bring the results up to date with sources that have changed since, as `update` does."""
        updating = Updating(delete=options.pop("delete", False), force=options.pop("force", False))
        return self._act(partial(update_one, updating=updating), _is_updated, progress, options)

    @explicit
    def finish(self, *, progress: ProgressChoice = None, **how: Unpack[How]) -> BatchOutcome:
        """In place: remove the legacy metadata of all archives that are verified; JobError for copies."""
        if not any(row.in_place for row in self._rows):
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
        rows = {row.number: row for row in map(state, self._rows)}
        todo = [row for row in rows.values() if wanted(row)]
        with observed(progress, str(self.path), str(self.path), watching) as display, _running(self.path):
            if todo:
                work = BatchRun(RunOptions.of(running), places, display, act)
                try:
                    with closing(work(todo)) as done:
                        for row, ran in done:
                            rows[row.number] = row
                            number += ran
                except KeyboardInterrupt:
                    raise Interrupted(str(self.path)) from None
        left = sum(rows[row.number].running for row in todo)
        now = state_of(rows.values())
        if any(any_refusal(rows[row.number].problems) for row in todo):
            now = "incomplete"
        elif not number and not left and now != "incomplete":
            now = "nothing to do"
        self.last = self._status(
            list(rows.values()),
            state=now,
            ran=number,
            left=left,
            seconds=time.monotonic() - started,
            running=False,
        )
        return self.last


def _planned(rows: Sequence[BatchRow], places: Places) -> list[BatchRow]:
    """The archives with what planning finds of those that have no job."""
    with ThreadPoolExecutor(ELSEWHERE, "zarrlift-plan") as pool:
        try:
            return list(pool.map(partial(plan_one, places=places), rows))
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _running(path: Path) -> Iterator[None]:
    """Let `status` see that this process runs a list; the kernel forgets it with the process."""
    with ExitStack() as stack:
        with suppress(OSError):
            file = stack.enter_context(open(path, "rb"))
            system.lock_beside_sqlite(file.fileno(), shared=True)
        yield


def _is_running(path: Path) -> bool:
    """Whether a process of this machine runs a list."""
    with suppress(OSError), open(path, "rb") as file:
        return system.is_locked_beside_sqlite(file.fileno())
    return False


class _Batching(RecipeKeywords, RequestKeywords, RunningKeywords, PlacesKeywords, WatchingKeywords):
    """The options of `batch`."""


@explicit
def batch(
    *places: PathText,
    to: str | None = None,
    list_file: PathText | None = None,
    only: str | None = None,
    run: bool = True,
    dry_run: bool = False,
    recipe: RecipeForm | None = None,
    progress: ProgressChoice = None,
    **options: Unpack[_Batching],
) -> Batch:
    """Migrate many archives, each by a job of its own.

    `places` are folders, prefixes of stores or globs, in which archives are searched for. What they contain
    is written to a list, which is run. A second call with the same arguments resumes the batch; it changes
    nothing if everything is done. So does one with the list alone, in JSON lines or CSV.

    - `to`: the destination of each archive, such as "v3/{relative}.zarr": `{relative}` is its path below the
      place without its suffix, `{name}` the last part and `{parent}` the rest of that, `{number}` its number.
    - `list_file`: the list to write; by default next to the results.
    - `only`: a glob for the archives that are run.
    - `run=False`: only write the list, also over an earlier one.
    - `dry_run`: plan every archive, and write nothing.
    - The other arguments are those of `migrate`; in a list, each row has its own.

    An archive that is refused or fails does not stop the others.

    Raises
    ------
    UsageError
        With all rows that are wrong, before anything is changed.
    JobError
        If there is a list of other archives, or of other options.
    Interrupted
        After Ctrl-C; the batch can be resumed.

    Examples
    --------
    >>> batch = zarrlift.batch(".", to="v3/{relative}.zarr", workers=2)
    >>> batch.outcome.counts
    {'done': 2}
    """
    wanted, running, opening, watching = given(
        with_recipe(options, recipe), RowRequest, Running, Places, Watching
    )
    how: How = {**values(running, Running), **values(opening, Places), **values(watching, Watching)}  # type: ignore[typeddict-item]
    texts = [os.fspath(place) for place in places]
    if lists := [text for text in texts if is_list(text)]:
        if len(texts) > 1 or to is not None or list_file is not None or wanted != RowRequest():
            raise UsageError(
                "a list has the places and the changes of its archives",
                found=lists[0],
                expected="one list alone, and options to run it",
            )
        made = Batch(lists[0], only=only)
    else:
        path = list_path(texts, to, list_file)
        rows = find_archives(texts, to, wanted, path.parent, opening.storage_options)
        if not dry_run:
            rows = _written(path, rows, replaces=not run)
        made = object.__new__(Batch)
        made._set(path, rows, only)
    if dry_run:
        made.plan(**how)
    elif run:
        made.run(progress=progress, **how)
    return made


def list_path(places: Sequence[str], to: str | None, given: PathText | None) -> Path:
    """The list of a new batch: as given, or next to the results; for URLs, in the working directory."""
    if given is not None:
        if not is_list(given) or os.fspath(given).lower().endswith(".csv"):
            raise UsageError(
                "a list has the suffix of JSON lines",
                found=os.fspath(given),
                expected="NAME.jsonl",
                key="list",
            )
        return Path(os.path.abspath(os.path.expanduser(given)))
    base = (to if to is not None or not places else places[0]) or ""
    refuse_secrets(base, "destination")
    constant: list[str] = []
    for part in (base if is_url(base) else Path(base).as_posix()).rstrip("/").split("/"):
        if any(mark in part for mark in "{*?["):
            break
        constant.append(part)
    named = bool(constant) and constant[-1] not in ("", ".", "..")
    if is_url(base):
        return Path.cwd() / with_suffix(constant[-1] if named else "batch", LIST_SUFFIX)
    folder = Path(os.path.abspath(os.path.expanduser("/".join(constant) or ".")))
    return sibling(folder, LIST_SUFFIX) if named else folder / f"batch{LIST_SUFFIX}"


def _written(path: Path, rows: Sequence[BatchRow], *, replaces: bool) -> list[BatchRow]:
    """The rows of a list, which is written unless it is there already.

    JobError if another one is there, which may have been edited.
    """
    if replaces or not os.path.lexists(path):
        write_list(path, rows)
        return read_list(path)
    existing = read_list(path)
    by_source = {row.source: row for row in existing}
    for row in rows:
        earlier = by_source.get(row.source)
        found = f"{redact(row.source)} to {redact(row.destination)}"
        if earlier is None:
            found += ", which is not in it"
        elif earlier.destination == row.destination and earlier.request == row.request:
            continue
        raise JobError(
            "there is a list of other archives, or with other options",
            key=str(path),
            found=found,
            advice=f"Run that list: {command('batch', 'run', str(path))}. batch list --output replaces it.",
        )
    return existing


def _is_updated(row: BatchRow) -> bool:
    """Whether an update may change an archive: it was begun, also by an update that was interrupted."""
    return row.state == "refused" or (row.begun() and row.state not in ("finished", "undone"))
