"""A job file that was copied does not act on the original, and one that was moved acts where it is now."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.job_archives import tree, values, write_archive

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import JobError
from zarrlift.jobs.ledger import move as moves
from zarrlift.jobs.ledger.home import Home
from zarrlift.jobs.run import Run

SUFFIX = ".zarrlift.db"
OUT = f"out.zarr{SUFFIX}"
IN_PLACE = f"source.zarr{SUFFIX}"
TWO = "two places may be meant"
COPY = "this is a copy of a job file"
CHANGING: dict[str, Callable[[Path], object]] = {
    "undo": zarrlift.undo,
    "resume": zarrlift.resume,
    "update": zarrlift.update,
    "plan of an update": zarrlift.plan_update,
    "verify": zarrlift.verify,
}
"""The calls that change a result, or record that it was compared, by a job file."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an archive, to which the results and the job files are added."""
    write_archive(tmp_path / "a/source.zarr")
    return tmp_path / "a"


def migrated(folder: Path) -> Path:
    """The folder, with a copy of the archive."""
    assert zarrlift.migrate(folder / "source.zarr", folder / "out.zarr").ok
    return folder


def migrated_in_place(folder: Path) -> Path:
    """The folder, with the archive migrated in place and verified."""
    assert zarrlift.migrate(folder / "source.zarr", in_place=True).ok
    assert zarrlift.verify(folder / "source.zarr").ok
    return folder


def copied(path: Path, name: str = "b", **how: Any) -> Path:
    """What `cp -a` makes beside it."""
    to = path.with_name(name)
    return Path(shutil.copytree(path, to, symlinks=True, **how))


def moved(path: Path, name: str = "b") -> Path:
    """What `mv` makes beside it."""
    return path.rename(path.with_name(name))


def arrays(folder: Path) -> dict[str, bytes]:
    """Every file of the folder but those of jobs."""
    return {name: data for name, data in tree(folder).items() if SUFFIX not in name}


def change(source: Path) -> None:
    """Write to an array of an archive."""
    zarr.open_array(source, path="g/relink", mode="r+", zarr_format=2)[:] = 7


# ----- copies


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("call", CHANGING.values(), ids=CHANGING)
def test_a_copied_job_changes_neither_the_original_nor_the_copy(
    call: Callable[[Path], object], folder: Path
) -> None:
    other = copied(migrated(folder))
    change(other / "source.zarr")
    before = tree(folder), arrays(other)
    with pytest.raises(JobError, match=TWO) as told:
        call(other / OUT)
    problem = told.value.problem
    for place in (folder / "out.zarr", other / "out.zarr"):
        assert str(place) in str(problem.found)
    assert f"--source {other}/source.zarr --destination {other}/out.zarr" in str(problem.advice)
    with pytest.raises(JobError, match=TWO):
        call(other / "out.zarr")
    assert (tree(folder), arrays(other)) == before


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("call", [zarrlift.finish, *CHANGING.values()], ids=["finish", *CHANGING])
def test_a_copied_job_in_place_changes_neither(call: Callable[[Path], object], folder: Path) -> None:
    other = copied(migrated_in_place(folder))
    before = tree(folder), arrays(other)
    with pytest.raises(JobError, match=TWO) as told:
        call(other / IN_PLACE)
    assert f"--source {other}/source.zarr" in str(told.value.problem.advice)
    assert (tree(folder), arrays(other)) == before


def killed_in_a_commit(job: Path) -> None:
    """Leave what a process leaves that is killed while it writes to a job file: pages, and their journal."""
    with closing(sqlite3.connect(job, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute("PRAGMA cache_size=1")
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO meta VALUES (?, ?)", [(f"row {n}", "x" * 2000) for n in range(50)])
        left = {path: path.read_bytes() for path in (job, job.with_name(f"{job.name}-journal"))}
    for path, content in left.items():
        path.write_bytes(content)


def test_a_copied_job_does_not_repair_the_job_file_of_a_killed_original(folder: Path) -> None:
    other = copied(migrated(folder))
    killed_in_a_commit(folder / OUT)
    before = tree(folder)
    with pytest.raises(JobError, match=TWO):
        zarrlift.update(other / OUT)
    assert tree(folder) == before


def test_a_second_migrate_in_a_copied_folder_is_refused_as_a_resume_is(folder: Path) -> None:
    other = copied(migrated(folder))
    before = tree(folder)
    with pytest.raises(JobError, match=TWO):
        zarrlift.migrate(other / "source.zarr", other / "out.zarr")
    with pytest.raises(JobError, match=TWO):
        zarrlift.migrate(folder / "source.zarr", folder / "out.zarr", job=other / OUT)
    assert zarrlift.migrate(other / "source.zarr", other / "out.zarr", overwrite=True).ok
    assert tree(folder) == before


def test_a_copied_job_goes_on_at_the_places_that_the_user_names(folder: Path) -> None:
    other = copied(migrated(folder))
    before = tree(folder)
    places = {"source": other / "source.zarr", "destination": other / "out.zarr"}
    assert zarrlift.resume(other / OUT, **places).state == "nothing to do"
    change(other / "source.zarr")
    assert zarrlift.update(other / OUT).ok
    assert values(other / "out.zarr", 3) == values(other / "source.zarr", 2)
    assert zarrlift.undo(other / OUT).problems == ()
    assert not (other / "out.zarr").exists()
    assert tree(folder) == before


def test_a_copy_with_a_result_of_its_own_only_uses_that(folder: Path) -> None:
    other = copied(migrated(folder))
    shutil.rmtree(folder / "out.zarr")
    before = tree(folder)
    assert zarrlift.undo(other / OUT).problems == ()
    assert not (other / "out.zarr").exists()
    assert tree(folder) == before


@pytest.mark.slow(one_in=4)
@pytest.mark.parametrize("name", ["b/out.db", f"a/backup{SUFFIX}", f"b/{OUT}"])
@pytest.mark.parametrize(
    "call", [zarrlift.undo, zarrlift.resume, zarrlift.update], ids=lambda call: call.__name__
)
def test_a_copy_of_the_job_file_alone_is_refused_until_it_is_the_only_one(
    call: Callable[[Path], zarrlift.Outcome], name: str, folder: Path
) -> None:
    migrated(folder)
    other = folder.parent / name
    other.parent.mkdir(exist_ok=True)
    shutil.copy2(folder / OUT, other)
    before = tree(folder)
    with pytest.raises(JobError, match=COPY) as told:
        call(other)
    assert f"Use {folder / OUT}" in str(told.value.problem.advice)
    assert tree(folder) == before
    (folder / OUT).unlink()
    assert call(other).ok


def test_a_copy_of_hard_links_is_a_copy(folder: Path) -> None:
    other = copied(migrated(folder), copy_function=os.link)
    before = tree(folder)
    with pytest.raises(JobError, match=TWO):
        zarrlift.undo(other / OUT)
    assert tree(folder) == before


def test_a_copied_job_that_had_written_nothing_does_not_begin_at_the_original(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Run, "__call__", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            zarrlift.migrate(folder / "source.zarr", folder / "out.zarr")
    shutil.rmtree(folder / "out.zarr", ignore_errors=True)
    other = copied(folder)
    shutil.rmtree(other / "source.zarr")
    with pytest.raises(JobError, match=COPY):
        zarrlift.resume(other / OUT)
    assert not (folder / "out.zarr").exists()


def test_a_copied_job_for_a_store_is_refused(folder: Path) -> None:
    """A URL has no form that is relative to the job file."""
    url = f"memory://{folder.parent.name}/out.zarr"
    assert zarrlift.migrate(folder / "source.zarr", url, job=folder / "job.db").ok
    other = copied(folder)
    shutil.rmtree(other / "source.zarr")
    with pytest.raises(JobError, match=COPY):
        zarrlift.undo(other / "job.db")
    (folder / "job.db").unlink()
    assert zarrlift.undo(other / "job.db").removed > 0


def test_a_copy_of_the_folder_of_job_files_is_refused(folder: Path) -> None:
    """Job files may be apart from the results: `--job` was given on purpose."""
    jobs = folder.parent / "jobs"
    assert zarrlift.migrate(folder / "source.zarr", folder / "out.zarr", job=jobs / "x.db").ok
    before = tree(folder)
    with pytest.raises(JobError, match=COPY):
        zarrlift.undo(copied(jobs, "copies") / "x.db")
    assert tree(folder) == before
    shutil.rmtree(folder.parent / "copies")
    assert zarrlift.undo(moved(jobs, "other") / "x.db").ok
    assert not (folder / "out.zarr").exists()


# ----- moves


@pytest.mark.parametrize("given", [OUT, "out.zarr"])
def test_a_moved_folder_goes_on_where_it_is_now(given: str, folder: Path) -> None:
    now = moved(migrated(folder))
    assert zarrlift.verify(now / given).ok
    change(now / "source.zarr")
    assert zarrlift.plan_update(now / given).objects > 0
    assert zarrlift.update(now / given).ok
    assert values(now / "out.zarr", 3) == values(now / "source.zarr", 2)
    status = zarrlift.status(now / given)
    assert (status.source, status.destination) == (str(now / "source.zarr"), str(now / "out.zarr"))
    assert zarrlift.undo(moved(now, "c") / given).problems == ()
    assert not folder.exists()
    assert sorted(path.name for path in (folder.parent / "c").iterdir()) == [OUT, "source.zarr"]


def test_the_job_of_a_moved_folder_is_found_by_its_source(folder: Path) -> None:
    now = moved(migrated(folder))
    assert zarrlift.undo(now / "source.zarr").problems == ()
    assert not (now / "out.zarr").exists()


def test_a_moved_result_is_undone_and_its_source_stays(folder: Path) -> None:
    migrated(folder)
    now = folder.parent / "b"
    now.mkdir()
    for name in ("out.zarr", OUT):
        (folder / name).rename(now / name)
    change(folder / "source.zarr")
    assert zarrlift.update(now / OUT).ok
    assert values(now / "out.zarr", 3) == values(folder / "source.zarr", 2)
    assert zarrlift.undo(now / "out.zarr").problems == ()
    assert sorted(path.name for path in now.iterdir()) == [OUT]


def test_a_moved_archive_is_finished_and_undone_in_place(folder: Path) -> None:
    before = arrays(folder)
    now = moved(migrated_in_place(folder))
    assert zarrlift.finish(now / IN_PLACE).state == "finished"
    assert zarrlift.undo(moved(now, "c") / IN_PLACE).restored > 0
    assert arrays(folder.with_name("c")) == before


def test_a_folder_moved_in_the_middle_of_a_job_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("__call__", "_publish"):
        now = copied(folder, method)
        with monkeypatch.context() as patched:
            patched.setattr(Run, method, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises((KeyboardInterrupt, zarrlift.Interrupted)):
                zarrlift.migrate(now / "source.zarr", now / "out.zarr")
        now = moved(now, f"{method} moved")
        assert zarrlift.resume(now / OUT).ok
        assert values(now / "out.zarr", 3) == values(now / "source.zarr", 2)


def test_a_moved_copy_with_times_of_its_own_is_undone(folder: Path) -> None:
    now = copied(migrated(folder), copy_function=shutil.copyfile)
    shutil.rmtree(folder)
    assert zarrlift.undo(now / OUT).problems == ()
    assert not (now / "out.zarr").exists()


@pytest.mark.parametrize("also_a_source", [True, False])
def test_a_later_job_at_the_old_place_keeps_its_result(also_a_source: bool, folder: Path) -> None:
    """Folders are rotated: yesterday's is renamed, and today's has its name."""
    now = moved(migrated(folder))
    folder.mkdir()
    if also_a_source:
        shutil.copytree(now / "source.zarr", folder / "source.zarr")
        migrated(folder)
    else:
        assert zarrlift.migrate(now / "source.zarr", folder / "out.zarr").ok
    before = tree(folder)
    assert zarrlift.undo(now / OUT).problems == ()
    assert not (now / "out.zarr").exists()
    assert tree(folder) == before


def test_a_result_that_a_later_job_has_replaced_is_not_undone(folder: Path) -> None:
    migrated(folder)
    kept = (folder / OUT).rename(folder / "kept.db")
    shutil.rmtree(folder / "out.zarr")
    migrated(folder)
    before = arrays(folder)
    with pytest.raises(JobError, match="another job has written to its destination since"):
        zarrlift.undo(kept)
    assert arrays(folder) == before | {"kept.db": kept.read_bytes()}


def test_what_is_beside_a_moved_job_file_by_chance_is_not_its_result(folder: Path) -> None:
    migrated(folder)
    shutil.rmtree(folder / "out.zarr")
    other = folder.parent / "b"
    zarr.create_array(other / "out.zarr", name="g/relink", shape=(3,), dtype="i1")[:] = 1
    before = tree(other)
    (folder / OUT).rename(other / OUT)
    for call in (zarrlift.undo, zarrlift.resume):
        with pytest.raises(JobError, match="this is not the job's output"):
            call(other / OUT)
    assert tree(other / "out.zarr") == {name.removeprefix("out.zarr/"): data for name, data in before.items()}


# ----- not moved


@pytest.mark.parametrize("by", ["a link to the folder", "a link in place of the folder", "a linked result"])
def test_the_same_folder_under_another_name_is_no_copy(by: str, folder: Path) -> None:
    migrated(folder)
    if by == "a linked result":
        (folder / "out.zarr").rename(folder.parent / "elsewhere")
        (folder / "out.zarr").symlink_to(folder.parent / "elsewhere")
        other = folder
    elif by == "a link to the folder":
        other = folder.parent / "b"
        other.symlink_to(folder)
    else:
        other = moved(folder)
        folder.symlink_to(other)
    change(other / "source.zarr")
    assert zarrlift.update(other / OUT).ok
    assert zarrlift.update(folder / OUT).state == "nothing to do"
    assert values(folder / "out.zarr", 3) == values(folder / "source.zarr", 2)


def test_the_same_folder_under_another_mount_is_no_copy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bind mount has the devices and inodes of the folder; here another folder stands for it."""
    migrated(folder)
    alias = folder.parent / "mounted"
    alias.symlink_to(folder)
    with monkeypatch.context() as patched:
        patched.setattr(os.path, "realpath", os.path.abspath)
        assert Home.of(folder / OUT).path != Home.of(alias / OUT).path
        for target in (OUT, "out.zarr"):
            assert zarrlift.resume(alias / target).state == "nothing to do"


@pytest.mark.parametrize("why", ["not mounted", "not readable", "damaged"])
def test_a_recorded_path_that_cannot_be_examined_is_not_taken_for_gone(why: str, folder: Path) -> None:
    migrated(folder)
    other = folder.parent / "b.db"
    shutil.copy2(folder / OUT, other)
    home = {"path": str(folder / OUT), "mount": "/"}
    if why == "not mounted":
        (folder / OUT).unlink()
        home["mount"] = str(folder)
    elif why == "not readable":
        (folder.parent / "loop").symlink_to("loop")
        home["path"] = str(folder.parent / "loop" / OUT)
    else:
        (folder / OUT).write_bytes((folder / OUT).read_bytes()[:5000])
    with closing(sqlite3.connect(other)) as job, job:
        job.execute("UPDATE meta SET value = ? WHERE name = 'home'", (json.dumps(home),))
    before = tree(folder)
    with pytest.raises(JobError, match="cannot be known whether the job file was moved or copied"):
        zarrlift.undo(other)
    assert tree(folder) == before
    assert zarrlift.resume(other, destination=folder / "out.zarr").state == "nothing to do"
    assert zarrlift.undo(other).problems == ()


def test_a_job_of_an_earlier_version_is_where_its_file_is(folder: Path) -> None:
    """It has no record of its own path; the next command that writes makes one."""
    migrated(folder)
    with closing(sqlite3.connect(folder / OUT)) as job, job:
        job.execute("DELETE FROM meta WHERE name = 'home'")
    assert zarrlift.resume(folder / OUT).state == "nothing to do"
    with pytest.raises(JobError, match=TWO):
        zarrlift.undo(copied(folder) / OUT)


# ----- parts


@pytest.mark.parametrize("how", [copied, moved])
def test_parts_of_a_copied_folder_are_refused_and_those_of_a_moved_one_go_on(
    how: Callable[[Path], Path], folder: Path
) -> None:
    zarrlift.plan_parts(folder / "source.zarr", folder / "out.zarr", job=folder / "x.db", parts=2)
    assert zarrlift.migrate_part(folder / "x.db", 0).ok
    other = how(folder)
    if how is copied:
        before = tree(folder)
        for call in (
            lambda: zarrlift.migrate_part(other / "x.db", 1),
            lambda: zarrlift.gather(other / "x.db"),
        ):
            with pytest.raises(JobError, match=TWO):
                call()
        assert tree(folder) == before
        return
    assert zarrlift.migrate_part(other / "x.db", 1).ok
    other = moved(other, "c")
    assert zarrlift.gather(other / "x.db").state == "done"
    assert values(other / "out.zarr", 3) == values(other / "source.zarr", 2)
    assert not folder.exists()


# ----- places that are no directory


def test_a_moved_zip_file_is_read_where_it_is_now(folder: Path) -> None:
    shutil.make_archive(str(folder / "source.zarr"), "zip", folder / "source.zarr")
    assert zarrlift.migrate(folder / "source.zarr.zip", folder / "out.zarr").ok
    now = moved(folder)
    assert zarrlift.verify(now / OUT, full=True).ok
    assert zarrlift.resume(now / OUT).state == "nothing to do"
    assert zarrlift.status(now / OUT).source == str(now / "source.zarr.zip")


@pytest.mark.parametrize(
    "place",
    [
        "/a/x",
        "file:///a/x%20y",
        "zip::/a/x.zip",
        "zip::file:///a/x.zip",
        "icechunk:///a/x",
        "icechunk+file:///a/x?branch=dev",
    ],
)
def test_a_local_place_is_found_relative_to_the_job_file_in_each_form(place: str) -> None:
    move = moves.Move(
        home=Home(path="/a/job.db", mount="/"), path="/b/c/job.db", left="gone", others=frozenset()
    )
    assert move.relative(place) == place.replace("/a/", "/b/c/")


@pytest.mark.parametrize("place", ["s3://bucket/a", "zip::s3://bucket/a.zip", "memory://a", "store of zarr"])
def test_a_place_in_a_store_has_no_relative_form(place: str) -> None:
    move = moves.Move(
        home=Home(path="/a/job.db", mount="/"), path="/b/job.db", left="gone", others=frozenset()
    )
    assert move.relative(place) is None


def test_a_moved_repository_of_icechunk_is_undone_and_a_copied_one_is_not(folder: Path) -> None:
    pytest.importorskip("icechunk")
    assert zarrlift.migrate(folder / "source.zarr", f"icechunk://{folder}/repo").ok
    with pytest.raises(JobError, match=TWO):
        zarrlift.undo(copied(folder, "c") / f"repo{SUFFIX}")
    now = moved(folder)
    assert zarrlift.verify(now / f"repo{SUFFIX}").ok
    assert zarrlift.undo(now / f"repo{SUFFIX}").state == "undone"


# ----- the command line


def test_the_command_names_both_places(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = copied(migrated(folder))
    assert main(["undo", "--yes", "--yes", str(other / OUT)]) == 1
    error = capsys.readouterr().err
    assert f"{other}/out.zarr, {folder}/out.zarr" in error
    assert np.array_equal(
        *(zarr.open_array(each / "out.zarr", path="g/relink")[:] for each in (folder, other))
    )
