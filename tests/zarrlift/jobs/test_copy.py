"""A copy: what it leaves, what it refuses (a folder of archives, too), what a second call does."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numcodecs
import numpy as np
import pytest
import zarr
from tests.support.damaged_archives import run
from tests.support.job_archives import tree, values, write_archive

import zarrlift
from zarrlift.core.problems import command
from zarrlift.errors import JobError, UsageError
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.storage.local.writer import directory_of

if TYPE_CHECKING:
    from tests.support.bucket import Bucket


def test_a_copy_holds_every_value_and_nothing_but_the_archive(source: Path, tmp_path: Path) -> None:
    """Payloads that need no change are copied byte for byte, and missing chunks stay missing."""
    before, place = tree(source), tmp_path / "out.zarr"
    outcome = zarrlift.migrate(source, place)
    assert (outcome.ok, outcome.state) == (True, "done")
    assert (outcome.arrays_done, outcome.arrays_total, outcome.groups_done) == (4, 4, 3)
    assert values(place, 3) == values(source, 2)
    assert tree(source) == before
    names = {Path(name).name for name in tree(place)}
    assert all(name == "zarr.json" or name.isdigit() for name in names)
    assert {entry.name for entry in tmp_path.iterdir()} == {
        *("out.zarr", "out.zarr.zarrlift.db", "source.zarr")
    }
    assert (place / "g/relink/c/3/2").read_bytes() == (source / "g/relink/3.2").read_bytes()
    assert len(list((place / "g/recode/c").iterdir())) == 15
    assert not (place / "empty/c").exists()


def test_finish_of_a_verified_copy_removes_the_job_and_nothing_else(source: Path, destination: Path) -> None:
    before = tree(source)
    outcome = zarrlift.migrate(source, destination)
    job = Path(outcome.job)
    with pytest.raises(JobError, match="not been verified since"):
        zarrlift.finish(destination)
    assert zarrlift.verify(source, destination).ok
    result = tree(destination)
    chunk = destination / "g/recode/c/0"
    content = chunk.read_bytes()
    chunk.unlink()
    incomplete = zarrlift.finish(destination)
    assert (incomplete.state, incomplete.ok, job.exists()) == ("incomplete", False, True)
    chunk.write_bytes(content)
    assert zarrlift.finish(destination).state == "finished"
    assert sorted(path.name for path in destination.parent.iterdir()) == [destination.name, source.name]
    assert (tree(destination), tree(source)) == (result, before)
    for verb in (zarrlift.status, zarrlift.update, zarrlift.undo, zarrlift.finish):
        with pytest.raises(JobError, match="no job was found"):
            verb(destination)


def test_a_finish_that_was_killed_is_repeated(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarrlift.migrate(source, destination)
    assert zarrlift.verify(source, destination).ok

    def killed(job: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zarrlift.jobs.finish.remove_inventory", killed)
    with pytest.raises(KeyboardInterrupt):
        zarrlift.finish(destination)
    monkeypatch.undo()
    assert zarrlift.status(destination).state == "finished"
    with pytest.raises(JobError):
        zarrlift.update(destination)
    assert zarrlift.finish(destination).state == "finished"
    assert sorted(path.name for path in destination.parent.iterdir()) == [destination.name, source.name]


def test_finish_removes_the_listing_of_a_source_in_a_store(tmp_path: Path, bucket: Bucket) -> None:
    source = bucket.put("source", tree(write_archive(tmp_path / "source")))
    shutil.rmtree(tmp_path / "source")
    assert zarrlift.migrate(source, tmp_path / "out.zarr", storage_options=bucket.options).ok
    assert [path.suffix for path in tmp_path.iterdir()].count(".inventory") == 1
    assert zarrlift.verify(tmp_path / "out.zarr", storage_options=bucket.options).ok
    assert zarrlift.finish(tmp_path / "out.zarr").ok
    assert [path.name for path in tmp_path.iterdir()] == ["out.zarr"]


def test_consolidated_metadata_follows_the_source(source: Path, tmp_path: Path) -> None:
    zarrlift.migrate(source, tmp_path / "out.zarr")
    root = json.loads((tmp_path / "out.zarr/zarr.json").read_text())
    assert set(root["consolidated_metadata"]["metadata"]) == {
        "empty", "g", "g/recode", "g/relink", "h", "h/rewrite",
    }  # fmt: skip
    (source / ".zmetadata").unlink()
    zarrlift.migrate(source, tmp_path / "plain.zarr")
    assert "consolidated_metadata" not in json.loads((tmp_path / "plain.zarr/zarr.json").read_text())


def test_a_second_call_changes_nothing_and_says_so(source: Path, tmp_path: Path) -> None:
    zarrlift.migrate(source, tmp_path / "out.zarr")
    before = tree(tmp_path / "out.zarr")
    stamps = [os.stat(tmp_path / "out.zarr" / name).st_mtime_ns for name in before]
    assert zarrlift.migrate(source, tmp_path / "out.zarr").state == "nothing to do"
    assert zarrlift.resume(tmp_path / "out.zarr").state == "nothing to do"
    assert tree(tmp_path / "out.zarr") == before
    assert [os.stat(tmp_path / "out.zarr" / name).st_mtime_ns for name in before] == stamps


def test_hard_links_that_cannot_be_are_refused_before_anything_is_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """exFAT has none: as a failure of each chunk it left a job that no resume could end."""

    def link(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=r"has no hard links\. Omit --link hard\."):
        zarrlift.migrate(source, tmp_path / "out.zarr", link="hard")
    assert sorted(tmp_path.iterdir()) == before


def test_an_existing_destination_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out.zarr").mkdir()
    (tmp_path / "out.zarr/precious").write_text("do not touch")
    with pytest.raises(UsageError, match=r"the destination exists: .*out\.zarr\. Choose .* --overwrite"):
        zarrlift.migrate(source, tmp_path / "out.zarr")
    assert tree(tmp_path / "out.zarr") == {"precious": b"do not touch"}
    assert not (tmp_path / "out.zarr.zarrlift.db").exists()


def test_overwrite_replaces_the_old_tree_at_the_end(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out.zarr").mkdir()
    (tmp_path / "out.zarr/old").write_text("old")
    assert zarrlift.migrate(source, tmp_path / "out.zarr", overwrite=True).ok
    assert values(tmp_path / "out.zarr", 3) == values(source, 2)
    assert not (tmp_path / "out.zarr/old").exists()
    assert not list(tmp_path.glob("*zarrlift-old*"))


def test_undo_of_a_copy_keeps_what_somebody_changed(source: Path, tmp_path: Path) -> None:
    """A file of others is only noted; what the job wrote, and others changed, is left for them."""
    zarrlift.migrate(source, tmp_path / "out.zarr")
    notes, chunk = tmp_path / "out.zarr/g/notes.txt", tmp_path / "out.zarr/g/relink/c/0/0"
    zarr.open_array(str(tmp_path / "out.zarr/g/relink"), mode="r+")[0, 0] = 999
    changed = chunk.read_bytes()
    notes.write_text("mine")
    outcome = zarrlift.undo(tmp_path / "out.zarr")
    assert [(problem.severity, problem.key) for problem in outcome.problems] == [
        ("refusal", "g/relink/c/0/0"),
        ("note", "g/notes.txt"),
    ]
    assert tree(tmp_path / "out.zarr") == {"g/relink/c/0/0": changed, "g/notes.txt": b"mine"}


@pytest.mark.parametrize("stuck", ["g/relink", "", ".zarrlift-job"])
def test_undo_names_a_directory_that_cannot_be_removed(
    stuck: str, source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = zarrlift.migrate(source, destination).job
    if stuck.startswith("."):
        with Job.open(Path(job)) as opened:
            stuck = directory_of(opened.id)
        (destination / stuck / "inner").mkdir(parents=True)

    def refuse(place: str | os.PathLike[str], *, dir_fd: int | None = None) -> None:
        if os.fspath(place) in ((destination / stuck).name, "inner"):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), place)
        rmdir(place, dir_fd=dir_fd)

    rmdir = os.rmdir
    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", refuse)
        ran = run("undo", "--yes", "--yes", job, "--json")
    assert ran.code == 1
    assert [(p["kind"], p["key"]) for p in ran.problems] == [("storage", stuck or ".")]
    assert (destination / stuck).is_dir()
    assert zarrlift.undo(job).ok
    assert not destination.exists()


def test_undo_leaves_a_link_that_the_destination_was(source: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out.zarr").symlink_to("elsewhere", target_is_directory=True)
    zarrlift.migrate(source, tmp_path / "out.zarr")
    outcome = zarrlift.undo(tmp_path / "out.zarr")
    assert outcome.problems == ()
    assert tree(tmp_path / "elsewhere") == {}


@pytest.mark.parametrize("is_free", [True, False])
def test_undo_brings_the_old_tree_back_or_names_where_it_is(
    is_free: bool, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.zarr").mkdir()
    (tmp_path / "out.zarr/old").write_text("old")
    (source / "g/relink/0.0").write_bytes(b"garbage")
    job = zarrlift.migrate(source, tmp_path / "out.zarr", overwrite=True).job
    if is_free:
        zarrlift.undo(job)
        assert tree(tmp_path / "out.zarr") == {"old": b"old"}
        return
    (tmp_path / "out.zarr/notes.txt").write_text("mine")
    outcome = zarrlift.undo(job)
    assert not outcome.ok
    (told,) = (problem for problem in outcome.problems if problem.kind == "aside")
    assert told.key is not None
    assert tree(Path(told.key)) == {"old": b"old"}


def test_drop_empty_leaves_out_chunks_of_fill(tmp_path: Path) -> None:
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(6, 2), chunks=(2, 2), dtype="<f8", fill_value=0, zarr_format=2,
        config={"write_empty_chunks": True},
    )  # fmt: skip
    array[...] = 0.0
    array[2, 0] = -0.0  # equal to the fill value, but not its bits
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(drop_empty=True))
    outcome = zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr", recipe=recipe)
    assert outcome.dropped == 2
    assert [file.parent.name for file in (tmp_path / "b.zarr/c").rglob("*") if file.is_file()] == ["1"]


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    ("before", "after"),
    [(None, "zstd:3"), (numcodecs.Zstd(), "none"), (numcodecs.Zstd(), "gzip")],
    ids=["compressed now", "no longer compressed", "compressed otherwise"],
)
def test_a_plan_foresees_what_texts_take(
    tmp_path: Path, before: numcodecs.abc.Codec | None, after: str
) -> None:
    """Their number says nothing: a text may be a name, or a page."""
    pages = [f"page {number} " * 500 for number in range(6)]
    made = zarr.create_array(
        tmp_path / "old", shape=(6,), chunks=(2,), dtype=str, zarr_format=2, compressors=before
    )
    made[:] = np.array(pages, dtype=object)
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs=after))
    (array,) = zarrlift.plan(tmp_path / "old", tmp_path / "new", recipe=recipe).arrays
    outcome = zarrlift.migrate(tmp_path / "old", tmp_path / "new", recipe=recipe)
    assert array.bytes_out == pytest.approx(outcome.bytes_out, abs=1)
    assert not array.bytes_out_known


def test_names_that_the_destination_cannot_hold_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """exFAT ignores case and has no colons: each chunk of such an array failed in the middle of a run."""
    source = zarr.open_group(str(tmp_path / "old.zarr"), mode="w", zarr_format=2)
    for name in ("plain", "A", "a", "b:c"):
        source.create_array(name, shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    real = os.mkdir

    def mkdir(path: str, *mode: int, **more: object) -> None:
        above, name = os.path.split(path)
        if ":" in name:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(os.path.join(above, name.lower()), *mode, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(UsageError) as refused:
        zarrlift.migrate(tmp_path / "old.zarr", tmp_path / "new.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["old.zarr"]
    assert "the names of 2 nodes; found /a (the same name as 'A' there), /b:c (Invalid argument)" in str(
        refused.value
    )
    outcome = zarrlift.migrate(
        tmp_path / "old.zarr", tmp_path / "new.zarr", recipe=zarrlift.Recipe(exclude=("A", "b:c"))
    )
    assert outcome.ok


# A folder of archives is not migrated as one, whose root nobody wrote, unless the format is given.


def archives(folder, *names, zarr_format=2):
    for name in names:
        group = zarr.open_group(folder / name, mode="w", zarr_format=zarr_format)
        group.create_array("x", shape=(4,), chunks=(2,), dtype="<u2")[:] = len(name)
    return folder


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_folder_of_archives_is_refused_with_the_commands_for_both_intentions(zarr_format, tmp_path):
    old = archives(tmp_path / "old", "a.zarr", "b.zarr", zarr_format=zarr_format)
    with pytest.raises(UsageError) as refused:
        zarrlift.migrate(old, tmp_path / "new")
    problem = refused.value.problem
    assert (problem.key, problem.found) == (str(old), "a.zarr, b.zarr")
    line = command("batch", "run", str(old), "--to", str(tmp_path / "new/{relative}.zarr"))
    assert f"{line}." in problem.advice
    assert f"--from zarr{zarr_format}" in problem.advice
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    with pytest.raises(UsageError, match="several archives"):
        zarrlift.plan(old, tmp_path / "new")
    with pytest.raises(UsageError, match="a folder of several archives"):
        zarrlift.inspect(old)


def test_in_place_the_command_is_that_for_in_place(tmp_path):
    old = archives(tmp_path / "old", "a", "b")
    with pytest.raises(UsageError, match=re.escape(f"batch run {old} --in-place")):
        zarrlift.migrate(old, in_place=True)


def test_the_format_merges_them_and_the_job_goes_on_as_one(tmp_path):
    old = archives(tmp_path / "old", "a.zarr", "b.zarr")
    assert zarrlift.migrate(old, tmp_path / "new", format="zarr2").ok
    assert zarrlift.update(tmp_path / "new").ok
    assert zarr.open_group(tmp_path / "new", mode="r")["b.zarr/x"][:].tolist() == [6, 6, 6, 6]


def one(folder):
    archives(folder, "a.zarr")


def arrays(folder):
    for name in ("lat", "lon"):
        zarr.create_array(folder / name, shape=(4,), chunks=(2,), dtype="<u2", zarr_format=2)[:] = 1


def with_a_plain_folder(folder):
    archives(folder, "a", "plain/b")


def n5(folder):
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        (folder / name / "attributes.json").write_text(
            '{"dimensions": [4], "blockSize": [2], "dataType": "uint8", "compression": {"type": "raw"}}'
        )


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("make", [one, arrays, with_a_plain_folder, n5])
def test_other_folders_without_a_document_are_one_archive_as_before(make, tmp_path):
    make(tmp_path / "old")
    assert zarrlift.migrate(tmp_path / "old", tmp_path / "new").ok
