"""The command copies its process where it can; where it cannot, or loses a copy, it does the same alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.job_archives import tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="not everywhere: only Linux forks here")
REFUSED = """
import errno, os
def fork():
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
os.fork = fork
"""
ONE_ONLY = """
import errno, os
real, made = os.fork, []
def fork():
    if made:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    made.append(1)
    return real()
os.fork = fork
"""
KILLED = """
import os, signal
real = os.fork
def fork():
    child = real()
    if child and not made:
        os.kill(child, signal.SIGKILL)
    made.append(child)
    return child
made = []
os.fork = fork
"""
RUN = """
from zarrlift.cli import entry
entry()
"""


def command(before: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """The installed command, after something was done to the system."""
    return subprocess.run(
        [sys.executable, "-c", before + RUN, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("before", [REFUSED, ONE_ONLY, KILLED], ids=["none", "one only", "the first killed"])
def test_a_migration_does_without(before, tiny, tiny_result, tmp_path) -> None:
    done = command(before, "migrate", tiny, tmp_path / "out.zarr", "--workers", "2", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert tree(tmp_path / "out.zarr") == tiny_result


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    "words", [("--verify", "none"), ("--verify=none",), ("--dest-through", "log:l.jsonl")]
)
def test_what_is_not_asked_is_stopped(words, tiny, tmp_path, monkeypatch) -> None:
    """No process of ours is left when the command ends, whatever was begun."""
    monkeypatch.chdir(tmp_path)
    count = """
import os
real, made = os.fork, []
def fork():
    made.append(real())
    return made[-1]
os.fork = fork
end = os._exit
def left(code):
    if 0 not in made:
        alive = [pid for pid in made if os.path.exists(f"/proc/{pid}")]
        os.write(2, repr(alive).encode())
    end(code)
os._exit = left
"""
    done = command(count, "migrate", tiny, tmp_path / "out.zarr", "--quiet", *words)
    assert (done.returncode, done.stderr) == (0, "[]")


def test_a_wrong_command_line_ends_at_once_and_alone(tmp_path) -> None:
    """Its output is closed when it ends: a process apart would hold it open."""
    done = command("", "migrate", tmp_path / "nothing", tmp_path / "out.zarr")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_ctrl_c_in_the_middle_of_a_fork_is_heeded(tiny: Path, tmp_path: Path) -> None:
    """What modules do around a fork would print it and forget it."""
    in_a_fork = """
import os, signal
os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT), after_in_parent=lambda: None)
"""
    done = command(in_a_fork, "migrate", tiny, tmp_path / "out.zarr")
    assert done.returncode == 130
    assert done.stderr == "zarrlift: interrupted. Nothing was changed.\n"
    assert not (tmp_path / "out.zarr").exists()
