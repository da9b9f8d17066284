"""Workers that read a dataset as those of a DataLoader do: each receives it once, and then numbers."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import Any


def serve(dataset: Any, parent: Connection) -> None:
    """Answer numbers with samples, until the parent is gone."""
    signal.alarm(300)  # a worker that hangs ends, and its loader with it
    try:
        while True:
            parent.send(dataset[parent.recv()])
    except EOFError:
        return


class Worker:
    """A process with a dataset, and the sample that it was asked for."""

    def __init__(self, context: Any, dataset: Any) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(dataset, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.number: int | None = None

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        assert self.process.exitcode == -signal.SIGKILL
        self.pipe.close()


class Loader:
    """Some workers; one that is killed is replaced, and its sample asked for again."""

    def __init__(self, context: BaseContext, dataset: Any, count: int) -> None:
        self.context, self.dataset, self.asked = context, dataset, 0
        self.workers = [Worker(context, dataset) for _ in range(count)]

    def epoch(self, order: Sequence[int], kills: Collection[int] = ()) -> Iterator[tuple[int, Any]]:
        """Number and sample, in the order of arrival; kill a worker that has one of these requests."""
        todo = deque(order)
        while todo or any(worker.number is not None for worker in self.workers):
            for place, worker in enumerate(self.workers):
                if worker.number is None and todo:
                    worker.number = todo.popleft()
                    worker.pipe.send(worker.number)
                    self.asked += 1
                    if self.asked in kills:
                        todo.append(worker.number)
                        worker.kill()
                        self.workers[place] = Worker(self.context, self.dataset)
            pipes = {worker.pipe: worker for worker in self.workers if worker.number is not None}
            for pipe in wait(list(pipes)):
                worker = pipes[pipe]
                number, worker.number = worker.number, None
                yield number, pipe.recv()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all workers wherever they are."""
        processes = [worker.process.pid for worker in self.workers]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
            assert os.WIFSTOPPED(os.waitpid(process, os.WUNTRACED)[1])
        yield
        for process in processes:
            os.kill(process, signal.SIGCONT)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
