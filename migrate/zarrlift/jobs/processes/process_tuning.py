"""Process-wide tuning, applied only if the command line owns the process."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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
_WHILE_LOADING = 200_000
"""Number of objects allocated before the first garbage collection, four times as many as a command loads:
modules leave hardly any garbage, and one collection took a fifteenth of the loading time.
"""


def before_loading() -> None:
    """Configure the process before anything is loaded."""
    # numpy's linear algebra threads are not used here, take time to start and prevent a fork.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    gc.set_threshold(_WHILE_LOADING)


def keep_modules() -> None:
    """Exclude loaded modules from garbage collection: they are permanent, and most of all objects."""
    if ours:
        gc.freeze()
        gc.set_threshold(*_USUAL)


def keep_freed_memory() -> None:
    """Let chunks reuse freed memory.

    glibc returns memory freed at the end of a heap to the system and requests it again for the next chunk;
    the page faults slowed down gzip to zstd of 512 KB chunks by a tenth. Peak memory is unchanged.
    """
    if not ours or sys.platform != "linux":
        return
    import ctypes  # already loaded by numpy

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # absent in musl
        set_option(_TRIM_THRESHOLD, _KEPT)
        set_option(_MMAP_THRESHOLD, _MOST)


@contextmanager
def made_to_last() -> Iterator[None]:
    """Create many small, permanent objects without garbage collection.

    A description and a plan are trees; repeated collections took a tenth of the time of 2,000 arrays.
    Reference counting still frees objects.
    """
    if not ours or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()
