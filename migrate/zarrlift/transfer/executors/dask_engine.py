"""Dask: a scheduler by its address, a client or a cluster that was made in Python, or processes of its own.

Facts: https://distributed.dask.org/en/stable/api.html (`Client`, `Client.get_executor`) and
https://distributed.dask.org/en/stable/resilience.html: a task of a lost worker runs again on another one, and
fails with `KilledWorker` after `distributed.scheduler.allowed-failures` workers have died with it.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

from ...errors import WorkerError
from .engine import Engine

_ASK_AGAIN: Final = 1.0
"""Seconds between two requests for the number of slots."""
_ALLOWED_FAILURES: Final = "distributed.scheduler.allowed-failures"


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
            cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
        client = Client(cluster, set_as_default=False)
    except (OSError, RuntimeError) as error:  # such as that of a worker that was killed
        raise WorkerError("Dask cannot start its workers", found=str(error)) from error
    return DaskEngine(client, own=(client, cluster), workers=None)
