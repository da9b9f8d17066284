"""Progress and `status` where a store gives no sizes: estimates that hold, and what was done at the end."""

from __future__ import annotations

from pathlib import Path

import zarrlift
from zarrlift.transfer.events import ArrayDone, Event, Planned, TaskDone


class Watched:
    """(done, total) in bytes, each time that either changes."""

    def __init__(self) -> None:
        self.done = self.total = 0
        self.seen: list[tuple[int, int]] = []

    def __call__(self, event: Event) -> None:
        match event:
            case Planned():
                self.total = event.bytes or 0
            case TaskDone():
                self.done += event.bytes_in
                self.total += event.more_bytes
            case ArrayDone():
                self.total += event.more_bytes
            case _:
                return
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
