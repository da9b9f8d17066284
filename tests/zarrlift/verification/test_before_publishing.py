"""`migrate --verify full`: every value is compared, and no chunk is decoded more often than it must be."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.chances import memory_below
from zarr.codecs import BytesCodec

import zarrlift
from zarrlift.archive import chunk_inventory
from zarrlift.archive.nodes import Layout
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.jobs import checks
from zarrlift.jobs.outcome import Outcome
from zarrlift.planning import array_planner
from zarrlift.planning.plans import ArrayPlan
from zarrlift.storage.base import Storage
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.verification import array_values, before_publishing, sides
from zarrlift.verification.zarr_python_reader import open_array, parse

SHAPE = (16, 60, 44)
PLANES = (1, 30, 22)

CASES = {
    "planes into cubes in shards": ({}, {"chunks": "8,8,8", "shards": "2x"}),
    "planes into columns": ({}, {"chunks": "-1,3,4", "shards": "none"}),
    "the same chunks": ({}, {"shards": "none", "codecs": "keep"}),
    "the same chunks, into shards": ({}, {"shards": "5,2,1"}),
    "out of shards, other chunks": ({"shards": "5,2,1"}, {"chunks": "8,8,8", "shards": "none"}),
    "into other shards": ({"shards": "5,2,1"}, {"shards": "4,1,2"}),
}
"""How the source lies, and what becomes of it."""
SHARDED = "planes into cubes in shards"

Damage = Callable[[ArrayPlan, Storage], None]


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def source_of(case: str, root: Path) -> Path:
    """An array some of whose chunks are missing."""
    old = root / "old"
    array = zarr.create_array(old, shape=SHAPE, chunks=PLANES, dtype="<i4", zarr_format=2, fill_value=-5)
    array[...] = np.random.default_rng(8).integers(0, 1 << 30, SHAPE)
    for place in ("0.0.0", "7.1.1", "8.0.1"):
        (old / place).unlink()
    before = CASES[case][0]
    if not before:
        return old
    assert migrate(old, root / "shards", before).ok
    return root / "shards"


def migrate(source: Path, destination: Path, wanted: dict[str, str]) -> Outcome:
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**wanted))  # type: ignore[arg-type]
    return zarrlift.migrate(source, destination, recipe=recipe, verify="full")


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Damage], None]:
    """Has something done when an array is written, and nobody has looked at it."""

    def do(damage: Damage) -> None:
        check = checks.Checks._check

        def changed(self: checks.Checks, question: Any, plan: ArrayPlan, *more: Any) -> Any:
            damage(plan, self.destination)
            return check(self, question, plan, *more)

        monkeypatch.setattr(checks.Checks, "_check", changed)

    return do


def add_one(*place: int) -> Damage:
    """One value becomes another, the array written as before."""

    def damage(plan: ArrayPlan, destination: Storage) -> None:
        array = open_array(parse(plan.document), destination.zarr_store(), plan.path)
        array[place] = array[place] + 1

    return damage


# ----- what is found


@pytest.mark.slow(one_in=31)
@pytest.mark.parametrize("place", [(1, 0, 0), (15, 59, 43), (8, 29, 21), (9, 30, 22)], ids=str)
def test_a_wrong_value_is_found_wherever_it_is(case, place, tmp_path, meanwhile) -> None:
    old = source_of(case, tmp_path)
    meanwhile(add_one(*place))
    outcome = migrate(old, tmp_path / "new", CASES[case][1])
    told = [problem for problem in outcome.problems if problem.kind == "verify-values"]
    assert any(str(list(place)) in problem.message for problem in told)
    assert not (tmp_path / "new/zarr.json").exists()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard of 39 MB with 150 inner chunks; every inner chunk holds a number of its own."""
    path = tmp_path_factory.mktemp("large") / "old"
    shape, inner_chunk = (384, 320, 320), (64, 64, 64)
    array = zarr.create_array(path, shape=shape, chunks=inner_chunk, shards=shape, dtype="u1", fill_value=255)
    numbers = np.arange(150, dtype="u1").reshape(6, 5, 5)
    array[...] = numbers.repeat(64, 0).repeat(64, 1).repeat(64, 2)
    return path


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("place", [(63, 63, 64), (200, 130, 319), (383, 319, 0)], ids=str)
def test_a_wrong_value_in_any_inner_chunk_of_a_large_shard_is_found(
    large, place, tmp_path, meanwhile
) -> None:
    meanwhile(add_one(*place))
    outcome = migrate(large, tmp_path / "new", {"shards": "none"})
    (problem,) = outcome.problems
    assert str(list(place)) in problem.message


@pytest.mark.slow
def test_a_large_shard_is_never_in_memory_as_a_whole(large, tmp_path, meanwhile) -> None:
    plans: list[ArrayPlan] = []
    meanwhile(lambda plan, _: plans.append(plan))
    new = tmp_path / "new"
    assert migrate(large, new, {"shards": "6,5,5", "chunks": "48,64,64"}).ok
    (plan,) = plans
    least = array_values._BASE + (8 << 20)
    with memory_below(16 << 20):
        assert before_publishing.compare_all(plan, LocalStorage(large), LocalStorage(new), budget=least) == ()


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("value", [-5, 3], ids=["fill values", "values"])
@pytest.mark.parametrize("case", ["the same chunks", SHARDED])
def test_an_object_that_the_source_does_not_have_is_found(case, value, tmp_path, meanwhile) -> None:
    def write_where_nothing_is(plan: ArrayPlan, destination: Storage) -> None:
        array = open_array(parse(plan.document), destination.zarr_store(), plan.path)
        array.with_config({"write_empty_chunks": True})[-1, -1, -1] = value

    old = source_of(case, tmp_path)
    for file in old.glob("*.*.*") if case == SHARDED else [old / "15.1.1"]:
        if file.name.endswith(".1.1"):
            file.unlink()
    meanwhile(write_where_nothing_is)
    outcome = migrate(old, tmp_path / "new", CASES[case][1])
    key = "c/0/3/2" if case == SHARDED else "c/15/1/1"
    told = [(problem.kind, problem.key, problem.found) for problem in outcome.problems]
    assert ("verify-values", key, "a stored chunk") in told
    assert {place for _, place, _ in told} == {key}


def test_it_is_found_in_what_cannot_be_listed_too(tmp_path, meanwhile, monkeypatch) -> None:
    def write(_: ArrayPlan, destination: Storage) -> None:
        monkeypatch.setattr(LocalStorage, "can_list", False)
        destination.put("c/0/0/0", np.full(PLANES, -5, "<i4").tobytes())

    meanwhile(write)
    old = tmp_path / "old"
    array = zarr.create_array(
        old, shape=SHAPE, chunks=PLANES, dtype="<i4", zarr_format=2, fill_value=-5, compressors=None
    )
    array[1:] = 1
    outcome = migrate(old, tmp_path / "new", CASES["the same chunks"][1])
    (problem,) = outcome.problems
    assert (problem.key, problem.found) == ("c/0/0/0", "a stored chunk")


def test_a_chunk_that_the_migration_did_not_see_is_found(tmp_path, monkeypatch) -> None:
    old = source_of(SHARDED, tmp_path)
    take = array_planner.take_settled_inventory

    def miss_one(storage: Storage, path: str, layout: Layout, **options: Any) -> chunk_inventory.Inventory:
        """What is to be moved lacks a chunk of what was listed, the source being as it was."""
        whole = take(storage, path, layout, **options)
        kept = whole.indexes != layout.objects.index((5, 0, 0))
        assert whole.sizes is not None
        assert whole.versions is not None
        columns = {"indexes": whole.indexes, "sizes": whole.sizes, "versions": whole.versions}
        return whole._replace(**{name: column[kept] for name, column in columns.items()})

    monkeypatch.setattr(array_planner, "inventory_by_names", lambda *_: None)
    monkeypatch.setattr(array_planner, "take_settled_inventory", miss_one)
    outcome = migrate(old, tmp_path / "new", CASES[SHARDED][1])
    (problem,) = outcome.problems
    assert problem.kind == "verify-values"
    assert "[5:6, 0:30, 0:22]" in problem.message


def test_many_differences_end_the_comparison_and_it_says_so(tmp_path, meanwhile, monkeypatch) -> None:
    monkeypatch.setattr(before_publishing, "_MAX_PROBLEMS", 3)

    def overwrite(plan: ArrayPlan, destination: Storage) -> None:
        open_array(parse(plan.document), destination.zarr_store(), plan.path)[...] = 1

    meanwhile(overwrite)
    outcome = migrate(source_of("the same chunks", tmp_path), tmp_path / "new", CASES["the same chunks"][1])
    assert len(outcome.problems) == 4
    assert any("the comparison stopped" in problem.message for problem in outcome.problems)


def test_a_payload_that_we_refuse_is_shown_to_nobody_else(tmp_path, meanwhile, monkeypatch) -> None:
    case = "the same chunks"
    old = source_of(case, tmp_path)
    shown: list[array_values.Region] = []
    read = sides.read_regions

    def remember(array: Any, wanted: Any) -> Any:
        shown.extend(wanted)
        return read(array, wanted)

    def spoil(*_: object) -> None:
        """Neither a listing nor a time tells."""
        for file in (old / "3.1.0", tmp_path / "new/c/3/1/0"):
            facts = file.stat()
            file.write_bytes(b"x" * facts.st_size)
            os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    monkeypatch.setattr(sides, "read_regions", remember)
    meanwhile(spoil)
    outcome = migrate(old, tmp_path / "new", CASES[case][1])
    assert [problem.key for problem in outcome.problems] == ["3.1.0"]
    refused = (slice(3, 4), slice(30, 60), slice(0, 22))
    assert len(shown) == 16 * 4 - 3 - 1
    assert refused not in shown


# ----- what it costs


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How many inner chunks each side's code decoded; indexes of shards do not count."""
    seen: Counter[str] = Counter()
    lock = threading.Lock()
    ours, theirs = Pipeline.decode, BytesCodec._decode_sync

    def source(self: Pipeline, data: bytes) -> object:
        with lock:
            seen["source"] += 1
        return ours(self, data)

    def result(self: BytesCodec, data: Any, spec: Any) -> Any:
        with lock:
            seen["result"] += spec.dtype.to_native_dtype() != np.dtype("u8")
        return theirs(self, data, spec)

    monkeypatch.setattr(Pipeline, "decode", source)
    monkeypatch.setattr(BytesCodec, "_decode_sync", result)
    return iter([seen])


def leaves_there(array: Path) -> int:
    """How many leaves a result holds that are not all fill values; every one of them is stored."""
    opened = zarr.open_array(array, mode="r")
    values = opened[...]
    there = 0
    for place in np.ndindex(*(-(-n // c) for n, c in zip(values.shape, opened.chunks, strict=True))):
        region = tuple(slice(p * c, p * c + c) for p, c in zip(place, opened.chunks, strict=True))
        there += bool((values[region] != opened.fill_value).any())
    return there


@pytest.mark.slow(one_in=11)
def test_each_chunk_of_both_sides_is_decoded_once(case, tmp_path, meanwhile, decoded) -> None:
    seen = next(decoded)
    meanwhile(lambda *_: seen.clear())  # moving them has decoded some
    old = source_of(case, tmp_path)
    assert migrate(old, tmp_path / "new", CASES[case][1]).ok
    found = dict(seen)
    assert found == {"source": 16 * 2 * 2 - 3, "result": leaves_there(tmp_path / "new")}


@pytest.mark.slow(one_in=7)
def test_with_little_memory_they_are_decoded_again_and_it_is_the_same(
    case, tmp_path, meanwhile, monkeypatch
) -> None:
    compare = before_publishing.compare_all
    monkeypatch.setattr(before_publishing, "compare_all", lambda *given, **_: compare(*given, budget=0))
    old = source_of(case, tmp_path)
    assert migrate(old, tmp_path / "new", CASES[case][1]).ok
    meanwhile(add_one(15, 59, 43))
    assert not migrate(old, tmp_path / "wrong", CASES[case][1]).ok
