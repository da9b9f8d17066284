"""No process outlives the tests, and each hears the signals that the tests themselves may not hear.

A plug-in of pytest. What a test starts inherits a mark in its environment. Processes that still run at the
end make the run fail, and are ended. A program that waits beside the run ends them where pytest is killed.
SIGTERM interrupts a run as Ctrl-C does: it ends with pytest's summary.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Generator
from contextlib import suppress

import pytest
from tests.support import processes


class Watch:
    """Marks all that is started from here on; under xdist, in the process that starts the others."""

    def __init__(self) -> None:
        self.left: dict[int, str] = {}
        self.mark = uuid.uuid4().hex
        os.environ.pop(processes.MARK, None)
        self.beside = subprocess.Popen(
            [sys.executable, "-S", processes.__file__, self.mark, str(processes.GRACE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.environ[processes.MARK] = self.mark
        signal.signal(signal.SIGTERM, self.interrupt)
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))

    def interrupt(self, *_: object) -> None:
        """Do what Ctrl-C does, which reaches all processes of a run."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for process in processes.marked(self.mark):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGINT)
        raise KeyboardInterrupt

    @pytest.hookimpl(wrapper=True, trylast=True)  # after xdist's workers have ended, before the summary
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Turn a green run red."""
        result = yield
        interrupted = session.exitstatus == pytest.ExitCode.INTERRUPTED
        left = processes.end(self.mark, 0 if interrupted else processes.GRACE)
        self.left = {} if interrupted else left
        if self.left and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why."""
        for process, command in self.left.items():
            text = f"FAILED a test left process {process} behind, which was ended: {command[:200]}"
            terminalreporter.write_line(text, red=True)

    def pytest_unconfigure(self) -> None:
        """Let the program beside the run end."""
        self.beside.communicate()


def pytest_configure(config: pytest.Config) -> None:
    """Watch where the results come together."""
    if processes.CAN_BE_SEEN and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Watch())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Under xdist, its workers ignore what the process that starts them ignores; their children do not."""
    processes.hear_signals()
