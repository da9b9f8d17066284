"""The command line: `entry` is the installed command, `main` the same in somebody else's process.

Nothing heavy is imported here. What judges a result is begun first of all, in a process apart, and
loads zarr-python while this one still reads its command line.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from ..jobs.processes import process_tuning


def main(arguments: list[str] | None = None) -> int:
    """Run one command, of `sys.argv` if no words are given, and give its exit code."""
    from .parser import main as run

    return run(arguments)


def _main() -> int:
    process_tuning.ours = True
    process_tuning.before_loading()
    from ..jobs.checks import checks_process

    if checks_process.wanted(sys.argv[1:]):
        checks_process.begin()
    return main()


def entry() -> NoReturn:
    """The installed command; it ends without tearing the interpreter down, which takes a while.

    Everything is written and closed by then; only worker threads of libraries remain.
    """
    try:
        code = _main()
    except KeyboardInterrupt:  # while modules were loaded, before a command had begun
        sys.stderr.write("zarrlift: interrupted. Nothing was changed.\n")
        code = 130  # session.INTERRUPTED, whose module may be half loaded
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # whoever read our output has gone
        from .session import PARTLY

        code = code or PARTLY
    os._exit(code)
