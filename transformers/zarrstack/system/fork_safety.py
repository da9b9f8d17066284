"""Reset of state that a forked child must not inherit, such as locks held by its parent's threads.

Only those threads would release them, and they do not run in the child. Neither do the threads of obstore,
which answer its requests.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakSet


class ResetAfterFork(Protocol):
    """An object with state that belongs to one process."""

    def after_fork(self) -> None:
        """Reset to an unused state, in the child."""


_alive: WeakSet[ResetAfterFork] = WeakSet()
_locks: WeakSet[threading.Lock] = WeakSet()
_RUNTIME: Final = {"tokio-rt-worker", "tokio-runtime-w"}
"""Names of tokio's threads, of which Linux shows 15 characters (obstore 0.12.1, icechunk 1.1.21)."""
_TASKS: Final = Path("/proc/self/task")
_running = False
_lost = False


def reset_after_fork(thing: ResetAfterFork) -> None:
    """Call the object's `after_fork` in every forked child, as long as the object lives."""
    _alive.add(thing)


def new_lock() -> threading.Lock:
    """A lock that is free in a forked child, also if a thread of the parent held it."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def lost_threads() -> bool:
    """Whether requests of obstore would wait for ever: this process was forked from one with its threads.

    Any thread of tokio counts if obstore was imported: it may be that of another package, such as icechunk.
    """
    return _lost


def _before_fork() -> None:
    global _running  # noqa: PLW0603 - of the process
    _running = "obstore" in sys.modules and not _RUNTIME.isdisjoint(_thread_names())


def _thread_names() -> set[str]:
    names = set()
    for task in _TASKS.glob("*/comm"):  # none if this is not Linux
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            names.add(task.read_text().strip())
    return names


def _after_fork() -> None:
    global _lost  # noqa: PLW0603 - of the process
    _lost = _lost or _running
    for lock in tuple(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001 - as the standard library does
    for thing in tuple(_alive):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
