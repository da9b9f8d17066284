"""A command while it runs, and its end: its report or error, as text or JSON, and its exit code."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zarrstack.system.this import system

from .exit_codes import DONE, INTERRUPTED, PARTLY, USAGE
from .names import DEBUG

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem
    from zarrstack.core.json_text import JSON, JSONObject

    from ..report.blocks import Block

PRINTING: Final = frozenset({"batch list", "inspect", "status", "completion", "model show", "model schema"})
"""Commands whose output is their work; the exit code of the others tells of what they did."""

_STOPPING: Final = b"zarrlift: Stopping: unfinished objects are given up. Ctrl-C again ends at once.\n"
_PIECES: Final = 10_000
"""Pieces of a JSON document that are written together."""


class OutputError(OSError):
    """Standard output is closed or cannot be written."""


class Answer(NamedTuple):
    """The result of a command: its exit code and its two forms, each created only if it is shown."""

    code: int
    text: Callable[[], Iterable[Block]]
    data: Callable[[], JSON]
    problems: Callable[[], Iterable[Block]] | None = None
    """Failures and refusals for standard error; None if the text contains them."""
    brief: Callable[[], Iterable[str]] = tuple
    """The same in short lines, for standard error beside JSON."""
    wrong: Callable[[], Iterable[Block]] | None = None
    """Output on standard error that replaces both with --quiet; None keeps them."""

    @classmethod
    def of(cls, result: Any, code: int, *, data: Callable[[], JSON] | None = None) -> Answer:
        """The result of a public function."""
        from ..report.blocks import blocks_of, brief_lines_of

        text, brief = partial(blocks_of, result), partial(brief_lines_of, result)
        return cls(code=code, text=text, data=data or result.to_json, brief=brief)


def plain(lines: Iterable[str]) -> Iterator[Block]:
    """A text whose lines are printed as they are."""
    from ..report.blocks import Lines

    yield Lines(tuple(lines), indent=0)


class Session:
    """One run of one command."""

    def __init__(
        self, command: str, *, json: bool = False, quiet: bool = False, everything: bool = False
    ) -> None:
        self.command = command
        self.json = json
        self.quiet = quiet
        self.everything = everything
        self.previews = False
        """Whether the command only shows what it would do (`--dry-run`)."""
        self.interrupted = False
        self.how_to_continue: Callable[[tuple[str, ...] | None], str] | None = None
        """Advice in one line after an interruption, given the job's path and options if known."""

    def run(self, work: Callable[[], Answer]) -> int:
        """Do the work, print its answer, and return the exit code. Raises only SystemExit."""
        try:
            with self._signals():
                answer = work()
        except KeyboardInterrupt as error:
            job = getattr(error, "job", None)
            return self._stopped(None if job is None else (job, *getattr(error, "options", ())))
        except Exception as error:  # noqa: BLE001 - the last place where an error can become one line
            if self.interrupted and isinstance(error, ImportError):  # which numpy makes of it while it loads
                return self._stopped(None)
            return self.failed(error)
        code = INTERRUPTED if self.interrupted else answer.code
        try:
            self._show(answer, code)
        except OutputError as error:
            return self._unprintable(error, code)
        return code

    def _show(self, answer: Answer, code: int) -> None:
        if self.json:
            for line in answer.brief():
                say(f"zarrlift: {line}")
            self._document(code, {"result": answer.data()})
        elif self.quiet and answer.wrong is not None:
            if code != DONE:
                self._print(answer.wrong, sys.stderr)
        else:
            # Problems first: on a terminal, which shows both, the report comes last.
            if answer.problems is not None:
                self._print(answer.problems, sys.stderr)
            self._print(answer.text, sys.stdout)

    def _unprintable(self, error: OutputError, code: int) -> int:
        say(f"zarrlift: {'the output' if self._prints else 'the report'} {unprinted(error)}")
        return code or PARTLY if self._prints else code

    @property
    def _prints(self) -> bool:
        return self.json or self.previews or self.command in PRINTING

    def _stopped(self, job: tuple[str, ...] | None) -> int:
        self.interrupted = True
        advice = "Nothing was changed."
        if self.how_to_continue is not None:
            # A second Ctrl-C during the search for advice must not end in a traceback; nor must errors of
            # numpy, if it is loaded again after the first one interrupted its import.
            with suppress(KeyboardInterrupt, Exception):
                advice = self.how_to_continue(job)
        if self.json:
            error = {"kind": "interrupted", "severity": "refusal", "message": "interrupted", "advice": advice}
            with suppress(OutputError):
                self._document(INTERRUPTED, {"error": error})
        say(f"zarrlift: interrupted. {advice}")
        return INTERRUPTED

    def failed(self, error: Exception) -> int:
        """Print an error, and return the exit code."""
        from dataclasses import replace

        from ..core.problems import JoinedProblems
        from ..storage.redact import redact_foreign

        if isinstance(error, OutputError):
            return self._unprintable(error, PARTLY)
        if os.environ.get(DEBUG):
            import traceback

            write(redact_foreign("".join(traceback.format_exception(error))), sys.stderr)
        problem = problem_of(error)
        code = USAGE if problem.kind == "usage" else PARTLY
        from ..core.units import safe

        if self.json:
            with suppress(OutputError):
                self._document(code, {"error": problem.to_json()})
        if isinstance(problem.message, JoinedProblems):  # JSON has all of them
            problem = replace(problem, message=problem.message.brief)
        say(f"zarrlift: {safe(str(problem))}")  # one unbroken, searchable line
        return code

    def _document(self, code: int, content: JSONObject) -> None:
        write_json(self.command, code, content)

    def _print(self, blocks: Callable[[], Iterable[Block]], stream: Any) -> None:
        from ..report.text import Page, lines

        page = Page.of(stream, everything=self.everything)
        text = "".join(line + "\n" for line in lines(blocks(), page))
        if text:
            write(text, stream)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Raise KeyboardInterrupt on the first Ctrl-C or SIGTERM; a second one ends the process at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(_number: int, _frame: FrameType | None) -> None:
            if self.interrupted:
                os._exit(INTERRUPTED)
            self.interrupted = True
            _announce_stop()
            stack.enter_context(_ending_at_a_signal())
            raise KeyboardInterrupt

        # A signal ignored from the start remains ignored: shells set this for `command &`.
        wanted = [number for number in system.stops if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, stop) for number in wanted}
        with ExitStack() as stack:
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)


def _announce_stop() -> None:
    """Say that the command ends, from a handler of signals: no other thread or buffer is needed for it."""
    with suppress(OSError):
        below_a_bar = b"\n" if os.isatty(2) else b""
        os.write(2, below_a_bar + _STOPPING)


@contextmanager
def _ending_at_a_signal() -> Iterator[None]:
    """End the process at the next signal, although this thread may be busy in a library for long."""
    if (pipe := system.pipe_for_signals()) is None:
        yield
        return
    reading, writing = pipe
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def wait() -> None:
        while number := os.read(reading, 1):
            if number[0] in system.stops:
                os._exit(INTERRUPTED)
        os.close(reading)

    threading.Thread(target=wait, name="zarrlift-signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)


def write_json(command: str | None, code: int, content: JSONObject) -> None:
    """Print the single document of a command with `--json`, for programs; names of members are stable.

    `{"zarrlift": version, "command", "exit_code", "result" | "error"}`: `result` is what the Python function
    of the same name returns, `error` is one problem.
    """
    from zarrstack.version import __version__

    from ..core.json_document import finite

    head = {"zarrlift": __version__, "command": command, "exit_code": code}
    # Bare NaN, which attributes may contain, is invalid JSON and would fail in other programs.
    pieces = json.JSONEncoder(indent=2, default=str).iterencode(finite({**head, **content}))
    while text := "".join(islice(pieces, _PIECES)):  # the status of 100,000 arrays is 26 MB
        write(text, sys.stdout)
    write("\n", sys.stdout)


def problem_of(error: Exception) -> Problem:
    """Any error as a problem; of one that is not zarrlift's, without secrets."""
    from zarrstack.core.errors import Problem, ZarrstackError

    from ..storage.redact import redact_foreign
    from ..transfer.unexpected_errors import broken_package

    if isinstance(error, ZarrstackError):
        return error.problem
    if isinstance(error, OSError):
        return Problem(
            kind="storage",
            message="reading or writing failed",
            key=None if error.filename is None else os.fsdecode(error.filename),
            found=error.strerror or str(error),
            advice="Fix the cause, then run the command again.",
        )
    if isinstance(error, MemoryError):
        return Problem(kind="memory", message="there is not enough memory")
    if (broken := broken_package(error)) is not None:
        return broken
    text = " ".join(redact_foreign(f"{type(error).__name__}: {error}").split())
    advice = f"This is a bug in zarrlift; {DEBUG}=1 shows the traceback to report."
    return Problem(kind="internal", message=f"unexpected {text}", advice=advice)


def say(text: str) -> None:
    """Print one line to standard error."""
    write(text + "\n", sys.stderr)


def unprinted(error: OSError) -> str:
    """What happened to output that cannot be written, as the end of a sentence."""
    return f"cannot be printed: standard output: {error.strerror or error}."


def write(text: str, stream: Any) -> None:
    """Write and flush; a closed reader (`| head`) is not an error.

    Raises OutputError if standard output cannot be written. Standard error is the last resort: what cannot be
    written there is dropped.
    """
    try:
        if stream is None or stream.closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))  # noqa: TRY301 - as for a closed descriptor
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # The interpreter flushes again at exit; discard that output.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        if stream is not sys.stderr:
            raise OutputError(error.errno, error.strerror or str(error)) from error
