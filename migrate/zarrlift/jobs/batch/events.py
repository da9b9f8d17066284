"""What is known of the archives of a batch without reading their jobs, and who runs it.

Of an archive without a job: its plan, a refusal or a failure. Of one that is done: what its job says, which
counts as long as the job file does not change; thousands of jobs take seconds to read.

Each line of `LIST.events.jsonl` is one event; the last one of an archive counts, and a line that a killed
process or another machine has torn does not. Nothing is lost with this file but such knowledge.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from zarrstack.core.errors import Problem

from ...errors import JobError
from ...storage.local.owner_process import OwnerProcess
from ..ledger.database import stamp
from ..ledger.find_job import LIST_SUFFIX
from .list_file import ListFile
from .rows import DONE, PLANNED, BatchRow, of_job

_EVENTS: Final = ".zarrlift.events.jsonl"


@dataclass(slots=True)
class Known:
    """The events of a list."""

    archives: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last event of each archive without a job, by its destination as the list names it."""
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The same of archives that are done."""
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Runs that have not ended normally."""

    def running(self) -> tuple[float, int] | None:
        """When the first of the runs on this host began, and what was done then; None if there is none."""
        now = [
            (float(run["time"]), int(run["bytes_done"]))
            for run in self.runs.values()
            if OwnerProcess.from_json(run["owner"]).state() == "running"
        ]
        return min(now, default=None)


class Events:
    """The events beside a list."""

    def __init__(self, file: ListFile) -> None:
        self._list = file
        self._path = file.path.with_name(file.path.name.removesuffix(LIST_SUFFIX) + _EVENTS)

    def read(self) -> Known:
        """What they say."""
        known = Known()
        with suppress(FileNotFoundError), open(self._path, encoding="utf-8", errors="replace") as file:
            for line in file:
                with suppress(ValueError, KeyError, TypeError):
                    event = json.loads(line)
                    if "ended" in event:
                        known.runs.pop(event["ended"], None)
                    elif "began" in event:
                        OwnerProcess.from_json(event["owner"])
                        known.runs[event["began"]] = event
                    elif "stamp" in event:
                        known.done[event["destination"]] = {name: event[name] for name in ("request", *DONE)}
                    else:
                        known.archives[event["destination"]] = {
                            **{name: event[name] for name in PLANNED},
                            "problems": tuple(map(Problem.from_json, event["problems"])),
                        }
        return known

    def of(self, row: BatchRow, known: Known) -> BatchRow:
        """An archive as its job has it; without one, as its last event does."""
        destination = self._list.stored(row.destination)
        if not row.begun():
            return replace(row, **known.archives.get(destination, {}))
        done = known.done.get(destination, {})
        if done.get("request") == self._asked(row) and done["stamp"] == stamp(row.job):
            return replace(row, **{name: done[name] for name in DONE})
        return of_job(row)

    def planned(self, row: BatchRow, known: Known) -> int:
        """Bytes of the source that are read according to the plan of an archive."""
        event = known.archives.get(self._list.stored(row.destination))
        return row.bytes_in if event is None else int(event["bytes_in"])

    def _asked(self, row: BatchRow) -> list[str]:
        """The source of an archive and what is asked for it."""
        return [self._list.stored(row.source), row.request.text]

    def note_done(self, row: BatchRow) -> None:
        """Append what the job of an archive that is done says."""
        self._append(
            [
                {
                    "destination": self._list.stored(row.destination),
                    "request": self._asked(row),
                    **{name: getattr(row, name) for name in DONE},
                }
            ]
        )

    def note(self, rows: Iterable[BatchRow]) -> None:
        """Append what is known of archives without a job."""
        self._append(
            {
                "destination": self._list.stored(row.destination),
                "time": time.time(),
                **{name: getattr(row, name) for name in PLANNED},
                "problems": [problem.to_json() for problem in row.problems],
            }
            for row in rows
        )

    @contextmanager
    def run(self, bytes_done: int) -> Iterator[None]:
        """Note that this process runs the batch, and its end."""
        name = os.urandom(4).hex()
        owner = OwnerProcess.of_this_process().to_json()
        self._append([{"began": name, "owner": owner, "time": time.time(), "bytes_done": bytes_done}])
        try:
            yield
        finally:
            with suppress(JobError):
                self._append([{"ended": name, "time": time.time()}])

    def _append(self, events: Iterable[dict[str, Any]]) -> None:
        text = "".join(json.dumps(event) + "\n" for event in events)
        try:
            with open(self._path, "ab") as file:
                if file.tell() and text:
                    with open(self._path, "rb") as before:
                        before.seek(-1, os.SEEK_END)
                        text = text if before.read(1) == b"\n" else "\n" + text
                file.write(text.encode())
        except OSError as error:
            raise JobError(
                "cannot write beside the list", key=str(self._path), found=error.strerror
            ) from error
