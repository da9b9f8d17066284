"""Whose process this is, and what may be done to it if it is ours."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ours = False
"""True only where the command line owns the whole process, so that it may fork. A library never may."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt` (malloc.h)."""
_KEPT = 256 << 20
_MOST = 32 << 20
"""Bytes: what may lie free at the end of a heap, and from which size on memory is a mapping of its own (glibc
takes no more)."""


_USUAL = gc.get_threshold()
_WHILE_LOADING = 200_000
"""Objects that are made before the garbage collector looks, four times as many as a command loads: modules
leave hardly any garbage, and looking once took a fifteenth of the time that loading takes."""


def before_loading() -> None:
    """What is set where the process is ours, before anything is loaded."""
    # numpy's threads for linear algebra, which nothing here uses, take time to start and forbid a fork.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    gc.set_threshold(_WHILE_LOADING)


def keep_modules() -> None:
    """Let the garbage collector pass over what is loaded: it stays for good, and is most of what there is."""
    if ours:
        gc.freeze()
        gc.set_threshold(*_USUAL)


def keep_freed_memory() -> None:
    """Let chunks reuse the memory of chunks before them.

    glibc gives what is freed at the end of a heap back to the system, and takes it again for the next
    chunk; the page faults made gzip to zstd of 512 KB chunks a tenth slower. What is in use at most, and with
    it the peak, stays the same.
    """
    if not ours or sys.platform != "linux":
        return
    import ctypes  # numpy has loaded it

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # musl has none
        set_option(_TRIM_THRESHOLD, _KEPT)
        set_option(_MMAP_THRESHOLD, _MOST)


@contextmanager
def made_to_last() -> Iterator[None]:
    """Make many small objects that live as long as the process, without looking for garbage among them.

    A description and a plan are trees. To go through all that there is of them again and again took a
    tenth of the time of 2,000 arrays; what is counted as it is dropped goes all the same.
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
