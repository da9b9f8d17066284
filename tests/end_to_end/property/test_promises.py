"""What a plan accepts, and nothing disturbs, succeeds: every fixture, and all that a recipe may ask for."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.end_to_end.property.wishes import Wish, array_recipes, wishes
from tests.support.chances import examples

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrstack.core.errors import UsageError

IN_THE_DATA: Final = re.compile(r"an object is not a str|an N5 block is (larger than|of variable length)")
"""What chunks alone show, which a plan does not read: fixtures hold some of each."""


def promised(source: Path, destination: Path, recipe: Recipe, **reading: Any) -> bool:
    """Migrate what a plan accepts, and compare every value; whether it accepts anything."""
    try:
        plan = zarrlift.plan(source, destination, recipe=recipe, **reading)
    except UsageError:
        return False
    refused = {problem.node for problem in plan.all_problems() if problem.severity == "refusal"}
    outcome = zarrlift.migrate(source, destination, recipe=recipe, **reading)
    failed = [problem for problem in outcome.problems if problem.node not in refused]
    broken = {problem.node for problem in failed if IN_THE_DATA.match(problem.message)}
    assert [problem for problem in failed if problem.node not in broken] == []
    assert outcome.arrays_done == len(plan.arrays) - len(broken)
    if not plan.published or broken:
        return False
    assert outcome.state == ("incomplete" if refused else "done")
    report = zarrlift.verify(source, destination, full=True, **reading)
    assert [problem for problem in report.problems if problem.node not in refused] == []
    return True


@pytest.mark.filterwarnings("ignore:The .generic. unit:DeprecationWarning")  # numpy 2.5
@examples(80)
@given(wishes(), st.none() | array_recipes())
def test_what_a_plan_accepts_succeeds(wish: Wish, again: ArrayRecipe | None) -> None:
    """`again` is asked of the result: v3 to v3."""
    with tempfile.TemporaryDirectory() as name:
        new, newer = Path(name) / "new.zarr", Path(name) / "newer.zarr"
        kept = promised(
            wish.source.path, new, wish.recipe, axes=wish.axes, allow_fallback=wish.allow_fallback
        )
        if kept and again is not None:
            promised(new, newer, Recipe(base=again))
