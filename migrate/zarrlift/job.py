"""The ledger: what a job is to do and which of it is done. SQLite, one writer.

Work is done first and recorded after, so what is not recorded is done again; every step
is safe to repeat. The file grows with tasks (about a thousand chunks each), not with chunks.

`synchronous` is off by default: SQLite's journal protects the file from the death of the
process, and a power failure is what `--fsync` is for.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

from zarrstack.core.errors import JobError, Problem
from zarrstack.core.jsons import JSONObject

from .plans import ArrayPlan, GroupPlan, Plan, Planned, Refusal

SUFFIX: Final = ".zarrlift.db"
_VERSION: Final = "1"
_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE node (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, kind TEXT NOT NULL, plan TEXT NOT NULL,
    state TEXT NOT NULL, published_ns INTEGER, problems TEXT, UNIQUE (path, kind));
CREATE TABLE task (
    node INTEGER NOT NULL, number INTEGER NOT NULL, chunks INTEGER NOT NULL,
    bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL, dropped INTEGER NOT NULL,
    PRIMARY KEY (node, number)) WITHOUT ROWID;
CREATE TABLE legacy (key TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
"""

State: TypeAlias = Literal["incomplete", "done", "finished", "undone"]
NodeState: TypeAlias = Literal["pending", "failed", "done", "refused"]
Kind: TypeAlias = Literal["array", "group", "refusal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node as the ledger has it."""

    id: int
    path: str
    kind: Kind
    state: NodeState
    published_ns: int | None
    """Modification time of its `zarr.json`, in the destination's own clock, in nanoseconds."""
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the recorded tasks of one node."""

    tasks: int = 0
    chunks: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: int = 0


class Job:
    """An open job file. Use as a context manager; only one process may write at a time."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: Any) -> None:
        self.path = path
        self._db = connection
        self._lock = lock
        self._meta = dict(connection.execute("SELECT name, value FROM meta"))
        if self._meta.get("version") != _VERSION:
            raise JobError(
                "the job file is of another version",
                key=str(path),
                found=self._meta.get("version"),
                expected=_VERSION,
            )

    @classmethod
    def create(
        cls, path: Path, plan: Plan, *, facts: Mapping[str, str] | None = None, fsync: bool = False
    ) -> Self:
        """A new job that holds a plan; appears whole or not at all. JobError if the file exists."""
        if path.exists():
            raise JobError(
                "a job file is there already", key=str(path), advice="Resume it, or undo it first."
            )
        # Made beside and renamed: a process killed here leaves no half job behind.
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.unlink(missing_ok=True)
            db = sqlite3.connect(partial, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise JobError("cannot create the job file", key=str(path), found=str(error)) from error
        try:
            db.execute(f"PRAGMA synchronous={'FULL' if fsync else 'OFF'}")
            db.executescript(_SCHEMA)
            db.execute("BEGIN")
            now = repr(time.time())
            meta = {
                "version": _VERSION,
                "id": secrets.token_hex(4),
                "state": "incomplete",
                "plan": json.dumps(plan.header_to_json()),
                "created": now,
                "updated": now,
                **(facts or {}),
            }
            db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            db.executemany("INSERT INTO node (path, kind, plan, state) VALUES (?, ?, ?, ?)", _node_rows(plan))
            db.execute("COMMIT")
        except sqlite3.Error as error:
            db.close()
            partial.unlink(missing_ok=True)
            raise JobError("cannot write the job file", key=str(path), found=str(error)) from error
        db.close()
        os.replace(partial, path)
        return cls.open(path, fsync=fsync)

    @classmethod
    def open(cls, path: Path, *, fsync: bool = False, write: bool = True) -> Self:
        """An existing job; JobError if it is none, or if another process is running it."""
        lock = _lock(path) if write else None
        try:
            # Readers open for writing too: after a kill the journal has to be rolled back first.
            mode = "rw" if write or os.access(path, os.W_OK) else "ro"
            db = sqlite3.connect(f"file:{_quoted(path)}?mode={mode}", uri=True, isolation_level=None)
            db.execute("PRAGMA busy_timeout=10000")
            if write:
                db.execute(f"PRAGMA synchronous={'FULL' if fsync else 'OFF'}")
            return cls(path, db, lock)
        except sqlite3.Error as error:
            if lock is not None:
                os.close(lock)
            raise JobError("this is no job file", key=str(path), found=str(error)) from error

    def close(self) -> None:
        """Commit and release the file."""
        if self._db.in_transaction:
            self._db.execute("COMMIT")
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What the job is

    @property
    def id(self) -> str:
        """Eight hexadecimal digits that temporary names carry."""
        return str(self._meta["id"])

    @property
    def state(self) -> State:
        """How far the job as a whole is."""
        state: State = self._meta["state"]
        return state

    def fact(self, name: str) -> str | None:
        """A note kept with the job, such as "verified"."""
        return self._meta.get(name)

    def note(self, **facts: str | None) -> None:
        """Keep notes with the job; None removes one. Durable at the next commit."""
        self._begin()
        for name, value in facts.items():
            if value is None:
                self._meta.pop(name, None)
                self._db.execute("DELETE FROM meta WHERE name = ?", (name,))
            else:
                self._meta[name] = value
                self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def plan(self) -> Plan:
        """The plan the job was made with."""
        data: JSONObject = {**json.loads(self._meta["plan"]), "arrays": [], "groups": [], "refusals": []}
        for kind, text in self._db.execute("SELECT kind, plan FROM node ORDER BY path"):
            data[{"array": "arrays", "group": "groups", "refusal": "refusals"}[kind]].append(json.loads(text))
        return Plan.from_json(data)

    def swap_node(self, path: str, node: Planned) -> None:
        """Plan a node anew: what was recorded of it is forgotten. Durable at the next commit."""
        self._begin()
        for (number,) in self._db.execute("SELECT id FROM node WHERE path = ?", (path,)).fetchall():
            self._db.execute("DELETE FROM task WHERE node = ?", (number,))
            self._db.execute("DELETE FROM node WHERE id = ?", (number,))
        self._db.execute("INSERT INTO node (path, kind, plan, state) VALUES (?, ?, ?, ?)", _node_row(node))

    # What is done

    def nodes(self) -> list[NodeRow]:
        """Every node, sorted by path."""
        rows = self._db.execute(
            "SELECT id, path, kind, state, published_ns, problems FROM node ORDER BY path"
        )
        return [
            NodeRow(
                id=number,
                path=path,
                kind=kind,
                state=state,
                published_ns=published,
                problems=tuple(Problem.from_json(item) for item in json.loads(problems or "[]")),
            )
            for number, path, kind, state, published, problems in rows
        ]

    def tasks_done(self, node: int) -> set[int]:
        """Numbers of the recorded tasks of a node."""
        return {number for (number,) in self._db.execute("SELECT number FROM task WHERE node = ?", (node,))}

    def totals(self) -> dict[int, Totals]:
        """Sums of the recorded tasks, by node."""
        rows = self._db.execute(
            "SELECT node, count(*), sum(chunks), sum(bytes_in), sum(bytes_out), sum(dropped)"
            " FROM task GROUP BY node"
        )
        return {
            node: Totals(tasks=tasks, chunks=chunks, bytes_in=read, bytes_out=written, dropped=dropped)
            for node, tasks, chunks, read, written, dropped in rows
        }

    def record_task(
        self, node: int, number: int, *, chunks: int, bytes_in: int, bytes_out: int, dropped: int
    ) -> None:
        """A task is done; durable at the next commit."""
        self._begin()
        self._db.execute(
            "INSERT OR REPLACE INTO task VALUES (?, ?, ?, ?, ?, ?)",
            (node, number, chunks, bytes_in, bytes_out, dropped),
        )

    def record_node(
        self,
        node: int,
        state: NodeState,
        *,
        published_ns: int | None = None,
        problems: Iterable[Problem] = (),
    ) -> None:
        """A node is published, or failed; durable at the next commit."""
        self._begin()
        self._db.execute(
            "UPDATE node SET state = ?, published_ns = ?, problems = ? WHERE id = ?",
            (state, published_ns, json.dumps([problem.to_json() for problem in problems]), node),
        )

    def commit(self) -> None:
        """Make what was recorded durable."""
        if self._db.in_transaction:
            self._db.execute("UPDATE meta SET value = ? WHERE name = 'updated'", (repr(time.time()),))
            self._db.execute("COMMIT")

    # Legacy documents that `finish` removed

    def keep_legacy(self, documents: Iterable[tuple[str, bytes]]) -> None:
        """Keep documents before they are deleted; on disk, whatever `fsync` says, when this returns."""
        self.commit()
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("BEGIN")
        self._db.executemany("INSERT OR REPLACE INTO legacy VALUES (?, ?)", documents)
        self._db.execute("COMMIT")

    def legacy(self) -> Iterator[tuple[str, bytes]]:
        """(key, content) of the documents kept."""
        yield from self._db.execute("SELECT key, content FROM legacy ORDER BY key")

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN")


def _node_row(node: Planned) -> tuple[str, str, str, str]:
    kind = {ArrayPlan: "array", GroupPlan: "group", Refusal: "refusal"}[type(node)]
    state = "refused" if kind == "refusal" else "pending"
    return node.path, kind, json.dumps(node.to_json()), state


def _node_rows(plan: Plan) -> list[tuple[str, str, str, str]]:
    return [_node_row(node) for node in plan.nodes]


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path))


def _lock(path: Path) -> int | None:
    """Hold the file against other runners until this process ends; the kernel lets go by itself."""
    try:
        import fcntl
    except ImportError:  # not a Unix; SQLite's own locks still keep the ledger sound
        return None
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError as error:
        raise JobError("cannot open the job file", key=str(path), found=error.strerror) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise JobError(
            "another process is running this job", key=str(path), advice="Wait for it, or stop it first."
        ) from None
    return descriptor
