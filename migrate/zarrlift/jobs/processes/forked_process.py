"""A copy of this process, made by `fork`: to load zarr-python beside the work, and to copy tiny files.

Only where the command line owns the process, and before any thread runs in it. A fork takes
milliseconds where a new interpreter takes as long as copying ten thousand files. Little is imported
here, since every copy has it.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from . import process_tuning as process

if TYPE_CHECKING:
    from concurrent.futures import BrokenExecutor

_THREADS: Final = "/proc/self/task"
"""One entry per thread of this process, whoever made it."""


def may_fork() -> bool:
    """Whether this process is ours and has one thread."""
    # Elsewhere a forked process may not use what the system loaded before.
    if not process.ours or sys.platform != "linux" or threading.active_count() != 1:
        return False
    try:
        return len(os.listdir(_THREADS)) == 1
    except OSError:
        return False


class Twin:
    """A process that is a copy of this one and answers questions; it ends when this one does."""

    def __init__(
        self,
        answer: Callable[[Any], Any],
        *,
        first: Callable[[], None] = lambda: None,
        beside: Sequence[Twin] = (),
    ) -> None:
        """`first` is called in the copy before all else; `beside` are the twins made before it.

        OSError where the system gives no process or no descriptors: somebody else has them, or a limit.
        """
        asked, asking = os.pipe()
        try:
            answered, answering = os.pipe()
        except OSError:
            _close(asked, asking)
            raise
        before = _hold_signals()
        try:
            self._process = _fork()
            if self._process == 0:
                # Only this thread lives on here. Nothing of the parent's is flushed or closed; but another
                # copy's pipe must not stay open because this one has its end too.
                try:
                    _close(asking, answered, *(end for twin in beside for end in twin.ends()))
                    _leave_signals(before)
                    _serve(answer, first, os.fdopen(asked, "rb"), os.fdopen(answering, "wb"))
                finally:
                    os._exit(1)
        except OSError:
            _close(asked, asking, answered, answering)
            raise
        finally:
            _release_signals(before)
        _close(asked, answering)
        self._asking = os.fdopen(asking, "wb")
        self._answered = os.fdopen(answered, "rb")

    def ends(self) -> tuple[int, int]:
        """The descriptors of this side."""
        return self._asking.fileno(), self._answered.fileno()

    def __call__(self, question: Any) -> Any:
        """The answer, or the error that came instead; BrokenExecutor if the copy has died."""
        self.ask(question)
        return self.answer()

    def ask(self, question: Any) -> None:
        """Ask without waiting; BrokenExecutor."""
        try:
            pickle.dump(question, self._asking, pickle.HIGHEST_PROTOCOL)
            self._asking.flush()
        except OSError:
            raise _died() from None

    def answer(self) -> Any:
        """The answer to the first question that has had none; raises as a call does."""
        try:
            error, result = pickle.load(self._answered)  # noqa: S301 - our own process wrote it
        except (OSError, EOFError, pickle.UnpicklingError):
            raise _died() from None
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """The end of its input ends the process."""
        for pipe in (self._asking, self._answered):
            try:
                pipe.close()
            except OSError:  # it died before it was told to
                continue
        try:
            os.waitpid(self._process, 0)
        except ChildProcessError:
            return

    def kill(self) -> None:
        """End the process whatever it does."""
        with suppress(ProcessLookupError):
            _end(self._process)
        self.close()


def _hold_signals() -> set[Any]:
    """Let Ctrl-C wait, and give what waited before.

    What other modules do around a fork runs between two signals as well; raised in there, an interrupt
    is printed and forgotten, and raised in the copy, it would end what the parent is.
    """
    if sys.platform == "win32":  # see `may_fork`
        return set()
    return signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))


def _release_signals(before: set[Any]) -> None:
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave_signals(before: set[Any]) -> None:
    """In the copy: Ctrl-C reaches the whole group, and the parent decides when the work ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _release_signals(before)


def _fork() -> int:
    if sys.platform == "win32":  # see `may_fork`
        raise NotImplementedError
    return os.fork()


def _end(process: int) -> None:
    if sys.platform != "win32":
        os.kill(process, signal.SIGKILL)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _died() -> BrokenExecutor:
    from concurrent.futures import BrokenExecutor

    return BrokenExecutor("a worker process ended without an answer")


def _serve(
    answer: Callable[[Any], Any], first: Callable[[], None], asked: BinaryIO, answering: BinaryIO
) -> None:
    questions: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def listen() -> None:
        """End with the parent, at once: whoever resumes its job must not find anyone writing beside."""
        try:
            while True:
                questions.put(pickle.load(asked))  # noqa: S301 - our own process wrote it
        finally:
            os._exit(0)

    threading.Thread(target=listen, name="zarrlift-parent", daemon=True).start()
    first()
    while True:
        question = questions.get()
        try:
            told: tuple[Exception | None, Any] = (None, answer(question))
        except Exception as error:  # noqa: BLE001 - the parent judges it
            told = (error, None)
        pickle.dump(told, answering, pickle.HIGHEST_PROTOCOL)
        answering.flush()
