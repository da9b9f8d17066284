"""A result whose path leads to another directory than when its job began is refused by every verb."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.damaged_archives import run
from tests.support.job_archives import values, write_archive

import zarrlift
from zarrlift.errors import JobError, UsageError
from zarrlift.jobs.archive_run import ArchiveRequest
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.outcome import Outcome
from zarrlift.jobs.publisher import Publisher
from zarrlift.storage.local.open_directories import OpenDirectories
from zarrstack.core.errors import ZarrstackError

OUT = Path("p/out.zarr")
JOB = Path("jobs/out.db")


def corrupt(chunk: Path) -> bytes:
    """Make an array fail; returns the content that mends it."""
    content = chunk.read_bytes()
    chunk.write_bytes(b"no zlib")
    return content


def everything(folder: Path) -> dict[str, bytes | str]:
    """What is in a folder: contents of files, targets of links, and directories."""
    found: dict[str, bytes | str] = {}
    for place, directories, files in os.walk(folder):
        for name in [*directories, *files]:
            path = Path(place, name)
            key = path.relative_to(folder).as_posix()
            if path.is_symlink():
                found[key] = f"a link to {path.readlink()}"
            else:
                found[key] = "a directory" if path.is_dir() else path.read_bytes()
    return found


def _to_source(folder: Path) -> None:
    (folder / OUT).rename(folder / "away")
    (folder / OUT).symlink_to(folder / "source.zarr")


def _to_another_result(folder: Path) -> None:
    (folder / OUT).rename(folder / "away")
    (folder / OUT).symlink_to("../q/out.zarr")


def _parent(folder: Path) -> None:
    (folder / "p").rename(folder / "away")
    (folder / "p").symlink_to("q")


VERBS: dict[str, Callable[[Path], Outcome]] = {
    "resume": lambda folder: zarrlift.resume(folder / JOB),
    "migrate again": lambda folder: zarrlift.migrate(folder / "source.zarr", folder / OUT, job=folder / JOB),
    "update": lambda folder: zarrlift.update(folder / JOB),
    "undo": lambda folder: zarrlift.undo(folder / JOB),
}


@pytest.fixture(params=["complete", "incomplete"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A job whose file is apart from its result, and another result of the same source."""
    source = write_archive(tmp_path / "source.zarr")
    assert zarrlift.migrate(source, tmp_path / "q/out.zarr").ok
    content = None
    if request.param == "incomplete":
        content = corrupt(source / "g/recode/3")
    assert zarrlift.migrate(source, tmp_path / OUT, job=tmp_path / JOB).ok is (content is None)
    if content is not None:
        (source / "g/recode/3").write_bytes(content)
    return tmp_path


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    ("folder", "change"),
    [("complete", _to_source), ("incomplete", _to_another_result), ("incomplete", _parent)],
    indirect=["folder"],
)
def test_nothing_is_written_to_what_a_link_in_place_of_the_result_leads_to(
    folder: Path, change: Callable[[Path], None]
) -> None:
    change(folder)
    (folder / JOB).chmod(0o400)
    before = everything(folder)
    for call in VERBS.values():
        with pytest.raises((JobError, UsageError), match=r"leads elsewhere now|are the same place") as raised:
            call(folder)
        assert everything(folder) == before
        assert str(folder / OUT) in str(raised.value) or change is _to_source
    (folder / JOB).chmod(0o600)
    os.remove(folder / ("p" if change is _parent else OUT))
    (folder / "away").rename(folder / ("p" if change is _parent else OUT))
    assert zarrlift.resume(folder / JOB).ok
    assert values(folder / OUT, 3) == values(folder / "source.zarr", 2)


def test_another_archive_is_refused_even_if_it_is_named(folder: Path) -> None:
    for document in (folder / "q/out.zarr").rglob("zarr.json"):
        document.write_text(document.read_text().replace("a job's archive", "another one") + " ")
    _to_another_result(folder)
    before = everything(folder / "q")
    with pytest.raises(JobError, match="this is not the job's output"):
        zarrlift.resume(folder / JOB, destination=folder / OUT)
    assert everything(folder / "q") == before


def test_a_link_at_which_a_job_begins_is_resolved_once(tmp_path: Path) -> None:
    source, out = write_archive(tmp_path / "source.zarr"), tmp_path / "out.zarr"
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    out.symlink_to("first")
    content = corrupt(source / "g/recode/3")
    assert not zarrlift.migrate(source, out).ok
    (source / "g/recode/3").write_bytes(content)
    out.unlink()
    out.symlink_to("second")
    with pytest.raises(JobError, match="leads elsewhere now"):
        zarrlift.resume(out)
    assert everything(tmp_path / "second") == {}
    out.unlink()
    out.symlink_to("first")
    assert zarrlift.resume(out).ok
    assert values(tmp_path / "first", 3) == values(source, 2)


def test_a_job_file_behind_a_link_gets_no_journal_there(folder: Path) -> None:
    """SQLite puts its journal beside the path at which a file was opened."""
    with Job.open(folder / JOB) as job:
        job.note(checked="before")
        job.commit()
        (folder / "jobs").rename(folder / "away")
        (folder / "jobs").symlink_to("q")
        before = everything(folder / "q")
        with pytest.raises(JobError, match="moved, deleted or replaced while it was in use"):
            job.note(checked="now")
        assert everything(folder / "q") == before
        (folder / "jobs").unlink()
        (folder / "away").rename(folder / "jobs")
        job.note(checked="again")


def test_no_job_is_made_where_the_parent_became_a_link_while_it_was_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write_archive(tmp_path / "source.zarr"), tmp_path / "p/out.zarr"
    (tmp_path / "p").mkdir()
    (tmp_path / "q").mkdir()
    planned = ArchiveRequest.planned

    def planned_and_linked(*args: object, **options: object) -> object:
        plan = planned(*args, **options)  # type: ignore[arg-type]
        _parent(tmp_path)
        return plan

    monkeypatch.setattr(ArchiveRequest, "planned", planned_and_linked)
    with pytest.raises(JobError, match="the claim of the destination is gone") as refused:
        zarrlift.migrate(source, out)
    assert refused.value.problem.key == str(tmp_path / "p/out.zarr.zarrlift.claim")
    assert everything(tmp_path / "q") == {}
    monkeypatch.undo()
    (tmp_path / "p").unlink()
    (tmp_path / "away").rename(tmp_path / "p")
    assert zarrlift.migrate(source, out).ok
    assert values(out, 3) == values(source, 2)
    assert sorted(os.listdir(tmp_path / "p")) == ["out.zarr", "out.zarr.zarrlift.db"]


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    ("name", "through"),
    [
        ("g", None),
        ("g/recode", "retry"),
        ("g/recode", "log:{}/events.jsonl"),
        ("empty", None),
        ("g/recode/c", None),
    ],
)
def test_a_link_in_place_of_a_directory_of_the_result_is_named(
    name: str, through: str | None, tmp_path: Path
) -> None:
    """Also if everything that is looked for is behind it."""
    source, layers = write_archive(tmp_path / "source.zarr"), through and through.format(tmp_path)
    assert zarrlift.migrate(source, tmp_path / "q/out.zarr").ok
    assert zarrlift.migrate(source, tmp_path / OUT, job=tmp_path / JOB, dest_through=layers).ok
    (tmp_path / OUT / name).rename(tmp_path / "away")
    (tmp_path / OUT / name).symlink_to(tmp_path / "q/out.zarr" / name)
    before = everything(tmp_path / "q")
    linked = f"a link to {tmp_path / 'q/out.zarr' / name} in place of the directory"
    ran = run("status", tmp_path / JOB, "--check")
    assert ran.code == 1
    assert linked in ran.err
    for call in VERBS.values():
        with pytest.raises(ZarrstackError, match=linked):
            call(tmp_path)
        assert everything(tmp_path / "q") == before
    (tmp_path / OUT / name).unlink()
    (tmp_path / "away").rename(tmp_path / OUT / name)
    assert zarrlift.undo(tmp_path / JOB).ok
    assert everything(tmp_path / "q") == before


@pytest.mark.parametrize("follow_links", [True, False])
def test_in_place_links_are_followed_where_they_may_lead(follow_links: bool, tmp_path: Path) -> None:
    """Those within the archive always are, those to other places with `follow_links`."""
    source = write_archive(tmp_path / "source.zarr")
    kept = tmp_path / "elsewhere" if follow_links else source / "kept"
    (source / "h").rename(kept)
    (source / "h").symlink_to(kept, target_is_directory=True)
    before = values(source, 2)
    outcome = zarrlift.migrate(
        source, in_place=True, follow_links=follow_links, recipe=zarrlift.Recipe(exclude=("kept",))
    )
    assert outcome.ok
    assert values(source, 3) == before
    assert (kept / "rewrite/zarr.json").exists()
    assert zarrlift.resume(source).state == "nothing to do"
    assert run("status", source, "--check").code == 0
    if follow_links:  # without, what is excluded differs
        assert zarrlift.verify(source).ok
        assert zarrlift.finish(source).ok
    assert zarrlift.undo(source).ok
    assert not [*tmp_path.rglob("zarr.json")]
    assert values(source, 2) == before


def test_in_place_a_link_that_leads_elsewhere_later_gets_nothing(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    assert zarrlift.migrate(source, in_place=True).ok
    assert zarrlift.verify(source).ok
    (source / "g").rename(tmp_path / "away")
    (source / "g").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    shutil.copytree(tmp_path / "away", tmp_path / "elsewhere")
    before = everything(tmp_path / "elsewhere")
    for call in (zarrlift.finish, zarrlift.undo):
        with pytest.raises(ZarrstackError, match=r"a link to .*/elsewhere in place of the directory g"):
            call(source)
    assert everything(tmp_path / "elsewhere") == before


@pytest.mark.parametrize(("change", "apart"), [("deleted", True), ("moved", False), ("unmounted", True)])
def test_a_lost_parent_is_named_and_nothing_is_written_in_its_place(
    change: str, apart: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lazy unmount leaves the mount point; here another directory is in its place."""
    source, out = write_archive(tmp_path / "source.zarr"), tmp_path / "m/p/out.zarr"
    ismount, publish, changed = os.path.ismount, Publisher.publish_array, []
    mounted = {str(tmp_path / "m")} if change == "unmounted" else set()
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in mounted or ismount(path))

    def publish_array(publisher: Publisher, *args: object) -> int | None:
        if not changed:
            changed.append(True)
            (tmp_path / "m").rename(tmp_path / "away")
            if change == "unmounted":
                mounted.clear()
                (tmp_path / "m").mkdir()
        return publish(publisher, *args)  # type: ignore[arg-type]

    job = {"job": tmp_path / JOB} if apart else {}
    target = tmp_path / JOB if apart else out
    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "publish_array", publish_array)
        outcome = zarrlift.migrate(source, out, **job)
    assert not outcome.ok
    assert any("moved, deleted or replaced" in problem.message for problem in outcome.problems)
    if change == "deleted":
        shutil.rmtree(tmp_path / "away")
    left = everything(tmp_path / "m")
    for verb in (zarrlift.resume, zarrlift.update, zarrlift.undo):
        with pytest.raises(JobError, match=r"is gone, or its file system is not mounted|no job was found"):
            verb(target)
    assert everything(tmp_path / "m") == left == {}
    if change != "deleted":
        shutil.rmtree(tmp_path / "m", ignore_errors=True)
        (tmp_path / "away").rename(tmp_path / "m")
        mounted.update({str(tmp_path / "m")} if change == "unmounted" else ())
        assert zarrlift.resume(target).ok
        assert values(out, 3) == values(source, 2)


# A run publishes nothing if its destination is another directory than the one in which it began.


def _removed(root: Path) -> None:
    shutil.rmtree(root)


def _moved(root: Path) -> None:
    root.rename(root.with_name("moved"))


def _new(root: Path) -> None:
    _moved(root)
    root.mkdir()


def _link(root: Path) -> None:
    _moved(root)
    root.symlink_to("../q/out.zarr", target_is_directory=True)


def _link_above(root: Path) -> None:
    root.parent.rename(root.parent.with_name("away"))
    root.parent.symlink_to("q")


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("change", [_removed, _moved, _new, _link, _link_above])
def test_nothing_is_published_into_another_directory(
    change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write_archive(tmp_path / "source.zarr"), tmp_path / "p/out.zarr"
    assert zarrlift.migrate(source, tmp_path / "q/out.zarr").ok
    others = everything(tmp_path / "q")
    publish, changed = Publisher.publish_array, []

    def publish_array(publisher: Publisher, *args: object) -> int | None:
        if not changed:
            changed.append(True)
            change(out)
        return publish(publisher, *args)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "publish_array", publish_array)
        outcome = zarrlift.migrate(source, out)
    assert not outcome.ok
    assert any("moved, deleted or replaced" in problem.message for problem in outcome.problems)
    assert everything(tmp_path / "q") == others
    if change in (_removed, _new):
        assert everything(out) == {}
    if change is _link_above:
        (tmp_path / "p").unlink()
        (tmp_path / "away").rename(tmp_path / "p")
    elif change is _moved:
        out.with_name("moved").rename(out)
    else:
        return
    assert zarrlift.resume(out).ok
    assert values(out, 3) == values(source, 2)


def test_the_same_directory_through_a_link_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "root"
    root = OpenDirectories(str(path))
    root.root(make=True)
    _moved(path)
    path.symlink_to(tmp_path / "moved", target_is_directory=True)
    root.require_same()
