"""Reset of state that a forked child must not inherit, such as locks held by its parent's threads.

Only those threads would release them, and they do not run in the child.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class ResetAfterFork(Protocol):
    """An object with state that belongs to one process."""

    def after_fork(self) -> None:
        """Reset to an unused state, in the child."""


_alive: WeakSet[ResetAfterFork] = WeakSet()


def reset_after_fork(thing: ResetAfterFork) -> None:
    """Call the object's `after_fork` in every forked child, as long as the object lives."""
    _alive.add(thing)


def _after_fork() -> None:
    for thing in tuple(_alive):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
