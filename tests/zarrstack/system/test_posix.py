"""What every POSIX system does, tried on this one: macOS has nothing more, Linux asks its kernel first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(params=["POSIX", "this system", "this system without locks of open files"])
def posix(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    import fcntl  # which Windows lacks

    from zarrstack.system.other import Posix
    from zarrstack.system.this import system

    if request.param.endswith("files"):  # as kernels before 3.15: EINVAL
        for command in ("F_OFD_SETLK", "F_OFD_GETLK"):
            monkeypatch.setattr(fcntl, command, 999, raising=False)
    return Posix() if request.param == "POSIX" else system


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[int]]:
    """One file, opened three times."""
    path = tmp_path / "job.db"
    path.write_bytes(b"ledger")
    files = [os.open(path, os.O_RDWR) for _ in range(3)]
    yield files
    for each in files:
        os.close(each)


def test_one_holds_a_file_beside_sqlite_or_several_share_it(posix: Any, opened: list[int]) -> None:
    one, two, asks = opened
    assert not posix.is_locked_beside_sqlite(asks)
    posix.lock_beside_sqlite(one)
    assert posix.is_locked_beside_sqlite(asks)
    for shared in (False, True):
        with pytest.raises(BlockingIOError):
            posix.lock_beside_sqlite(two, shared=shared)
    posix.lock_beside_sqlite(one, shared=True)
    posix.lock_beside_sqlite(two, shared=True)
    with pytest.raises(BlockingIOError):
        posix.lock_beside_sqlite(asks)
    assert os.read(asks, 9) == b"ledger", "what is locked can be read"


def test_a_process_is_ended_and_nothing_is_guessed_about_it(posix: Any) -> None:
    assert posix.state_of(os.getpid(), posix.started(os.getpid())) == "running"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        start = posix.started(process.pid)
        assert posix.state_of(process.pid, start) == ("running" if start else "unknown")
        posix.kill(process.pid)
        assert process.wait() == -signal.SIGKILL
        assert posix.state_of(process.pid, start) == "ended"


def test_what_is_told_of_the_machine(posix: Any) -> None:
    assert posix.host()
    assert posix.machine() == posix.machine(), "it stays the same"
    assert posix.memory() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    files = posix.limit("RLIMIT_NOFILE")
    assert files is None or files > 100
    if boot := posix.boot():
        assert uuid.UUID(boot)
