"""What fails around an archive: files that cannot be read, places that cannot be written, links, full disks.

Tests run as root, who may read everything; so the system calls are made to fail instead. A
full disk is a limit on the size of files (`RLIMIT_FSIZE`), which the kernel really enforces. Other calls
that fail are those of tests/zarrlift/jobs/faults/test_lives.py.
"""

from __future__ import annotations

import builtins
import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.another_user import folder_anybody_may_enter, without_privileges
from tests.support.damaged_archives import (
    GOOD,
    PEAK,
    Ran,
    assert_good,
    copied,
    migrate,
    python,
    read,
    run,
    write_archive,
    write_array,
)
from tests.support.fixtures_index import archive, make_bad_links
from tests.support.job_archives import tree

from zarrlift.jobs.ledger.ledger import Job

MANY = 40


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """`good`, and `other` with many chunks."""
    path = write_archive(tmp_path / "source.zarr")
    chunks = {str(i): bytes([i]) * 4000 for i in range(MANY)}
    write_array(path / "other", chunks, shape=[4000 * MANY], chunks=[4000], dtype="|u1")
    return path


# ----- what cannot be read


def failing(name: str, number: int, unreadable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.<name>` fails for paths that end so."""
    real: Callable[..., Any] = getattr(os, name)

    def fail_only(path: Any) -> None:
        if isinstance(path, str | os.PathLike) and os.fspath(path).replace(os.sep, "/").endswith(unreadable):
            raise OSError(number, os.strerror(number), os.fspath(path))

    def fail(path: Any, *arguments: Any, **options: Any) -> Any:
        fail_only(path)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, name, fail)
    if name == "open":  # documents are read through the built-in one
        plain = builtins.open

        def fail_too(path: Any, *arguments: Any, **options: Any) -> Any:
            fail_only(path)
            return plain(path, *arguments, **options)

        monkeypatch.setattr(builtins, "open", fail_too)


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("other/7", errno.EIO),
        ("other/7", errno.EACCES),
        ("other/.zarray", errno.EACCES),
        ("other/.zattrs", errno.ESTALE),
    ],
)
def test_an_unreadable_file_is_never_taken_for_a_missing_one(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, number: int
) -> None:
    (source / "other/.zattrs").write_text("{}")
    destination = tmp_path / "out.zarr"
    with monkeypatch.context() as patch:
        failing("open", number, f"source.zarr/{key}", patch)
        ran = migrate(source, destination)
    assert ran.code == 1
    (problem,) = ran.refusals
    assert (problem["node"], problem["key"]) == ("other", key)
    assert os.strerror(number) in problem["found"]
    assert_good(destination)
    assert not (destination / "other/zarr.json").exists()
    assert run("resume", destination).code == 0
    assert read(destination / "other").tolist() == read(source / "other", 2).tolist()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO], ids=errno.errorcode.get)
def test_a_directory_that_cannot_be_listed_is_not_empty(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    destination = tmp_path / "out.zarr"
    with monkeypatch.context() as patch:
        failing("scandir", number, "source.zarr/other", patch)
        ran = migrate(source, destination)
    assert ran.code == 1
    assert {problem["node"] for problem in ran.refusals} == {"other"}
    assert_good(destination)
    assert run("resume", destination).code == 0


def test_links_that_lead_astray_keep_back_their_node(tmp_path: Path) -> None:
    made = make_bad_links(tmp_path)
    for name, path in made.items():
        ran = migrate(path, tmp_path / f"{name}.out")
        assert ran.code == (0 if name == "inside" else 1), (name, ran.out)
        if name != "inside":
            assert len(ran.refusals) == 1
            assert ran.refusals[0]["kind"] == "link"
            assert ran.refusals[0]["found"]


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    ("name", "chunk", "follow"),
    [
        ("zarr-2.18/stores/directory", "top/0.0", ()),
        ("zarr-2.18/stores/directory", "top/0.0", ("--follow-links",)),
        ("zarr-2.18/stores/root_array_slash", "0", ()),
        ("zarr_v1/zarr-1.1/root", "0.0", ("--follow-links",)),
        ("n5/java-3.5.1/root", "0/0", ()),
        ("zarr_v3_draft/zarr-2.18/root_array", "data/root/c0", ("--follow-links",)),
    ],
)
def test_a_chunk_that_was_not_fetched_is_told_how_to_be(
    name: str, chunk: str, follow: tuple[str, ...], tmp_path: Path
) -> None:
    """git-annex leaves a link to nothing, out of the archive; following it would help nobody."""
    source = copied(archive(name).path, tmp_path / "annexed")
    link = source / chunk
    shutil.rmtree(link) if link.is_dir() else link.unlink()
    link.symlink_to("../../.git/annex/objects/MD5E-s5--d8e8fca2dc0f896fd7cb4cb0031ba249")
    ran = migrate(source, tmp_path / "out.zarr", *follow)
    (told,) = (problem for problem in ran.refusals if problem["kind"] == "link")
    assert told["message"] == "a link leads nowhere"
    assert "git annex get" in told["advice"]
    assert "--follow-links" not in told["advice"]


@pytest.mark.parametrize("name", ["leaves_chunk", "leaves_array"])
def test_what_lies_elsewhere_is_migrated_if_that_is_meant(name: str, tmp_path: Path) -> None:
    source = make_bad_links(tmp_path)[name]
    (told,) = migrate(source, tmp_path / "out.zarr").refusals
    assert told["message"] == "a link points outside the archive"
    assert "--follow-links" in told["advice"]
    assert migrate(source, tmp_path / "followed.zarr", "--follow-links").code == 0


def test_a_source_that_vanishes_midway_is_named(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = tmp_path / "out.zarr"
    kept = tmp_path / "kept"
    real = Job.create.__func__  # type: ignore[attr-defined]

    def create(cls: type[Job], *arguments: Any, **options: Any) -> Job:
        job: Job = real(cls, *arguments, **options)
        source.rename(kept)
        return job

    with monkeypatch.context() as patch:
        patch.setattr(Job, "create", classmethod(create))
        ran = migrate(source, destination)
    assert ran.code == 1
    assert {problem["node"] for problem in ran.refusals} == {"", "good", "other"}
    assert list(destination.rglob("zarr.json")) == []
    kept.rename(source)
    assert run("resume", destination).code == 0
    assert_good(destination)


# ----- what cannot be written


def limited(size: int) -> Callable[[], None]:
    """In a child: no file may grow beyond `size` bytes, and that is an error instead of a signal."""

    def limit() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.mark.parametrize("size", [20_000, 0, 3000, 40_000])
@pytest.mark.slow(one_in=4)
def test_a_full_disk_is_one_error_and_a_resume_goes_on(size: int, source: Path, tmp_path: Path) -> None:
    """The smaller limits hit the job file, the larger ones the objects of `big`."""
    chunk = np.arange(50_000, dtype="|u1").tobytes()
    write_array(source / "big", {"0": chunk}, shape=[50_000], chunks=[50_000], dtype="|u1")
    destination = tmp_path / "out.zarr"
    done = subprocess.run(
        python("-B", "-c", PEAK, "migrate", source, destination, "--json"),
        capture_output=True, text=True, timeout=120, check=False, preexec_fn=limited(size),
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    problems = [document["error"]] if "error" in document else document["result"]["problems"]
    (problem,) = (p for p in problems if p["severity"] == "refusal")
    assert problem["kind"] in ("storage", "job")
    assert problem["key"]
    if size:
        assert f"files may have at most {size} bytes here (ulimit -f)" in problem["found"]
    assert not (destination / "big/zarr.json").exists()
    assert not (destination / "zarr.json").exists()
    again = migrate(source, destination)
    assert again.code == 0, again.out
    assert_good(destination)
    assert read(destination / "big").tobytes() == chunk
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.zarr",
        "out.zarr.zarrlift.db",
        "source.zarr",
    ]


PLACES = {
    "below a file": lambda folder: folder / "file/out.zarr",
    "no file system for files": lambda _: Path("/proc/nothing/out.zarr"),
    "a name that is too long": lambda folder: folder / ("x" * 300),
    "a link to itself": lambda folder: folder / "loop",
    "a file": lambda folder: folder / "file",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_destination_that_cannot_be_written_is_one_error(
    place: Callable[[Path], Path], source: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    before = tree(tmp_path)
    ran = migrate(source, place(tmp_path))
    assert ran.code in (1, 2)
    assert len(ran.problems) == 1
    assert tree(tmp_path) == before


class Full:
    """A connection on a disk that fills up: so many statements that write still succeed."""

    def __init__(self, real: sqlite3.Connection, left: int) -> None:
        self._real, self._left = real, left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, statement: str, *arguments: Any) -> Any:
        if statement.split(maxsplit=1)[0] in ("INSERT", "UPDATE", "COMMIT", "DELETE"):
            self._left -= 1
            if self._left < 0:
                raise sqlite3.OperationalError("database or disk is full")
        return self._real.execute(statement, *arguments)


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("left", [0, 1, 2, 4, 5, 6])
def test_a_job_file_that_cannot_grow_stops_the_run_not_the_job(
    left: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = tmp_path / "out.zarr"
    real = Job.__init__

    def init(self: Job, path: Path, connection: Any, lock: Any) -> None:
        real(self, path, Full(connection, left), lock)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Job, "__init__", init)
        ran = migrate(source, destination)
    if ran.code:
        assert [problem["found"] for problem in ran.refusals] == ["database or disk is full"]
        assert run("resume", destination).code == 0
    assert_good(destination)
    assert read(destination / "other").tolist() == read(source / "other", 2).tolist()


# ----- a job file that is none


def _change(path: Path, statement: str) -> None:
    database = sqlite3.connect(path)
    database.execute(statement)
    database.commit()
    database.close()


BROKEN: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_bytes(b"a shopping list\n" * 100),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "overwritten": lambda path: path.write_bytes(path.read_bytes()[:100] + b"\xa5" * 20_000),
    "another database": lambda path: (path.unlink(), _change(path, "CREATE TABLE x (a)")),
    "no nodes": lambda path: _change(path, "DROP TABLE node"),
    "another version": lambda path: _change(path, "UPDATE meta SET value = '99' WHERE name = 'version'"),
    "a broken plan": lambda path: _change(path, "UPDATE meta SET value = '{' WHERE name = 'plan'"),
    "a broken node": lambda path: _change(path, "UPDATE node SET plan = '{}'"),
    "a broken problem": lambda path: _change(path, "UPDATE node SET state = 'failed', problems = 'no JSON'"),
}
AGAIN = {
    "resume": lambda source, destination: ["resume", destination],
    "status": lambda source, destination: ["status", destination],
    "undo": lambda source, destination: ["undo", "--yes", destination],
    "migrate": lambda source, destination: ["migrate", source, destination],
    "overwrite": lambda source, destination: ["migrate", source, destination, "--overwrite"],
}


@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_a_broken_job_file_is_named_and_nothing_is_touched(
    damage: Callable[[Path], Any], source: Path, tmp_path: Path
) -> None:
    destination, job = tmp_path / "out.zarr", tmp_path / "out.zarr.zarrlift.db"
    (source / "other/3").write_bytes(b"short")
    migrate(source, destination)
    damage(job)
    before = tree(tmp_path)
    for again, words in AGAIN.items():
        ran = run(*words(source, destination), "--json")
        assert tree(tmp_path) == before, again
        (problem,) = ran.problems
        assert (ran.code, problem["kind"], problem["key"]) == (1, "job", str(job)), again
        assert problem["advice"]


# ----- hostile metadata that the fixtures lack


def test_directories_in_the_place_of_chunks_are_no_missing_chunks(source: Path, tmp_path: Path) -> None:
    for key in ("other/3", "other/5"):
        (source / key).unlink()
        (source / key).mkdir()
    ran = migrate(source, tmp_path / "out.zarr")
    # In the order of the directory, which is the file system's.
    assert sorted((problem["node"], problem["key"]) for problem in ran.refusals) == [
        ("other", "other/3"),
        ("other", "other/5"),
    ]
    assert_good(tmp_path / "out.zarr")


def test_groups_without_end_are_refused_where_they_become_absurd(source: Path, tmp_path: Path) -> None:
    here = os.open(source, os.O_RDONLY)
    try:
        for _ in range(1500):
            os.mkdir("d", dir_fd=here)
            inner = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
    finally:
        os.close(here)
    try:
        ran = migrate(source, tmp_path / "out.zarr")
        assert ran.code == 1
        (problem,) = ran.refusals
        assert "levels deep" in problem["message"]
        assert_good(tmp_path / "out.zarr")
    finally:
        subprocess.run(["rm", "-rf", source / "d"], check=True)  # deeper than Python's own rmtree goes


@pytest.mark.parametrize("depth", [101, 5000])
def test_attributes_nested_without_end_are_refused(depth: int, source: Path, tmp_path: Path) -> None:
    (source / "other/.zattrs").write_text('{"a":' * depth + "1" + "}" * depth)
    ran = migrate(source, tmp_path / "out.zarr")
    assert [(problem["key"], problem["message"]) for problem in ran.refusals] == [
        ("other/.zattrs", "the document is nested too deeply")
    ]
    assert_good(tmp_path / "out.zarr")


def test_attributes_of_many_megabytes_are_carried_over(source: Path, tmp_path: Path) -> None:
    (source / "other/.zattrs").write_text(json.dumps({"log": "x" * 5_000_000, "list": list(range(10_000))}))
    assert migrate(source, tmp_path / "out.zarr").code == 0
    document = json.loads((tmp_path / "out.zarr/other/zarr.json").read_text())
    assert len(document["attributes"]["log"]) == 5_000_000


def test_names_of_many_thousand_characters_are_shown_cut(source: Path, tmp_path: Path) -> None:
    entries = {".zgroup": {"zarr_format": 2}, f"{'x' * 20_000}/.zarray": {}}
    (source / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": entries}))
    ran = run("migrate", source, tmp_path / "out.zarr")
    assert ran.code == 0
    assert "x" * 100 in ran.out.replace("\n", "").replace(" ", "")
    assert len(ran.out) < 5000
    assert_good(tmp_path / "out.zarr")


def test_objects_that_are_no_text_are_refused_in_the_plan(source: Path, tmp_path: Path) -> None:
    import numcodecs

    codec = numcodecs.MsgPack()
    values = np.array(["a", 2, None], dtype=object)
    write_array(
        source / "objects", {"0": codec.encode(values)},
        shape=[3], chunks=[3], dtype="|O", filters=[codec.get_config()], fill_value="",
    )  # fmt: skip
    ran = run("migrate", "--dry-run", source, tmp_path / "out.zarr", "--json")
    assert ran.code == 1
    assert "an object is not a str" in ran.out
    assert '"objects/0"' in ran.out
    assert migrate(source, tmp_path / "out.zarr", "--set", "objects=json").code == 0
    assert read(tmp_path / "out.zarr/objects").tolist() == ['"a"', "2", "null"]


def test_an_old_tree_that_is_kept_is_named(source: Path, tmp_path: Path) -> None:
    destination = tmp_path / "out.zarr"
    migrate(source, destination)
    (source / "other/3").write_bytes(b"short")
    ran = migrate(source, destination, "--overwrite")
    (note,) = (problem for problem in ran.problems if problem["kind"] == "aside")
    assert (Path(note["found"]) / "other/zarr.json").is_file()
    (source / "other/3").write_bytes(bytes([3]) * 4000)
    assert run("resume", destination).code == 0
    assert not Path(note["found"]).exists()
    assert GOOD.tolist() == read(destination / "good").tolist()
    shutil.rmtree(destination)


# Places in which nothing may be created: one message, and no job file is left.


def refused(ran: Ran, *words: str) -> None:
    """One line on standard error, and nothing else."""
    assert ran.code == 1
    (line,) = ran.err.splitlines()
    assert all(word in line for word in words), line


@pytest.mark.parametrize("beside", [False, True], ids=["claim inside", "claim beside"])
def test_an_archive_that_may_not_be_written_is_refused_in_place(beside: bool) -> None:
    with folder_anybody_may_enter() as folder:
        other = write_archive(folder / "other.zarr")
        assert run("migrate", "--in-place", other, "--quiet").code == 0  # imports what it needs
        root = write_archive(folder / "a.zarr")
        if beside:
            folder.chmod(0o777)
        before = sorted(os.listdir(folder))
        with without_privileges():
            ran = run("migrate", "--in-place", root)
        refused(ran, str(root), "found Permission denied", "Check the permissions")
        assert sorted(os.listdir(folder)) == before


def test_a_destination_where_nothing_can_be_created_says_so(tmp_path: Path) -> None:
    ran = run("migrate", write_archive(tmp_path / "a.zarr"), "/proc/x.zarr")
    refused(ran, "/proc/x.zarr", "Nothing can be created in /proc. Choose another destination.")
    assert os.listdir(tmp_path) == ["a.zarr"]
