"""Brings job files of version 1, in which each node holds its whole plan, to the current version."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from zarrstack.core.errors import JobError

from .database import CREATE_COMMON, VERSION, WORK_COLUMNS, damage_told, insert_common
from .plan_rows import PlanReader, node_rows

if TYPE_CHECKING:
    from .stored_file import JobPath


def upgraded(db: sqlite3.Connection, path: JobPath, *, write: bool) -> sqlite3.Connection:
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
        with damage_told(path):
            _upgrade(db)
    except JobError:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
    return db


def _upgrade(db: sqlite3.Connection) -> None:
    db.execute(CREATE_COMMON)
    for column in WORK_COLUMNS:
        db.execute(f"ALTER TABLE node ADD COLUMN {column}")
    stored = db.execute("SELECT id, kind, plan FROM node").fetchall()
    reader = PlanReader(())
    new = list(node_rows(reader.node(kind, text) for _, kind, text in stored))
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
