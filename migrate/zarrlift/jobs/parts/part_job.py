"""A job as the process of a part has it: a copy in memory, whose new records go to the file of the run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from zarrstack.core.errors import Problem

from ...transfer.counts import MoveResult
from ..ledger.database import not_opened, require_file
from ..ledger.ledger import Job
from ..ledger.read_only import read_only
from ..ledger.rows import NodeState
from .merge import tasks_of
from .run_file import PartRun, RunFile

_OF_ALL: Final = (
    "DELETE FROM node WHERE kind != 'array' OR state = 'done'",
    "UPDATE node SET plan = '', state = 'pending', problems = NULL",
    "DELETE FROM common",
    "DELETE FROM task",
    "VACUUM",
)
"""Forgets what concerns the whole job, which needs much memory if it is large."""


class PartJob(Job):
    """What a part knows of its job, and does of it."""

    _file: RunFile | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """A copy of a job in one consistent state; its file is only read. JobError."""
        require_file(path)
        try:
            with read_only(path) as db:
                db.execute("SELECT 1 FROM meta").fetchone()  # a backup does not name its errors
                copied = sqlite3.connect(":memory:", isolation_level=None)
                db.backup(copied)
        except sqlite3.Error as error:
            raise not_opened(path, error) from error
        return cls(path, copied, None)

    def begin(self, earlier: Iterable[PartRun], file: RunFile) -> None:
        """Take what earlier runs of the part have done as recorded, and nothing else; go on in `file`."""
        since = {row.id: row.since for row in self.nodes("array", done=False)}
        for statement in _OF_ALL:
            self._db.execute(statement)
        for (node, number), records in tasks_of(earlier, since).items():
            self.record_task(node, number, records[-1].moved(digest=False))
        self.note(id=file.id)
        self.commit()
        self._file = file

    def record_task(self, node: int, number: int, moved: MoveResult, *, synced: bool = False) -> None:
        """Record a task here, and in the file once it has reached the disk."""
        super().record_task(node, number, moved, synced=synced)
        if self._file is not None:
            self._file.task(node, number, moved)

    def record_node(
        self,
        node: int,
        state: NodeState,
        *,
        published_ns: int | None = None,
        problems: Iterable[Problem] = (),
    ) -> None:
        """Record that an array has failed: a part publishes none."""
        problems = tuple(problems)
        super().record_node(node, state, published_ns=published_ns, problems=problems)
        if self._file is not None:
            self._file.failed(node, problems)
