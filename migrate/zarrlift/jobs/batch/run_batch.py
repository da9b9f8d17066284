"""Works on the archives of a batch, each by the engine of one archive, and packs their ledgers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from zarrstack.core.errors import JobError, Problem, ZarrstackError

from ...errors import Interrupted
from ...recipe.options import Places
from ...storage.open_storage import is_url
from ...transfer.unexpected_errors import unexpected_error
from .. import log_messages
from ..archive_run import migrate_archive
from ..processes.executors import RunOptions
from ..progress import Progress
from .batch_file import BatchFile
from .batch_progress import BatchProgress
from .requests import RowRequest
from .rows import ArchiveState, BatchRow
from .side_by_side import Shared, SideBySide, shared

_REFUSED = ("usage", "metadata", "unsupported")
"""Kinds of errors that say that an archive cannot be migrated, if nothing of it was begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """How a batch is run."""

    run: RunOptions
    places: Places
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCall:
    """One archive, and what it is worked on with."""

    row: BatchRow
    asked: RowRequest
    ledger: Path
    """Where its ledger is, or will be."""
    options: RunOptions
    places: Places
    progress: Progress | None


class Act(Protocol):
    """What is done with each archive, in any thread; returns its problems, or raises one."""

    def __call__(self, call: ArchiveCall, /) -> tuple[Problem, ...]:
        """Work on an archive."""


def migrate(call: ArchiveCall) -> tuple[Problem, ...]:
    """Migrate an archive, or resume its job."""
    asked = call.asked
    request = asked.of(call.row, call.places)
    options = replace(call.options, verify=asked.verify, digest=asked.digest, hard_links=asked.link == "hard")
    return migrate_archive(request, request.open(), call.ledger, options, call.progress).problems


class BatchRun:
    """One run of a batch, or of a part of it."""

    def __init__(
        self, file: BatchFile, options: BatchOptions, act: Act = migrate, *, packs: bool = True
    ) -> None:
        """`packs`: whether ledgers are packed into the file, which is then open for writing."""
        self._file = file
        self._options = options
        self._act = act
        self._packs = packs
        self._requests = {number: RowRequest.from_json(asked) for number, asked in file.requests().items()}
        self._progress = BatchProgress(options.progress)

    def __call__(self, rows: Iterable[BatchRow]) -> list[BatchRow]:
        """Work on archives; returns their rows. Interrupted, if Ctrl-C stops them."""
        rows = list(rows)
        try:
            with (
                shared(self._options.run, waits=any(map(waits, rows)), alone=len(rows) == 1) as common,
                self._progress.of(rows),
            ):
                return list(self._each(rows, common))
        except KeyboardInterrupt:
            if self._packs:
                absorb(self._file)
            raise Interrupted(str(self._file.path)) from None

    def _each(self, rows: list[BatchRow], common: Shared) -> Iterator[BatchRow]:
        def work(row: BatchRow, beside: bool) -> tuple[BatchRow, bytes | None]:
            return self._archive(row, common.options if beside else common.alone)

        for row, ledger in SideBySide(work, common.stop, common.threads)(rows):
            if self._packs:
                self._file.pack(row, ledger)
            else:
                self._file.ledgers.tell(row)
            self._progress.ended(row.state)
            yield row

    def _archive(self, row: BatchRow, options: RunOptions) -> tuple[BatchRow, bytes | None]:
        """Work on one archive; its row, and its compressed ledger. Runs in any thread."""
        started = time.monotonic()
        ledgers = self._file.ledgers
        path = ledgers.path(row.number)
        if row.state != "pending" and not path.exists():
            with BatchFile.open(self._file.path, write=False) as reader:  # a connection is for one thread
                reader.unpack(row.number)
        problems: tuple[Problem, ...]
        named = log_messages.archive.set(row.source)
        try:
            ledgers.prepare(row.number)
            problems = self._act(
                ArchiveCall(
                    row=row,
                    asked=self._requests[row.number],
                    ledger=path,
                    options=options,
                    places=self._options.places,
                    progress=self._progress.archive(),
                )
            )
        except ZarrstackError as error:
            problems = (error.problem,)
        except Exception as error:  # noqa: BLE001 - see `unexpected_error`
            problems = (unexpected_error("", error),)
        finally:
            log_messages.archive.reset(named)
        row = replace(row, problems=problems, seconds=row.seconds + time.monotonic() - started)
        if not path.exists():
            return replace(row, state=_without_ledger(problems)), None
        try:
            seconds = row.seconds
            row = replace(ledgers.read(row, write=False, problems=problems), seconds=seconds)
        except JobError as error:
            return replace(row, state="failed", problems=(*problems, error.problem)), None
        return row, ledgers.compressed(row) if self._packs else None


def _without_ledger(problems: tuple[Problem, ...]) -> ArchiveState:
    """The state of an archive of which nothing was begun."""
    if not problems:
        return "undone"
    return "refused" if problems[0].kind in _REFUSED else "failed"


def absorb(file: BatchFile) -> None:
    """Pack what killed runs, or parts, have left of archives that have ended.

    What is interrupted stays in the folder.
    """
    rows = {row.number: row for row in file.rows()}
    for number in file.ledgers.found():
        if number not in rows:
            continue
        try:
            row = file.ledgers.read(rows[number], write=True)
        except JobError:  # a part runs it, or its next run reports that it is damaged
            continue
        if row.state == "incomplete":
            file.record([row])
        else:
            file.pack(row, file.ledgers.compressed(row))


def waits(row: BatchRow) -> bool:
    """Whether most of the time of an archive is waiting for a store."""
    return is_url(row.source) or is_url(row.destination)
