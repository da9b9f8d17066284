"""What Windows does otherwise, tried there (tests/not_everywhere.toml)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from zarrstack.system.this import system

HOLD = """
import sys, time
file = open(sys.argv[1], "r+b")
print("open", flush=True)
sys.stdin.read()
"""
"""Holds a file open, as Python and most programs do: nobody may replace or delete it meanwhile."""
LOCKED = """
import sys
from zarrstack.system.this import system
file = open(sys.argv[1], "r+b")
system.lock_beside_sqlite(file.fileno(), shared=sys.argv[2] == "shared")
print("locked", flush=True)
sys.stdin.read()
"""
WORKER = """
import subprocess, sys, time
from zarrstack.system.this import system
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
system.end_with_this_process(worker.pid)
print(worker.pid, system.started(worker.pid), flush=True)
time.sleep(600)
"""


@contextmanager
def running(script: str, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has said something, and that ends with the block."""
    command = [sys.executable, "-c", script, *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.said = process.stdout.readline().split()
            yield process
        finally:
            process.kill()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A file, and one to take its place."""
    held, new = tmp_path / "held", tmp_path / "new"
    held.write_text("old")
    new.write_text("new")
    return held, new


def test_a_file_is_replaced_and_removed_once_others_have_closed_it(files: tuple[Path, Path]) -> None:
    held, new = files
    for act in (lambda: system.replace(str(new), str(held)), lambda: system.unlink(str(held))):
        with running(HOLD, held) as process:
            threading.Timer(0.5, process.kill).start()
            act()
    assert not held.exists()


def test_a_file_that_stays_open_is_named_after_a_bounded_time(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from zarrstack.system import windows

    held, new = files
    monkeypatch.setattr(windows, "_WAITS", (0.01,))
    with running(HOLD, held):
        with pytest.raises(PermissionError, match="held"):
            system.unlink(str(held))
        with pytest.raises(PermissionError, match="held"):
            system.replace(str(new), str(held))
        with pytest.raises(PermissionError):
            system.remove_tree(str(held.parent))
    assert held.read_text() == "old"


def test_what_waiting_does_not_change_is_reported_at_once(files: tuple[Path, Path]) -> None:
    file, new = files
    folder = file.parent / "folder"
    folder.mkdir()
    began = time.monotonic()
    with pytest.raises(OSError):
        system.replace(str(new), str(folder))
    with pytest.raises(FileNotFoundError):
        system.unlink(str(file) + "x")
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(("first", "second"), [("alone", False), ("shared", True), ("alone", True)])
def test_a_lock_is_seen_and_ends_with_its_process(first: str, second: bool, files: tuple[Path, Path]) -> None:
    path, _ = files
    with path.open("r+b") as file:
        with running(LOCKED, path, first):
            assert system.is_locked_beside_sqlite(file.fileno())
            if first == "shared":
                system.lock_beside_sqlite(file.fileno(), shared=True)
                return
            with pytest.raises(BlockingIOError):
                system.lock_beside_sqlite(file.fileno(), shared=second)
        assert not system.is_locked_beside_sqlite(file.fileno())


def test_workers_end_with_a_killed_process() -> None:
    with running(WORKER) as process:
        pid, start = process.said
        assert system.state_of(int(pid), start) == "running"
        assert system.state_of(int(pid), "1") == "ended"
    for _ in range(100):
        if system.state_of(int(pid), start) == "ended":
            break
        time.sleep(0.1)
    assert system.state_of(int(pid), start) == "ended"


def test_paths_may_be_long(tmp_path: Path) -> None:
    path = system.long_path(str(tmp_path))
    for _ in range(4):
        path += os.sep + 80 * "x"
        os.mkdir(path)
    Path(path, "file").write_text("1")
    assert len(path) > 320
    assert system.long_path(path) == path
    assert system.long_path("\\\\server\\share\\x") == "\\\\?\\UNC\\server\\share\\x"
    system.remove_tree(path)


def test_all_processes_see_the_same_boot() -> None:
    with running("from zarrstack.system.this import system; print(system.boot())") as process:
        assert process.said == [system.boot()] != []


def test_the_machine_has_memory() -> None:
    assert (system.memory() or 0) > 1 << 28
