"""The list of a batch, which is all that a batch has of its own: a line of JSON for each archive.

    {"zarrlift": "list", "version": 1}
    {"source": "old/a.n5", "destination": "v3/a.zarr", "relative": "a.n5", "codecs": "zstd:5"}

Places inside the folder of the list are relative to it, so that the folder can be moved. Everything else that
is known of an archive is in its job, which is where `migrate` puts it.

The events beside it say what is known of the archives without reading their jobs, and who runs the batch. Of
an archive without a job: its plan, a refusal or a failure. Of one that is done: what its job says, which
counts as long as the job file does not change; thousands of jobs take seconds to read. Each line of
`LIST.events.jsonl` is one event; the last one of an archive counts, and a line that a killed process or
another machine has torn does not. Nothing is lost with this file but such knowledge.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from zarrstack.core.errors import Problem, UsageError

from ...errors import JobError
from ...storage.local.open_directories import OpenDirectory
from ...storage.local.owner_process import OwnerProcess
from ...storage.local.partial_files import create_file, partial_name
from ...storage.local.presence import is_file
from ...storage.local.sibling_names import sibling, with_suffix
from ...storage.open_storage import is_url
from ..ledger.database import stamp
from ..ledger.job_places import LIST_SUFFIX, job_beside, local_path, with_local_path
from .rows import DONE, PLANNED, BatchRow, RowRequest, of_job

VERSION: Final = 1
_MANIFESTS: Final = (".csv", ".jsonl", ".ndjson", ".toml")
_RELATIVE: Final = "/./"
"""Start of a relative path inside a URL."""


def is_manifest(place: str) -> bool:
    """Whether a place is the path of a manifest."""
    return place.lower().endswith(_MANIFESTS) and "://" not in place and not os.path.isdir(place)


def is_list(target: str | os.PathLike[str]) -> bool:
    """Whether a target is a list itself."""
    return os.fspath(target).endswith(LIST_SUFFIX) and os.path.isfile(target)


def list_at(target: str | os.PathLike[str]) -> Path | None:
    """The list that a target names, itself or by a place next to it; None if there is none."""
    text = os.fspath(target)
    path = Path(os.path.abspath(os.path.expanduser(text)))
    if not is_list(path):
        path = sibling(path.with_name(path.stem) if is_manifest(text) else path, LIST_SUFFIX)
    return path if "://" not in text and is_file(path) else None


def list_path(target: str | os.PathLike[str]) -> Path:
    """The same; JobError if there is none."""
    if (path := list_at(target)) is not None:
        return path
    text = os.fspath(target)
    path = Path(os.path.abspath(os.path.expanduser(text)))
    expected = path if text.endswith(LIST_SUFFIX) else sibling(path, LIST_SUFFIX)
    raise JobError("there is no such list of archives", key=text, expected=str(expected))


def default_path(places: Sequence[str], destination: str | None) -> Path:
    """The list of a new batch: next to the results, in place or for a manifest next to that; UsageError.

    For places in stores, it is in the working directory.
    """
    if not places:
        raise UsageError("there is nothing to migrate", expected="a folder, a glob or a manifest")
    base = destination if destination is not None and not is_manifest(places[0]) else places[0]
    if is_manifest(base):
        base = base.rpartition(".")[0]
    constant: list[str] = []
    for part in base.rstrip("/").split("/"):
        if any(mark in part for mark in "{*?["):
            break
        constant.append(part)
    named = bool(constant) and constant[-1] not in ("", ".", "..")
    if is_url(base):
        return Path.cwd() / with_suffix(constant[-1] if named else "batch", LIST_SUFFIX)
    folder = Path(os.path.abspath(os.path.expanduser("/".join(constant) or ".")))
    return sibling(folder, LIST_SUFFIX) if named else folder / f"batch{LIST_SUFFIX}"


_EVENTS: Final = ".zarrlift.events.jsonl"


@dataclass(slots=True)
class ListEvents:
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


class ListFile:
    """The file of a list, and the events beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder = os.path.dirname(path)
        self._events = path.with_name(path.name.removesuffix(LIST_SUFFIX) + _EVENTS)

    def rows(self) -> list[BatchRow]:
        """Its archives, as if nothing had been done; JobError."""
        requests: dict[str, RowRequest] = {}
        rows = []
        try:
            with open(self.path, encoding="utf-8") as file:
                head = json.loads(file.readline())
                if head.get("zarrlift") != "list":
                    raise ValueError("the first line is not that of a list")  # noqa: TRY301 - one handler
                if head.get("version") == VERSION:
                    lines = filter(str.strip, file)
                    rows = [self._row(number, line, requests) for number, line in enumerate(lines, 1)]
        except OSError as error:
            raise JobError("cannot read the list", key=str(self.path), found=error.strerror) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"[:200]
            raise JobError("this is not a list of archives", key=str(self.path), found=reason) from error
        if head.get("version") != VERSION:
            raise JobError(
                "the list has another version",
                key=str(self.path),
                found=str(head.get("version")),
                expected=str(VERSION),
                advice="Use the zarrlift that wrote it.",
            )
        return rows

    def create(self, rows: Iterable[BatchRow]) -> bool:
        """Write a new list, which appears complete; False if there is one, perhaps of another process."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return create_file(OpenDirectory(str(self.path.parent), None), self.path.name, self._text(rows))
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, rows: Iterable[BatchRow]) -> None:
        """Replace the list."""
        partial = partial_name(str(self.path))
        try:
            Path(partial).write_bytes(self._text(rows))
            os.replace(partial, self.path)
        except OSError as error:
            raise self._unwritable(error) from error

    def stored(self, place: str) -> str:
        """A place as the list and its events name it."""
        path = local_path(place)
        inside = None if path is None else _below(path, self._folder)
        if inside is None:
            return place
        return inside if path == place else with_local_path(place, _RELATIVE + inside)

    def _placed(self, text: str) -> str:
        """Inverse of `stored`."""
        path = local_path(text)
        if path is None:
            return text if is_url(text) else os.path.join(self._folder, text)
        if path == text or not path.startswith(_RELATIVE):
            return text
        return with_local_path(text, os.path.join(self._folder, path.removeprefix(_RELATIVE)))

    def _row(self, number: int, line: str, requests: dict[str, RowRequest]) -> BatchRow:
        data: dict[str, Any] = json.loads(line)
        source, relative = self._placed(data.pop("source")), data.pop("relative")
        destination = data.pop("destination", None)
        text = json.dumps(data)
        if text not in requests:
            requests[text] = RowRequest.from_json(data)
        place = source if destination is None else self._placed(destination)
        return BatchRow(
            number=number,
            source=source,
            destination=place,
            relative=relative,
            request=requests[text],
            job=str(job_beside(place, Path(self._folder))),
        )

    def _text(self, rows: Iterable[BatchRow]) -> bytes:
        return "".join(f"{json.dumps(line)}\n" for line in self._lines(rows)).encode()

    def _lines(self, rows: Iterable[BatchRow]) -> Iterator[dict[str, Any]]:
        yield {"zarrlift": "list", "version": VERSION}
        for row in rows:
            places = {"source": self.stored(row.source), "destination": self.stored(row.destination)}
            if row.in_place:
                del places["destination"]
            yield {**places, "relative": row.relative, **row.request.to_json()}

    def _unwritable(self, error: OSError) -> JobError:
        return JobError("cannot write the list", key=str(self.path), found=error.strerror)

    def read_events(self) -> ListEvents:
        """What is recorded of the archives and runs."""
        events = ListEvents()
        with suppress(FileNotFoundError), open(self._events, encoding="utf-8", errors="replace") as file:
            for line in file:
                with suppress(ValueError, KeyError, TypeError):
                    event = json.loads(line)
                    if "ended" in event:
                        events.runs.pop(event["ended"], None)
                    elif "began" in event:
                        OwnerProcess.from_json(event["owner"])
                        events.runs[event["began"]] = event
                    elif "stamp" in event:
                        events.done[event["destination"]] = {name: event[name] for name in ("request", *DONE)}
                    else:
                        events.archives[event["destination"]] = {
                            **{name: event[name] for name in PLANNED},
                            "problems": tuple(map(Problem.from_json, event["problems"])),
                        }
        return events

    def of(self, row: BatchRow, events: ListEvents) -> BatchRow:
        """An archive as its job has it; without one, as its last event does."""
        destination = self.stored(row.destination)
        if not row.begun():
            return replace(row, **events.archives.get(destination, {}))
        done = events.done.get(destination, {})
        if done.get("request") == self._request_json(row) and done["stamp"] == stamp(row.job):
            return replace(row, **{name: done[name] for name in DONE})
        return of_job(row)

    def planned(self, row: BatchRow, events: ListEvents) -> int:
        """Bytes of the source that are read according to the plan of an archive."""
        event = events.archives.get(self.stored(row.destination))
        return row.bytes_in if event is None else int(event["bytes_in"])

    def _request_json(self, row: BatchRow) -> list[str]:
        """The source of an archive and what is asked for it."""
        return [self.stored(row.source), row.request.text]

    def note_done(self, row: BatchRow) -> None:
        """Append what the job of an archive that is done says."""
        self._append(
            [
                {
                    "destination": self.stored(row.destination),
                    "request": self._request_json(row),
                    **{name: getattr(row, name) for name in DONE},
                }
            ]
        )

    def note(self, rows: Iterable[BatchRow]) -> None:
        """Append what is known of archives without a job."""
        self._append(
            {
                "destination": self.stored(row.destination),
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
            with open(self._events, "ab") as file:
                if file.tell() and text:
                    with open(self._events, "rb") as before:
                        before.seek(-1, os.SEEK_END)
                        text = text if before.read(1) == b"\n" else "\n" + text
                file.write(text.encode())
        except OSError as error:
            raise JobError(
                "cannot write beside the list", key=str(self._events), found=error.strerror
            ) from error


def _below(path: str, folder: str) -> str | None:
    """A path relative to a folder that contains it, also by other names of its parents; None if none does."""
    above = folder.rstrip(os.sep) + os.sep
    if not path.startswith(above):
        head, name = os.path.split(path)
        path = os.path.join(os.path.realpath(head), name)
        above = os.path.realpath(folder).rstrip(os.sep) + os.sep
    return path.removeprefix(above) if path.startswith(above) else None
