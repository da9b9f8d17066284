"""An update gives what a fresh migration would give, and moves no more than what differs."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.bucket import Bucket
from tests.support.job_archives import later, migrated, other_archive, rewritten, tree, write_archive
from tests.support.job_processes import Killed, dying
from tests.support.unpacking import unpacked
from tests.zarrlift.jobs.changing_archive import ChangingArchive

import zarrlift
from zarrlift.errors import JobError
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.opened_job import OpenJob
from zarrlift.jobs.publisher import Publisher
from zarrlift.planning.plans import ArrayPlan


def n5(path: Path) -> Path:
    return Path(shutil.copytree(unpacked("n5/java-1.5.0/old.n5") / "group", path))


def v3(path: Path) -> Path:
    return migrated(write_archive(path.with_name("old")), path, recipe=zarrlift.Recipe(consolidate=False))


SOURCES: dict[str, Callable[[Path], Path]] = {
    "zarr_v2": write_archive,
    "zarr_v1": lambda path: other_archive("zarr_v1", path),
    "n5": n5,
    "zarr_v3_draft": lambda path: other_archive("zarr_v3_draft", path),
    "zarr_v3": v3,
}
WISHES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "recoded": {"codecs": "gzip:1"},
    "sharded": {"shards": "2x"},
    "empty ones left out": {"drop_empty": True},
    "other chunks": {"chunks": 5},
    "other chunks in shards": {"chunks": 3, "shards": "2x"},
}


def recipe(source: Path, wish: dict[str, Any]) -> zarrlift.Recipe:
    """The wish for every array that is there; a length of chunks is for each axis."""
    if "chunks" not in wish:
        return zarrlift.Recipe(base=zarrlift.ArrayRecipe(**wish))
    rest = {name: value for name, value in wish.items() if name != "chunks"}
    shapes = {
        node.path: node.layout.shape
        for node in zarrlift.inspect(source).nodes
        if isinstance(node, zarrlift.ArrayNode) and node.layout is not None
    }
    sections = tuple(
        (path, (("chunks", ",".join(str(wish["chunks"]) for _ in shape)), *rest.items()))
        for path, shape in shapes.items()
        if shape and all(shape)
    )
    return zarrlift.Recipe(sections=sections)


def times(source: Path) -> dict[str, int]:
    """When each file was written."""
    return {file.relative_to(source).as_posix(): file.stat().st_mtime_ns for file in source.rglob("*")}


def keys_of(plan: ArrayPlan) -> dict[tuple[int, ...], str]:
    grid = plan.source.objects
    places = (grid.coordinates(number) for number in range(grid.total))
    return {place: plan.source.key(plan.path, place) for place in places}


def allowed(
    before: dict[str, int], after: dict[str, int], old: dict[str, ArrayPlan], plan: ArrayPlan, whole: bool
) -> int:
    """How many objects of the source may be read for an array: those of each unit that something concerns."""
    keys, source = keys_of(plan), plan.source.objects
    shape = plan.move.block_shape or source.chunk_shape
    earlier = old.get(plan.path)
    units: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    concerned = set()
    for place, key in keys.items():
        region = source.region(place)
        ranges = [range(part.start // n, -(-part.stop // n)) for part, n in zip(region, shape, strict=True)]
        for unit in product(*ranges):
            if key in after:
                units.setdefault(unit, []).append(place)
            if whole or earlier is None or before.get(key) != after.get(key):
                concerned.add(unit)
    if earlier is not None:
        for unit in units:
            ends = [(at + 1) * n for at, n in zip(unit, shape, strict=True)]
            lengths = zip(ends, earlier.source.shape, plan.source.shape, strict=True)
            if any(one != other and end > min(one, other) for end, one, other in lengths):
                concerned.add(unit)
    return sum(len(units.get(unit, ())) for unit in concerned)


@pytest.mark.slow(one_in=31)
@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("format", SOURCES)
def test_random_changes_give_what_a_fresh_migration_gives(format: str, wish: str, tmp_path: Path) -> None:
    source, result = SOURCES[format](tmp_path / "source"), tmp_path / "result"
    wanted = recipe(source, WISHES[wish])
    migrated(source, result, recipe=wanted)
    changing = ChangingArchive(source, f"{format} {wish}")
    for number in range(3):
        old = {array.path: array for array in zarrlift.plan(source, tmp_path / "x", recipe=wanted).arrays}
        before = times(source)
        done = [changing.change() for _ in range(changing.chance.randrange(1, 4))]
        after = times(source)
        fresh = tmp_path / f"fresh {number}"
        migrated(source, fresh, recipe=wanted, verify="none")
        shown = {node.path: node for node in zarrlift.plan_update(result, delete=True).nodes}
        outcome = zarrlift.update(result, delete=True)
        assert outcome.state in ("done", "nothing to do"), (done, outcome.problems)
        assert tree(result) == tree(fresh), done
        plans = zarrlift.plan(source, tmp_path / "x", recipe=wanted).arrays
        replaced = {path for path, node in shown.items() if node.action == "replaced"}
        most = sum(allowed(before, after, old, plan, plan.path in replaced) for plan in plans)
        assert outcome.chunks <= most, done
        assert zarrlift.update(result).state == "nothing to do"
        shutil.rmtree(fresh)
        Path(f"{fresh}.zarrlift.db").unlink()
    assert zarrlift.verify(result, full=True).ok


def test_chunks_that_have_become_empty_are_left_out_by_an_update_too(tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    wanted = recipe(source, WISHES["empty ones left out"])
    migrated(source, result, recipe=wanted)
    assert (result / "h/rewrite/c/0/0").exists()
    rewritten(source / "h/rewrite/0.0", bytes(7 * 7 * 4))
    assert zarrlift.update(result).ok
    assert not (result / "h/rewrite/c/0/0").exists()
    assert tree(result) == tree(migrated(source, tmp_path / "fresh", recipe=wanted))


def killed(*_: Any, **__: Any) -> Any:
    raise Killed


def changed_archive(tmp_path: Path, **options: Any) -> tuple[Path, Path]:
    """An archive with one changed chunk, and its result."""
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result, **options)
    rewritten(source / "h/rewrite/1.1", b"\x01" * 196)
    return source, result


def test_another_migration_names_what_the_source_lacks_now(tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result)
    shutil.rmtree(source / "h/rewrite")
    before = tree(result)
    (problem,) = zarrlift.migrate(source, result).problems
    assert (problem.kind, problem.node) == ("removed", "h/rewrite")
    assert tree(result) == before


def test_an_update_killed_at_its_very_end_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was allowed to remove is no permission for the next one."""
    source, result = changed_archive(tmp_path)
    note = Job.note

    def killed(job: Job, **facts: Any) -> None:
        if facts == {"update": None}:
            raise Killed
        note(job, **facts)

    with monkeypatch.context() as patched:
        patched.setattr(Job, "note", killed)
        with pytest.raises(Killed):
            zarrlift.update(result, delete=True)
    assert zarrlift.status(result).state == "done"
    shutil.rmtree(source / "h/rewrite")
    outcome = zarrlift.update(result)
    assert [(problem.node, problem.severity) for problem in outcome.problems] == [("h/rewrite", "warning")]
    assert (result / "h/rewrite/zarr.json").exists()


@pytest.mark.parametrize("in_place", [False, True])
def test_another_migration_of_a_source_that_has_changed_names_what_has(
    in_place: bool, source: Path, destination: Path
) -> None:
    how: dict[str, Any] = {"in_place": True} if in_place else {"destination": destination}
    zarrlift.migrate(source, **how)
    assert zarrlift.migrate(source, **how).problems == ()
    array = next(node.path for node in zarrlift.inspect(source, format="zarr2").nodes if "/" in node.path)
    (source / array / ".zattrs").write_text('{"other": 1}')
    before = tree(source.parent)
    outcome = zarrlift.migrate(source, **how)
    assert not outcome.ok and outcome.state == "nothing to do"
    (problem,) = outcome.problems
    assert (problem.node, problem.kind, problem.found) == (array, "source-changed", "other metadata")
    assert tree(source.parent) == before
    assert zarrlift.migrate(source, no_list=True, **how).ok  # not even looked at
    assert zarrlift.update(outcome.job).ok
    assert zarrlift.migrate(source, **how).problems == ()


def test_what_others_changed_is_named_and_kept(tmp_path: Path) -> None:
    source, result = changed_archive(tmp_path)
    later(result / "h/rewrite/c/1/1")
    before = tree(result)
    outcome = zarrlift.update(result)
    assert not outcome.ok
    (problem,) = outcome.problems
    assert (problem.kind, problem.node, problem.key) == ("result-changed", "h/rewrite", "h/rewrite/c/1/1")
    assert tree(result) == before
    assert not zarrlift.update(result).ok, "it is named again"
    assert zarrlift.update(result, force=True).chunks == 1
    assert tree(result) == tree(migrated(source, tmp_path / "fresh"))


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("wish", ["other chunks", "other chunks in shards"])
def test_objects_that_are_made_again_with_a_changed_one_are_not_taken_from_others(
    wish: str, tmp_path: Path
) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result, recipe=recipe(source, WISHES[wish]))
    array = zarr.open_array(source, path="h/rewrite", mode="r+", zarr_format=2)
    array.resize((31, 20))
    array[30:] = 1
    later(result / "h/rewrite/c/0/0")
    before = tree(result / "h/rewrite")
    (problem,) = zarrlift.update(result).problems
    assert (problem.kind, problem.node) == ("result-changed", "h/rewrite")
    assert tree(result / "h/rewrite") == before


@pytest.mark.parametrize("after", [2, 8, 14])
def test_an_array_that_shrinks_and_grows_leaves_no_object_of_its_former_shape(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed update has not removed all that lay beyond; it would come back as values."""
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result)
    array = zarr.open_array(source, path="h/rewrite", mode="r+", zarr_format=2)
    array.resize((9, 20))
    with monkeypatch.context() as patched:
        dying(patched, after)
        with pytest.raises(Killed):
            zarrlift.update(result)
    array.resize((16, 20))
    assert zarrlift.update(result).ok
    assert tree(result) == tree(migrated(source, tmp_path / "fresh"))


def test_what_others_write_between_two_attempts_of_an_update_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, result = changed_archive(tmp_path)
    with monkeypatch.context() as patched:
        dying(patched, 6)
        with pytest.raises(Killed):
            zarrlift.update(result)
    mine = result / "h/rewrite/c/2/1"
    rewritten(mine, b"mine")
    rewritten(source / "h/rewrite/2.1", (source / "h/rewrite/2.0").read_bytes())
    outcome = zarrlift.update(result)
    assert {problem.kind for problem in outcome.problems} >= {"result-changed"}
    assert mine.read_bytes() == b"mine"
    assert zarrlift.update(result, force=True).ok
    assert tree(result) == tree(migrated(source, tmp_path / "fresh"))


def test_a_document_that_others_changed_is_kept(tmp_path: Path) -> None:
    source, result = changed_archive(tmp_path)
    for path in ("zarr.json", "h/rewrite/zarr.json"):
        (result / path).write_text((result / path).read_text() + " ")
    before = tree(result)
    outcome = zarrlift.update(result)
    assert {problem.node for problem in outcome.problems} == {"h/rewrite"}
    assert tree(result) == before
    rewritten(source / "g/recode/0", (source / "g/recode/1").read_bytes())
    outcome = zarrlift.update(result)
    assert {problem.node for problem in outcome.problems} == {"", "h/rewrite"}
    assert (result / "zarr.json").read_bytes() == before["zarr.json"]
    assert zarrlift.update(result, force=True).ok
    assert tree(result) == tree(migrated(source, tmp_path / "fresh"))


def test_an_update_that_shrank_an_array_is_removed_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result)
    zarr.open_array(source, path="h/rewrite", mode="r+", zarr_format=2).resize((9, 20))
    (source / ".zmetadata").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(OpenJob, "run_to_end", killed)
        with pytest.raises(Killed):
            zarrlift.update(result)
    shutil.rmtree(source / "h/rewrite")
    assert zarrlift.update(result, delete=True).ok
    assert tree(result) == tree(migrated(source, tmp_path / "fresh"))


def test_removed_nodes_stay_unless_asked(tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result)
    shutil.rmtree(source / "h")
    (source / ".zmetadata").unlink()
    before = tree(result)
    outcome = zarrlift.update(result)
    assert outcome.ok
    assert {problem.node for problem in outcome.problems} == {"h", "h/rewrite"}
    gone = {key for key in before if key.startswith("h/")}
    assert gone <= tree(result).keys()
    assert zarrlift.update(result, delete=True).removed == len(gone)
    assert tree(result) == tree(migrated(source, tmp_path / "fresh"))


def test_where_something_lies_a_new_node_does_not_come(tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result)
    shutil.copytree(source / "h/rewrite", source / "new")
    (result / "new/c/0").mkdir(parents=True)
    (result / "new/c/0/0").write_bytes(b"mine")
    outcome = zarrlift.update(result)
    assert {problem.kind for problem in outcome.problems} == {"result-changed"}
    assert (result / "new/c/0/0").read_bytes() == b"mine"
    assert zarrlift.update(result, force=True).ok
    assert tree(result) == tree(migrated(source, tmp_path / "fresh"))


@pytest.mark.parametrize("how", ["in place", "replaced"])
def test_hard_links(how: str, tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    migrated(source, result, link="hard")
    file = source / "g/relink/3.3"
    content = (source / "g/relink/3.4").read_bytes()
    if how == "replaced":
        file.unlink()
    rewritten(file, content)
    assert zarrlift.update(result).chunks == 1
    assert file.samefile(result / "g/relink/c/3/3")
    assert tree(result) == tree(migrated(source, tmp_path / "fresh"))


def test_in_place_documents_follow(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source")
    other = Path(shutil.copytree(source, tmp_path / "other"))
    assert zarrlift.migrate(source, in_place=True).ok
    for path in (source, other):
        ChangingArchive(path, "").longer(zarrlift.inspect(other).nodes[3])
        (path / "h/.zattrs").write_text('{"a": 1}')
        shutil.copytree(path / "h/rewrite", path / "h/copy")
        (path / "h/copy/zarr.json").unlink(missing_ok=True)
    assert zarrlift.update(source).ok
    assert zarrlift.migrate(other, in_place=True).ok
    assert tree(source) == tree(other)
    assert zarrlift.verify(source, full=True).ok
    assert zarrlift.finish(source).ok
    with pytest.raises(JobError, match="no source to update from"):
        zarrlift.update(source)


def test_in_place_what_is_left_of_a_removed_array_is_the_result_of_the_job(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source")
    assert zarrlift.migrate(source, in_place=True).ok
    for file in (source / "h/rewrite").iterdir():
        if file.name != "zarr.json":
            file.unlink()
    kept = zarrlift.update(source)
    assert any("the source no longer has this node" in problem.message for problem in kept.problems)
    assert any("lacks objects" in problem.message for problem in kept.problems)
    removed = zarrlift.update(source, delete=True)
    assert removed.ok and not removed.problems
    assert not (source / "h/rewrite/zarr.json").exists()
    assert zarrlift.verify(source, full=True).ok


def test_in_place_a_chunk_that_the_source_has_deleted_is_accepted_by_an_update(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source")
    assert zarrlift.migrate(source, in_place=True).ok
    next(file for file in (source / "h/rewrite").iterdir() if file.name[0].isdigit()).unlink()
    assert any("lacks objects" in problem.message for problem in zarrlift.resume(source).problems)
    updated = zarrlift.update(source)
    assert updated.ok and not updated.problems
    assert zarrlift.resume(source).ok


def test_without_its_inventory_an_array_is_migrated_as_a_whole(tmp_path: Path) -> None:
    source, result = changed_archive(tmp_path)
    with sqlite3.connect(f"{result}.zarrlift.db") as db:
        db.execute("DELETE FROM listing")
    db.close()
    (node,) = zarrlift.plan_update(result).nodes
    assert (node.path, node.action, node.objects) == ("h/rewrite", "replaced", 15)
    assert zarrlift.update(result).chunks == 15
    assert tree(result) == tree(migrated(source, tmp_path / "fresh"))


@pytest.mark.slow
@pytest.mark.parametrize("wish", ["as it is", "other chunks in shards", "empty ones left out"])
def test_on_a_store(wish: str, tmp_path: Path, bucket: Bucket) -> None:
    source = write_archive(tmp_path / "source")
    bucket.server.clear()
    url = bucket.put("old", tree(source))
    wanted = recipe(source, WISHES[wish])
    options = {"storage_options": bucket.options, "dest_storage_options": bucket.options}
    job = tmp_path / "job.zarrlift.db"
    migrated(url, "s3://bucket/new", recipe=wanted, job=job, **options)
    changing = ChangingArchive(source, f"store {wish}")
    for number in range(3):
        before = tree(source)
        for _ in range(3):
            changing.change()
        after = tree(source)
        for key in before.keys() - after.keys():
            bucket.server.remove(f"old/{key}")
        bucket.put("old", {key: data for key, data in after.items() if before.get(key) != data})
        outcome = zarrlift.update(job, delete=True, **options)
        assert outcome.ok, outcome.problems
        fresh = migrated(source, tmp_path / f"fresh {number}", recipe=wanted, verify="none")
        assert bucket.stored("new") == tree(fresh)


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("shards", ["auto", "1GB"])
def test_automatic_shards_stay_as_they_are(shards: str, tmp_path: Path) -> None:
    source, result = tmp_path / "source", tmp_path / "result"
    array = zarr.create_array(source, shape=(40, 64), chunks=(1, 64), dtype="<u2", zarr_format=2)
    array[...] = 1
    wanted = zarrlift.Recipe(base=zarrlift.ArrayRecipe(shards=shards))
    assert zarrlift.migrate(source, result, recipe=wanted).ok
    before = zarr.open_array(result, mode="r").shards
    array.resize((100, 64))
    array[40:] = 2
    (fresh,) = zarrlift.plan(source, tmp_path / "other", recipe=wanted).arrays
    assert fresh.destination.object_shape != before, "a new migration has other shards"
    (node,) = zarrlift.plan_update(result).nodes
    assert node.action == "changed"
    assert zarrlift.update(result).ok
    grown = zarr.open_array(result, mode="r")
    assert grown.shards == before
    np.testing.assert_array_equal(grown[...], array[...])
    array[0] = 3
    assert zarrlift.update(result).chunks <= before[0], "one shard"


def test_new_chunks_have_new_automatic_shards(tmp_path: Path) -> None:
    source, result = tmp_path / "source", tmp_path / "result"
    wanted = zarrlift.Recipe(base=zarrlift.ArrayRecipe(shards="auto"))
    for chunks in ((1, 64), (8, 8)):
        shutil.rmtree(source, ignore_errors=True)
        array = zarr.create_array(source, shape=(40, 64), chunks=chunks, dtype="<u2", zarr_format=2)
        array[...] = np.arange(2560).reshape(40, 64)
        work = zarrlift.update(result) if result.exists() else zarrlift.migrate(source, result, recipe=wanted)
        assert work.ok
    assert zarrlift.migrate(source, tmp_path / "fresh", recipe=wanted).ok
    assert tree(result) == tree(tmp_path / "fresh")


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    ("before", "after", "dtype"),
    [
        (7, None, None),
        (None, [0.0], "float64"),
        ([0.0], -9, None),
        (7, "NaN", "float64"),
        (None, "x", None),
        (7, 300, None),
        ([0.0], None, "float64"),
        (None, -9, "float64"),
    ],
    ids=repr,
)
def test_after_an_update_of_masks_the_comparison_finds_what_a_migration_does(
    before: Any, after: Any, dtype: str | None, tmp_path: Path
) -> None:
    recipe = None if dtype is None else zarrlift.Recipe(base=zarrlift.ArrayRecipe(dtype=dtype))
    source, new, fresh = (tmp_path / name for name in ("old", "new", "fresh"))
    array = zarr.create_array(source, shape=(8,), chunks=(4,), dtype="i2", zarr_format=2, fill_value=None)
    array[:4] = 7
    array.attrs.update({"_ARRAY_DIMENSIONS": ["t"], "_FillValue": before})
    zarrlift.migrate(source, new, recipe=recipe).raise_for_problems()
    assert zarrlift.verify(source, new).ok
    array.attrs["_FillValue"] = after
    array.resize((11,))
    array[8:] = -9
    zarrlift.update(new).raise_for_problems()
    zarrlift.migrate(source, fresh, recipe=recipe).raise_for_problems()
    assert zarrlift.verify(source, new).ok
    assert tree(new) == tree(fresh)


@pytest.mark.parametrize("go_on", [zarrlift.resume, zarrlift.update])
def test_a_document_that_others_changed_before_it_was_recorded_is_kept(
    go_on: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    document = result / "h/rewrite/zarr.json"
    if go_on is zarrlift.update:
        migrated(source, result)
        ChangingArchive(source, 0).longer(zarrlift.inspect(source).nodes[-1])
    publish = Publisher.publish_array

    def dies(self: Publisher, plan: ArrayPlan) -> int | None:
        publish(self, plan)
        if plan.path == "h/rewrite":
            raise Killed
        return None

    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "publish_array", dies)
        patched.setattr(Job, "record_published", lambda *_: None)
        with pytest.raises(Killed):
            zarrlift.update(result) if go_on is zarrlift.update else zarrlift.migrate(source, result)
    zarr.open_array(result, path="h/rewrite", mode="r+").attrs["mine"] = 1
    mine = document.read_bytes()
    outcome = go_on(result)
    assert "a zarr.json that this job did not write already exists" in {p.message for p in outcome.problems}
    assert document.read_bytes() == mine
