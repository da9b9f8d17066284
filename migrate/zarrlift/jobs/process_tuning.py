"""What applies to the whole process, and is done only if the command line owns the process.

Without the rules for garbage collection, 2,000 arrays in place take 1.17 times the processor time; without
those for the allocator, gzip to zstd takes 1.2 times as long (docs/design/decisions.md).
"""

from __future__ import annotations

import gc
import os
import sys
import threading

ours = False
"""True only if the command line owns the process and may therefore fork. A library never may."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt` (malloc.h)."""
_KEPT = 256 << 20
_MOST = 32 << 20
"""Bytes that may stay free at the end of a heap, and minimum size of a separate mapping (the maximum that
glibc accepts).
"""
_USUAL = gc.get_threshold()
_THREADS = "/proc/self/task"
"""One entry per thread of this process, including threads started by libraries."""
_AT_FIRST = 1_000_000
"""Number of objects allocated before a garbage collection: modules and plans leave hardly any garbage."""


def may_fork() -> bool:
    """Whether the command line owns this process and it has a single thread."""
    # On other systems, a forked process may not use system libraries loaded before the fork.
    if not ours or sys.platform != "linux" or threading.active_count() != 1:
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
    _keep_freed_memory()


def keep_objects() -> None:
    """Collect garbage as usual, but not among existing objects: modules and plans are permanent.

    Only once: what a batch has at hand later belongs to one archive.
    """
    if ours and not gc.get_freeze_count():
        gc.freeze()
        gc.set_threshold(*_USUAL)


def _keep_freed_memory() -> None:
    """Let chunks reuse freed memory.

    glibc returns memory freed at the end of a heap to the system and requests it again for the next chunk;
    threads wait for each other's page faults. Peak memory is unchanged.
    """
    if not ours or sys.platform != "linux":
        return
    import ctypes  # already loaded by numpy

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # absent in musl
        set_option(_TRIM_THRESHOLD, _KEPT)
        set_option(_MMAP_THRESHOLD, _MOST)
