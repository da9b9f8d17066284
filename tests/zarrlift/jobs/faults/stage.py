"""Where commands run: a folder, the shim that counts, kills and lets fail, and the process that is forked."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.zarrlift.jobs.faults.commands import Commands, Ended

SHORT = -1
_NAME = 256
_LOGGED = 64
_HERE = Path(__file__).parent


class _Failed(ctypes.Structure):
    _fields_ = [
        ("number", ctypes.c_uint64),
        ("error", ctypes.c_int32),
        ("call", ctypes.c_char * 20),
        ("path", ctypes.c_char * _NAME),
    ]


class Block(ctypes.Structure):
    """`struct control`; each field is described there."""

    _fields_ = [
        ("root", ctypes.c_char * _NAME),
        ("calls", ctypes.c_uint64),
        ("changes", ctypes.c_uint64),
        ("kill_call", ctypes.c_uint64),
        ("kill_change", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("fail_call", ctypes.c_uint64),
        ("full_from", ctypes.c_uint64),
        ("share", ctypes.c_uint32),
        ("stats", ctypes.c_uint32),
        ("failed", ctypes.c_uint64),
        ("log", _Failed * _LOGGED),
    ]


class Control:
    """A control block in a file, for the next command."""

    def __init__(self, path: Path, root: Path) -> None:
        """`root` is the directory whose calls count."""
        self.path = path
        path.write_bytes(bytes(ctypes.sizeof(Block)))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.block = Block.from_buffer(self._map)
        self._root = str(root).encode()
        self.set()

    def set(self, **fields: int) -> None:
        """Begin to count from 0, with these orders and no others."""
        ctypes.memset(ctypes.byref(self.block), 0, ctypes.sizeof(self.block))
        self.block.root = self._root
        for name, value in fields.items():
            setattr(self.block, name, value)

    def failures(self) -> list[str]:
        """The last calls that failed, one line each."""
        entries = list(self.block.log[: min(self.block.failed, _LOGGED)])
        entries.sort(key=lambda entry: entry.number)
        return [
            f"call {entry.number}: {entry.call.decode()} {_word(entry.error)} {os.fsdecode(entry.path)}"
            for entry in entries
        ]


def _word(error: int) -> str:
    return "in part" if error == SHORT else errno.errorcode.get(error, str(error))


def compiled(folder: Path) -> Path:
    """The shared library of `system_calls.c`, made in a folder."""
    library = folder / "system_calls.so"
    if not library.exists():
        compiler = shutil.which("gcc") or shutil.which("cc")
        assert compiler, "gcc is needed"
        words = ["-O1", "-shared", "-fPIC", "-o", str(library), str(_HERE / "system_calls.c"), "-ldl"]
        subprocess.run([compiler, *words], check=True)
    return library


KILLED = -9
"""The exit code of a command that was killed."""


@contextmanager
def folder_in_memory(prefix: str) -> Iterator[Path]:
    """A folder for many small files, in memory if the system has such a place; removed at the end."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=memory if memory.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Stage:
    """Runs commands in `home`, whose calls are counted."""

    def __init__(self, folder: Path) -> None:
        """`folder` is for the stage alone."""
        self.folder = folder
        self.home = folder / "home"
        self.commands = Commands(compiled(folder), {"TMPDIR": str(self.home / "tmp")})
        self.control = Control(folder / "control", self.home)

    def close(self) -> None:
        """End the process that is forked."""
        self.commands.close()

    def clear(self) -> None:
        """Begin with an empty home."""
        shutil.rmtree(self.home, ignore_errors=True)
        (self.home / "tmp").mkdir(parents=True)

    def run(self, *words: str, tight: bool = False, **orders: int) -> Ended:
        """Run a command to its end, with orders to the shim."""
        self.control.set(**orders)
        return self.commands(*words, control=self.control.path, folder=self.home, tight=tight)


def orders(text: str) -> dict[str, int]:
    """The orders to the shim for "call 12" or "change 12", and for "fail seed=3 share=42949672"."""
    unit, *words = text.split()
    if unit == "fail":
        return {name: int(value) for name, _, value in (word.partition("=") for word in words)}
    return {f"kill_{unit}": int(words[0])}
