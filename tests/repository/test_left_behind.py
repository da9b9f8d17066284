"""A run of the tests ends what they start, also where it is killed, and works where signals are ignored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="not everywhere: only Linux shows it")

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.support import processes
processes.GRACE = 0.0
pytest_plugins = ["tests.support.left_behind"]
"""
TEST = """
import os, signal, subprocess
def test_it():
    sleep = subprocess.Popen(["sleep", "600"])
    while not open(f"/proc/{sleep.pid}/environ").read():
        pass  # for a moment a process that begins another program has no environment
    BODY
"""


def run(folder, body, *before):
    """Run a test that starts a process; it has ended in the end, since its output is read to the end."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(TEST.replace("BODY", body))
    return subprocess.run(
        [*before, sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "test_it.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_test_that_leaves_a_process_fails_the_run(tmp_path):
    done = run(tmp_path, "pass")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "FAILED a test left process" in done.stdout
    assert "sleep 600" in done.stdout


def test_a_killed_run_leaves_no_process(tmp_path):
    done = run(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == -signal.SIGKILL, done.stdout


def test_children_hear_signals_that_the_run_ignores(tmp_path):
    body = "sleep.send_signal(signal.SIGINT); assert sleep.wait() == -signal.SIGINT"
    ignoring = ["sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh"]
    done = run(tmp_path, body, *ignoring)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
