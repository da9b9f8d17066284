"""Jobs that are stopped or killed in the middle, and processes that claim one destination at one moment."""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from zarrlift.jobs.ledger.ledger import Job
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.local.writer import LocalWriter


@contextmanager
def running(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the block, however that ends."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def stopping(
    owner: object, name: str, *, after: int = 0, when: Callable[..., bool] = lambda *_: True
) -> Iterator[None]:
    """Ctrl-C at a call of a function, once so many calls were let through; `when` says which calls count."""
    real, calls = getattr(owner, name), []

    def stop(*arguments: Any, **more: Any) -> Any:
        if when(*arguments):
            calls.append(arguments)
            if len(calls) > after:
                raise KeyboardInterrupt
        return real(*arguments, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(owner, name, stop)
        yield


def pasted(command: str) -> list[str]:
    """The words of a printed command, as a program of this system gets them from a shell."""
    if sys.platform != "win32":
        return shlex.split(command)
    split, count = ctypes.WinDLL("shell32").CommandLineToArgvW, ctypes.c_int()
    split.argtypes, split.restype = [ctypes.c_wchar_p, ctypes.c_void_p], ctypes.POINTER(ctypes.c_wchar_p)
    return split(f"zarrlift {command}", ctypes.byref(count))[1 : count.value]


def ctrl_c() -> None:
    """Ctrl-C in this process, from any of its threads."""
    if sys.platform == "win32":  # whose `os.kill` ends processes
        signal.raise_signal(signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)


class Killed(BaseException):
    """Ends a run as a kill does, without any of its code."""


def dying(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """From now on, the destination and the job take so many changes, and no more."""
    left = [after]

    def dies(owner: type, name: str) -> None:
        whole = getattr(owner, name)

        def wrapped(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return whole(*given, **named)

        monkeypatch.setattr(owner, name, wrapped)

    for name in ("write", "copy", "link"):
        dies(LocalWriter, name)
    dies(LocalStorage, "delete")
    dies(Job, "commit")
    for name in ("replace", "rename"):
        dies(os, name)


# Sixteen processes that claim one destination at the same moment.

MANY = 16
BEATEN = {
    "another job is writing to this destination",
    "another process claims this destination at the same time",
}
"""What those say that do not have it."""

SCRIPT = """
import json, os, sys
from pathlib import Path
from zarrlift.jobs.claim import claimed
from zarrlift.storage.open_storage import open_storage
from zarrlift.errors import JobError
destination, jobs, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
if options:
    import obstore.store, zarr.storage  # once, not in each process
begin, begun = os.pipe()
end, ended = os.pipe()
told, tell = os.pipe()
for number in range(int(sys.argv[4])):
    if os.fork() == 0:
        os.close(begun), os.close(ended)
        place = open_storage(destination, storage_options=options, mode="w")
        os.read(begin, 1)
        try:
            with claimed(place, jobs / f"{number}.db"):
                os.write(tell, b"won\\n")
                os.read(end, 1)
        except JobError as error:
            os.write(tell, error.problem.message.encode() + b"\\n")
        os._exit(0)
os.close(begun)
os.close(tell)
lines = open(told)
print("".join(lines.readline() for _ in range(number + 1)), end="")
os.close(ended)
for _ in range(number + 1):
    os.wait()
"""
"""They begin when a pipe is closed. Whichever wins holds its claim until all have said how it went."""


def start_together(
    destination: str, jobs: Path, options: dict[str, Any] | None = None
) -> tuple[int, set[str]]:
    """How many of them had the destination, and what the others said."""
    words = [sys.executable, "-c", SCRIPT, destination, str(jobs), json.dumps(options or {}), str(MANY)]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(told) == MANY
    return told.count("won"), set(told) - {"won"}
