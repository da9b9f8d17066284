"""An executor with what is known of it: where its workers are, and how many there are now."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Final, TypeAlias

Slots: TypeAlias = Callable[[], int]
"""The number of calls that an executor can run at once, now."""

WAITING: Final = 3
"""Calls submitted per slot, so that a slot that becomes free has its next call at hand."""
_AT_LEAST: Final = 256
"""Calls submitted to workers elsewhere, however few there are: an unknown executor may have many slots, and a
cluster that grows with its queue needs one.
"""


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
