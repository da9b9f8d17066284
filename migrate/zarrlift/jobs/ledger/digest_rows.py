"""The digests in a job file: of tasks, until their array is published, and of arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from zarrstack.core.json_text import JSON, canonical

from .plan_rows import as_text
from .table import Table

if TYPE_CHECKING:
    from zarrstack.core.digest.value_digest import ArrayDigest, BlockSums


class DigestRows(Table):
    """Reads and writes digests; what is written is durable at the job's next commit."""

    def record_task(self, node: int, number: int, sums: bytes) -> None:
        """Store the sums of a task in place of those of an earlier run of it."""
        self._write("INSERT OR REPLACE INTO task_digest VALUES (?, ?, ?)", (node, number, sums))

    def forget(self, node: int, number: int | None) -> None:
        """Remove the sums of a task, or everything of a node."""
        self._write("DELETE FROM task_digest WHERE node = ? AND number = coalesce(?, number)", (node, number))
        self._write("DELETE FROM digest WHERE node = ?", (node,))

    def sums(self, node: int, tasks: int) -> BlockSums | None:
        """The sums of all tasks of a node; None unless every one of them has some."""
        rows = self._rows("SELECT sums FROM task_digest WHERE node = ?", (node,))
        if not tasks or len(rows) != tasks:
            return None
        from zarrstack.core.digest.value_digest import BlockSums

        total = BlockSums()
        for (sums,) in rows:
            total.update(BlockSums.from_bytes(sums))
        return total

    def record(self, node: int, digest: ArrayDigest) -> None:
        """Store the digest of an array in place of the sums of its tasks."""
        self.forget(node, None)
        self._write("INSERT INTO digest VALUES (?, ?)", (node, canonical(digest.to_json())))

    def documents(self) -> Iterator[tuple[str, JSON]]:
        """(path, digest in JSON) of the published arrays that have one."""
        query = (
            "SELECT path, document FROM digest JOIN node ON node.id = digest.node"
            " WHERE state = 'done' ORDER BY path"
        )
        for path, document in self._rows(query, ()):
            yield as_text(path), json.loads(document)
