"""The tables of a job file, their rows as frozen data, and a new file with them.

The plans of 100,000 arrays take half a second to read. What arrays of one layout have in common is a row of
its own, under its digest: such an archive has few layouts, and a plan without its layouts takes a quarter of
the space. A new file appears complete or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject
from zarrstack.system.this import system

from ...archive.chunk_inventory import UNLISTED
from ...archive.nodes import layout_from_json, layout_to_json
from ...core.identity_cache import IdentityCache
from ...errors import JobError
from ...planning.plans import ArrayPlan, GroupPlan, Planned, Refusal
from ...planning.routes import RouteName
from ...recipe.options import Link
from ...recipe.recipe import ValueOptions
from ...storage.local.files import existing_directory, may_create_in
from ...storage.local.partial_files import partial_name, sweep_partial
from .database import VERSION, as_stored, as_text, error_text

Kind: TypeAlias = Literal["array", "group", "refusal"]
State: TypeAlias = Literal["incomplete", "done", "finished", "undone"]
NodeState: TypeAlias = Literal["pending", "failed", "done", "refused"]
NODES: Final = """
SELECT id, path, kind, state, published_ns, coalesce(problems, CASE kind WHEN 'refusal' THEN plan END),
    route, tasks, moves, bytes_in, bytes_known, reads, by_tasks
FROM node WHERE kind = coalesce(?, kind) AND (? OR state != 'done') ORDER BY path"""
NODES_WITH_PLANS: Final = NODES.replace("\nFROM", ", plan\nFROM")


class TaskTotals(NamedTuple):
    """Sums over the recorded tasks of a node."""

    tasks: int = 0
    chunks: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: int = 0
    objects: int = 0


class RecordedTask(NamedTuple):
    """A recorded task."""

    chunks: int
    """Number of source objects moved; 0 for a first pass."""
    dropped: int
    """Number of those omitted as empty."""
    objects: int
    """Number of objects written by blocks; else 0."""
    bytes_out: int
    """Number of bytes written."""


class PlannedWork(NamedTuple):
    """The amount of work that an array needs, as far as its plan knows it."""

    tasks: int
    """Number of tasks, in both passes if there are two."""
    moves: bool
    """Whether the last pass has tasks."""
    bytes_in: int
    """Stored bytes to read; bytes that are read twice count twice."""
    bytes_known: bool
    """False if the bytes are an estimate."""
    reads: int
    """Number of reads of source objects, repeated ones included."""
    by_tasks: bool
    """Whether chunks do not measure the work: some may be missing, or those of two arrays are read."""


class NodeRow(NamedTuple):
    """A node."""

    id: int
    path: str
    kind: Kind
    state: NodeState
    published_ns: int | None
    """Modification time of its `zarr.json` in nanoseconds, by the destination's clock."""
    problems: tuple[Problem, ...]
    """Why it is refused, or has failed."""
    route: RouteName | None
    """The route of an array's chunks."""
    work: PlannedWork


def node_row(values: Sequence[Any]) -> NodeRow:
    """A row that `NODES` selects."""
    number, path, kind, state, published, problems, route, *amounts = values
    tasks, moves, read, bytes_known, reads, by_tasks = amounts
    work = PlannedWork(tasks, bool(moves), read, bool(bytes_known), reads, bool(by_tasks))
    why = _problems(problems) if problems else ()
    return NodeRow(number, as_text(path), kind, state, published, why, route, work)


def _problems(text: str) -> tuple[Problem, ...]:
    data = json.loads(text)  # the list of a failed node, or the plan of a refused one
    return tuple(map(Problem.from_json, data["problems"] if isinstance(data, dict) else data))


_KINDS: Final[Mapping[type[Planned], Kind]] = {ArrayPlan: "array", GroupPlan: "group", Refusal: "refusal"}
_ENCODE: Final = json.JSONEncoder(check_circular=False).encode  # plans are trees
_COMMON: Final = frozenset(
    {
        *("source", "destination", "route", *ValueOptions._fields),
        *("block_shape", "piece_shape", "run_shape", "between", "document", "fill_is_null"),
    }
)
"""Members of an array's plan that the arrays of a layout share; of its document, all but the attributes."""
_SHARED: Final = "shared"
"""Member of a row's plan: the digest under which the common part is stored."""

_NO_WORK: Final = PlannedWork(tasks=0, moves=False, bytes_in=0, bytes_known=True, reads=0, by_tasks=False)

Common: TypeAlias = tuple[bytes, str]
"""(digest, JSON text) of what arrays have in common."""

Values: TypeAlias = tuple[str | bytes | int | None, ...]
"""Of a new row of `node`: path, kind, plan, state, route, and those of `PlannedWork`."""


def node_rows(nodes: Iterable[Planned]) -> Iterator[tuple[Values, Common | None]]:
    """The row of each node, and what it shares with others if that has not been given before."""
    layout = IdentityCache(layout_to_json)
    written: set[bytes] = set()
    for node in nodes:
        path, kind = as_stored(node.path), _KINDS[type(node)]
        if not isinstance(node, ArrayPlan):
            state = "refused" if kind == "refusal" else "pending"
            yield (path, kind, _ENCODE(node.to_json()), state, None, *_NO_WORK), None
            continue
        digest, text, own = _split(node.to_json(layout))
        row = (path, kind, _ENCODE(own), "pending", node.route.name, *planned_work(node))
        yield row, None if digest in written else (digest, text)
        written.add(digest)


def planned_work(plan: ArrayPlan) -> PlannedWork:
    """What a plan says about the amount of its work."""
    first = 0 if plan.between is None else max(len(plan.between.bounds) - 1, 0)
    return PlannedWork(
        tasks=plan.tasks + first,
        moves=plan.tasks > 0,
        bytes_in=plan.bytes_read,
        bytes_known=plan.bytes_in_known,
        reads=plan.reads,
        by_tasks=plan.fingerprint == UNLISTED or plan.between is not None,
    )


def plans_of(common: Iterable[tuple[bytes, str]], rows: Iterable[tuple[Kind, str]]) -> Iterator[Planned]:
    """The nodes of rows, which may hold their whole plans, and of those of what arrays share.

    Equal layouts are one object. ValueError, KeyError or TypeError if damaged.
    """
    shared: dict[str, JSONObject] = {digest.hex(): json.loads(text) for digest, text in common}
    layout = IdentityCache(layout_from_json)
    for kind, text in rows:
        data: JSONObject = json.loads(text)
        if kind != "array":
            yield (GroupPlan if kind == "group" else Refusal).from_json(data)
            continue
        if _SHARED in data:
            whole = shared[data[_SHARED]]
            document = whole["document"]
            if "attributes" in data:
                document = {**document, "attributes": data["attributes"]}  # at its place in the document
            data = {**whole, **data, "document": document}
        yield ArrayPlan.from_json(data, layout)


def planned_rows(
    common: Iterable[tuple[bytes, str]], rows: Iterable[Sequence[Any]]
) -> Iterator[tuple[NodeRow, JSONObject, JSONObject]]:
    """Rows of `NODES_WITH_PLANS`, each with the JSON of its own part of the plan and of the shared part."""
    shared: dict[str, JSONObject] = {digest.hex(): json.loads(text) for digest, text in common}
    for *columns, text in rows:
        data = json.loads(text)
        yield node_row(columns), data, shared[data[_SHARED]] if _SHARED in data else data


def _split(plan: JSONObject) -> tuple[bytes, str, JSONObject]:
    """Digest and text of what an array's plan shares, and the rest of the plan."""
    own: dict[str, Any] = {name: value for name, value in plan.items() if name not in _COMMON}
    common = {name: value for name, value in plan.items() if name in _COMMON}
    document = common["document"]
    if "attributes" in document:
        own["attributes"] = document["attributes"]
        common["document"] = {**document, "attributes": None}
    text = _ENCODE(common)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    own[_SHARED] = digest.hex()
    return digest, text, own


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What a job was created with besides its plan; each is a note of the job file."""

    link: Link = "auto"
    overwrite: bool = False
    source_through: str | None = None
    dest_through: str | None = None
    """Layers over either side."""

    @classmethod
    def of(cls, notes: Mapping[str, str]) -> Self:
        """The record of a job with these notes."""
        stored: dict[str, Any] = {each.name: notes[each.name] for each in fields(cls) if each.name in notes}
        return cls(**{**stored, "overwrite": "overwrite" in notes})

    def to_notes(self) -> dict[str, str]:
        """Inverse of `of`."""
        notes = {**asdict(self), "overwrite": "yes" if self.overwrite else None}
        return {name: text for name, text in notes.items() if text is not None}


# The notes in `meta`:
# - version: Version of the file.
# - id: Eight hexadecimal digits, part of temporary names.
# - state: incomplete, done, finished or undone.
# - plan: The plan without nodes, in JSON: source, destination, recipe.
# - created, updated: Times of creation and of the last record, in Unix time.
# - beside: Of a file beside its result, whose name is not stored: a digest of the file's path.
# - home: Of any other file, its path.
# - root: In JSON: real path of the folder that contains the result, where the result is if it was a link
#   when the job began, and the mount point that contains it. A result whose path leads elsewhere later is
#   refused.
# - source_place, source_relative: The place of the source as given, and its path relative to the file.
# - source_options, destination_options: Storage options in JSON, without secrets.
# - source_through, dest_through, link, overwrite: The options of migrate; yes for a switch.
# - set_aside: yes when the replaced tree has been moved aside.
# - run: The last run, in JSON: host, boot and process (owner), its number, when it began, when chunks
#   started moving and when it ended (null while it runs, and after a kill), the bytes that earlier runs had
#   read (bytes_before), the duration of all runs in seconds, and versions of packages.
# - retries: Requests that were repeated.
# - under_way: With a limit of the bandwidth: bytes of the source that running tasks have read.
# - silent: While a server does not answer: Unix time of its last answer, the attempt, and whether it
#   answers with errors, in JSON.
# - rate: Bytes per second in the last minute of the run that was measured.
# - checked, verified: How much was compared before arrays were published, and by verify since the last
#   change.
# - figures: Of a job that is done: the arrays, objects, bytes read and bytes written, as a list in JSON.
# - root_document: Digest of the root's zarr.json as written.
# - hiding: The path of an array whose document is removed until its missing chunks are written again.
# - branch: Of an Icechunk destination: the snapshot of main with which the job began.
# - update: What is asked of an update that is not complete, in JSON.
# - last_update: The paths of the arrays that the last update changes, as a list in JSON.
# - undoing: yes when an undo has started; emptied when it has only directories left to remove.
# - uncompared: yes if work that a power failure may have lost could not be compared, because the source had
#   changed.
#
# Text that is not valid UTF-8, such as names of files, is stored as a BLOB.
SCHEMA: Final = """
CREATE TABLE meta (  -- Notes on the job.
    name TEXT PRIMARY KEY,  -- Name of a note.
    value TEXT NOT NULL  -- Its value; numbers and JSON are text too.
) WITHOUT ROWID;
CREATE TABLE node (  -- One row for each node of the plan.
    id INTEGER PRIMARY KEY,  -- Number of the node.
    path TEXT NOT NULL,  -- Its path, without a leading slash.
    kind TEXT NOT NULL,  -- `array`, `group` or `refusal`.
    plan TEXT NOT NULL,  -- Its plan in JSON, without what `common` has.
    state TEXT NOT NULL,  -- `pending`, `done` (published), `failed` or `refused`.
    published_ns INTEGER,  -- Modification time of its `zarr.json`, in nanoseconds.
    problems TEXT,  -- Why it failed: a list of problems in JSON.
    route TEXT,  -- Of an array.
    tasks INTEGER,  -- Number of its tasks, of both passes.
    moves INTEGER,  -- Whether its last pass has tasks.
    bytes_in INTEGER,  -- Stored bytes to read.
    bytes_known INTEGER,  -- 0 if that is an estimate.
    reads INTEGER,  -- Reads of source objects.
    by_tasks INTEGER,  -- Whether progress is counted in tasks rather than chunks.
    UNIQUE (path, kind)
);
CREATE TABLE common (  -- What the plans of several arrays have in common.
    digest BLOB PRIMARY KEY,  -- BLAKE2b of `plan`; the plan of a node names it as `shared`.
    plan TEXT NOT NULL  -- Members of a plan, in JSON.
) WITHOUT ROWID;
CREATE TABLE task (  -- One row for each completed task.
    node INTEGER NOT NULL,  -- Its node.
    number INTEGER NOT NULL,  -- Its number; numbers of a first pass are negative.
    chunks INTEGER NOT NULL,  -- Source objects moved.
    bytes_in INTEGER NOT NULL,  -- Stored bytes read.
    bytes_out INTEGER NOT NULL,  -- Bytes written.
    dropped INTEGER NOT NULL,  -- Chunks omitted as empty.
    objects INTEGER NOT NULL,  -- Objects written, where blocks of several chunks make them.
    PRIMARY KEY (node, number)
) WITHOUT ROWID;
CREATE TABLE synced (  -- Tasks whose objects have been flushed to the disk.
    node INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (node, number)
) WITHOUT ROWID;
CREATE TABLE listing (  -- The listing of the source when the plan was made, for `update`.
    part INTEGER PRIMARY KEY,  -- Number of the piece.
    content BLOB NOT NULL  -- Indexes, sizes and versions of chunks, compressed with zlib.
);
CREATE TABLE document (  -- During an update: documents that the job wrote, or was about to write, before.
    path TEXT NOT NULL,  -- Path of the node.
    digest TEXT NOT NULL,  -- BLAKE2b of the `zarr.json`.
    PRIMARY KEY (path, digest)
) WITHOUT ROWID;
CREATE TABLE other (  -- After an update: objects of the result that others had written, and that it left.
    path TEXT NOT NULL,  -- Path of the array.
    key TEXT NOT NULL,  -- Key of the object.
    PRIMARY KEY (path, key)
) WITHOUT ROWID;
CREATE TABLE legacy (  -- After `finish`: the deleted documents.
    key TEXT PRIMARY KEY,  -- Key of the document.
    content BLOB NOT NULL  -- Its bytes.
) WITHOUT ROWID;
"""
SCHEMA_SQL: Final = " ".join(line.partition("  -- ")[0].strip() for line in SCHEMA.splitlines())
"""Without comments and lines, which SQLite would store in every job file."""

_SMALL_PAGES: Final = "PRAGMA page_size = 512;"
"""Each table takes at least one page: that of a small archive is a quarter as large with these."""
_FEW_NODES, _FEW_CHUNKS = 100, 10_000
"""Of an archive whose job has small pages: those of larger ones would be read and written one by one."""
_empty: Final[dict[bool, bytes]] = {}
"""Files without rows, by whether they have small pages: making the tables again takes a millisecond."""


def create_database(file: Path, facts: Mapping[str, str], nodes: Sequence[Planned], *, fsync: bool) -> None:
    """Create a job file with the notes and nodes of a new job; JobError if it exists.

    It is created under a temporary name and renamed, so a killed process leaves no partial job.
    """
    if os.path.lexists(file):
        raise JobError("the job file already exists", key=str(file), advice="Resume it, or undo it first.")
    is_small = len(nodes) <= _FEW_NODES and sum(getattr(node, "chunks", 0) for node in nodes) <= _FEW_CHUNKS
    now = repr(time.time())
    meta = {"version": VERSION, "created": now, "updated": now, **facts}
    path = Path(file)
    partial = Path(partial_name(str(path)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep_partial(str(path))
        partial.unlink(missing_ok=True)
        empty = _empty.get(is_small)
        if empty is not None:
            partial.write_bytes(empty)
        with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as db:
            db.execute(f"PRAGMA synchronous={'FULL' if fsync else 'OFF'}")
            if empty is None:
                db.executescript((_SMALL_PAGES if is_small else "") + SCHEMA_SQL)
                _empty[is_small] = partial.read_bytes()
            db.execute("BEGIN")
            notes = [(name, as_stored(value)) for name, value in meta.items()]
            db.executemany("INSERT INTO meta VALUES (?, ?)", notes)
            insert_nodes(db, nodes)
            db.execute("COMMIT")
        system.replace(str(partial), str(path))
    except (OSError, sqlite3.Error) as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
            partial.with_name(partial.name + "-journal").unlink(missing_ok=True)
        raise _not_created(path, error) from error


def insert_nodes(db: sqlite3.Connection, nodes: Iterable[Planned]) -> None:
    """Insert new nodes, and what their plans have in common unless it is there."""
    common: list[Common] = []

    def rows() -> Iterator[Values]:
        for row, shared in node_rows(nodes):
            if shared is not None:
                common.append(shared)
            yield row

    db.executemany(
        "INSERT INTO node (path, kind, plan, state, route, tasks, moves, bytes_in, bytes_known, reads,"
        " by_tasks) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows(),
    )
    db.executemany("INSERT OR IGNORE INTO common VALUES (?, ?)", common)


def refuse_closed_folder(path: Path) -> None:
    """Raise JobError, before a source is read, if no job file can be created at a path."""
    if not may_create_in(existing_directory(path.parent)):
        raise _not_created(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def _not_created(path: Path, error: OSError | sqlite3.Error) -> JobError:
    reason = error.strerror if isinstance(error, OSError) else None
    if reason is None and not may_create_in(path.parent):
        reason = "Permission denied"  # SQLite only reports that it cannot open the file
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:  # of a file that no one else has
        reason = "its file system lacks the locks of SQLite; SMB has them with the mount option nobrl"
    advice = "Fix the cause, or choose another path with --job. Nothing else was written."
    return JobError(
        "cannot create the job file", key=str(path), found=reason or error_text(error), advice=advice
    )
