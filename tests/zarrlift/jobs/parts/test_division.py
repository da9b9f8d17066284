"""Every task is in exactly one part, and parts have equal shares."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zarrlift
from zarrlift.jobs.parts.division import Division
from zarrlift.planning.plans import ArrayPlan, Plan
from zarrlift.planning.regrid.intermediate import IntermediateArray
from zarrlift.transfer.tasks import pass_numbers


@pytest.fixture(scope="module")
def model(all_routes: Path) -> ArrayPlan:
    (array,) = (plan for plan in zarrlift.plan(all_routes).arrays if plan.path == "regrid")
    return array


ARRAYS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 10**15)), min_size=1, max_size=12
)
"""(tasks, tasks of a first pass, bytes)"""


def arrays_of(model: ArrayPlan, sizes: list[tuple[int, int, int]]) -> list[ArrayPlan]:
    made = []
    for number, (tasks, first, nbytes) in enumerate(sizes):
        between = None
        if first:
            between = IntermediateArray(
                layout=model.source, block_shape=None, buffer_shape=None, sweep_shape=None,
                bounds=tuple(range(first + 1)),
            )  # fmt: skip
        bounds = tuple(range(tasks + 1)) if tasks else ()
        move = replace(model.move, path=f"{number:02}")
        made.append(
            replace(model, move=move, bounds=bounds, between=between, bytes_in=nbytes, bytes_out=nbytes)
        )
    return made


@given(ARRAYS, st.integers(1, 70))
def test_every_task_is_in_one_part_of_an_equal_share(
    model: ArrayPlan, sizes: list[tuple[int, int, int]], parts: int
) -> None:
    arrays = arrays_of(model, sizes)
    division = Division(arrays, parts)
    again = Division(arrays, parts)
    for second in (False, True):
        shares, longest = [0.0] * parts, 0.0
        for plan in arrays:
            first_pass = plan.between is not None and not second
            if second and plan.between is None:
                continue
            numbers = pass_numbers(plan, first_pass=first_pass)
            found: list[int] = []
            for part in range(parts):
                own = division.numbers(plan, part, first_pass=first_pass)
                assert own == again.numbers(plan, part, first_pass=first_pass)
                found += own
                assert {division.part_of(plan, number) for number in own} <= {part}
                nbytes = plan.bytes_in if first_pass else plan.bytes_read
                task = max(nbytes, plan.bytes_out, len(numbers)) / max(len(numbers), 1)
                shares[part] += task * len(own)
                longest = max(longest, task)
            assert found == list(numbers)
        fair = sum(shares) / parts
        assert all(abs(share - fair) <= longest * (1 + 1e-9) for share in shares)


def test_the_division_is_that_of_the_stored_plan(all_routes: Path) -> None:
    plan = zarrlift.plan(all_routes)
    stored = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    for part in range(5):
        one, other = (
            [Division(each.arrays, 5).numbers(array, part, first_pass=False) for array in each.arrays]
            for each in (plan, stored)
        )
        assert one == other
