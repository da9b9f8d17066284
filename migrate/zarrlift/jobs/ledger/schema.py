"""The tables of a job file. The comments are those of the reference (docs/reference/generate.py)."""

from __future__ import annotations

from typing import Final

SCHEMA: Final = """
CREATE TABLE meta (  -- Notes on the job.
    name TEXT PRIMARY KEY,  -- Name of a [note](#notes).
    value TEXT NOT NULL  -- Its value; numbers and JSON are text too.
) WITHOUT ROWID;
CREATE TABLE node (  -- One row for each node of the plan.
    id INTEGER PRIMARY KEY,  -- Number of the node.
    path TEXT NOT NULL,  -- Its path, without a leading slash.
    kind TEXT NOT NULL,  -- `array`, `group` or `refusal`.
    plan TEXT NOT NULL,  -- Its [plan](json.md#planned-array) in JSON, without what `common` has.
    state TEXT NOT NULL,  -- `pending`, `done` (published), `failed` or `refused`.
    published_ns INTEGER,  -- Modification time of its `zarr.json`, in nanoseconds.
    problems TEXT,  -- Why it failed: a list of [problems](json.md#problem) in JSON.
    route TEXT,  -- Of an array.
    tasks INTEGER,  -- Number of its tasks, of both passes.
    moves INTEGER,  -- Whether its last pass has tasks.
    bytes_in INTEGER,  -- Stored bytes to read.
    bytes_known INTEGER,  -- 0 if that is an estimate.
    reads INTEGER,  -- Reads of source objects.
    by_tasks INTEGER,  -- Whether progress is counted in tasks rather than chunks.
    since INTEGER NOT NULL DEFAULT 0,  -- The `generation` from which on what parts record of it counts.
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
    PRIMARY KEY (node, number)
) WITHOUT ROWID;
CREATE TABLE synced (  -- Tasks whose objects have been flushed to the disk.
    node INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (node, number)
) WITHOUT ROWID;
CREATE TABLE task_digest (  -- With `--digest`, until the array is published.
    node INTEGER NOT NULL,
    number INTEGER NOT NULL,  -- Number of the task.
    sums BLOB NOT NULL,  -- Digest of the values that it moved.
    PRIMARY KEY (node, number)
) WITHOUT ROWID;
CREATE TABLE digest (  -- With `--digest`: published arrays.
    node INTEGER PRIMARY KEY,
    document TEXT NOT NULL  -- The [digest](json.md#array-digest) in JSON.
);
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
