"""Selects an engine: by name, or for an object of Python."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import UsageError
from zarrstack.core.similar_names import did_you_mean

from ...recipe.options import ExecutorChoice
from .engine import Engine, is_local_pool

if TYPE_CHECKING:
    from collections.abc import Callable

_INSTALL: Final[Mapping[str, tuple[str, str] | None]] = {
    "threads": None,
    "processes": None,
    "dask": ("distributed", "zarrlift[dask]"),
    "mpi": ("mpi4py", "mpi4py"),
}
"""Name of an executor -> the package that it needs, and what to install for it."""
_MPI: Final = "mpi4py.futures"
"""The module that starts a program with workers of MPI."""


def check_choice(choice: ExecutorChoice | None) -> None:
    """Raise UsageError if there is no such executor."""
    if choice is None or isinstance(choice, Executor):
        return
    if not isinstance(choice, str):
        from .dask_engine import is_dask

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
        from .process_pool import ProcessEngine

        assert workers is not None
        return ProcessEngine(workers)
    if choice == "mpi":
        from mpi4py.futures import MPIPoolExecutor

        return _MpiEngine(MPIPoolExecutor(), workers=workers)
    from .dask_engine import dask_engine, dask_engine_at, is_dask

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
