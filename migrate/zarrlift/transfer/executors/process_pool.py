"""Processes on this machine; one that dies loses only its own call, and is started again.

Python's own `ProcessPoolExecutor` fails as a whole then, without saying which call was the cause, and in
Python 3.11 it may leave calls unanswered: its thread reads what `submit` changes.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import parent_process
from typing import Any, Final

from ...errors import WorkerError
from .engine import Engine

FEWER: Final = "Raise the limit of open files (ulimit -n) or use fewer workers (-j), then resume."
_FILES: Final = 48
"""Open files of a process that runs tasks: the job file, directories, libraries, pipes."""
_FILES_OF_WORKER: Final = 3
"""Open files by which the coordinator holds each of its workers."""


class ProcessEngine(Engine):
    """A pool of new processes, which end with this one."""

    loses_single_calls = True

    def __init__(self, workers: int) -> None:
        self._pool = ProcessPool(workers)
        super().__init__(self._pool, workers=workers)

    def give_up(self, tell: Callable[..., Any], *arguments: Any) -> None:
        """End the processes."""
        self._pool.give_up()

    def close(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)


class ProcessPool(Executor):
    """Runs calls in new processes, each of which is asked by a thread of this one."""

    def __init__(self, workers: int) -> None:
        """Start no process yet; WorkerError if the system does not let them open enough files."""
        _refuse_few_files(workers)
        self._idle: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        self._processes = [_Process() for _ in range(workers)]
        for process in self._processes:
            self._idle.put(process)
        self._given_up = False
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="zarrlift-asks")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call; BrokenExecutor is its result if the process dies."""
        return self._threads.submit(self._ask, (fn, args, kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for running calls and end the processes."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return

    def give_up(self) -> None:
        """End the processes: calls that run give up what they do, and no other call begins."""
        self._given_up = True
        for process in self._processes:
            process.give_up()

    def _ask(self, question: Any) -> Any:
        process = self._idle.get()
        try:
            if self._given_up:
                raise BrokenExecutor("the worker processes were ended")
            return process.ask(question)
        finally:
            self._idle.put(process)


class _Process:
    """A process that is started for its first call, and again after its death."""

    _starting = threading.Lock()

    def __init__(self) -> None:
        self._process: Any = None
        self._pipe: Any = None

    def ask(self, question: Any) -> Any:
        """What a call returns, or raises; BrokenExecutor if the process dies, WorkerError if none starts."""
        if self._process is None:
            self._start()
        try:
            self._pipe.send(question)
            error, result = self._pipe.recv()
        except (EOFError, OSError) as broken:
            self.close()
            raise BrokenExecutor("a worker process ended without an answer") from broken
        if error is not None:
            raise error
        return result

    def give_up(self) -> None:
        """End the process, which may be in a call."""
        with suppress(AttributeError, ValueError):  # it was not started, or has ended
            self._process.terminate()

    def close(self) -> None:
        """End the process by closing its input."""
        if self._process is None:
            return
        self._pipe.close()
        self._process.join()
        self._process.close()
        self._process = None

    def _start(self) -> None:
        context = get_context("spawn")
        with self._starting:  # so that no other process inherits this one's end of the pipe
            try:
                if sys.platform != "win32":  # inherited: Ctrl-C is for the coordinator, which ends the others
                    resource_tracker.ensure_running()  # which would unblock it
                    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                pipe, theirs = context.Pipe()
                with theirs:
                    process = context.Process(target=_serve, args=(theirs,), name="zarrlift-worker")
                    process.start()
            except OSError as error:
                raise WorkerError(
                    "a worker process cannot be started",
                    found=error.strerror or str(error),
                    advice=FEWER,
                ) from error
            self._process, self._pipe = process, pipe


def _refuse_few_files(workers: int) -> None:
    """Raise WorkerError if the system lets this process, or its copies, open too few files."""
    if sys.platform == "win32":
        return
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _FILES + _FILES_OF_WORKER * workers
    if limit not in (resource.RLIM_INFINITY, -1) and limit < needed:
        raise WorkerError(
            f"{workers} worker processes need more open files than the system allows",
            found=f"{limit} (ulimit -n)",
            expected=f"at least {needed}",
            advice=FEWER,
        )


def _serve(pipe: Connection) -> None:
    """Answer calls until the pipe is closed; SIGTERM ends the process, after a call has given up."""
    _end_with_coordinator()
    try:
        while True:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            function, arguments, named = pipe.recv()
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            try:
                answer: tuple[Exception | None, Any] = (None, function(*arguments, **named))
            except Exception as error:  # noqa: BLE001 - the coordinator judges it
                answer = (error, None)
            pipe.send(answer)
    except (EOFError, OSError):
        return
    except KeyboardInterrupt:
        os._exit(1)


def _end_with_coordinator() -> None:
    """Watch the process that started this one, and end at once if it ends.

    The workers of a killed coordinator would otherwise continue to write while the job is resumed. Their
    partial files are in the job's own directory.
    """
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="zarrlift-parent", daemon=True).start()
