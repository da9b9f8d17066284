"""The command line: `entry` is the installed command, `main` runs one in another program's process.

Nothing heavy is imported here. The process that verifies a result is started first, and loads zarr-python
while this one parses the command line.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

from zarrstack.version import __version__

from ..jobs import process_tuning
from .exit_codes import DONE, INTERRUPTED, PARTLY
from .names import HELP
from .session import say, unprinted, write

_CHECK: Final = frozenset({"migrate", "resume", "run"})
"""Commands that check what they write."""
_WITHOUT: Final = frozenset({"-h", "--help", "none", "--verify=none", "-n", "--dry-run"})
"""Arguments with which they check nothing."""
_interrupts: Final[list[int]] = []
"""The signals of Ctrl-C before a command started."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command, from `sys.argv` by default, and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names of nodes may contain any character
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments is None and (line := os.environ.get("_ZARRLIFT_COMPLETE")):
            from .suggestions import candidates

            write("".join(f"{word}\n" for word in candidates(line)), sys.stdout)
        elif words in ([], ["--help"], ["-h"]):  # these need no table of options
            write(HELP, sys.stdout)
        elif words in (["--version"], ["-V"]):
            write(f"zarrlift {__version__}\n", sys.stdout)
        else:
            from .parser import run

            return run(words)
    except OSError as error:  # of help, version and completion; commands end with an exit code
        say(f"zarrlift: the output {unprinted(error)}")
        return PARTLY
    except KeyboardInterrupt:
        say("zarrlift: interrupted. Nothing was changed.")
        return INTERRUPTED
    return DONE


def _main() -> int:
    process_tuning.ours = True
    process_tuning.before_loading()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    if _will_check(sys.argv[1:]):
        _begin_checks()
        if _interrupts:  # numpy turns it into an ImportError, and cannot be imported again
            raise KeyboardInterrupt
    return main()


def _will_check(words: Sequence[str]) -> bool:
    """Whether a command line will probably write and check files.

    A wrong guess is cheap: a process that is not needed is stopped, as in a batch of several archives.
    """
    named = words[1:] if words[:1] == ["batch"] else words
    return bool(named) and named[0] in _CHECK and not any(word in _WITHOUT or "://" in word for word in words)


def _begin_checks() -> None:
    """Fork the process that verifies the result, and load what both processes need before that."""
    try:
        from ..jobs.checks import begin_process
    except Exception:  # noqa: BLE001 - a broken package is named by the command that needs it
        return
    begin_process()


def _interrupt(number: int, _frame: Any) -> NoReturn:
    _interrupts.append(number)
    raise KeyboardInterrupt


def _fill_closed_streams() -> None:
    """Give closed standard streams (`>&-`) a descriptor that cannot be written.

    Otherwise the next file that is opened, which may be one of the result, would be the standard output of
    libraries and of processes that are started.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDONLY)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - until the end


def entry() -> NoReturn:
    """Run the installed command; ends the process without the slow shutdown of the interpreter.

    Everything is written and closed by then; only worker threads of libraries remain.
    """
    _fill_closed_streams()
    try:
        code = _main()
    except KeyboardInterrupt:  # while modules were loaded, before a command started
        with suppress(OSError):
            sys.stderr.write("zarrlift: interrupted. Nothing was changed.\n")
        code = INTERRUPTED
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # what a command could not print has its exit code already
            stream.flush()
    if "mpi4py" in sys.modules:
        sys.exit(code)  # mpi4py ends the workers of MPI when the interpreter shuts down
    os._exit(code)
