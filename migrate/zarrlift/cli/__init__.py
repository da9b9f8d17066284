"""The command line: `entry` is the installed command, `main` the same in somebody else's process.

Nothing heavy is imported here. What judges a result is begun first of all, in a process apart, and
loads zarr-python while this one still reads its command line.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from .. import process


def main(arguments: list[str] | None = None) -> int:
    """Run one command, of `sys.argv` if no words are given, and give its exit code."""
    from .commands import main as run

    return run(arguments)


def _main() -> int:
    process.ours = True
    process.before_loading()
    from ..verifying import ahead

    if ahead.wanted(sys.argv[1:]):
        ahead.begin()
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
