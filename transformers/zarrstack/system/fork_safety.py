"""Reset of state that a forked child must not inherit, such as locks held by its parent's threads.

Only those threads would release them, and they do not run in the child. Neither do those of obstore, which
its first request starts: in the child, every request waits for them for ever, through a store that the child
makes too (obstore 0.12.1). There zarr's `ObjectStore` raises an error instead.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol
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
REQUESTS: Final = (
    *("_ensure_open", "get", "get_partial_values", "get_ranges", "_get_many", "exists", "getsize"),
    *("set", "_set_many", "set_if_not_exists", "delete", "delete_dir", "clear"),
    *("list", "list_prefix", "list_dir", "is_empty", "getsize_prefix"),
)
"""The methods of zarr's `ObjectStore` that ask obstore."""


def reset_after_fork(thing: ResetAfterFork) -> None:
    """Call the object's `after_fork` in every forked child, as long as the object lives."""
    _alive.add(thing)


def new_lock() -> threading.Lock:
    """A lock that is free in a forked child, also if a thread of the parent held it."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def _before_fork() -> None:
    """Any thread of tokio counts if obstore was imported: it may be that of icechunk, for example."""
    global _running  # noqa: PLW0603 - of the process
    _running = "obstore" in sys.modules and not _RUNTIME.isdisjoint(_thread_names())


def _thread_names() -> set[str]:
    names = set()
    for task in _TASKS.glob("*/comm"):  # none if this is not Linux
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            names.add(task.read_text().strip())
    return names


def _after_fork() -> None:
    if _running:
        from zarr.storage import ObjectStore

        for name in REQUESTS:
            setattr(ObjectStore, name, _refuse)
    for lock in tuple(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001 - as the standard library does
    for thing in tuple(_alive):
        thing.after_fork()


def _refuse(store: Any, *_: Any, **__: Any) -> NoReturn:
    from ..core.errors import StorageError

    raise StorageError(
        f"{store} cannot be used in this process, which was forked after obstore was used",
        advice="Start workers by spawn or forkserver, or fork before the first request.",
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
