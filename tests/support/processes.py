"""The processes that a run of the tests has started, known by a mark in their environment.

As a program, it waits until its standard input closes, which the end of its parent does whatever ends it, and
ends what is left of these processes. It imports little, since it starts with every run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MARK = "TESTS_OF_ZARRLIFT"
GRACE = 10.0
"""Seconds in which a process ends that has seen that its parent is gone."""
SERVANTS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "read.mjs")
"""Processes that end with the one that they serve, which may be pytest itself."""
IGNORED_BY_SCRIPTS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
CAN_BE_SEEN = os.path.exists("/proc/self/environ")
"""Whether the environment of a process can be read, as on Linux."""


def hear_signals() -> None:
    """Let children hear what this process ignores, as `nohup` and `&` in a script have it.

    A child inherits that a signal is ignored, but not that a function takes it.
    """
    for number in IGNORED_BY_SCRIPTS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@contextmanager
def running(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the block, however that ends."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def marked(mark: str) -> dict[int, str]:
    """Id and command of each process that was started with this mark, but for this one."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with suppress(OSError), open(f"/proc/{name}/environ", "rb") as environment:
            if f"{MARK}={mark}".encode() not in environment.read().split(b"\0"):
                continue
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
            if command and not any(module in command for module in SERVANTS):
                found[int(name)] = command
    return found


def end(mark: str, grace: float) -> dict[int, str]:
    """End the processes that do not end by themselves in time, and give them."""
    deadline = time.monotonic() + grace
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return left


if __name__ == "__main__":
    for number in IGNORED_BY_SCRIPTS:
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    end(sys.argv[1], float(sys.argv[2]))
