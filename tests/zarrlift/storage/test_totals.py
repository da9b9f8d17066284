"""Progress and `status` where a store gives no sizes: estimates that hold, and what was done at the end."""

from __future__ import annotations

from pathlib import Path

import zarrlift
from zarrlift.jobs.progress import NullProgress


class Watched(NullProgress):
    """(done, total) in bytes, each time that either changes."""

    def __init__(self) -> None:
        self.done = self.total = 0
        self.seen: list[tuple[int, int]] = []

    def start(self, total_bytes: int | None, total_chunks: int | None) -> None:
        self.expect(total_bytes or 0, total_chunks or 0)

    def expect(self, total_bytes: int, total_chunks: int) -> None:
        self.total = total_bytes
        self.seen.append((self.done, self.total))

    def advance(self, chunks: int, nbytes: int) -> None:
        self.done += nbytes
        self.seen.append((self.done, self.total))


def test_no_more_is_done_than_there_is_and_at_the_end_all_of_it(web: str, tmp_path: Path) -> None:
    watched = Watched()
    plan = zarrlift.plan(web)
    outcome = zarrlift.migrate(web, tmp_path / "out.zarr", progress=watched)
    assert outcome.ok
    assert not all(array.bytes_in_known for array in plan.arrays)
    assert watched.seen[0] == (0, sum(array.bytes_read for array in plan.arrays))
    assert [(done, total) for done, total in watched.seen if done > total] == []
    assert watched.seen[-1] == (outcome.bytes_in, outcome.bytes_in)
    for node in zarrlift.status(tmp_path / "out.zarr").nodes:
        assert (node.bytes_total, node.bytes_known) == (node.bytes_done, True)
