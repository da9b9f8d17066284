"""Brings job files of version 1, in which each node holds its whole plan, to the current version."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from zarrstack.core.errors import JobError

from ...planning.plans import ArrayPlan, GroupPlan, Planned, Refusal
from .database import BROKEN, CREATE_COMMON, VERSION, WORK_COLUMNS, insert_common
from .plan_rows import node_rows
from .rows import Kind


def upgraded(db: sqlite3.Connection, path: Path, *, write: bool) -> sqlite3.Connection:
    """The connection, or with `write=False` a connection to a copy in memory, at the current version.

    A file of another version is left to its reader to refuse. Raises JobError if the file is damaged,
    sqlite3.Error if it cannot be read or written.
    """
    rows = db.execute("SELECT value FROM meta WHERE name = 'version'").fetchall()
    if rows != [("1",)]:
        return db
    if not write:
        copy = sqlite3.connect(":memory:", isolation_level=None)
        db.backup(copy)
        db.close()
        db = copy
    db.execute("BEGIN IMMEDIATE")
    try:
        _upgrade(db)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        db.execute("ROLLBACK")
        found = f"{type(error).__name__}: {error}"[:200]
        raise JobError("the job file is damaged", key=str(path), found=found, advice=BROKEN) from error
    db.execute("COMMIT")
    return db


def _upgrade(db: sqlite3.Connection) -> None:
    db.execute(CREATE_COMMON)
    for column in WORK_COLUMNS:
        db.execute(f"ALTER TABLE node ADD COLUMN {column}")
    stored = db.execute("SELECT id, kind, plan FROM node").fetchall()
    new = list(node_rows(_node(kind, text) for _, kind, text in stored))
    db.executemany(
        "UPDATE node SET plan = ?, route = ?, tasks = ?, moves = ?, bytes_in = ?, bytes_known = ?, reads = ?,"
        " by_tasks = ? WHERE id = ?",
        (
            (plan, *amounts, number)
            for ((_, _, plan, _, *amounts), _), (number, *_) in zip(new, stored, strict=True)
        ),
    )
    insert_common(db, (common for _, common in new if common is not None))
    db.execute("UPDATE meta SET value = ? WHERE name = 'version'", (VERSION,))


def _node(kind: Kind, text: str) -> Planned:
    data = json.loads(text)
    if kind == "array":
        return ArrayPlan.from_json(data)
    return GroupPlan.from_json(data) if kind == "group" else Refusal.from_json(data)
