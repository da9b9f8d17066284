"""Executors with what is known of them: where their workers are, and how many there are now.

An engine is selected by name or for an object of Python. Facts about Dask:
https://distributed.dask.org/en/stable/api.html (`Client`, `Client.get_executor`) and
https://distributed.dask.org/en/stable/resilience.html: a task of a lost worker runs again on another one, and
fails with `KilledWorker` after `distributed.scheduler.allowed-failures` workers have died with it.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, Final, TypeAlias

from zarrstack.core.errors import UsageError
from zarrstack.core.similar_names import did_you_mean

from ...errors import WorkerError
from ...recipe.options import ExecutorChoice

Slots: TypeAlias = Callable[[], int]
"""The number of calls that an executor can run at once, now."""

WAITING: Final = 3
"""Calls submitted per slot, so that a slot that becomes free has its next call at hand."""
_AT_LEAST: Final = 256
"""Calls submitted to workers elsewhere, however few there are: an unknown executor may have many slots, and a
cluster that grows with its queue needs one.
"""
_INSTALL: Final[Mapping[str, tuple[str, str] | None]] = {
    "threads": None,
    "processes": None,
    "dask": ("distributed", "zarrlift[dask]"),
    "mpi": ("mpi4py", "mpi4py"),
}
"""Name of an executor -> the package that it needs, and what to install for it."""
_MPI: Final = "mpi4py.futures"
"""The module that starts a program with workers of MPI."""
_ASK_AGAIN: Final = 1.0
"""Seconds between two requests for the number of slots."""
_ALLOWED_FAILURES: Final = "distributed.scheduler.allowed-failures"


class Engine:
    """An executor given by the caller."""

    loses_single_calls: bool = False
    """Whether BrokenExecutor means that one call was lost, not that the pool accepts no more."""

    def __init__(self, executor: Executor, *, slots: Slots | None = None, workers: int | None = None) -> None:
        """`workers` replaces the executor's own number of slots."""
        self.executor = executor
        self.at_most: int | None = None
        """Maximum number of calls at once, if this machine's memory limits it."""
        self.workers = workers
        self._slots = slots or slots_of(executor)

    @property
    def in_process(self) -> bool:
        """Whether calls run in threads of this process, and are not pickled."""
        return isinstance(self.executor, ThreadPoolExecutor)

    @property
    def on_this_machine(self) -> bool:
        """Whether workers share this machine's memory."""
        return is_local_pool(self.executor)

    def slots(self) -> int:
        """The number of calls that run at once, now; 0 if it is unknown."""
        if self.workers is not None:
            return self.workers
        return 0 if self._slots is None else self._slots()

    def wanted(self) -> int:
        """The number of calls to keep submitted, now."""
        slots = self.slots()
        if self.at_most is not None and not 0 < slots <= self.at_most:
            return self.at_most
        is_known = self.workers is not None or self.on_this_machine
        return max(slots * WAITING, 1 if is_known else _AT_LEAST)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Submit a call."""
        return self.executor.submit(function, *arguments)

    def gave_up(self, error: BaseException) -> bool:
        """Whether the executor itself has repeated a call that killed its workers, and raises this for it."""
        return False

    def stop(self, running: Iterable[Future[Any]]) -> None:
        """Cancel calls that have not started."""
        for future in running:
            with contextlib.suppress(Exception):  # the executor no longer exists
                future.cancel()

    def give_up(self, tell: Callable[..., Any], *arguments: Any) -> None:
        """End the calls of a run that is interrupted, as far as its workers can be reached.

        `tell` ends them in a worker process. An engine that ends its workers instead runs no other calls.
        """

    def close(self) -> None:
        """Release what was created for this engine."""


class SharedEngine(Engine):
    """An engine that several runs use at once; it stays open when one of them ends."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.executor, slots=engine.slots)
        self.loses_single_calls = engine.loses_single_calls
        self._engine = engine

    def gave_up(self, error: BaseException) -> bool:
        return self._engine.gave_up(error)

    def give_up(self, tell: Callable[..., Any], *arguments: Any) -> None:
        self._engine.give_up(tell, *arguments)

    def wanted(self) -> int:
        """The number of calls of one run, within what its memory allows."""
        most = self._engine.wanted()
        return most if self.at_most is None else min(most, self.at_most)


class ProcessEngine(Engine):
    """A pool of new processes, which end with this one."""

    loses_single_calls = True

    def __init__(self, workers: int) -> None:
        """WorkerError if the system does not let so many processes open enough files."""
        from .process_pool import ProcessPool, refuse_few_files  # threads need no processes

        refuse_few_files(workers)
        self._pool = ProcessPool(workers, start="spawn")
        super().__init__(self._pool, workers=workers)

    def give_up(self, tell: Callable[..., Any], *arguments: Any) -> None:
        """End the processes."""
        self._pool.give_up()

    def close(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)


def is_local_pool(executor: object) -> bool:
    """Whether an executor is one of Python's own; loads no `multiprocessing` to find out."""
    loaded = sys.modules.get("concurrent.futures.process")
    processes = loaded is not None and isinstance(executor, loaded.ProcessPoolExecutor)
    return processes or isinstance(executor, ThreadPoolExecutor)


def slots_of(executor: Executor) -> Slots | None:
    """How to ask an executor for its number of slots; None if it does not tell.

    Its method `slots`, or the attribute that the pools of Python, loky (`_max_workers`) and mpi4py
    (`num_workers`) have.
    """
    own_slots = getattr(executor, "slots", None)
    if callable(own_slots):
        return lambda: int(own_slots())
    for name in ("_max_workers", "num_workers"):
        if isinstance(getattr(executor, name, None), int):
            return lambda: int(getattr(executor, name))
    return None


def check_choice(choice: ExecutorChoice | None) -> None:
    """Raise UsageError if there is no such executor."""
    if choice is None or isinstance(choice, Executor):
        return
    if not isinstance(choice, str):
        if not is_dask(choice):
            raise UsageError(
                "this is not an executor",
                found=type(choice).__name__,
                expected="a name, a concurrent.futures.Executor, or a Dask client or cluster",
            )
        return
    name, equals, address = choice.partition("=")
    if name not in _INSTALL or (equals and (name != "dask" or not address)):
        raise UsageError(
            f"there is no executor {name + equals!r}",
            expected=f"{', '.join(_INSTALL)}, or dask=ADDRESS",
            advice=did_you_mean(name, _INSTALL),
        )
    if (needed := _INSTALL[name]) is not None and find_spec(needed[0]) is None:
        raise UsageError(f"the executor {name} needs the package {needed[0]}", advice=f"Install {needed[1]}.")
    if name == "mpi" and _MPI not in sys.orig_argv:
        raise UsageError(
            "the executor mpi needs a program that MPI has started",
            expected=f"mpiexec -n N python -m {_MPI} -m zarrlift ...",
        )


def in_process(choice: ExecutorChoice | None) -> bool:
    """Whether calls run in this process."""
    return choice is None or choice == "threads" or isinstance(choice, ThreadPoolExecutor)


def on_this_machine(choice: ExecutorChoice | None) -> bool:
    """Whether workers share this machine's memory and processors."""
    return in_process(choice) or choice == "processes" or is_local_pool(choice)


def open_engine(choice: ExecutorChoice, *, workers: int | None) -> Engine:
    """The engine of a choice other than "threads"; closes only what it has created.

    `workers` are required for "processes". Raises WorkerError.
    """
    if choice == "processes":
        assert workers is not None
        return ProcessEngine(workers)
    if choice == "mpi":
        from mpi4py.futures import MPIPoolExecutor

        return _MpiEngine(MPIPoolExecutor(), workers=workers)
    if isinstance(choice, str):
        return dask_engine_at(choice.partition("=")[2] or None, workers=workers)
    if is_dask(choice):
        return dask_engine(choice, workers=workers)
    return Engine(choice, workers=workers)


class _MpiEngine(Engine):
    """The workers with which MPI has started this program."""

    _waits = True

    def give_up(self, tell: Callable[..., Any], *arguments: Any) -> None:
        """Do not wait for the calls that run: nothing reaches them."""
        self._waits = False

    def close(self) -> None:
        self.executor.shutdown(wait=self._waits, cancel_futures=True)


class DaskEngine(Engine):
    """Calls run by a Dask scheduler."""

    def __init__(
        self, client: Any, executor: Executor | None = None, *, own: tuple[Any, ...] = (), workers: int | None
    ) -> None:
        """`own`: what is closed with the engine."""
        # Without `pure`, a repeated call is a new one: not the remembered failure of the first.
        super().__init__(executor or client.get_executor(pure=False), slots=self._threads, workers=workers)
        self._client = client
        self._own = own
        self._known = 0
        self._asked = float("-inf")

    def gave_up(self, error: BaseException) -> bool:
        """Whether Dask has repeated a task that killed its workers."""
        return type(error).__name__ == "KilledWorker"

    def give_up(self, tell: Callable[..., Any], *arguments: Any) -> None:
        """Call `tell` in every worker, beside its tasks."""
        with contextlib.suppress(Exception):  # the scheduler no longer exists
            self._client.run(tell, *arguments, wait=False, on_error="ignore")

    def close(self) -> None:
        """Close the client and the cluster, if they were made here."""
        for resource in self._own:
            with contextlib.suppress(Exception):  # the scheduler no longer exists
                resource.close()

    def _threads(self) -> int:
        """Threads of all workers, now."""
        if time.monotonic() - self._asked > _ASK_AGAIN:
            with contextlib.suppress(Exception):  # `submit` reports a scheduler that is gone
                self._known = sum(self._client.nthreads().values())
            self._asked = time.monotonic()
        return self._known


def is_dask(candidate: object) -> bool:
    """Whether an object is a client, an executor of a client, or a cluster."""
    return any(
        kind.__module__.partition(".")[0] in ("distributed", "dask_jobqueue", "dask_kubernetes", "coiled")
        for kind in type(candidate).__mro__
    )


def dask_engine(target: Any, *, workers: int | None) -> Engine:
    """The engine for a client, an executor of a client, or a cluster."""
    if isinstance(target, Executor):
        return DaskEngine(target._client, target, workers=workers)  # type: ignore[attr-defined] # noqa: SLF001
    if hasattr(target, "get_executor"):
        return DaskEngine(target, workers=workers)
    from distributed import Client

    client = Client(target, set_as_default=False)  # its `get_client` may return one that the caller uses
    return DaskEngine(client, own=(client,), workers=workers)


def dask_engine_at(address: str | None, *, workers: int | None) -> Engine:
    """The engine of a scheduler by its address, or by Dask's own configuration; else processes of its own.

    WorkerError if the scheduler does not answer, or the processes cannot be started.
    """
    import dask
    from distributed import Client, LocalCluster

    if address is None:
        address = dask.config.get("scheduler-address", None)
    if address is not None:
        try:
            client = Client(address, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            redacted = re.sub(r"(?<=://)[^/]*@", "", address)  # without a user and password
            raise WorkerError("the Dask scheduler does not answer", found=redacted) from error
        return DaskEngine(client, own=(client,), workers=workers)
    try:
        with dask.config.set({_ALLOWED_FAILURES: 2}):  # so that a task may kill three workers
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address=":0",
                # A worker that is closed between a question and its answer prints a traceback; what
                # becomes of tasks is told by their results.
                silence_logs=logging.CRITICAL,
            )
        client = Client(cluster, set_as_default=False)
    except (OSError, RuntimeError) as error:  # such as that of a worker that was killed
        raise WorkerError("Dask cannot start its workers", found=str(error)) from error
    return DaskEngine(client, own=(client, cluster), workers=None)
