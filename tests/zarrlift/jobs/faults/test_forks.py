"""The command copies its process where it can; where it cannot, or loses a copy, it does the same alone."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.job_archives import tree
from tests.zarrlift.jobs.faults.test_kills import assert_whole_where_visible, run_and_kill

import zarrlift

SIDE = 45


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,025 chunks of a few bytes: as many as are worth a fork."""
    path = tmp_path_factory.mktemp("tiny") / "source.zarr"
    path.mkdir()
    document = {
        "zarr_format": 2, "shape": [SIDE, SIDE], "chunks": [1, 1], "dtype": "<u2", "order": "C",
        "fill_value": 0, "compressor": None, "filters": None,
    }  # fmt: skip
    (path / ".zarray").write_text(json.dumps(document))
    for row in range(SIDE):
        for column in range(SIDE):
            (path / f"{row}.{column}").write_bytes(np.uint16(row * SIDE + column).tobytes())
    return path


@pytest.fixture(scope="session")
def tiny_result(tiny: Path) -> dict[str, bytes]:
    """The result of threads, which a library uses."""
    destination = tiny.parent / "expected.zarr"
    assert zarrlift.migrate(tiny, destination).ok
    return tree(destination)


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
WITHOUT_JOURNAL = """
import os, sys
real = os.fork
def fork():
    held = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.lexists(entry.path)]
    sys.stderr.write("forked\\n" + "journal\\n" * any(name.endswith("-journal") for name in held))
    return real()
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


def test_no_copy_holds_the_journal_of_the_job_file(tiny, tmp_path) -> None:
    """On SMB, a deleted file that a process has open cannot be created again."""
    done = command(WITHOUT_JOURNAL, "migrate", tiny, tmp_path / "out.zarr", "--workers", "2", "--quiet")
    assert (done.returncode, done.stderr.split()) == (0, ["forked"] * 3)


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


# Tiny chunks are moved by copies of the command's process: killed at any instant, nothing is lost either.

once = pytest.mark.needs_reader("once")


def migrate(moment: int, who: str, source: Path, destination: Path):
    words = ("--forked", who, "migrate", str(source), str(destination), "--workers", "2")
    return run_and_kill(moment, destination.parent, *words)


@once
@pytest.mark.slow
def test_two_workers_and_the_checks_are_forked(tiny, tiny_result, tmp_path) -> None:
    done = migrate(0, "coordinator", tiny, tmp_path / "out.zarr")
    assert (done.returncode, done.stderr.split()[-1]) == (0, "3")
    assert tree(tmp_path / "out.zarr") == tiny_result


@once
@pytest.mark.slow(one_in=4)
@pytest.mark.parametrize("seed", range(4))
def test_copies_end_with_the_command_that_was_killed(seed: int, tiny, tiny_result, destination) -> None:
    moment = random.Random(seed).randint(50, 1500)
    # This waits for the copies too: they hold the other end of standard error.
    assert migrate(moment, "coordinator", tiny, destination).returncode == -signal.SIGKILL
    assert_whole_where_visible(destination, tiny_result)
    assert zarrlift.resume(destination).ok
    assert tree(destination) == tiny_result


@once
def test_a_copy_that_dies_stops_the_run_which_can_be_resumed(tiny, tiny_result, destination) -> None:
    done = migrate(200, "itself", tiny, destination)
    assert done.returncode == 1
    assert "a worker died" in done.stdout + done.stderr
    assert zarrlift.resume(destination).ok
    assert tree(destination) == tiny_result
