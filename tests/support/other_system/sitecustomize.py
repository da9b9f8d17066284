"""What macOS and Windows lack, taken away from our modules in every process with this folder on PYTHONPATH.

`ZARRLIFT_AS` names the system, as `sys.platform` does. Libraries keep what Linux has: only our modules import
another `os`, `sys`, `signal` and `ctypes`. What the file system of Windows refuses, it refuses to all. None
of them has been tried: each function says what its documentation says.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import importlib.machinery
import importlib.util
import io
import os
import shutil
import signal
import stat
import sys
import tempfile
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

OURS = ("zarrlift", "zarrstack")

NEITHER = """
copy_file_range fdatasync getresuid memfd_create posix_fadvise posix_fallocate sched_getaffinity
sched_setaffinity sendfile splice eventfd O_DIRECT O_PATH O_TMPFILE pidfd_open fork
""".split()
"""Of `os`: not on macOS either, where copies of a process may not use its system libraries."""
NOT_ON_WINDOWS = """
O_CLOEXEC O_DIRECTORY O_DSYNC O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC WNOHANG chown chroot fchmod fchown
getegid geteuid getgid getgroups getloadavg getpgid getpgrp getpriority getsid getuid initgroups killpg
lchown lockf mkfifo mknod nice openpty pathconf pread preadv pwrite pwritev readv register_at_fork setpgid
setsid statvfs sync sysconf uname wait wait3 wait4 waitid writev
""".split()
LACKS: dict[str, dict[str, list[str]]] = {
    "darwin": {
        "modules": [],
        "os": NEITHER,
        "signal": ["SIGPOLL", "SIGPWR", "SIGSTKFLT", "SIGRTMIN", "SIGRTMAX"],
    },
    "win32": {
        "modules": "fcntl grp posix pty pwd resource syslog termios tty".split(),
        "os": NEITHER + NOT_ON_WINDOWS,
        "signal": """
            SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1
            SIGUSR2 SIGXFSZ SIG_BLOCK SIG_SETMASK SIG_UNBLOCK alarm pause pthread_kill pthread_sigmask
            setitimer sigwait
        """.split(),
    },
}
"""What is not there, by system."""


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


def become(system: str) -> None:
    """Make this process one of that system, before any of our modules is imported."""
    lacks = LACKS[system]
    changes = decompose_names() if system == "darwin" else for_windows()
    uuid.getnode = lambda: int(os.environ.get("ZARRLIFT_CARD", "0x020304050607"), 0)
    modules = {
        "ctypes": Less(ctypes, [], WinDLL=lambda *_, **__: Kernel, get_last_error=lambda: Kernel.error),
        "os": Less(os, lacks["os"], supports_effective_ids=set(), supports_dir_fd=set(), **changes),
        "sys": Less(sys, [], platform=system),
        "signal": Less(signal, lacks["signal"]),
    }

    def find(name: str, scope: Any = None, names: Any = None, wanted: Any = (), level: int = 0) -> Any:
        if level == 0 and name in lacks["modules"]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
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


def decompose_names() -> dict[str, Any]:
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
    return {}


# ----- Windows

BINARY = 1 << 30
IN_USE = "The process cannot access the file because it is being used by another process"
RESERVED = frozenset('<>:"|?*')


def refuse(text: str, *paths: Any, number: int = errno.EACCES) -> None:
    """Raise what Windows raises."""
    raise OSError(number, text, *paths[:1])


def open_inodes() -> Iterator[tuple[Any, str]]:
    """What this process and its workers have open, and the path of each."""
    processes = ["self"]
    for task in REAL["listdir"]("/proc/self/task"):
        with suppress(OSError), REAL["open"](f"/proc/self/task/{task}/children") as children:
            processes += children.read().split()
    for process in processes:
        with suppress(OSError):
            for number in REAL["listdir"](f"/proc/{process}/fd"):
                with suppress(OSError):
                    name = f"/proc/{process}/fd/{number}"
                    facts = REAL["stat"](name)
                    if stat.S_ISREG(facts.st_mode):
                        yield (facts.st_dev, facts.st_ino), REAL["readlink"](name)


def require_closed(path: Any) -> None:
    """An open file, or a directory with one, keeps its name (CreateFile without FILE_SHARE_DELETE)."""
    try:
        facts = REAL["lstat"](path)
    except OSError:
        return
    below = os.path.realpath(path) + "/"
    for inode, name in open_inodes():
        if inode == (facts.st_dev, facts.st_ino) or name.startswith(below):
            refuse(IN_USE, path)


def windows_name(path: Any) -> Any:
    """Dots and spaces at the end of a name are dropped; some characters are refused."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        return path
    if RESERVED & set(text):
        refuse("The filename, directory name, or volume label syntax is incorrect", path, number=errno.EINVAL)
    return "/".join(name if name in (".", "..") else name.rstrip(". ") for name in text.split("/"))


def replace(source: Any, target: Any, **more: Any) -> None:
    """A directory is never replaced."""
    source, target = windows_name(source), windows_name(target)
    require_closed(source)
    require_closed(target)
    if os.path.isdir(target):
        refuse("Access is denied", source)
    REAL["replace"](source, target, **more)


def rename(source: Any, target: Any, **more: Any) -> None:
    """Nothing is replaced."""
    if os.path.lexists(windows_name(target)):
        raise FileExistsError(errno.EEXIST, "Cannot create a file when that file already exists", source)
    replace(source, target, **more)


def unlink(path: Any, **more: Any) -> None:
    """Neither directories nor read-only files."""
    path = windows_name(path)
    if os.path.lexists(path):
        mode = REAL["lstat"](path).st_mode
        if stat.S_ISDIR(mode) or not (mode & stat.S_IWUSR or stat.S_ISLNK(mode)):
            refuse("Access is denied", path)
    require_closed(path)
    REAL["unlink"](path, **more)


def open_descriptor(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
    """Not a directory."""
    path = windows_name(path)
    if path in temporary or (os.path.isdir(path) and not more and is_ours()):
        refuse("Permission denied", path)
    number = REAL["os_open"](path, flags & ~BINARY, mode, **more)
    (translated.discard if flags & BINARY else translated.add)(number)
    return number


translated: set[int] = set()
"""Descriptors of which the line ends are converted."""


def write(number: int, content: Any) -> int:
    """Line ends are converted unless the file was opened in binary mode."""
    if number in translated and b"\n" in bytes(content):
        raise AssertionError("written in text mode: every line end becomes two bytes")
    return REAL["write"](number, content)


def close(number: int) -> None:
    """Forget how it was opened."""
    translated.discard(number)
    REAL["close"](number)


def fsync(number: int) -> None:
    """`_commit` refuses what is not open for writing."""
    import fcntl

    if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        refuse(os.strerror(errno.EBADF), number=errno.EBADF)
    REAL["fsync"](number)


def kill(process: int, number: int) -> None:
    """Signal 0 is Ctrl-C, and others end the process."""
    raise AssertionError(f"process {process} would be ended by signal {number}")


def open_file(path: Any, mode: str = "r", *words: Any, newline: str | None = None, **named: Any) -> Any:
    """Not a directory; line ends of texts become two bytes."""
    if len(words) > 3:
        *words, newline = words  # as pathlib calls it
    if isinstance(path, str | os.PathLike):
        path = windows_name(path)
        if path in temporary or (os.path.isdir(path) and "opener" not in named):  # which tempfile has
            refuse("Permission denied", path)
    if newline is None and "b" not in mode and not {*mode}.isdisjoint("wax+") and is_ours():
        newline = "\r\n"
    return REAL["open"](path, mode, *words, newline=newline, **named)


class Kernel:
    """The functions of processes in kernel32; the handle of a process is its id here."""

    error = 0

    class OpenProcess:
        """Refuses an id that no process has."""

        def __new__(cls, _access: int, _inherit: bool, number: int) -> Any:
            Kernel.error = 0 if str(number) in REAL["listdir"]("/proc") else 87
            return 0 if Kernel.error else number

    @staticmethod
    def _facts(process: Any) -> list[str]:
        with REAL["open"](f"/proc/{process.value}/stat") as file:
            return file.read().rpartition(")")[2].split()

    @classmethod
    def GetProcessTimes(cls, process: Any, created: Any, *_: Any) -> bool:
        """When it was created."""
        array = created._obj
        array[0] = int(cls._facts(process)[19])
        return True

    @classmethod
    def GetExitCodeProcess(cls, process: Any, code: Any) -> bool:
        """STILL_ACTIVE, or its exit code."""
        code._obj.value = 0 if cls._facts(process)[0] in "ZX" else 259
        return True

    CloseHandle = bool


class Entry:
    """An entry of a listing, which knows neither the number of a file nor that of its links."""

    def __init__(self, entry: os.DirEntry[str]) -> None:
        self._entry = entry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def __fspath__(self) -> str:
        return self._entry.path

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Without them."""
        mode, _, _, _, *others = self._entry.stat(follow_symlinks=follow_symlinks)[:10]
        facts = self._entry.stat(follow_symlinks=follow_symlinks)
        times = {name: getattr(facts, name) for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")}
        return os.stat_result((mode, 0, 0, 0, *others), times)


class Listing:
    """What `os.scandir` returns to our modules."""

    def __init__(self, path: Any = ".") -> None:
        self._entries = REAL["scandir"](windows_name(path))

    def __enter__(self) -> Iterator[Entry]:
        return iter(self)

    def __exit__(self, *_: object) -> None:
        self._entries.close()

    def __iter__(self) -> Iterator[Entry]:
        return map(Entry, self._entries)


REAL: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(os, name)
        for name in "close fsync listdir lstat readlink replace scandir stat unlink write".split()
    },
    "open": io.open,
    "os_open": os.open,
}


temporary: set[str] = set()
"""Names of files that are deleted when they are closed, and are opened once."""


def temporary_file(*words: Any, delete: bool = True, **named: Any) -> Any:
    """With O_TEMPORARY."""
    file = NAMED(*words, delete=delete, **named)
    if delete:
        temporary.add(file.name)
    return file


NAMED = tempfile.NamedTemporaryFile


def for_windows() -> dict[str, Any]:
    """Change what all modules call; what only ours see otherwise is the answer."""
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    os.replace, os.rename, os.unlink, os.remove = replace, rename, unlink, unlink
    os.open, os.close, os.fsync = open_descriptor, close, fsync
    for name in ("stat", "lstat", "mkdir", "listdir", "access", "utime"):
        call = getattr(os, name)
        setattr(
            os, name, lambda path=".", *words, _call=call, **named: _call(windows_name(path), *words, **named)
        )
    io.open = builtins.open = open_file
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile = temporary_file  # type: ignore[assignment]
    return {"name": "nt", "O_BINARY": BINARY, "kill": kill, "write": write, "scandir": Listing}


if (system := os.environ.get("ZARRLIFT_AS")) in LACKS:
    become(str(system))
