"""What a Python prompt or a notebook shows of what the functions give: a line, never a thousand nodes."""

from __future__ import annotations

from dataclasses import replace

from tests.support import report_examples as examples


def test_what_holds_many_nodes_is_shown_in_a_line() -> None:
    assert repr(examples.PLAN).startswith(f"<Plan {examples.PLAN.source!r} (zarr2) to ")
    assert repr(examples.ARCHIVE).startswith(f"<Archive {examples.ARCHIVE.url!r} (zarr2): ")
    many = replace(examples.DONE, problems=(examples.UNKNOWN,) * 1000)
    differing = examples.EQUAL.with_problems([examples.UNKNOWN] * 1000)
    results = (
        examples.PLAN,
        examples.MANY,
        examples.ARCHIVE,
        examples.STATUS,
        examples.DONE,
        many,
        differing,
    )
    for shown in results:
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 200


def test_what_was_done_is_shown_without_its_plan() -> None:
    assert repr(examples.PARTLY) == (
        "<Outcome done: 2 of 3 arrays, 2 groups, 538 chunks, 1 problems, job '/data/new.zarr.zarrlift.db'>"
    )
    assert repr(examples.STATUS) == (
        "<Status '/data/new.zarr.zarrlift.db' (incomplete, stopped): 1 of 4 nodes done, 1 failed, 1 refused>"
    )
