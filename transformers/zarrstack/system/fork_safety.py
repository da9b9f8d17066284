"""What a forked child must not inherit: places, turns and locks that threads of its parent hold.

Only those threads would give them back, and they do not run in the child.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forgetful(Protocol):
    """Something with state that belongs to one process."""

    def after_fork(self) -> None:
        """In the child: begin as if nobody had used it."""


_alive: WeakSet[Forgetful] = WeakSet()


def forget_in_children(thing: Forgetful) -> None:
    """Have `after_fork` called in every child that is forked as long as the thing lives."""
    _alive.add(thing)


def _after_fork() -> None:
    for thing in tuple(_alive):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
