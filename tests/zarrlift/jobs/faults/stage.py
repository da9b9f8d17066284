"""Where commands run: a folder, the shim that counts, kills and lets fail, and the process that is forked."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.zarrlift.jobs.faults.commands import Commands, Ended
from tests.zarrlift.jobs.faults.control import Control, compiled

KILLED = -9
"""The exit code of a command that was killed."""


@contextmanager
def folder_in_memory(prefix: str, directory: Path | None = None) -> Iterator[Path]:
    """A folder for many small files, in memory if the system has such a place; removed at the end."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=directory or (memory if memory.is_dir() else None)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Stage:
    """Runs commands in `home`, whose calls are counted."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        """`folder` is for the stage alone; `environment` is added for every command."""
        self.folder = folder
        self.home = folder / "home"
        names = {"TMPDIR": str(self.home / "tmp"), **(environment or {})}
        self.commands = Commands(compiled(folder), names)
        self.control = Control(folder / "control", self.home)

    def close(self) -> None:
        """End the process that is forked."""
        self.commands.close()

    def clear(self) -> None:
        """Begin with an empty home."""
        shutil.rmtree(self.home, ignore_errors=True)
        (self.home / "tmp").mkdir(parents=True)

    def run(
        self,
        *words: str,
        network: bool = False,
        tight: bool = False,
        hasty: bool = False,
        **orders: int,
    ) -> Ended:
        """Run a command to its end, with orders to the shim; with `network`, TCP sockets count too."""
        self.control.set(network=network, **orders)
        return self.commands(*words, control=self.control.path, folder=self.home, tight=tight, hasty=hasty)


def killing(order: str) -> dict[str, int]:
    """The orders to the shim for "call 12" or "change 12", with "alone" only for the process that calls."""
    unit, number, *alone = order.split()
    return {f"kill_{unit}": int(number), "kill_caller_only": len(alone)}
