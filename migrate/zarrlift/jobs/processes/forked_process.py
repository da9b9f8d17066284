"""A forked copy of this process, to load zarr-python in parallel and to copy tiny files.

Used only if the command line owns the process, and before other threads start. A fork takes milliseconds, a
new interpreter as long as copying ten thousand files. This module imports little, because every copy
contains it.
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
"""One entry per thread of this process, including threads started by libraries."""


def may_fork() -> bool:
    """Whether the command line owns this process and it has a single thread."""
    # On other systems, a forked process may not use system libraries loaded before the fork.
    if not process.ours or sys.platform != "linux" or threading.active_count() != 1:
        return False
    try:
        return len(os.listdir(_THREADS)) == 1
    except OSError:
        return False


class ForkedProcess:
    """A copy of this process that answers questions and ends with it."""

    _process: int
    _questions: BinaryIO
    _answers: BinaryIO

    def __init__(
        self,
        answer: Callable[[Any], Any],
        *,
        initializer: Callable[[], None] = lambda: None,
        siblings: Sequence[ForkedProcess] = (),
    ) -> None:
        """`initializer` is called first in the copy; `siblings` are the copies made before it.

        Raises OSError if no process or descriptor is available.
        """
        if sys.platform == "win32":  # see `may_fork`
            raise NotImplementedError
        question_in, question_out = os.pipe()
        try:
            answer_in, answer_out = os.pipe()
        except OSError:
            _close(question_in, question_out)
            raise
        # Ctrl-C is blocked: fork hooks of other modules run as well, and an interrupt raised in them would be
        # printed and lost, and in the copy it would run the parent's cleanup.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            self._process = os.fork()
            if self._process == 0:
                # Only this thread continues here. Buffers and files of the parent are not touched, but this
                # copy must not hold the pipe of another copy open.
                try:
                    _close(question_out, answer_in, *(end for process in siblings for end in process.ends()))
                    # Ctrl-C reaches the whole process group, and the parent decides when the work stops.
                    signal.signal(signal.SIGINT, signal.SIG_IGN)
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
                    _serve(answer, initializer, os.fdopen(question_in, "rb"), os.fdopen(answer_out, "wb"))
                finally:
                    os._exit(1)
        except OSError:
            _close(question_in, question_out, answer_in, answer_out)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _close(question_in, answer_out)
        self._questions = os.fdopen(question_out, "wb")
        self._answers = os.fdopen(answer_in, "rb")

    def ends(self) -> tuple[int, int]:
        """The file descriptors of this side."""
        return self._questions.fileno(), self._answers.fileno()

    def __call__(self, question: Any) -> Any:
        """The answer, or the error raised instead; BrokenExecutor if the copy has died."""
        self.ask(question)
        return self.answer()

    def ask(self, question: Any) -> None:
        """Ask without waiting; BrokenExecutor if the copy has died."""
        try:
            pickle.dump(question, self._questions, pickle.HIGHEST_PROTOCOL)
            self._questions.flush()
        except OSError:
            raise _died() from None

    def answer(self) -> Any:
        """The answer to the oldest unanswered question; raises as `__call__` does."""
        try:
            error, result = pickle.load(self._answers)  # noqa: S301 - our own process wrote it
        except (OSError, EOFError, pickle.UnpicklingError):
            raise _died() from None
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the process by closing its input."""
        for pipe in (self._questions, self._answers):
            try:
                pipe.close()
            except OSError:  # already dead
                continue
        try:
            os.waitpid(self._process, 0)
        except ChildProcessError:
            return

    def end(self) -> None:
        """Let the system end the process at once; a call that waits for its answer fails."""
        with suppress(ProcessLookupError):
            if sys.platform != "win32":
                os.kill(self._process, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the process at once."""
        self.end()
        self.close()


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _died() -> BrokenExecutor:
    from concurrent.futures import BrokenExecutor

    return BrokenExecutor("a worker process ended without an answer")


def _serve(
    answer: Callable[[Any], Any], initializer: Callable[[], None], question_in: BinaryIO, answer_out: BinaryIO
) -> None:
    questions: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def listen() -> None:
        """End at once when the parent ends: a process that resumes its job must not meet another writer."""
        try:
            while True:
                questions.put(pickle.load(question_in))  # noqa: S301 - our own process wrote it
        finally:
            os._exit(0)

    threading.Thread(target=listen, name="zarrlift-parent", daemon=True).start()
    initializer()
    while True:
        question = questions.get()
        try:
            result: tuple[Exception | None, Any] = (None, answer(question))
        except Exception as error:  # noqa: BLE001 - the parent judges it
            result = (error, None)
        pickle.dump(result, answer_out, pickle.HIGHEST_PROTOCOL)
        answer_out.flush()
