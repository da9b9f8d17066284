"""Whether the process that made something still runs, and what is left of files that it was making."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import zarrlift
from zarrlift.storage.local import owner_process
from zarrlift.storage.local.owner_process import OwnerProcess
from zarrlift.storage.local.partial_files import partial_name, sweep_partial

HERE = OwnerProcess.of_this_process()


@pytest.fixture(scope="module")
def ended() -> int:
    """The id of a process that has ended, which no other one has yet."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_a_process_runs_until_it_has_ended(ended: int) -> None:
    assert HERE.state() == "running"
    assert replace(HERE, pid=ended).state() == "ended"
    assert replace(HERE, pid=1 << 40).state() == "unknown"


def test_a_process_id_that_was_given_again_is_another_process() -> None:
    assert replace(HERE, started=str(int(HERE.started) - 1)).state() == "ended"


def test_a_process_of_another_boot_may_run_on_another_host_of_the_same_name(ended: int) -> None:
    """A cloned virtual machine has the same name and machine id; its boot is another one."""
    clone = replace(HERE, boot="another", pid=ended)
    assert clone.state() == "unknown"
    assert str(clone).endswith("(before it was restarted, or on another host of this name)")


def test_a_process_that_is_dead_and_not_waited_for_has_ended() -> None:
    """In a container whose first process waits for no other, such a process stays for ever."""
    child = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    started = (owner_process._facts(child.pid) or ("", ""))[1]
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert replace(HERE, pid=child.pid, started=started).state() == "ended"
    child.communicate()


@pytest.mark.parametrize("field", ["host", "machine", "namespace"])
def test_a_process_of_another_host_or_container_cannot_be_seen(field: str, ended: int) -> None:
    assert replace(HERE, pid=ended, **{field: "another"}).state() == "unknown"


def test_an_owner_is_read_as_it_was_written() -> None:
    assert OwnerProcess.from_json(HERE.to_json()) == HERE
    with pytest.raises(ValueError, match="not an owner"):
        OwnerProcess.from_json({"pid": 1})


def names(left: int, path: Path, monkeypatch: pytest.MonkeyPatch, **changes: str) -> list[Path]:
    """What a process that was killed while it made a job file leaves: the file and SQLite's journal."""
    made = replace(HERE, pid=left, **changes)
    with monkeypatch.context() as patched:
        patched.setattr(OwnerProcess, "of_this_process", lambda: made)
        partial = Path(partial_name(str(path)))
    found = [partial, partial.with_name(f"{partial.name}-journal")]
    for file in found:
        file.write_bytes(b"half")
    return found


def test_the_next_start_sweeps_what_dead_processes_of_this_host_left(
    ended: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tmp_path / "out.zarr.zarrlift.db"
    old = names(os.getpid(), job, monkeypatch, boot="0123")
    for file in old:
        os.utime(file, (0, 0))  # what it made was complete long ago
    dead = [*names(ended, job, monkeypatch), *old]
    others = [
        *names(ended, job, monkeypatch, boot="4567"),
        *names(os.getppid(), job, monkeypatch, started=(owner_process._facts(os.getppid()) or ("", ""))[1]),
        *names(ended, job, monkeypatch, host="another"),
        *names(ended, tmp_path / "out2.zarr.zarrlift.db", monkeypatch),
        *names(ended, tmp_path / "out.zarr", monkeypatch),
    ]
    assert all(file.exists() for file in (*dead, *others))
    assert zarrlift.migrate(source, tmp_path / "out.zarr").ok
    assert [file for file in dead if file.exists()] == []
    assert [file for file in others if not file.exists()] == []


def test_where_no_directory_is_there_is_nothing_to_sweep(tmp_path: Path) -> None:
    sweep_partial(str(tmp_path / "none/file"))
    assert list(tmp_path.iterdir()) == []
