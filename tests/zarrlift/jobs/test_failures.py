"""What goes wrong: each is one clear problem, keeps its own array back, can be resumed, or is one error."""

from __future__ import annotations

import errno
import os
import re
import signal
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numcodecs import CRC32, Zlib
from tests.support.fixtures_index import archive
from tests.support.job_archives import values

import zarrlift
from zarrlift.errors import KINDS, JobError, VerificationError
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.storage.local import writer as writing
from zarrlift.storage.local.own_names import with_suffix
from zarrlift.storage.local.partial_files import partial_name
from zarrlift.transfer.unexpected_errors import broken_package, unexpected_error
from zarrstack.core.errors import ZarrstackError


def test_a_bad_chunk_keeps_back_its_array_and_no_other(source: Path, tmp_path: Path) -> None:
    (source / "g/relink/3.3").write_bytes(b"garbage")
    (source / "g/relink/4.4").write_bytes(b"")
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    assert outcome.state == "incomplete"
    assert [(problem.node, problem.key, problem.kind) for problem in outcome.problems] == [
        ("g/relink", "g/relink/3.3", "chunk"),
        ("g/relink", "g/relink/4.4", "chunk"),
    ]
    assert {problem.advice for problem in outcome.problems} == {
        "Restore the chunk from a backup and resume, or exclude the array with --exclude."
    }
    result = zarr.open_group(str(tmp_path / "out.zarr"), mode="r")
    assert {name for name, _ in result.members(max_depth=None)} == {
        "empty",
        "g",
        "g/recode",
        "h",
        "h/rewrite",
    }
    assert not (tmp_path / "out.zarr/g/relink/zarr.json").exists()


def test_in_place_no_group_is_published_while_a_node_is_refused(source: Path) -> None:
    (source / ".zmetadata").unlink()
    good = (source / "g/recode/.zarray").read_bytes()
    (source / "g/recode/.zarray").write_bytes(good.replace(b'"<i4"', b'"<q9"').replace(b'">i4"', b'"<q9"'))
    outcome = zarrlift.migrate(source, in_place=True)
    assert outcome.state == "incomplete"
    assert not (source / "zarr.json").exists()
    assert not (source / "g/zarr.json").exists()
    (source / "g/recode/.zarray").write_bytes(good)
    assert zarrlift.resume(source).ok
    assert values(source, 3) == values(source, 2)


@pytest.mark.parametrize(("cause", "equal"), [("running", True), ("not writable", False)])
def test_a_verification_is_reported_if_its_job_cannot_record_it(
    cause: str, equal: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = zarrlift.migrate(source, tmp_path / "new.zarr")
    job = Path(outcome.job)
    if not equal:
        group = zarr.open_group(tmp_path / "new.zarr", mode="r+")
        group.attrs["other"] = 1
    if cause == "running":
        holder = Job.open(job)
    else:
        opened = os.open

        def refused(path: Any, flags: int, *rest: Any, **named: Any) -> int:
            if flags & os.O_RDWR and os.fspath(path) == os.fspath(job):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return opened(path, flags, *rest, **named)

        monkeypatch.setattr(os, "open", refused)
    report = zarrlift.verify(source, tmp_path / "new.zarr", full=True)
    if cause == "running":
        holder.close()
    assert report.ok is equal
    [note] = [problem for problem in report.problems if problem.severity == "note"]
    assert note.message.startswith("the result is not recorded in the job: ")
    assert note.key == str(job)
    assert "the result is not recorded in the job" in str(repr(report) + report._repr_html_())
    if not equal:
        with pytest.raises(VerificationError) as caught:
            report.raise_for_problems()
        assert "recorded" not in str(caught.value)


def test_nodes_that_a_refused_one_hid_are_migrated_by_a_resume(source: Path, tmp_path: Path) -> None:
    (source / ".zmetadata").unlink()
    (source / "h").rename(tmp_path / "kept")
    (source / "h").symlink_to("nowhere")
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    assert {(problem.node, problem.kind) for problem in outcome.problems} == {("h", "link")}
    (source / "h").unlink()
    (tmp_path / "kept").rename(source / "h")
    outcome = zarrlift.resume(tmp_path / "out.zarr")
    assert outcome.ok, outcome.problems
    assert values(tmp_path / "out.zarr", 3) == values(source, 2)
    assert zarrlift.resume(tmp_path / "out.zarr").state == "nothing to do"


def test_a_job_may_have_any_name(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (source / "g/relink/0.0").write_bytes(b"bad")
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr", job="my.job")
    assert outcome.job == str(tmp_path / "my.job")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert zarrlift.status(outcome.job).state == "incomplete"
    assert not zarrlift.resume("../my.job").ok
    assert zarrlift.undo("../my.job").state == "undone"


def test_a_job_that_cannot_be_kept_says_where_else_it_may_lie(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(zarrlift.jobs.ledger.ledger.JobError, match="--job") as caught:
        zarrlift.migrate(source, tmp_path / "out.zarr", job=tmp_path / "file/my.job")
    assert "exists" in caught.value.problem.found
    assert not (tmp_path / "out.zarr").exists()


def _longer(payload: bytes) -> bytes:
    return payload + b"!"


def _flipped(payload: bytes) -> bytes:
    return payload[:5] + bytes([payload[5] ^ 1]) + payload[6:]


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("codecs", ["zstd:3", "gzip:1", "blosc:zstd:5:shuffle"])
@pytest.mark.parametrize(
    ("dtype", "filters", "damage"),
    [
        pytest.param("<i4", None, _longer, id="longer"),
        pytest.param(">f8", None, lambda payload: payload[:-1], id="shorter"),
        pytest.param("<i4", [CRC32()], _flipped, id="checksum"),
        pytest.param(object, None, lambda payload: b"!" + payload[1:], id="texts"),
    ],
)
def test_a_chunk_that_only_gets_codecs_is_looked_at(
    dtype: Any, filters: Any, damage: Callable[[bytes], bytes], codecs: str, tmp_path: Path
) -> None:
    """No codec is undone, so that none finds what is wrong with it; no reader could read the result."""
    root = zarr.open_group(tmp_path / "old.zarr", mode="w", zarr_format=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr-python wonders about text in Zarr v2
        array = root.create_array(
            "a",
            shape=(40,),
            chunks=(4,),
            dtype="str" if dtype is object else dtype,
            filters="auto" if dtype is object else filters,
            compressors=None,
        )
    array[...] = np.array([f"text {n}" for n in range(40)]) if dtype is object else np.arange(40)
    chunk = tmp_path / "old.zarr/a/7"
    chunk.write_bytes(damage(chunk.read_bytes()))
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs=codecs))
    outcome = zarrlift.migrate(tmp_path / "old.zarr", tmp_path / "new.zarr", recipe=recipe, verify="none")
    assert [(problem.kind, problem.key) for problem in outcome.problems] == [("chunk", "a/7")]
    assert not (tmp_path / "new.zarr/a/zarr.json").exists()


def test_what_the_system_refuses_to_a_library_is_no_surprise() -> None:
    """zarr-python reads the result, and its error has no key of ours."""
    problem = unexpected_error("a", OSError(5, "Input/output error", "/place/a/c/0"))
    assert (problem.kind, problem.node, problem.key) == ("storage", "a", "/place/a/c/0")


# A package that cannot be imported is named, and not called a bug in zarrlift.


OCEAN = archive("zarr_v2/zarr-2.18/people/ocean").path


@pytest.fixture
def with_zfpy(tmp_path: Path) -> dict[str, str]:
    """An environment with a zfpy that was built for another numpy, which numcodecs imports."""
    facts = tmp_path / "site/zfpy-1.0.1.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: zfpy\nVersion: 1.0.1\n")
    (tmp_path / "site/zfpy.py").write_text('raise ValueError("numpy.dtype size changed")')
    paths = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("command", ["migrate", "verify"])
def test_a_zfpy_that_cannot_be_imported_is_named(
    with_zfpy: dict[str, str], tmp_path: Path, command: str
) -> None:
    words = [sys.executable, "-m", "zarrlift", command, str(OCEAN), str(tmp_path / "out")]
    if command == "verify":
        (tmp_path / "out").mkdir()
        (tmp_path / "out/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    done = subprocess.run(words, env=with_zfpy, capture_output=True, text=True, timeout=120, check=False)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1
    assert re.search(r"the package zfpy cannot be imported \(by (zarr and )?numcodecs\)", said)
    assert "numpy.dtype size changed" in said
    assert "bug in zarrlift" not in said
    assert "did not foresee" not in said


def test_errors_of_our_own_are_no_broken_packages() -> None:
    with pytest.raises(ValueError, match="ours") as raised:
        int("ours")
    assert broken_package(raised.value) is None


# A destination may have any name that the file system accepts.


NAMES = {
    "201 characters": "d" * 201,
    "255 bytes": "é" * 127 + "d",
}


@pytest.fixture
def small_source(tmp_path: Path) -> Path:
    group = zarr.open_group(tmp_path / "s.zarr", mode="w", zarr_format=2)
    group.create_array("a", shape=(8,), chunks=(2,), dtype="i4")[:] = np.arange(8)
    return tmp_path / "s.zarr"


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_job_is_found_again_by_its_long_destination(name: str, small_source: Path, tmp_path: Path) -> None:
    destination = tmp_path / name
    assert zarrlift.migrate(small_source, destination).ok
    assert zarr.open_array(destination / "a")[:].tolist() == list(range(8))
    assert zarrlift.status(destination).state == "done"
    assert zarrlift.migrate(small_source, destination, overwrite=True).ok
    assert zarrlift.undo(destination).ok
    assert not destination.exists()


def test_a_name_that_does_not_fit_is_one_message(small_source: Path, tmp_path: Path) -> None:
    with pytest.raises(ZarrstackError, match="name of the destination is too long"):
        zarrlift.migrate(small_source, tmp_path / ("d" * 256))
    assert os.listdir(tmp_path) == ["s.zarr"]


def test_long_names_with_the_same_start_keep_apart() -> None:
    first, second = ("d" * 249 + end for end in ("first!", "second"))
    assert with_suffix(first, ".zarrlift.db") != with_suffix(second, ".zarrlift.db")
    assert with_suffix("d" * 200, ".x") == "d" * 200 + ".x"


@pytest.mark.parametrize("length", [1, 160, 161, 255])
def test_a_temporary_name_leaves_room_for_the_journal(length: int) -> None:
    name = os.path.basename(partial_name("/tmp/" + "d" * length))
    assert len(name + "-journal") <= 255


def test_a_batch_has_a_list_whose_name_fits(tmp_path: Path) -> None:
    small(tmp_path / "a.zarr")
    made = zarrlift.batch(tmp_path, to=f"{tmp_path}/{'d' * 255}/{{name}}.zarr", run=False)
    assert len(made.path.name) <= 255


# What only functions of Python have: one base of all errors, outcomes that raise, an interrupted cell.

CELL = """
import asyncio, os, signal, sys
import zarrlift

def interrupt(event):
    if type(event).__name__ == EVENT:
        os.killpg(os.getpgid(0), signal.SIGINT)  # as Jupyter does: the kernel and its processes

async def cell():
    return zarrlift.migrate(*sys.argv[1:3], executor=EXECUTOR, workers=2, progress=interrupt)

try:
    asyncio.new_event_loop().run_until_complete(cell())
except zarrlift.Interrupted as stopped:
    print(stopped.job)
"""


def small(folder: Path, *, damaged: bool = False) -> Path:
    """An array of a hundred chunks, one of them damaged on request."""
    array = zarr.create_array(
        folder, shape=(100,), chunks=(1,), dtype="<i4", zarr_format=2, compressors=Zlib(level=1)
    )
    array[:] = np.arange(100)
    if damaged:
        (folder / "7").write_bytes(b"not zlib")
    return folder


def test_every_error_is_an_error_of_zarrlift():
    assert all(issubclass(error, zarrlift.Error) for error in KINDS.values())
    with pytest.raises(zarrlift.Error, match="no such file"):
        zarrlift.migrate("nowhere.zarr", "new.zarr")


def test_an_outcome_raises_for_what_it_did_not_do(tmp_path):
    good = zarrlift.migrate(small(tmp_path / "good"), tmp_path / "new")
    assert good.raise_for_problems() is good
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="zstd:1"))
    bad = zarrlift.migrate(small(tmp_path / "bad", damaged=True), tmp_path / "bad.zarr", recipe=recipe)
    with pytest.raises(JobError, match=r"0 of 1 arrays are done; .*key '7'") as caught:
        bad.raise_for_problems()
    assert caught.value.problem.key == bad.job


def test_a_batch_raises_for_its_archives(tmp_path):
    small(tmp_path / "in" / "good"), small(tmp_path / "in" / "bad", damaged=True)
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="zstd:1"))
    batch = zarrlift.batch(str(tmp_path / "in" / "*"), to=str(tmp_path / "out/{relative}"), recipe=recipe)
    with pytest.raises(JobError, match=r"1 failed, 1 done; .*bad: .*key '7'"):
        batch.outcome.raise_for_problems()


def test_a_verification_raises_for_differences(tmp_path):
    source, result = small(tmp_path / "old"), tmp_path / "new"
    zarrlift.migrate(source, result)
    report = zarrlift.verify(source, result, full=True)
    assert report.raise_for_problems() is report
    zarr.open_array(result, mode="r+")[5] = 99
    with pytest.raises(VerificationError, match=r"found 99; expected 5"):
        zarrlift.verify(source, result, full=True).raise_for_problems()


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("executor", ["threads", "processes"])
@pytest.mark.parametrize("event", ["Planned", "TaskDone"])
def test_an_interrupted_cell_leaves_a_job_that_can_be_resumed(event, executor, tmp_path):
    source, result = small(tmp_path / "old"), tmp_path / "new"
    code = CELL.replace("EVENT", repr(event)).replace("EXECUTOR", repr(executor))
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), str(result)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.stdout, done.returncode) == (f"{result}.zarrlift.db\n", 0), done.stderr
    assert not (result / "zarr.json").exists()
    assert not os.path.exists(f"{result}.zarrlift.claim")
    status = zarrlift.status(result)
    assert (status.state, status.activity) == ("incomplete", "stopped")
    assert zarrlift.resume(result).raise_for_problems().state == "done"
    assert np.array_equal(zarr.open_array(result, mode="r")[:], np.arange(100))


def test_a_full_disk_stops_the_run_with_one_message(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    room = [12]

    def write(descriptor: int, data: bytes) -> int:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    monkeypatch.setattr(writing.os, "write", write)
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr", workers=2)
    monkeypatch.undo()
    assert outcome.state == "incomplete"
    assert [problem.found for problem in outcome.problems] == [os.strerror(errno.ENOSPC)]
    assert not (tmp_path / "out.zarr/zarr.json").exists()
    assert zarrlift.resume(tmp_path / "out.zarr").ok
    assert values(tmp_path / "out.zarr", 3) == values(source, 2)


@pytest.mark.parametrize("verb", ["status", "resume", "undo"])
def test_every_verb_says_that_a_row_of_the_job_is_damaged(source: Path, tmp_path: Path, verb: str) -> None:
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    with closing(sqlite3.connect(outcome.job)) as db, db:
        db.execute("UPDATE node SET state = 'failed', problems = 'no JSON'")
        db.execute("UPDATE meta SET value = 'incomplete' WHERE name = 'state'")
    with pytest.raises(JobError, match="the job file is damaged"):
        getattr(zarrlift, verb)(tmp_path / "out.zarr")
