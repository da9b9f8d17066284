"""In place: only `zarr.json` files are added; finish removes the old documents, undo brings them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.support.job_archives import tree, values

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.errors import JobError
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.publisher import Publisher
from zarrlift.planning.plans import GroupPlan
from zarrlift.report import outcome as report_outcome
from zarrlift.report.page import Page
from zarrlift.report.text import lines as printed
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.local.writer import LocalWriter
from zarrstack.core.errors import UsageError

DOCUMENTS = {".zarray", ".zattrs", ".zgroup", ".zmetadata"}


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


def test_a_second_call_changes_nothing(source: Path) -> None:
    zarrlift.migrate(source, in_place=True)
    before = tree(source)
    assert zarrlift.migrate(source, in_place=True).state == "nothing to do"
    assert tree(source) == before


def test_finish_needs_a_verification(source: Path) -> None:
    zarrlift.migrate(source, in_place=True)
    with pytest.raises(JobError, match="verified"):
        zarrlift.finish(source)
    assert zarrlift.verify(source).ok
    outcome = zarrlift.finish(source)
    assert outcome.state == "finished"
    assert not {Path(name).name for name in tree(source)} & DOCUMENTS
    assert zarrlift.finish(source).state == "nothing to do"


def test_undo_after_finish_gives_back_every_byte(source: Path) -> None:
    before = tree(source)
    zarrlift.migrate(source, in_place=True)
    zarrlift.verify(source, full=True)
    zarrlift.finish(source)
    outcome = zarrlift.undo(source)
    assert outcome.restored == sum(Path(name).name in DOCUMENTS for name in before)
    assert tree(source) == before


def test_after_finish_there_is_nothing_left_to_verify(source: Path) -> None:
    zarrlift.migrate(source, in_place=True)
    zarrlift.verify(source, full=True)
    zarrlift.finish(source)
    for places in ((source,), (source, source)):
        with pytest.raises(JobError, match="finish has removed the legacy metadata") as told:
            zarrlift.verify(*places)
        assert told.value.problem.advice == "The job file has a copy, which undo restores."
    zarrlift.undo(source)
    assert zarrlift.migrate(source, in_place=True).ok
    assert zarrlift.verify(source).ok


def test_a_sample_takes_nothing_from_a_full_verification(source: Path) -> None:
    zarrlift.migrate(source, in_place=True)
    for full, noted in ((False, "sample"), (True, "full"), (False, "full")):
        assert zarrlift.verify(source, full=full).ok
        assert zarrlift.status(source).verified == noted


def test_undo_before_finish_deletes_what_was_added(source: Path) -> None:
    before = tree(source)
    zarrlift.migrate(source, in_place=True)
    assert zarrlift.undo(source).state == "undone"
    assert tree(source) == before


def test_undo_keeps_a_document_that_somebody_changed(source: Path) -> None:
    zarrlift.migrate(source, in_place=True)
    zarr.open_array(str(source / "g/relink"), mode="r+", zarr_format=3).attrs["new"] = 1
    outcome = zarrlift.undo(source)
    assert [problem.key for problem in outcome.problems] == ["g/relink/zarr.json"]
    assert (source / "g/relink/zarr.json").exists()


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
        if Path(name).name in DOCUMENTS - {".zmetadata"}:
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
