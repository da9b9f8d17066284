"""What applies to the whole process, and is done only if the command line owns the process.

Without the rules for garbage collection, 2,000 arrays in place take 1.17 times the processor time; without
those for the allocator, gzip to zstd takes 1.2 times as long (docs/design/0024).
"""

from __future__ import annotations

import gc
import os
import threading

from zarrstack.system.this import system

ours = False
"""True only if the command line owns the process and may therefore fork. A library never may."""

_USUAL = gc.get_threshold()
_THREADS = "/proc/self/task"
"""One entry per thread of this process, including threads started by libraries."""
_AT_FIRST = 1_000_000
"""Number of objects allocated before a garbage collection: modules and plans leave hardly any garbage."""


def may_fork() -> bool:
    """Whether the command line owns this process and it has a single thread."""
    if not ours or not system.forks or threading.active_count() != 1:
        return False
    try:
        return len(os.listdir(_THREADS)) == 1
    except OSError:
        return False


def before_loading() -> None:
    """Configure the process before anything is loaded."""
    # numpy's linear algebra threads are not used here, take time to start and prevent a fork.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    gc.set_threshold(_AT_FIRST)


def before_moving() -> None:
    """Configure the process for chunks, after everything is loaded and planned."""
    keep_objects()
    if ours:
        system.keep_freed_memory()


def keep_objects() -> None:
    """Collect garbage as usual, but not among existing objects: modules and plans are permanent.

    Only once: what a batch has at hand later belongs to one archive.
    """
    if ours and not gc.get_freeze_count():
        gc.freeze()
        gc.set_threshold(*_USUAL)
