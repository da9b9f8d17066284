"""What holds for every archive and every wish; random arrays, written by zarr-python and tensorstore."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.end_to_end.property.archives import NUMBERS, Wanted, bits, recipes, tree, values_of, wanted, write
from tests.support.chances import examples

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.planning.plans import Plan

few = examples(25)
"""Each example writes and migrates an archive, which takes some 20 milliseconds."""


@contextmanager
def folder() -> Iterator[Path]:
    """A directory for one example."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


arrays_with_recipes = wanted().flatmap(lambda array: st.tuples(st.just(array), recipes(array)))


@examples(120)
@given(arrays_with_recipes)
def test_every_bit_reads_back_whatever_is_asked_for(case: tuple[Wanted, ArrayRecipe]) -> None:
    array, recipe = case
    with folder() as root:
        write(root / "old", array)
        outcome = zarrlift.migrate(root / "old", root / "new", recipe=Recipe(base=recipe))
        assert outcome.ok, outcome.problems
        shape, before = bits(root / "old", "a", 2, array.dtype)
        if recipe.dtype is None:
            assert bits(root / "new", "a", 3, array.dtype) == (shape, before)
        else:
            wanted = recipe.dtype.numpy
            with np.errstate(invalid="ignore"):  # signalling NaN
                wide = np.frombuffer(before, np.dtype(array.dtype).newbyteorder("=")).astype(wanted)
            found = np.frombuffer(bits(root / "new", "a", 3, wanted)[1], wanted)
            np.testing.assert_array_equal(found, wide)
        assert json.loads((root / "new/a/zarr.json").read_text())["attributes"] == array.attributes
        assert zarrlift.verify(root / "old", root / "new", full=True).ok


@pytest.mark.needs_reader("tensorstore")
@few
@given(
    wanted(tuple(dtype for dtype in NUMBERS if dtype[1] != "f" or dtype[2] != "2"), filtered=False),
    st.sampled_from(
        [None, {"id": "zlib", "level": 1}, {"id": "zstd", "level": 1}, {"id": "bz2", "level": 1}]
    ),
)
def test_what_tensorstore_writes_reads_back(array: Wanted, compressor: object) -> None:
    import tensorstore

    with folder() as root:
        write(root / "old", Wanted(**{**_fields(array), "written": 0, "empties": False}))  # a group around it
        shutil.rmtree(root / "old/a")
        fill = None if array.fill is None or np.dtype(array.dtype).kind in "fc" else array.fill
        spec = {
            "driver": "zarr",
            "kvstore": {"driver": "file", "path": str(root / "old/a")},
            "metadata": {
                "shape": list(array.shape),
                "chunks": list(array.chunks),
                "dtype": array.dtype,
                "order": array.order if len(array.shape) > 1 else "C",  # it insists
                "dimension_separator": array.separator,
                "fill_value": fill,
                "compressor": compressor,
                "filters": None,
            },
        }
        values = values_of(array)
        opened = tensorstore.open(spec, create=True).result()
        opened.write(values.astype(values.dtype.newbyteorder("="))).result()
        assert zarrlift.migrate(root / "old", root / "new").ok
        native = values.astype(values.dtype.newbyteorder("="))
        assert bits(root / "new", "a", 3, array.dtype) == (array.shape, native.tobytes())


def _fields(array: Wanted) -> dict[str, object]:
    return {name: getattr(array, name) for name in Wanted.__slots__}


class Stop(KeyboardInterrupt):
    """Ctrl-C at a moment of our choice."""


@few
@given(st.lists(wanted(), min_size=1, max_size=2), st.integers(0, 6))
def test_interrupted_anywhere_and_resumed_equals_uninterrupted(arrays: list[Wanted], moment: int) -> None:
    with folder() as root, pytest.MonkeyPatch.context() as patch:
        for number, array in enumerate(arrays):
            write(root / "old", array, f"g/a{number}")
        assert zarrlift.migrate(root / "old", root / "whole").ok
        left = [moment]

        def counted(name: str) -> None:
            real = getattr(Job, name)

            def count(self: Job, *given: object, **named: object) -> None:
                if left[0] == 0:
                    raise Stop
                left[0] -= 1
                real(self, *given, **named)

            patch.setattr(Job, name, count)

        counted("record_task")
        counted("record_node")
        try:
            zarrlift.migrate(root / "old", root / "new")
        except zarrlift.Interrupted:
            patch.undo()
            assert zarrlift.resume(root / "new").ok
        patch.undo()
        assert tree(root / "new") == tree(root / "whole")


@few
@given(arrays_with_recipes)
def test_migrating_twice_equals_once(case: tuple[Wanted, ArrayRecipe]) -> None:
    array, recipe = case
    with folder() as root:
        write(root / "old", array)
        once = zarrlift.migrate(root / "old", root / "new", recipe=Recipe(base=recipe))
        before = tree(root / "new")
        twice = zarrlift.migrate(root / "old", root / "new", recipe=Recipe(base=recipe))
        assert (once.state, twice.state) == ("done", "nothing to do")
        assert tree(root / "new") == before


@few
@given(st.lists(wanted(), min_size=1, max_size=2), st.booleans())
def test_in_place_then_undo_gives_every_byte_back(arrays: list[Wanted], finish: bool) -> None:
    with folder() as root:
        for number, array in enumerate(arrays):
            write(root / "old", array, f"g/a{number}")
        before = tree(root / "old")
        outcome = zarrlift.migrate(root / "old", in_place=True)
        assert outcome.ok, outcome.problems
        for number, array in enumerate(arrays):
            path = f"g/a{number}"
            assert bits(root / "old", path, 3, array.dtype) == bits(root / "old", path, 2, array.dtype)
        if finish:
            assert zarrlift.verify(root / "old", full=True).ok
            zarrlift.finish(root / "old")
        assert zarrlift.undo(root / "old").ok
        assert tree(root / "old") == before


@few
@given(arrays_with_recipes)
def test_a_plan_and_the_job_that_holds_it_lose_nothing(case: tuple[Wanted, ArrayRecipe]) -> None:
    array, recipe = case
    with folder() as root:
        write(root / "old", array)
        plan = zarrlift.plan(root / "old", root / "new", recipe=Recipe(base=recipe))
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
        with Job.create(root / "job.zarrlift.db", plan) as job:
            assert job.plan() == plan


@few
@given(arrays_with_recipes)
@example(
    (
        Wanted(
            dtype="<i4", shape=(6,), chunks=(2,), order="C", separator=".", fill=0, compressor=None,
            filters=(), seed=1, written=1, empties=True,
        ),
        ArrayRecipe(),
    )
)  # fmt: skip
def test_a_route_does_no_more_than_its_name_says(case: tuple[Wanted, ArrayRecipe]) -> None:
    array, recipe = case
    with folder() as root, pytest.MonkeyPatch.context() as patch:
        write(root / "old", array)
        calls = {"decode": 0, "encode": 0, "undo": 0, "apply": 0}

        def counted(name: str) -> None:
            real = getattr(Pipeline, name)

            def count(self: Pipeline, *given: object) -> object:
                calls[name] += 1
                return real(self, *given)

            patch.setattr(Pipeline, name, count)

        for name in calls:
            counted(name)
        outcome = zarrlift.migrate(root / "old", root / "new", recipe=Recipe(base=recipe), verify="none")
        (planned,) = outcome.plan.arrays
        allowed = {
            "relink": {"decode": 0, "encode": 0, "undo": 0, "apply": 0},
            "recode": {"decode": 0, "encode": 0, "undo": outcome.chunks, "apply": outcome.chunks},
            "rewrite": dict.fromkeys(calls, outcome.chunks),
        }[planned.route.name]
        assert all(calls[name] <= allowed[name] for name in calls), (planned.route, calls)
