"""The command line: `entry` is the installed command, `main` runs one in another program's process.

Nothing heavy is imported here. The process that verifies a result is started first, and loads zarr-python
while this one parses the command line.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from ..jobs.processes import process_tuning


def main(arguments: list[str] | None = None) -> int:
    """Run one command, from `sys.argv` by default, and return its exit code."""
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
    """Run the installed command; ends the process without the slow shutdown of the interpreter.

    Everything is written and closed by then; only worker threads of libraries remain.
    """
    try:
        code = _main()
    except KeyboardInterrupt:  # while modules were loaded, before a command started
        sys.stderr.write("zarrlift: interrupted. Nothing was changed.\n")
        code = 130  # session.INTERRUPTED, whose module may be partially loaded
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # the reader of our output has closed it
        from .session import PARTLY

        code = code or PARTLY
    stored = sys.modules.get("zarrlift.jobs.ledger.stored_file")
    if stored is not None:
        stored.remove_copies()
    os._exit(code)
