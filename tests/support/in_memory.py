"""Temporary files of a run are in memory where there is room: 200,000 files are made and removed.

A plug-in of pytest. It needs a file system in memory as Linux has it; set TMPDIR to use another folder.
What failed tests wrote stays there until the next run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM = 6 << 30
"""Bytes that have to be free: a run with all tests needs less than a third of them at a time."""
PREFIX = "zarrlift-tests-"


def remove_older() -> None:
    """Remove what runs left that have ended: the number of the process is in the name of its folder."""
    for folder in MEMORY.glob(f"{PREFIX}*"):
        process = folder.name.removeprefix(PREFIX).partition("-")[0]
        if not Path("/proc", process).exists():
            shutil.rmtree(folder, ignore_errors=True)


class Folder:
    """The folder of this run; under xdist, its workers inherit it."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=MEMORY)
        os.environ["TMPDIR"] = self.path
        tempfile.tempdir = None

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode
    ) -> None:
        """Say where the files of failed tests are, which pytest keeps."""
        if exitstatus == pytest.ExitCode.TESTS_FAILED:
            terminalreporter.write_line(f"What failed tests wrote is in {self.path} until the next run.")
        else:
            shutil.rmtree(self.path, ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the folder before anything asks for one."""
    if hasattr(config, "workerinput") or "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    remove_older()
    if shutil.disk_usage(MEMORY).free >= ROOM:
        config.pluginmanager.register(Folder())
