"""Processes on this machine that answer calls: new ones (`spawn`), or copies of this one (`fork`).

A new process starts for its first call, and again after its death: one that dies loses only its own call. A
copy is made in milliseconds, as a process with a single thread may do (`process_tuning.may_fork`); a new
interpreter takes as long as copying ten thousand tiny files. Without copies, 21,952 chunks of 3.3 KB take 1.4
times as long (docs/design/0024). Both end with this process, even if it is killed.

Python's own `ProcessPoolExecutor` fails as a whole if a process dies, without saying which call was the
cause, and in Python 3.11 it may leave calls unanswered: its thread reads what `submit` changes.
`multiprocessing` is imported for new processes only: loading it takes longer than making a copy.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, BinaryIO, Final, Literal, TypeAlias

from zarrstack.system.this import system

from ...errors import WorkerError

Start: TypeAlias = Literal["fork", "spawn"]
Function: TypeAlias = Callable[..., Any]

FEWER: Final = "Raise the limit of open files (ulimit -n) or use fewer workers (-j), then resume."
_FILES: Final = 48
"""Open files of a process that runs tasks: the job file, directories, libraries, pipes."""
_FILES_OF_WORKER: Final = 3
"""Open files by which the coordinator holds each of its workers."""
_LENGTH: Final = 8
"""Bytes of the length before each message to or from a copy."""
_END: Final = b""
"""The message that asks a new process to end in order: layers in it may hold what they have to write."""
_starting: Final = threading.Lock()
"""Held while a process starts, so that no other one inherits this side of its pipe."""


class ProcessPool(Executor):
    """Runs calls in other processes, each of which is asked by a thread of this one."""

    def __init__(
        self,
        workers: int,
        *,
        start: Start,
        function: Function | None = None,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        """`function` and `initializer` are for copies, as for `WorkerProcess`.

        A pool of copies has fewer if the system provides no more; OSError if it provides none.
        """
        self._idle: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        self._processes: list[WorkerProcess] = []
        for _ in range(workers):
            try:
                process = WorkerProcess(
                    function, start=start, initializer=initializer, siblings=self._processes
                )
            except OSError:
                if not self._processes:
                    raise
                break
            self._processes.append(process)
            self._idle.put(process)
        self._inherited = function
        self._given_up = False
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="zarrlift-asks")

    def submit(self, fn: Function, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call; BrokenExecutor is its result if the process dies. Copies call their own function."""
        return self._threads.submit(self._ask, None if self._inherited else fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for running calls and end the processes."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        for process in self._processes:
            process.close()

    def give_up(self) -> None:
        """End the processes, whatever they do; no other call begins."""
        self._given_up = True
        for process in self._processes:
            process.terminate()

    def _ask(self, function: Function | None, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        process = self._idle.get()
        try:
            if self._given_up:
                raise BrokenExecutor("the worker processes were ended")
            process.ask(function, *arguments, **named)
            return process.answer()
        finally:
            self._idle.put(process)


class WorkerProcess:
    """A process that answers calls in their order and ends with this one."""

    def __init__(
        self,
        function: Function | None = None,
        *,
        start: Start,
        initializer: Callable[[], None] | None = None,
        siblings: Sequence[WorkerProcess] = (),
    ) -> None:
        """A copy is made at once, a new process for its first call.

        A copy calls `initializer` first and inherits `function`, which need not be picklable; `siblings` are
        the copies made before it. OSError if the system provides no process or descriptor for it.
        """
        self._start = start
        self._process: Any = None
        """A `Process` of multiprocessing or a `_Copy`; None before its start and after its end."""
        self._pipe: Any = None
        """Its `Connection` or `_Pipe`."""
        if start == "fork":
            pipes = [process._pipe for process in siblings if process._process is not None]  # noqa: SLF001
            self._process, self._pipe = _fork(function, initializer, pipes)

    def ask(self, function: Function | None, /, *arguments: Any, **named: Any) -> None:
        """Begin a call without waiting, by default of the function of a copy.

        BrokenExecutor if the process has died; WorkerError if a new one cannot be started.
        """
        if self._process is None:
            if self._start == "fork":  # by now, this process may have other threads
                raise _died()
            self._process, self._pipe = _spawn()
        message = pickle.dumps((function, arguments, named), pickle.HIGHEST_PROTOCOL)
        try:
            self._pipe.send_bytes(message)
        except OSError as error:
            self.close()
            raise _died() from error

    def answer(self) -> Any:
        """What the oldest unanswered call returns, or raises; BrokenExecutor if the process has died."""
        if self._process is None:
            raise _died()
        try:
            error, result = pickle.loads(self._pipe.recv_bytes())  # noqa: S301 - our own process wrote it
        except (EOFError, OSError) as broken:
            self.close()
            raise _died() from broken
        if error is not None:
            raise error
        return result

    def terminate(self) -> None:
        """End the process at once: a copy as it is, a new process after its call has given up."""
        with suppress(AttributeError, ValueError, ProcessLookupError):  # it has not started, or has ended
            self._process.terminate()

    def close(self) -> None:
        """End the process and wait for its end: a new process in order, a copy at once."""
        if self._process is None:
            return
        with suppress(OSError):  # it has ended already
            if self._start == "spawn":
                self._pipe.send_bytes(_END)
        with suppress(OSError):
            self._pipe.close()
        self._process.join()
        self._process.close()
        self._process = None


class _Copy:
    """A copy of this process, with those methods of multiprocessing's `Process` that are used here."""

    def __init__(self, number: int) -> None:
        self._number = number

    def terminate(self) -> None:
        system.kill(self._number)

    def join(self) -> None:
        with suppress(ChildProcessError):
            os.waitpid(self._number, 0)

    def close(self) -> None:
        """Do nothing: `join` has released it."""


class _Pipe:
    """Two pipes, with those methods of multiprocessing's `Connection` that are used here."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming: BinaryIO = os.fdopen(incoming, "rb")
        self._outgoing: BinaryIO = os.fdopen(outgoing, "wb")

    def descriptors(self) -> tuple[int, int]:
        return self._incoming.fileno(), self._outgoing.fileno()

    def send_bytes(self, message: bytes) -> None:
        self._outgoing.write(len(message).to_bytes(_LENGTH, "little") + message)
        self._outgoing.flush()

    def recv_bytes(self) -> bytes:
        length = int.from_bytes(self._incoming.read(_LENGTH), "little")
        message = self._incoming.read(length)
        if not message or len(message) < length:
            raise EOFError
        return message

    def close(self) -> None:
        self._incoming.close()
        self._outgoing.close()


def _fork(
    function: Function | None, initializer: Callable[[], None] | None, siblings: Sequence[_Pipe]
) -> tuple[_Copy, _Pipe]:
    call_in, call_out = os.pipe()
    try:
        answer_in, answer_out = os.pipe()
    except OSError:
        _close(call_in, call_out)
        raise
    # Ctrl-C is blocked: fork hooks of other modules run as well, and an interrupt raised in them would be
    # printed and lost, and in the copy it would run the parent's cleanup.
    unblock = system.block(signal.SIGINT, signal.SIGTERM)
    try:
        number = system.fork()
        if number == 0:
            # Only this thread continues here. Buffers and files of the parent are not touched, but this copy
            # must not hold the pipe of another copy open.
            try:
                _close(call_out, answer_in, *(end for pipe in siblings for end in pipe.descriptors()))
                # Ctrl-C reaches the whole process group, and the parent decides when the work stops.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                unblock()
                _serve(_Pipe(call_in, answer_out), function, initializer)
            finally:
                os._exit(1)
    except OSError:
        _close(call_in, call_out, answer_in, answer_out)
        raise
    finally:
        unblock()
    _close(call_in, answer_out)
    return _Copy(number), _Pipe(answer_in, call_out)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _spawn() -> tuple[Any, Any]:
    from multiprocessing import get_context

    context = get_context("spawn")
    with _starting:
        try:
            pipe, theirs = context.Pipe()
            with theirs, system.workers_without_interrupts():
                process = context.Process(target=_serve, args=(theirs,), name="zarrlift-worker")
                process.start()
            system.end_with_this_process(process.pid or 0)
        except OSError as error:
            raise WorkerError(
                "a worker process cannot be started", found=error.strerror or str(error), advice=FEWER
            ) from error
    return process, pipe


def _died() -> BrokenExecutor:
    return BrokenExecutor("a worker process ended without an answer")


def refuse_few_files(workers: int) -> None:
    """Raise WorkerError if the system lets this process, or its copies, open too few files."""
    limit = system.limit("RLIMIT_NOFILE")
    needed = _FILES + _FILES_OF_WORKER * workers
    if limit is not None and limit < needed:
        raise WorkerError(
            f"{workers} worker processes need more open files than the system allows",
            found=f"{limit} (ulimit -n)",
            expected=f"at least {needed}",
            advice=FEWER,
        )


def _serve(
    pipe: Any, inherited: Function | None = None, initializer: Callable[[], None] | None = None
) -> None:
    """Answer calls until the process is ended; SIGTERM ends a new one, after its call has given up."""
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen() -> None:
        """End at once when the parent ends: a process that resumes its job must not meet another writer.

        Partial files are in the job's own directory.
        """
        try:
            while message := pipe.recv_bytes():
                messages.put(message)
        except BaseException:  # noqa: BLE001 - the pipe is closed
            os._exit(0)
        messages.put(_END)

    threading.Thread(target=listen, name="zarrlift-parent", daemon=True).start()
    calling = False

    def end(*_: object) -> None:
        if calling:
            raise KeyboardInterrupt
        os._exit(1)

    if inherited is None:  # a copy is killed instead
        signal.signal(signal.SIGTERM, end)
    if initializer is not None:
        initializer()
    try:
        while (message := messages.get()) != _END:
            function, arguments, named = pickle.loads(message)  # noqa: S301 - our own process wrote it
            called: Any = function or inherited
            calling = True
            try:
                answer: tuple[Exception | None, Any] = (None, called(*arguments, **named))
            except Exception as error:  # noqa: BLE001 - the coordinator decides what follows
                answer = (error, None)
            calling = False
            pipe.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))
    except (KeyboardInterrupt, OSError):  # nobody takes the answer: this process must print no traceback
        os._exit(1)
