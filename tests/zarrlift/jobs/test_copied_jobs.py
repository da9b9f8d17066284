"""A job beside its result is of that result, wherever both are; any other job file acts only where it was."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.support.job_archives import tree, values, write_archive
from tests.support.job_processes import stopping
from zarr.storage import MemoryStore

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import JobError
from zarrlift.jobs.ledger import job_places
from zarrlift.jobs.run import Run
from zarrstack.core.errors import StorageError, UsageError

SUFFIX = ".zarrlift.db"
OUT = f"out.zarr{SUFFIX}"
TWO = "two sources may be meant"
ELSEWHERE = "the job file was moved or copied, so it is only read"
NOTHING = "the output of this job was not found|what this job wrote is gone"


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
    assert zarrlift.update(other / OUT).state == "nothing to do"
    assert tree(folder) == before


def test_a_second_migrate_in_a_copied_folder_continues_the_copy(folder: Path) -> None:
    other = copied(migrated(folder))
    before = tree(folder)
    assert zarrlift.migrate(other / "source.zarr", other / "out.zarr").state == "nothing to do"
    for place in (other, folder):
        with pytest.raises(JobError, match=r"belongs to a different job|leads elsewhere now"):
            zarrlift.migrate(folder / "source.zarr", place / "out.zarr", job=other / OUT)
    assert zarrlift.migrate(other / "source.zarr", other / "out.zarr", overwrite=True).ok
    assert tree(folder) == before


@pytest.mark.parametrize("changed", ["the original", "the copy", "both"])
def test_of_two_sources_the_first_is_read_that_has_not_changed(changed: str, folder: Path) -> None:
    other = copied(migrated(folder))
    for place, name in ((folder, "the original"), (other, "the copy")):
        if changed in (name, "both"):
            change(place / "source.zarr")
    before = tree(folder)
    if changed == "both":
        for call in (zarrlift.update, zarrlift.plan_update, zarrlift.resume, zarrlift.verify):
            with pytest.raises(JobError, match=TWO) as told:
                call(other / OUT)
            assert f"{other / 'source.zarr'} and {folder / 'source.zarr'}" in str(told.value.problem.found)
            assert f"--source {other / 'source.zarr'}" in str(told.value.problem.advice)
        assert zarrlift.resume(other / OUT, source=other / "source.zarr").ok
        assert zarrlift.update(other / OUT).ok
    else:
        assert zarrlift.update(other / OUT).state == "nothing to do"
    source = folder if changed == "the copy" else other
    assert zarrlift.status(other / OUT).source == str(source / "source.zarr")
    assert zarrlift.verify(other / OUT, full=True).ok
    assert values(other / "out.zarr", 3) == values(source / "source.zarr", 2)
    assert tree(folder) == before


def test_a_copy_without_its_times_is_taken_where_it_is_named(folder: Path) -> None:
    other = copied(migrated(folder), copy_function=shutil.copyfile)
    before = tree(folder)
    for call in (zarrlift.undo, zarrlift.update):
        with pytest.raises(JobError, match="not the job's output as it was published") as told:
            call(other / OUT)
    assert f"resume {other / OUT} --destination {other / 'out.zarr'}" in str(told.value.problem.advice)
    places = {"source": other / "source.zarr", "destination": other / "out.zarr"}
    assert zarrlift.resume(other / OUT, **places).ok
    change(other / "source.zarr")
    assert zarrlift.update(other / OUT, source=other / "source.zarr").ok
    assert values(other / "out.zarr", 3) == values(other / "source.zarr", 2)
    assert zarrlift.undo(other / OUT).problems == ()
    assert not (other / "out.zarr").exists()
    assert tree(folder) == before


def test_whole_seconds_are_times(folder: Path) -> None:
    """Programs such as tar do not keep the rest."""
    other = copied(migrated(folder))
    for path in other.rglob("*"):
        os.utime(path, ns=(0, path.stat().st_mtime_ns // 10**9 * 10**9))
    assert zarrlift.undo(other / OUT).removed > 0


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    ("kind", "way"),
    [("a store", copied), ("a folder of jobs", moved), ("in place", copied)],
    ids=["a store", "a folder of jobs", "in place"],
)
def test_a_job_apart_from_its_result_only_reads_elsewhere(
    kind: str, way: Callable[[Path, str], Path], folder: Path
) -> None:
    jobs, name = folder.parent / "jobs", "x.db"
    if kind == "in place":
        assert zarrlift.migrate(folder / "source.zarr", in_place=True, job=jobs / name).ok
        place = str(folder / "source.zarr")
        named = {"source": place}
    else:
        place = f"memory://{folder.parent.name}/out.zarr" if kind == "a store" else str(folder / "out.zarr")
        assert zarrlift.migrate(folder / "source.zarr", place, job=jobs / name).ok
        named = {"destination": place}
    before = tree(folder)
    other = way(jobs, "copies") / name
    for call in (zarrlift.undo, zarrlift.resume, zarrlift.update):
        with pytest.raises(JobError, match=ELSEWHERE) as told:
            call(other)
        (option,) = named
        assert f"resume {other} --{option} {place}" in str(told.value.problem.advice)
    assert zarrlift.status(other).destination == place
    assert zarrlift.plan_update(other).objects == 0
    report = zarrlift.verify(other)
    assert report.ok
    assert "not recorded" in report.problems[-1].message
    assert tree(folder) == before
    assert zarrlift.resume(other, **named).state == "nothing to do"
    assert zarrlift.undo(other).removed > 0


def test_a_job_in_the_working_directory_is_found_there_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a store: with another working directory, and in a renamed one."""
    url = f"memory://{folder.parent.name}/out.zarr"
    monkeypatch.chdir(folder)
    job = zarrlift.migrate(folder / "source.zarr", url).job
    monkeypatch.chdir(folder.parent)
    with pytest.raises(JobError, match="no job was found for this location"):
        zarrlift.undo(url)
    assert zarrlift.status(url, job=job).state == "done"
    now = moved(folder)
    monkeypatch.chdir(now)
    with pytest.raises(JobError, match=ELSEWHERE):
        zarrlift.undo(url)
    assert zarrlift.resume(url, source=now / "source.zarr", destination=url).ok
    assert zarrlift.undo(url).removed > 0


# ----- ten ways


def both_copied(folder: Path, name: str, to: Path) -> Path:
    """A result and its job file, as `cp -a` copies them to another folder or name; the job file."""
    to.parent.mkdir(exist_ok=True)
    shutil.copytree(folder / name, to, symlinks=True)
    return Path(shutil.copy2(folder / f"{name}{SUFFIX}", to.with_name(to.name + SUFFIX)))


def rotated(folder: Path, name: str) -> Path:
    """The folder is renamed, and another job has its name."""
    now = moved(folder)
    write_archive(folder / "source.zarr")
    (migrated if name == "out.zarr" else migrated_in_place)(folder)
    return now / f"{name}{SUFFIX}"


def job_of_another(folder: Path, name: str) -> Path:
    """The job file takes the place of that of another result of the source."""
    write_archive(folder.parent / "c/source.zarr")
    other = folder.parent / "c" / name
    (migrated if name == "out.zarr" else migrated_in_place)(other.parent)
    return Path(shutil.copy2(folder / f"{name}{SUFFIX}", other.with_name(name + SUFFIX)))


def job_copied(folder: Path, name: str, to: Path) -> Path:
    to.parent.mkdir(exist_ok=True)
    return Path(shutil.copy2(folder / f"{name}{SUFFIX}", to))


def result_copied(folder: Path, name: str) -> Path:
    return Path(shutil.copytree(folder / name, folder.parent / "b" / name, symlinks=True))


def result_renamed(folder: Path, name: str) -> Path:
    (folder / name).rename(folder / "renamed.zarr")
    return folder / f"{name}{SUFFIX}"


WAYS: dict[str, Callable[[Path, str], Path]] = {
    "the folder": lambda folder, name: copied(folder) / f"{name}{SUFFIX}",
    "the folder, with times of its own": lambda folder, name: (
        copied(folder, copy_function=shutil.copyfile) / f"{name}{SUFFIX}"
    ),
    "the folder, as hard links": lambda folder, name: (
        copied(folder, copy_function=os.link) / f"{name}{SUFFIX}"
    ),
    "the folder is renamed, and its name taken": rotated,
    "the job, beside it": lambda folder, name: job_copied(folder, name, folder / f"backup{SUFFIX}"),
    "the job, to another folder": lambda folder, name: job_copied(
        folder, name, folder.parent / f"b/{name}{SUFFIX}"
    ),
    "the job, over another one": job_of_another,
    "result and job, to another folder": lambda folder, name: both_copied(
        folder, name, folder.parent / "b" / name
    ),
    "the result": result_copied,
    "the result is renamed": result_renamed,
}
"""What is copied, renamed or moved; each gives what a command is then called with."""


@pytest.mark.parametrize("name", ["out.zarr", "source.zarr"], ids=["copy", "in place"])
@pytest.mark.parametrize("way", WAYS)
def test_no_command_changes_the_original(way: str, name: str, folder: Path) -> None:
    """Whatever is copied, renamed or moved: a command acts on what it is called with, or is refused."""
    (migrated if name == "out.zarr" else migrated_in_place)(folder)
    target = WAYS[way](folder, name)
    kept = [path for path in sorted(folder.iterdir()) if path != target]
    kept = [path for path in kept if way != "the result is renamed" or not path.name.endswith(SUFFIX)]
    kept += [target.with_name(name)] if way == "the job, over another one" else []
    before = {path: tree(path) if path.is_dir() else path.read_bytes() for path in kept}
    for call in ("verify", "plan_update", "resume", "update", "finish", "undo"):
        with suppress(JobError, UsageError, StorageError):
            getattr(zarrlift, call)(target)
        now = {path: tree(path) if path.is_dir() else path.read_bytes() for path in kept}
        assert now == before, call


# ----- moves


@pytest.mark.slow(one_in=2)
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


def test_a_folder_moved_in_the_middle_of_a_job_goes_on(folder: Path) -> None:
    for method in ("__call__", "_write_documents"):
        now = copied(folder, method)
        with stopping(Run, method), pytest.raises((KeyboardInterrupt, zarrlift.Interrupted)):
            zarrlift.migrate(now / "source.zarr", now / "out.zarr")
        now = moved(now, f"{method} moved")
        assert zarrlift.resume(now / OUT).ok
        assert values(now / "out.zarr", 3) == values(now / "source.zarr", 2)


def test_a_result_that_a_later_job_has_replaced_is_not_undone(folder: Path) -> None:
    migrated(folder)
    kept = (folder / OUT).rename(folder / "kept.db")
    shutil.rmtree(folder / "out.zarr")
    migrated(folder)
    before = arrays(folder)
    with pytest.raises(JobError, match=ELSEWHERE):
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


@pytest.mark.slow(one_in=3)
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
    if by == "a linked result":
        with pytest.raises(JobError, match="its path leads elsewhere now"):
            zarrlift.update(other / OUT)
        zarrlift.resume(other / OUT, destination=folder / "out.zarr")
    assert zarrlift.update(other / OUT).ok
    assert zarrlift.update(folder / OUT).state == "nothing to do"
    assert values(folder / "out.zarr", 3) == values(folder / "source.zarr", 2)


@pytest.mark.parametrize("job", [None, "x.db"])
def test_the_same_folder_under_another_mount_is_no_copy(
    job: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bind mount has the devices and inodes of the folder; here another folder stands for it."""
    given: dict[str, Any] = {} if job is None else {"job": folder / job}
    assert zarrlift.migrate(folder / "source.zarr", folder / "out.zarr", **given).ok
    alias = folder.parent / "mounted"
    alias.symlink_to(folder)
    with monkeypatch.context() as patched:
        patched.setattr(job_places, "_real", os.path.abspath)
        for target in (job or OUT, "out.zarr"):
            again = {} if job is None else {"job": alias / job}
            assert zarrlift.resume(alias / target, **again).state == "nothing to do"


def test_a_link_to_a_job_file_is_the_job(folder: Path) -> None:
    migrated(folder)
    link = folder.parent / f"link{SUFFIX}"
    link.symlink_to(folder / OUT)
    assert zarrlift.status(link).destination == str(folder / "out.zarr")
    assert zarrlift.undo(link).problems == ()
    assert not (folder / "out.zarr").exists()


def test_a_name_that_is_too_long_to_have_a_suffix_is_stored(folder: Path) -> None:
    """Its job file has a part of it and a digest."""
    place = folder / ("x" * 240)
    job = Path(zarrlift.migrate(folder / "source.zarr", place).job)
    now = moved(folder)
    with pytest.raises(JobError, match=ELSEWHERE):
        zarrlift.undo(now / job.name)
    assert zarrlift.resume(now / job.name, destination=now / place.name, source=now / "source.zarr").ok
    assert zarrlift.undo(now / place.name).removed > 0


# ----- places that are no directory


@pytest.mark.parametrize(
    "place",
    ["{}", "{url}", "zip::{}.zip", "zip::{url}.zip", "icechunk://{}"],
)
def test_a_source_is_recorded_relative_to_the_job_file_in_each_form(place: str, tmp_path: Path) -> None:
    a, c = (place.format(each, url=each.as_uri()) for each in (tmp_path / "a/x y", tmp_path / "b/c/x y"))
    header = {"source": a, "destination": "s3://bucket/x", "in_place": False}
    stored, notes = job_places.to_record(header, header["source"], tmp_path / "a/job.db")
    assert stored == header
    relative, recorded = job_places.sources(stored, notes, tmp_path / "b/c/job.db")
    assert (relative.place, recorded.place) == (c, a)
    assert job_places.sources(stored, notes, tmp_path / "a/job.db") == [recorded]


@pytest.mark.parametrize("place", ["s3://bucket/a", "zip::s3://bucket/a.zip", "memory://a", "store of zarr"])
def test_a_source_in_a_store_has_no_relative_form(place: str, tmp_path: Path) -> None:
    header = {"source": place, "destination": "s3://bucket/x", "in_place": False}
    stored, notes = job_places.to_record(header, place, tmp_path / "a/job.db")
    assert job_places.sources(stored, notes, tmp_path / "b/job.db") == [(place, place)]


def test_a_source_on_another_drive_has_no_relative_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def relpath(path: str, start: str) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    place = str(tmp_path / "a.zarr")
    header = {"source": place, "destination": "s3://bucket/x", "in_place": False}
    with monkeypatch.context() as patched:
        patched.setattr(os.path, "relpath", relpath)
        stored, notes = job_places.to_record(header, place, tmp_path / "job.db")
    assert job_places.sources(stored, notes, tmp_path / "moved/job.db") == [(place, place)]


def test_repositories_of_icechunk_are_moved_and_copied_with_their_jobs(folder: Path) -> None:
    pytest.importorskip("icechunk")
    assert zarrlift.migrate(folder / "source.zarr", f"icechunk://{folder}/repo").ok
    assert f"{folder}/repo".encode() not in (folder / f"repo{SUFFIX}").read_bytes()
    other = copied(folder, "c")
    before = tree(folder)
    assert zarrlift.undo(other / f"repo{SUFFIX}").state == "undone"
    assert tree(folder) == before
    now = moved(folder)
    assert zarrlift.verify(now / f"repo{SUFFIX}").ok
    assert zarrlift.undo(now / f"repo{SUFFIX}").state == "undone"


# A job whose source or destination was moved goes on where they are now, or says that they are not there.


@pytest.fixture
def stopped(source: Path, tmp_path: Path, destination: Path) -> Path:
    """A copy of which one array is refused, the others are there."""
    (source / "g/relink/0.0").rename(tmp_path / "chunk")
    (source / "g/relink/0.0").write_bytes(b"garbage")
    assert not zarrlift.migrate(source, destination).ok
    (source / "g/relink/0.0").unlink()
    (tmp_path / "chunk").rename(source / "g/relink/0.0")
    return destination


def move(place: Path, *, job: bool = True) -> Path:
    """Rename a directory, with the job file beside it; gives where it is now."""
    there = place.with_name("moved") / place.name
    there.parent.mkdir(exist_ok=True)
    place.rename(there)
    if job:
        place.with_name(place.name + SUFFIX).rename(there.with_name(there.name + SUFFIX))
    return there


def renamed(place: Path) -> Path:
    """Give a directory another name, and the job file beside it too."""
    there = place.rename(place.with_name("renamed.zarr"))
    place.with_name(place.name + SUFFIX).rename(there.with_name(there.name + SUFFIX))
    return there


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("by", ["resume", "migrate", "the command"])
def test_a_moved_job_goes_on_where_its_places_are_now(
    by: str, source: Path, stopped: Path, tmp_path: Path
) -> None:
    new_source, there = move(source, job=False), move(stopped)
    if by == "resume":
        outcome = zarrlift.resume(f"{there}{SUFFIX}", source=new_source, destination=there)
        assert outcome.ok, outcome.problems
        assert outcome.arrays_done == outcome.arrays_total
    elif by == "migrate":
        assert zarrlift.migrate(new_source, there).ok
    else:
        words = ["resume", str(there), "--source", str(new_source), "--destination", str(there), "--quiet"]
        assert main(words) == 0
    assert values(there, 3) == values(new_source, 2)
    status = zarrlift.status(there)
    assert (status.source, status.destination) == (str(new_source), str(there))
    assert zarrlift.migrate(new_source, there).state == "nothing to do"
    assert zarrlift.undo(there).problems == ()
    assert not there.exists()


def test_a_copy_that_was_cut_short_is_not_taken_for_the_destination(source: Path, tmp_path: Path) -> None:
    """Arrays that are done are not looked at again: a missing chunk would read as fill values."""
    destination, there = tmp_path / "out.zarr", tmp_path / "copied.zarr"
    assert zarrlift.migrate(source, destination).ok
    shutil.copytree(destination, there)
    chunk = next((there / "g/relink/c").rglob("0"))
    chunk.rename(tmp_path / "chunk")
    with pytest.raises(JobError, match="some output of the job is missing"):
        zarrlift.resume(destination, destination=there)
    (tmp_path / "chunk").rename(chunk)
    assert zarrlift.resume(destination, destination=there).state == "nothing to do"


@pytest.mark.parametrize("there", ["chunks", "nothing"])
def test_before_an_array_is_published_its_chunks_tell(there: str, source: Path, destination: Path) -> None:
    shutil.rmtree(source / "empty")
    with stopping(Run, "_write_documents"), pytest.raises(zarrlift.Interrupted):
        zarrlift.migrate(source, destination)
    moved = move(destination)
    if there == "chunks":
        assert zarrlift.resume(f"{moved}{SUFFIX}", destination=moved).ok
        assert values(moved, 3) == values(source, 2)
    else:
        shutil.rmtree(moved)
        with pytest.raises(JobError, match=NOTHING):
            zarrlift.resume(f"{moved}{SUFFIX}", destination=moved)


def test_another_source_is_another_job_also_where_the_first_one_is_gone(
    source: Path, tmp_path: Path, destination: Path
) -> None:
    """Archives of every day have the same documents: a finished job would have nothing to do."""
    tomorrow = tmp_path / "tomorrow.zarr"
    shutil.copytree(source, tomorrow)
    chunk = tomorrow / "g/relink/0.0"
    chunk.write_bytes(chunk.read_bytes())
    assert zarrlift.migrate(source, destination).ok
    shutil.rmtree(source)
    with pytest.raises(JobError, match="belongs to a different job"):
        zarrlift.migrate(tomorrow, destination)


def test_a_renamed_archive_goes_on_in_place(source: Path) -> None:
    before = tree(source)
    assert zarrlift.migrate(source, in_place=True).ok
    there = renamed(source)
    with pytest.raises(UsageError, match="a migration in place has no destination"):
        zarrlift.resume(f"{there}{SUFFIX}", destination=there)
    assert zarrlift.resume(there).state == "nothing to do"
    assert zarrlift.verify(there).ok
    assert zarrlift.finish(there).state == "finished"
    assert zarrlift.undo(there).restored > 0
    assert tree(there) == before


def test_a_store_without_a_url_is_recognised_by_what_the_job_published(source: Path, tmp_path: Path) -> None:
    """In another process it has another name."""
    store = MemoryStore()
    assert zarrlift.migrate(source, store, job=tmp_path / "job.db").ok
    again = MemoryStore(dict(store._store_dict))
    assert zarrlift.resume(tmp_path / "job.db", destination=again).state == "nothing to do"
    with pytest.raises(JobError, match="this is not the job's output"):
        zarrlift.resume(tmp_path / "job.db", destination=MemoryStore())


def test_an_earlier_copy_of_a_result_is_not_the_result(tmp_path: Path) -> None:
    source, result = write_archive(tmp_path / "source"), tmp_path / "result"
    assert zarrlift.migrate(source, result).ok
    earlier = Path(shutil.copytree(result, tmp_path / "earlier"))
    zarr.open_array(source, path="h/rewrite", mode="r+", zarr_format=2).attrs["new"] = 1
    assert zarrlift.update(result).ok
    shutil.rmtree(result)
    with pytest.raises(JobError, match="not the job's output"):
        zarrlift.resume(f"{result}.zarrlift.db", destination=earlier)


def test_a_copied_job_that_had_written_nothing_does_not_begin_at_the_original(folder: Path) -> None:
    with stopping(Run, "__call__"), pytest.raises(KeyboardInterrupt):
        zarrlift.migrate(folder / "source.zarr", folder / "out.zarr")
    shutil.rmtree(folder / "out.zarr", ignore_errors=True)
    other = copied(folder)
    shutil.rmtree(other / "source.zarr")
    assert zarrlift.resume(other / OUT).ok
    assert values(other / "out.zarr", 3) == values(folder / "source.zarr", 2)
    assert not (folder / "out.zarr").exists()


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
