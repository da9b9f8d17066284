"""Selects an engine: by name, or for an object of Python."""

from __future__ import annotations

import importlib.util
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from zarrstack.base import plugins
from zarrstack.core.errors import UsageError
from zarrstack.core.similar_names import did_you_mean

from ...recipe.options import ExecutorChoice
from .engine import Engine, is_local_pool

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint

GROUP: Final = "zarrlift.executors"
"""Entry points: a name, and a function of the number of workers requested (None: its own choice) that returns
an executor, or a pair of an executor and a function that returns its number of slots now.
"""
BUILT_IN: Final = ("threads", "processes", "dask")


def check_choice(choice: ExecutorChoice | None, *, dask_address: str | None = None) -> None:
    """Raise UsageError if there is no such executor."""
    if dask_address is not None and choice != "dask":
        found = "no executor" if choice is None else f"executor {choice!r}"
        raise UsageError("--dask-address is for --executor dask", found=found, advice="Use both, or neither.")
    if choice is None or isinstance(choice, Executor):
        return
    if choice == "dask" and importlib.util.find_spec("distributed") is None:
        raise UsageError("the executor dask needs the package distributed", advice="Install zarrlift[dask].")
    if isinstance(choice, str):
        if choice not in BUILT_IN:
            _entry(choice)
        return
    from .dask_engine import is_dask

    if not is_dask(choice):
        raise UsageError(
            "this is not an executor",
            found=type(choice).__name__,
            expected="a name, a concurrent.futures.Executor, or a Dask client or cluster",
        )


def in_process(choice: ExecutorChoice | None) -> bool:
    """Whether calls run in this process."""
    return choice is None or choice == "threads" or isinstance(choice, ThreadPoolExecutor)


def on_this_machine(choice: ExecutorChoice | None) -> bool:
    """Whether workers share this machine's memory and processors."""
    return in_process(choice) or choice == "processes" or is_local_pool(choice)


def open_engine(choice: ExecutorChoice, *, workers: int | None, dask_address: str | None = None) -> Engine:
    """The engine of a choice other than "threads"; closes only what it has created.

    `workers` are required for "processes". Raises UsageError, WorkerError.
    """
    if choice == "processes":
        from .process_pool import ProcessEngine

        assert workers is not None
        return ProcessEngine(workers)
    if choice == "dask":
        from .dask_engine import dask_engine_at

        return dask_engine_at(dask_address, workers=workers)
    if isinstance(choice, str):
        return _from_entry(choice, workers)
    from .dask_engine import dask_engine, is_dask

    if is_dask(choice):
        return dask_engine(choice, workers=workers)
    return Engine(choice, workers=workers)


class _OwnEngine(Engine):
    """An executor that was made for one run."""

    _waits = True

    def give_up(self, tell: Callable[..., Any], *arguments: Any) -> None:
        """Do not wait for the calls that run: nothing reaches them."""
        self._waits = False

    def close(self) -> None:
        self.executor.shutdown(wait=self._waits, cancel_futures=True)


def _from_entry(name: str, workers: int | None) -> Engine:
    point = _entry(name)
    try:
        result = point.load()(workers)
    except UsageError:
        raise
    except Exception as error:  # a plug-in may raise anything
        raise UsageError(
            f"the executor {name!r} cannot be started by {point.value}",
            found=f"{type(error).__name__}: {error}",
        ) from error
    slots: Callable[[], int] | None = None
    executor = result
    if isinstance(result, tuple) and len(result) == 2:
        executor, slots = result
    if not isinstance(executor, Executor):
        raise UsageError(
            f"the function registered as executor {name!r} returns no executor",
            found=type(executor).__name__,
            expected="a concurrent.futures.Executor, or a pair of one and a function",
        )
    return _OwnEngine(executor, slots=slots, workers=workers)


def known_executors() -> list[str]:
    """The names of all executors, sorted."""
    return sorted({*BUILT_IN, *(point.name for point in plugins.registered(GROUP))})


def _entry(name: str) -> EntryPoint:
    points = [point for point in plugins.registered(GROUP) if point.name == name]
    if not points:
        names = known_executors()
        raise UsageError(
            f"there is no executor {name!r}", expected=", ".join(names), advice=did_you_mean(name, names)
        )
    if len(points) > 1:
        raise UsageError(
            f"more than one executor is called {name!r}",
            found=" and ".join(point.value for point in points),
            advice="Uninstall one of the packages.",
        )
    return points[0]
