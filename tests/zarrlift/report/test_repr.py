"""What a Python prompt or a notebook shows of what the functions give: a line, never a thousand nodes."""

from __future__ import annotations

from tests.support import report_examples as examples

import zarrlift


def test_what_holds_many_nodes_is_shown_in_a_line() -> None:
    assert repr(examples.PLAN).startswith(f"<Plan {examples.PLAN.source!r} (zarr2) to ")
    assert repr(examples.ARCHIVE).startswith(f"<Archive {examples.ARCHIVE.url!r} (zarr2): ")
    for shown in (examples.PLAN, examples.MANY, examples.ARCHIVE, examples.STATUS, examples.DONE):
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 600


def test_what_was_done_is_shown_without_its_plan() -> None:
    outcome = zarrlift.Outcome(job="new.zarr.zarrlift.db", state="done", arrays_done=2, plan=examples.PLAN)
    assert "arrays_done=2" in repr(outcome)
    assert "plan" not in repr(outcome)
