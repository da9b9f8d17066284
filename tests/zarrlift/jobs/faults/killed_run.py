"""Run `zarrlift ARGS...` and kill it right before its K-th change to DIRECTORY.

    python killed_run.py K DIRECTORY ARGS...

Python's audit events say when a file is about to be opened for writing, renamed, linked
or removed, so K walks through every moment at which a kill can make a difference, without
a clock. With K = 0 nothing is killed and the number of changes is printed to stderr.

`python killed_run.py K DIRECTORY --forked WHO ARGS...` owns its process as the installed command does,
so that it may fork; each process counts for itself, and WHO (`itself` or `coordinator`) is killed.
With K = 0 it is the number of forks that is printed.
"""

from __future__ import annotations

import os
import sys
import threading

from zarrstack.system.this import system

_WATCHED = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link"}


def main() -> int:
    kill_at, directory, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    from zarrlift.cli import main as zarrlift

    victim, forks = 0, 0
    if arguments[0] == "--forked":
        from zarrlift.jobs import process_tuning

        process_tuning.ours = True
        process_tuning.before_loading()
        victim = os.getpid() if arguments[1] == "coordinator" else 0
        arguments = arguments[2:]
    count = 0
    lock = threading.Lock()

    def watch(event: str, details: tuple[object, ...]) -> None:
        nonlocal count, forks
        forks += event == "os.fork"
        if event == "open":
            writes = isinstance(details[2], int) and details[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not writes:
                return
        elif event not in _WATCHED:
            return
        paths = [
            each for each in details[: 2 if event in ("os.rename", "os.link") else 1] if isinstance(each, str)
        ]
        # A name within an open directory is relative.
        whole = system.long_path(directory)
        if not any(path.startswith((directory, whole)) or not os.path.isabs(path) for path in paths):
            return
        with lock:
            count += 1
            if count == kill_at:
                system.kill(victim or os.getpid())

    sys.addaudithook(watch)
    sys.argv = ["zarrlift", *arguments]
    try:
        code = zarrlift()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    print(forks or count, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
