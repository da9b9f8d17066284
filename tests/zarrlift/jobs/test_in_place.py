"""In place, and archives of other formats: only `zarr.json` is added, finish and undo know old documents."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import fsspec
import pytest
import zarr
from tests.support.damaged_archives import run
from tests.support.fixtures_index import archive, archives
from tests.support.job_archives import OTHERS, other_archive, tree, values
from tests.support.unpacking import unpacked

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.errors import JobError
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.publisher import Publisher
from zarrlift.planning.plans import GroupPlan
from zarrlift.report import outcome as report_outcome
from zarrlift.report.text import Page
from zarrlift.report.text import lines as printed
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.local.writer import LocalWriter
from zarrstack.core.errors import UsageError

LEGACY = {".zarray", ".zattrs", ".zgroup", ".zmetadata"}


def test_only_zarr_json_files_are_added(source: Path) -> None:
    before = tree(source)
    wanted = values(source, 2)
    outcome = zarrlift.migrate(source, in_place=True)
    assert outcome.ok, outcome.problems
    after = tree(source)
    assert {name: after[name] for name in before} == before
    assert {Path(name).name for name in after.keys() - before.keys()} == {"zarr.json"}
    assert values(source, 3) == values(source, 2) == wanted
    assert {array.route.name for array in outcome.plan.arrays} == {"stay"}
    assert zarrlift.migrate(source, in_place=True).state == "nothing to do"
    assert tree(source) == after


def test_finish_needs_a_verification_and_undo_gives_back_every_byte(source: Path) -> None:
    """After it there is nothing left to verify, and after the undo all can be done again."""
    before = tree(source)
    zarrlift.migrate(source, in_place=True)
    with pytest.raises(JobError, match="verified"):
        zarrlift.finish(source)
    assert zarrlift.verify(source).ok
    assert zarrlift.finish(source).state == "finished"
    assert not {Path(name).name for name in tree(source)} & LEGACY
    assert zarrlift.finish(source).state == "nothing to do"
    for places in ((source,), (source, source)):
        with pytest.raises(JobError, match="finish has removed the legacy metadata") as told:
            zarrlift.verify(*places)
        assert told.value.problem.advice == "The job file has a copy, which undo restores."
    assert zarrlift.undo(source).restored == sum(Path(name).name in LEGACY for name in before)
    assert tree(source) == before
    assert zarrlift.migrate(source, in_place=True).ok
    assert zarrlift.verify(source).ok


def test_a_sample_takes_nothing_from_a_full_verification(source: Path) -> None:
    zarrlift.migrate(source, in_place=True)
    for full, noted in ((False, "sample"), (True, "full"), (False, "full")):
        assert zarrlift.verify(source, full=full).ok
        assert zarrlift.status(source).verified == noted


def test_finish_refuses_a_legacy_document_that_changed(source: Path) -> None:
    zarrlift.migrate(source, in_place=True)
    zarrlift.verify(source)
    (source / "g/.zattrs").write_text('{"late": 1}')
    (source / "g/relink/.zarray").write_text("{}")
    outcome = zarrlift.finish(source)
    assert not outcome.ok
    assert (source / "g/recode/.zarray").exists()


def test_finish_removes_nothing_if_a_new_document_was_torn_by_a_power_failure(source: Path) -> None:
    zarrlift.migrate(source, in_place=True)
    zarrlift.verify(source)
    (source / "g/recode/zarr.json").write_bytes(b"")
    outcome = zarrlift.finish(source)
    assert [problem.key for problem in outcome.problems] == ["g/recode/zarr.json"]
    assert (source / "g/recode/.zarray").exists()


def test_what_finish_and_undo_must_not_lose_is_flushed_first(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new documents before the old ones are removed, and the job file, which then has the only copy."""
    zarrlift.migrate(source, in_place=True)
    zarrlift.verify(source)
    order: list[str] = []
    monkeypatch.setattr("zarrlift.jobs.finish.sync", lambda place: order.append("flush"))
    sync_commits, delete, write = Job.sync_commits, LocalStorage.delete, LocalWriter.write

    def noted(name: str, call: Any) -> Any:
        def noting(self: Any, *arguments: Any) -> Any:
            order.append(name)
            assert name != "write" or self.fsync
            return call(self, *arguments)

        return noting

    monkeypatch.setattr(Job, "sync_commits", noted("job", sync_commits))
    monkeypatch.setattr(LocalStorage, "delete", noted("delete", delete))
    monkeypatch.setattr(LocalWriter, "write", noted("write", write))
    zarrlift.finish(source)
    assert order[:3] == ["flush", "job", "delete"]
    order.clear()
    zarrlift.undo(source)
    assert order[:2] == ["job", "write"]


def test_finish_refuses_attributes_that_were_written_later(source: Path) -> None:
    """A node without attributes has no document of them that the job could know."""
    (source / "empty/.zattrs").unlink()
    zarrlift.migrate(source, in_place=True)
    zarrlift.verify(source)
    before = tree(source)
    (source / "empty/.zattrs").write_text('{"units": "m"}')
    outcome = zarrlift.finish(source)
    assert [(problem.kind, problem.key) for problem in outcome.problems] == [("changed", "empty/.zattrs")]
    text = "\n".join(printed(report_outcome.blocks(outcome), Page(width=100)))
    assert "Nothing was removed." in text
    assert "resume" not in text
    (source / "empty/.zattrs").unlink()
    assert tree(source) == before
    assert zarrlift.finish(source).state == "finished"


def test_an_archive_of_which_only_consolidated_metadata_is_left(source: Path) -> None:
    wanted = values(source, 2)
    for name in tree(source):
        if Path(name).name in LEGACY - {".zmetadata"}:
            (source / name).unlink()
    before = tree(source)
    assert zarrlift.migrate(source, in_place=True).ok
    assert zarrlift.verify(source, full=True).ok
    assert values(source, 3) == wanted
    assert zarrlift.finish(source).removed == 1
    assert values(source, 3) == wanted
    zarrlift.undo(source)
    assert tree(source) == before


def test_a_recipe_that_changes_chunks_is_refused(source: Path) -> None:
    for recipe in (ArrayRecipe(codecs="zstd:3"), ArrayRecipe(dtype="float64"), ArrayRecipe(order="F")):
        with pytest.raises(UsageError):
            zarrlift.migrate(source, in_place=True, recipe=Recipe(base=recipe))
    assert not list(source.rglob("zarr.json"))


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("node", ["", "g", "g/relink"])
def test_a_plan_refuses_documents_that_the_run_would_not_replace(node: str, source: Path) -> None:
    """As `zarr migrate v3` writes them."""
    key = f"{node}/zarr.json".strip("/")
    kind = "array" if node == "g/relink" else "group"
    (source / key).write_text(
        json.dumps({"zarr_format": 3, "node_type": kind, "attributes": {"of": "others"}})
    )
    (refused,) = zarrlift.plan(source, in_place=True, format="zarr2").refusals
    assert (refused.path, refused.kind, refused.problems[-1].key) == (node, kind, key)
    assert "another zarr.json already exists" in refused.problems[-1].message
    outcome = zarrlift.migrate(source, in_place=True, format="zarr2")
    assert not outcome.ok
    assert node in {problem.node for problem in outcome.problems}
    assert '"of": "others"' in (source / key).read_text()


def test_a_plan_accepts_what_the_run_would_write_again(source: Path) -> None:
    assert zarrlift.migrate(source, in_place=True).ok
    assert not zarrlift.plan(source, in_place=True, format="zarr2").refusals
    Path(f"{source}.zarrlift.db").unlink()
    assert zarrlift.migrate(source, in_place=True, format="zarr2").ok


def test_groups_without_documents_of_their_own_are_the_jobs_although_they_have_attributes(
    source: Path,
) -> None:
    """zarr-python 2 needs no `.zgroup` below a root, and reads a `.zattrs` beside none."""
    for group in ("", "g"):
        (source / group / ".zgroup").unlink()
        (source / group / ".zattrs").write_text('{"made": "by hand"}')
    before = tree(source)
    assert zarrlift.migrate(source, in_place=True).ok
    for group in ("", "g"):
        assert dict(zarr.open_group(source, path=group, mode="r", zarr_format=3).attrs) == {"made": "by hand"}
    assert zarrlift.update(source).ok
    assert zarrlift.verify(source).ok
    assert zarrlift.finish(source).state == "finished"
    assert zarrlift.undo(source).state == "undone"
    assert tree(source) == before


def test_excluded_nodes_do_not_hold_the_others_back(source: Path) -> None:
    (source / ".zmetadata").unlink()
    (source / "g/recode/.zarray").write_text("{")
    outcome = zarrlift.migrate(source, in_place=True, recipe=Recipe(exclude=("g/recode",)))
    assert outcome.ok, outcome.problems
    assert "g/relink" in values(source, 3)


def test_a_group_that_cannot_be_written_holds_back_what_is_above_it(source: Path, monkeypatch) -> None:
    publish = Publisher.publish
    foreign = source / "g/zarr.json"

    def late(self: Publisher, node: GroupPlan, content: dict) -> int | None:
        if node.path == "g":
            foreign.write_text("{}")  # by somebody else, at the last moment
        return publish(self, node, content)

    monkeypatch.setattr(Publisher, "publish", late)
    outcome = zarrlift.migrate(source, in_place=True)
    assert [problem.node for problem in outcome.problems] == ["g"]
    assert not (source / "zarr.json").exists()
    monkeypatch.undo()
    foreign.unlink()
    assert zarrlift.migrate(source, in_place=True).ok
    assert values(source, 3) == values(source, 2)


# Jobs on archives of other formats than Zarr v2, in place and on the 2022 draft.

# Work in place on archives of other formats than Zarr v2: verify, finish and undo know their documents.


DOCUMENTS = {"zarr_v1": {"meta", "attrs"}}
"""What the formats that can be read in place call their metadata documents."""


@pytest.fixture(params=DOCUMENTS)
def place(request, tmp_path):
    """A small archive of a format, to work on in place."""
    return other_archive(request.param, tmp_path / request.param)


def names(files):
    return {name.rpartition("/")[2] for name in files}


def test_finish_removes_the_documents_of_the_format_and_undo_brings_them_back(place):
    before = tree(place)
    assert zarrlift.migrate(place, in_place=True).ok
    shown = values(place, 3)
    assert zarrlift.verify(place, full=True).ok
    outcome = zarrlift.finish(place)
    gone = before.keys() - tree(place).keys()
    assert names(gone) == DOCUMENTS[place.name]
    assert outcome.removed == len(gone) == sum(name in DOCUMENTS[place.name] for name in map(last, before))
    assert values(place, 3) == shown
    assert zarrlift.undo(place).restored == len(gone)
    assert tree(place) == before


def last(name):
    return name.rpartition("/")[2]


def test_verify_knows_what_was_migrated_in_place_without_its_job(place):
    zarrlift.migrate(place, in_place=True)
    place.with_name(f"{place.name}.zarrlift.db").unlink()
    report = zarrlift.verify(place, place, full=True)
    assert report.ok
    assert report.arrays == len(values(place, 3))


@pytest.mark.parametrize("format", OTHERS)
@pytest.mark.parametrize("kind", ["zip", "url"])
@pytest.mark.slow(one_in=7)
def test_a_zip_file_and_a_url_give_what_a_directory_gives(format, kind, tmp_path):
    directory = other_archive(format, tmp_path / "source")
    if kind == "zip":
        source = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", directory))
    else:
        source = f"memory://{uuid.uuid4()}"
        fsspec.filesystem("memory").put(f"{directory}/", source, recursive=True)
    assert zarrlift.migrate(directory, tmp_path / "expected").ok
    assert zarrlift.migrate(source, tmp_path / "found").ok
    assert zarrlift.verify(source, tmp_path / "found", full=True).ok
    assert tree(tmp_path / "found") == tree(tmp_path / "expected")


def test_axes_cannot_be_reversed_where_chunks_stay():
    with pytest.raises(UsageError, match=r"axes cannot be reversed in place.*; found --axes reversed"):
        zarrlift.plan(archives("n5")[0].path, in_place=True, axes="reversed")


# Jobs on archives of the 2022 draft of v3: plans, fallbacks on resume, and what is refused.


EXTENSIONS = archive("zarr_v3_draft/may-2022/extensions").path
SHARDED = unpacked("zarr_v3_draft/zarr-2.18/sharded.zarr")


def test_in_place_is_refused_with_its_reason(tmp_path: Path) -> None:
    place = shutil.copytree(SHARDED, tmp_path / "a.zarr")
    before = tree(tmp_path)
    for command in (zarrlift.migrate, zarrlift.plan):
        with pytest.raises(UsageError, match=r"entry point zarr\.json, where Zarr v3 keeps the root's own"):
            command(place, in_place=True)
    assert run("migrate", place, "--in-place").code == 2
    assert tree(tmp_path) == before


def test_the_plan_says_what_becomes_of_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    # Lines break where the width of a page ends.
    said = " ".join(
        run("migrate", "--dry-run", SHARDED, tmp_path / "out", "--set", "shard-index=crc32c").out.split()
    )
    assert "shards little index at the end -> little index at the end, crc32c" in said
    assert "/group/plane 6x7 2x3 int32 2x2 3 of 4" in said
    assert "not decoded (shard index)" in said
    kept = " ".join(run("migrate", "--dry-run", SHARDED).out.split())
    assert "shards little index at the end read by" in kept
    assert "bytes:little in shards of 4x6" in run("inspect", SHARDED).out


def test_a_plan_counts_shards_and_their_bytes() -> None:
    plan = zarrlift.plan(SHARDED, recipe=zarrlift.Recipe(base=zarrlift.ArrayRecipe(shard_index="crc32c")))
    array = next(array for array in plan.arrays if array.path == "group/plane")
    files = list((SHARDED / "data/root/group/plane").rglob("c*/*"))
    assert (array.chunks, array.source.objects.total) == (len(files), 4)
    assert array.bytes_in == sum(file.stat().st_size for file in files)
    assert array.bytes_out == array.bytes_in + 4 * len(files), "a checksum more in each"
    assert not array.bytes_out_known


def test_a_job_goes_on_with_the_fallbacks_it_was_allowed(tmp_path: Path) -> None:
    source, destination = shutil.copytree(EXTENSIONS, tmp_path / "old"), tmp_path / "new"
    chunk = source / "data/fallback/first/c0/0"
    sound = chunk.read_bytes()
    chunk.write_bytes(sound[:-9])
    outcome = zarrlift.migrate(source, destination, allow_fallback=True)
    assert [p.key for p in outcome.problems if p.severity == "refusal"] == ["data/fallback/first/c0/0"]
    chunk.write_bytes(sound)
    with pytest.raises(JobError, match="a different job"):
        zarrlift.migrate(source, destination)
    assert zarrlift.resume(destination).ok
    assert zarr.open_array(destination / "fallback/first", mode="r").dtype == "int16"
    assert zarrlift.verify(source, destination, full=True).ok


def test_an_array_without_a_permitted_fallback_leaves_the_others_alone(tmp_path: Path) -> None:
    outcome = zarrlift.migrate(EXTENSIONS, tmp_path / "new")
    assert {p.node for p in outcome.problems if p.severity == "refusal"} == {
        "fallback/first",
        "fallback/second",
        "fallback/raw",
    }
    assert (tmp_path / "new/time/zarr.json").is_file()


def test_what_is_consolidated_stays_so(tmp_path: Path) -> None:
    source = archive("zarr_v3_draft/zarr-2.18/consolidated").path
    assert zarrlift.migrate(source, tmp_path / "new").ok
    root = zarr.open_group(tmp_path / "new", mode="r", zarr_format=3, use_consolidated=True)
    assert sorted(name for name, _ in root.members(max_depth=None)) == [
        "explicit",
        "explicit/array",
        "implicit",
        "implicit/array",
    ]


def test_a_lost_array_holds_back_the_exit_code(tmp_path: Path) -> None:
    source = shutil.copytree(SHARDED, tmp_path / "old")
    (source / "meta/root/gzipped.array.json").unlink()
    ran = run("migrate", source, tmp_path / "new", "--json")
    assert ran.code == 1
    (problem,) = ran.refusals
    assert (problem["node"], problem["message"]) == ("gzipped", "chunks without an array")
    assert problem["key"].startswith("data/root/gzipped/c")
    assert run("migrate", source, tmp_path / "some", "--exclude", "gzipped").code == 0
    assert json.loads((tmp_path / "some/zarr.json").read_text())["node_type"] == "group"
