"""Runs of the installed command that start at once: copies of a process that has loaded everything.

`Commands` starts this file as a process, which may have `system_calls.c` loaded into it; that process forks
for each command, in a process group of its own, and waits until nothing of the group is left.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

_SUBREAPER = 36
"""prctl(PR_SET_CHILD_SUBREAPER): what a killed command leaves running becomes a child of ours."""
HUNG = "hung"
"""In the place of an exit code."""
_PATIENCE = 120.0
_TIGHT = 5_000
"""Bytes of values at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a command did."""

    words: tuple[str, ...]
    code: int | str
    """Negative: the signal that ended it."""
    out: str
    err: str

    def __str__(self) -> str:
        return f"zarrlift {' '.join(self.words)}: {self.code}\n{self.out}{self.err}"


class Commands:
    """Starts commands, one after another."""

    def __init__(self, library: Path | None, environment: dict[str, str]) -> None:
        """`library` is the compiled shim, if any; `environment` is added for every command."""
        names = {"OPENBLAS_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
        names |= {} if library is None else {"LD_PRELOAD": str(library)}
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **names, **environment},
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"

    def __call__(
        self,
        *words: str,
        control: Path | None = None,
        folder: Path,
        tight: bool = False,
        environment: dict[str, str] | None = None,
    ) -> Ended:
        """Run `zarrlift WORDS` in a folder, to its end or that of the last process it started.

        With an environment of its own, all that it prints is in `out`.
        """
        assert self._process.stdin
        assert self._process.stdout
        asked = {
            "words": words,
            "control": None if control is None else str(control),
            "folder": str(folder),
            "tight": tight,
            "environment": environment,
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return Ended(words=words, **told)

    def close(self) -> None:
        """End the process that is copied."""
        self._process.communicate()


def _load() -> None:
    import numcodecs
    import zarr

    import zarrlift
    import zarrstack

    del numcodecs, zarr
    for package in (zarrlift, zarrstack):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                with suppress(ImportError):
                    __import__(module.name)
    with suppress(ImportError):
        import obstore  # noqa: F401


def _serve() -> None:
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    _load()
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be copied"
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    out = [os.memfd_create(name) for name in ("out", "err")]
    together = asked["environment"] is not None
    child = os.fork()
    if child == 0:
        _be(asked, out[0], out[0 if together else 1])
    with suppress(OSError):  # the child was faster
        os.setpgid(child, child)
    code = _wait(child)
    texts = []
    for descriptor in out:
        os.lseek(descriptor, 0, os.SEEK_SET)
        with os.fdopen(descriptor, "rb") as file:
            texts.append(file.read().decode(errors="backslashreplace"))
    return {"code": code, "out": texts[0], "err": texts[1]}


def _wait(child: int) -> int | str:
    """The exit code of a group's first process, once none of the group is left."""
    code: int | str = HUNG
    ends = time.monotonic() + _PATIENCE
    pause = 0.001
    while True:
        try:
            ended, status = os.waitpid(-child, os.WNOHANG)
        except ChildProcessError:
            return code
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
        elif not ended:
            if time.monotonic() > ends:
                os.killpg(child, signal.SIGKILL)
                code, ends = HUNG, float("inf")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)


def _be(asked: dict[str, Any], out: int, err: int) -> NoReturn:
    """Become the command."""
    try:
        os.setpgid(0, 0)
        os.chdir(asked["folder"])
        os.environ.update(asked["environment"] or {})
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if asked["tight"]:
            _leave_little_memory()
        if asked["control"] is not None:
            os.environ["ZARRLIFT_CONTROL"] = asked["control"]
            ctypes.CDLL(None).control_begin(asked["control"].encode())
        from zarrlift import cli

        sys.argv = ["zarrlift", *asked["words"]]
        cli.entry()
    except SystemExit as stop:
        os._exit(stop.code if isinstance(stop.code, int) else 1)
    except BaseException:  # noqa: BLE001 - a process of its own must not go on as its parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(70)


def _leave_little_memory() -> None:
    """So little that chunks change their shape in two passes, or in layers; no `--memory` is so small."""
    from zarrlift.planning import planner
    from zarrlift.planning.blocks import BASE, available_cores
    from zarrlift.planning.boxes import Candidates
    from zarrlift.transfer import blocks

    choose = Candidates.choose
    Candidates.choose = lambda self, room, workers, *, whole=False: choose(self, _TIGHT, workers, whole=whole)
    planner.memory_budget = lambda _: BASE + 8 * available_cores() * _TIGHT
    blocks._HELD = 500  # so shards are streams


if __name__ == "__main__":
    _serve()
