"""What macOS lacks, taken away from our modules in every process with this folder on PYTHONPATH.

Where ZARRLIFT_AS is `darwin`, our modules import another `os`, `sys` and `signal`; libraries do not.
What is taken away is what the documentation of macOS says.
"""

from __future__ import annotations

import builtins
import errno
import importlib.machinery
import importlib.util
import io
import os
import signal
import sys
import tempfile
import unicodedata
import uuid
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

OURS = ("zarrlift", "zarrstack")

LACKS = """
copy_file_range fdatasync getresuid memfd_create posix_fadvise posix_fallocate sched_getaffinity
sched_setaffinity sendfile splice eventfd O_DIRECT O_PATH O_TMPFILE pidfd_open fork
SIGPOLL SIGPWR SIGSTKFLT SIGRTMIN SIGRTMAX
""".split()
"""Of `os` and `signal`; copies of a process may not use its system libraries."""


class Less(ModuleType):
    """A module without some names, and with others in place of its own."""

    def __init__(self, real: ModuleType, without: list[str], **instead: Any) -> None:
        super().__init__(real.__name__)
        self.__dict__.update(instead, _real=real, _without=frozenset(without) - {*instead})

    def __getattr__(self, name: str) -> Any:
        if name in self._without:
            raise AttributeError(f"module {self._real.__name__!r} has no attribute {name!r}")
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._real, name)


class Loader(importlib.machinery.SourceFileLoader):
    """Gives a module other builtins, of which the imports are others."""

    builtins: dict[str, Any]

    def exec_module(self, module: ModuleType) -> None:
        """Execute it with them."""
        module.__dict__["__builtins__"] = self.builtins
        super().exec_module(module)


class Finder(MetaPathFinder):
    """Finds our modules."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """The usual one with another loader."""
        if name.partition(".")[0] not in OURS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def become() -> None:
    """Make this process one of macOS, before any of our modules is imported."""
    decompose_names()
    uuid.getnode = lambda: int(os.environ.get("ZARRLIFT_CARD", "0x020304050607"), 0)
    modules = {
        "os": Less(os, LACKS, supports_effective_ids=set(), supports_dir_fd=set()),
        "sys": Less(sys, [], platform="darwin"),
        "signal": Less(signal, LACKS),
    }

    def find(name: str, scope: Any = None, names: Any = None, wanted: Any = (), level: int = 0) -> Any:
        return modules.get(name) or builtins.__import__(name, scope, names, wanted, level)

    hide_proc()
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]
    Loader.builtins = {**vars(builtins), "__import__": find}
    sys.meta_path.insert(0, Finder())


# ----- /proc is Linux's


HIDDEN = ("/proc/", "/etc/machine-id")


def hide_proc() -> None:
    """Nothing is at /proc for whatever looks there on behalf of our modules."""

    def hidden(call: Callable[..., Any]) -> Callable[..., Any]:
        def without(path: Any = ".", *more: Any, **named: Any) -> Any:
            if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(HIDDEN) and is_ours():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            return call(path, *more, **named)

        return without

    wrap(hidden, "open stat lstat listdir scandir readlink")
    io.open = builtins.open = hidden(io.open)


def is_ours() -> bool:
    """Whether one of our modules made this call, itself or through the standard library."""
    frame: Any = sys._getframe(2)
    helpers = ("pathlib", "shutil", "tempfile", "posixpath", "genericpath", "glob", "contextlib", __name__)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in helpers:
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS


def wrap(wrapper: Callable[[Callable[..., Any]], Callable[..., Any]], names: str) -> None:
    """Replace functions of `os` for all modules."""
    for name in names.split():
        setattr(os, name, wrapper(getattr(os, name)))


# ----- HFS+ stores names decomposed; either form finds them


def decompose_names() -> None:
    """Every name that is used is its decomposed form, so listings have that."""

    def decomposed(value: Any) -> Any:
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        return unicodedata.normalize("NFD", value) if isinstance(value, str) else value

    def of_paths(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *words, **named: call(*map(decomposed, words), **named)

    wrap(
        of_paths, "open stat lstat listdir scandir mkdir rmdir unlink remove rename replace link utime access"
    )
    io.open = builtins.open = of_paths(io.open)


if os.environ.get("ZARRLIFT_AS") == "darwin":
    become()
