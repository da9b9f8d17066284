"""The ledger: the work of a job and its completed part. SQLite, one writer.

Work is recorded after it is done. Unrecorded work is repeated, and every step is safe to repeat. Records grow
with tasks (about a thousand chunks each); the listing of a local source, for updates, with chunks.

`synchronous` is off by default: SQLite's journal protects the file if the process dies; use `--fsync` against
power failures.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ...errors import JobError
from ...planning.plans import Plan, Planned, Whole
from ...transfer.counts import MoveResult
from .database import (
    Database,
    as_stored,
    as_text,
    connect,
    lock_file,
    not_opened,
    remove_journal,
    reporting_damage,
    require_file,
    require_job,
    require_version,
    unwritable,
)
from .job_places import Source, has_moved, is_elsewhere, located, sources, to_record
from .schema import (
    NODES,
    NODES_WITH_PLANS,
    JobRecord,
    Kind,
    NodeRow,
    NodeState,
    RecordedTask,
    State,
    TaskTotals,
    create_database,
    insert_nodes,
    node_row,
    planned_rows,
    plans_of,
)


class Table:
    """A table of an open job file."""

    def __init__(self, db: Database) -> None:
        self._db = db


class ListingRows(Table):
    """The listing of a source, for updates: compressed, in pieces."""

    def keep(self, pieces: Iterable[bytes]) -> None:
        """Store a listing in place of an earlier one; the length of each piece is a multiple of 8."""
        self._db.write("DELETE FROM listing")
        for part, piece in enumerate(pieces):
            # Columns of positions and times: their differences are small numbers.
            numbers = np.frombuffer(piece, "<u8")
            steps = np.diff(numbers, prepend=numbers.dtype.type(0))
            self._db.write("INSERT INTO listing VALUES (?, ?)", (part, zlib.compress(steps.tobytes(), 1)))

    def pieces(self) -> Iterator[bytes]:
        """The pieces of the listing; none if there is no listing. ValueError or zlib.error if damaged."""
        for (part,) in self._db.rows("SELECT part FROM listing ORDER BY part"):
            ((content,),) = self._db.rows("SELECT content FROM listing WHERE part = ?", (part,))
            yield np.cumsum(np.frombuffer(zlib.decompress(content), "<u8"), dtype="<u8").tobytes()


class DocumentRows(Table):
    """Digests of earlier `zarr.json`, by node."""

    def add(self, path: str, digest: str) -> None:
        """Store the digest of a document of the node at `path`."""
        self._db.write("INSERT OR IGNORE INTO document VALUES (?, ?)", (as_stored(path), digest))

    def forget(self, path: str) -> None:
        """Remove the digests of a node: its document is the one of the plan, and no other."""
        self._db.write("DELETE FROM document WHERE path = ?", (as_stored(path),))

    def has(self, path: str, digest: str) -> bool:
        """Whether a document with this digest is one of the node."""
        query = "SELECT 1 FROM document WHERE path = ? AND digest = ?"
        return bool(self._db.rows(query, (as_stored(path), digest)))


class OtherRows(Table):
    """Keys of objects that others have written, by the path of their array."""

    def keep(self, path: str, keys: Iterable[str]) -> None:
        """Store the keys of an array in place of earlier ones."""
        self._db.write("DELETE FROM other WHERE path = ?", (as_stored(path),))
        for key in keys:
            self._db.write("INSERT INTO other VALUES (?, ?)", (as_stored(path), as_stored(key)))

    def all(self) -> frozenset[str]:
        """The keys of all arrays."""
        return frozenset(as_text(key) for (key,) in self._db.rows("SELECT key FROM other"))


class LegacyRows(Table):
    """The legacy documents that `finish` removed, which `undo` restores, by key."""

    def keep(self, documents: Iterable[tuple[str, bytes]]) -> None:
        """Store documents that are about to be deleted."""
        self._db.write_many("INSERT OR REPLACE INTO legacy VALUES (?, ?)", documents)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """(key, content) of the stored documents."""
        yield from self._db.rows("SELECT key, content FROM legacy ORDER BY key")


class Job:
    """An open job file. Use as a context manager; only one process may write at a time."""

    before_commit: Callable[[], None] | None = None  # makes durable what is about to be recorded

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: Any) -> None:
        self.path = path
        self._file = Path(os.path.realpath(path)) if os.path.islink(path) else path
        self._db = Database(connection, path, lock)
        self._lock = lock
        self.listing = ListingRows(self._db)
        self.legacy = LegacyRows(self._db)
        self.documents = DocumentRows(self._db)
        self.others = OtherRows(self._db)
        rows = connection.execute("SELECT name, value FROM meta")
        self._meta: dict[str, Any] = {name: as_text(value) for name, value in rows}
        require_job(self._meta, path)

    @classmethod
    def create(
        cls,
        path: Path,
        plan: Plan,
        *,
        id: str | None = None,
        record: JobRecord = JobRecord(),  # noqa: B008 - frozen
        notes: Mapping[str, str] | None = None,
        fsync: bool = False,
    ) -> Self:
        """Create a job from a plan; the file appears complete or not at all. JobError if it exists."""
        notes = notes or {}
        header, places = to_record(plan.header_to_json(), notes.get("source_place", plan.source), path)
        meta = {
            "id": id or os.urandom(4).hex(),
            "state": "incomplete",
            "plan": json.dumps(header),
            **record.to_notes(),
            **{name: text for name, text in {**notes, **places}.items() if text is not None},
        }
        create_database(path, meta, plan.nodes, fsync=fsync)
        return cls.open(path, fsync=fsync)

    @classmethod
    def open(cls, path: Path, *, fsync: bool = False, write: bool = True) -> Self:
        """Open an existing job; JobError if the file is not a job, or if another process is running it."""
        require_file(path)
        require_version(path)
        lock = lock_file(path) if write else None
        db = None
        try:
            db = connect(path, fsync=fsync, write=write)
            opened = cls(path, db, lock)
            if write:
                remove_journal(db, path)
            return opened
        except (JobError, sqlite3.Error) as error:
            if db is not None:
                db.close()
            if lock is not None:
                os.close(lock)
            if isinstance(error, JobError):
                raise
            raise not_opened(path, error) from error

    def close(self) -> None:
        """Commit and release the file. Work that cannot be committed is repeated on resume."""
        with contextlib.suppress(sqlite3.Error):
            if self._db.in_transaction:
                self._db.connection.execute("COMMIT")
        self._db.connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The job

    @property
    def id(self) -> str:
        """Eight hexadecimal digits, part of temporary names."""
        return str(self._meta["id"])

    @property
    def state(self) -> State:
        """The state of the job as a whole."""
        state: State = self._meta["state"]
        return state

    @cached_property
    def record(self) -> JobRecord:
        """What is set once, when a job is created."""
        with reporting_damage(self.path):
            return JobRecord.of(self._meta)

    def fact(self, name: str) -> str | None:
        """A note stored in the job that may change, such as "verified"."""
        return self._meta.get(name)

    def note(self, **facts: str | None) -> None:
        """Store notes in the job; None removes a note. Durable at the next commit."""
        for name, value in facts.items():
            if value is None:
                self._meta.pop(name, None)
                self._db.write("DELETE FROM meta WHERE name = ?", (name,))
            else:
                self._meta[name] = value
                self._db.write("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, as_stored(value)))

    @property
    def header(self) -> JSONObject:
        """What the plan says of the archive as a whole, with the places where they are now."""
        return located(json.loads(self._meta["plan"]), self._meta, self._file)

    @property
    def sources(self) -> list[Source]:
        """Where the source may be; the first one is tried first."""
        stored = json.loads(self._meta["plan"])
        if stored["in_place"]:
            place = self.header["source"]
            return [Source(place, place)]
        return sources(stored, self._meta, self._file)

    @property
    def has_moved(self) -> bool:
        """Whether the file was moved or copied since its places were recorded, as far as it may be."""
        return has_moved(self._meta, self._file)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the file of a job apart from its result is a copy, or was moved: it may only be read."""
        return is_elsewhere(self._meta, self._file)

    def note_header(self, **members: Any) -> None:
        """Change members of the header other than its places. Durable at the next commit."""
        stored = json.loads(self._meta["plan"])
        places = {name: stored[name] for name in ("source", "destination")}
        self.note(plan=json.dumps({**stored, **members, **places}))

    def note_places(self, source: str, destination: str, source_place: str) -> None:
        """Record where source and result are now, and the file. Durable at the next commit."""
        header = {**self.header, "source": source, "destination": destination}
        stored, notes = to_record(header, source_place, self._file)
        self.note(plan=json.dumps(stored), **notes)

    def plan(self) -> Plan:
        """The plan of the job."""
        with reporting_damage(self.path):
            common = self._db.rows("SELECT digest, plan FROM common")
            rows = self._db.rows("SELECT kind, plan FROM node ORDER BY path")
            return Plan.from_header(self.header, plans_of(common, rows))

    def drop_node(self, path: str) -> None:
        """Forget a node and its recorded work. Durable at the next commit."""
        self._db.begin()
        for (number,) in self._db.rows("SELECT id FROM node WHERE path = ?", (as_stored(path),)):
            self.forget_tasks(number)
            self._db.execute("DELETE FROM node WHERE id = ?", (number,))

    def swap_node(self, path: str, node: Planned, *, published_ns: int | None = None) -> None:
        """Replace the plan of a node and forget its recorded work. Durable at the next commit.

        `published_ns` is that of its earlier document, if that stays visible until the new one is written.
        """
        self.drop_node(path)
        try:
            insert_nodes(self._db.connection, [node])
        except sqlite3.Error as error:
            raise unwritable(self.path, error) from error
        self._db.execute("UPDATE node SET published_ns = ? WHERE path = ?", (published_ns, as_stored(path)))

    def forget_tasks(self, node: int, numbers: Iterable[int] | None = None) -> None:
        """Mark some tasks of a node, or all, as not done. Durable at the next commit."""
        for number in (None,) if numbers is None else numbers:
            which = (node, number)
            self._db.write("DELETE FROM task WHERE node = ? AND number = coalesce(?, number)", which)
            self._db.write("DELETE FROM synced WHERE node = ? AND number = coalesce(?, number)", which)

    # Completed work

    def nodes(self, kind: Kind | None = None, *, done: bool = True) -> list[NodeRow]:
        """All nodes, of one kind if given, sorted by path; with `done=False`, only those not done."""
        with reporting_damage(self.path):
            return list(map(node_row, self._db.rows(NODES, (kind, done))))

    def planned_rows(self) -> Iterator[tuple[NodeRow, JSONObject, JSONObject]]:
        """All nodes, each with its own part of the plan and that which arrays share; quicker than `plan`."""
        common = self._db.rows("SELECT digest, plan FROM common")
        return planned_rows(common, self._db.rows(NODES_WITH_PLANS, (None, True)))

    def done(self, kind: Kind) -> int:
        """Number of completed nodes of a kind."""
        ((count,),) = self._db.rows("SELECT count(*) FROM node WHERE kind = ? AND state = 'done'", (kind,))
        return int(count)

    def recorded(self, node: int) -> dict[int, RecordedTask]:
        """Recorded tasks of a node, by number."""
        rows = self._db.rows(
            "SELECT number, chunks, dropped, objects, bytes_out FROM task WHERE node = ?", (node,)
        )
        return {number: RecordedTask(*counts) for number, *counts in rows}

    def record_synced(self) -> None:
        """Record that the recorded work has reached the disk. Durable at the next commit."""
        self._db.write("INSERT OR IGNORE INTO synced SELECT node, number FROM task", ())

    def unsynced(self) -> dict[int, set[int]]:
        """Numbers of the recorded tasks that may not have reached the disk, by node."""
        numbers: dict[int, set[int]] = {}
        for node, number in self._db.rows("SELECT node, number FROM task EXCEPT SELECT * FROM synced"):
            numbers.setdefault(node, set()).add(number)
        return numbers

    def totals(self, *, passes: Literal["both", "last"] = "both") -> dict[int, TaskTotals]:
        """Sums over the recorded tasks, by node; of two passes, over both or the last one."""
        rows = self._db.rows(
            "SELECT node, count(*), sum(chunks), sum(bytes_in), sum(bytes_out), sum(dropped), sum(objects)"
            " FROM task WHERE ? OR number >= 0 GROUP BY node",
            (passes == "both",),
        )
        return {node: TaskTotals(*sums) for node, *sums in rows}

    def record_task(self, node: int, number: int, moved: MoveResult, *, synced: bool = False) -> None:
        """Record a task, as on the disk if `synced`. Durable at the next commit."""
        chunks = 0 if number < 0 else moved.chunks  # those of a first pass count with the second
        values = (node, number, chunks, moved.bytes_in, moved.bytes_out, moved.dropped, moved.objects)
        self._db.write("INSERT OR REPLACE INTO task VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        if synced:
            self._db.execute("INSERT OR IGNORE INTO synced VALUES (?, ?)", (node, number))

    def record_node(
        self,
        node: int,
        state: NodeState,
        *,
        published_ns: int | None = None,
        problems: Iterable[Problem] = (),
    ) -> None:
        """Record a node as published or failed. Durable at the next commit."""
        as_json = [problem.to_json() for problem in problems]
        self._db.write(
            "UPDATE node SET state = ?, published_ns = ?, problems = ? WHERE id = ?",
            (state, published_ns, json.dumps(as_json) if as_json else None, node),
        )

    def record_published(self, nodes: Iterable[tuple[int, int | None]]) -> None:
        """Record published nodes: (node, modification time of its document in nanoseconds)."""
        self._db.write_many(
            "UPDATE node SET state = 'done', published_ns = ?, problems = NULL WHERE id = ?",
            ((published, node) for node, published in nodes),
        )

    def record_whole(self, node: int, whole: Whole) -> None:
        """Record the amounts of an array that was updated in part. Durable at the next commit."""
        ((text,),) = self._db.rows("SELECT plan FROM node WHERE id = ?", (node,))
        plan = json.loads(text)
        plan["changes"]["whole"] = list(whole)
        self._db.write("UPDATE node SET plan = ? WHERE id = ?", (json.dumps(plan), node))

    def commit(self) -> None:
        """Make the recorded work durable, after the objects that it is about."""
        if self._db.in_transaction:
            if self.before_commit is not None:
                self.before_commit()
            self._db.execute("UPDATE meta SET value = ? WHERE name = 'updated'", (repr(time.time()),))
            self._db.commit()

    def sync_commits(self) -> None:
        """Commit, and let later commits be on disk when they return, regardless of `fsync`."""
        self.commit()
        self._db.execute("PRAGMA synchronous=EXTRA")
