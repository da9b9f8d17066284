"""The ledgers of archives under way, in a folder beside the file of their batch."""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from zarrstack.core.errors import JobError, Problem

from ...storage.local.partial_files import partial_name
from ..ledger.ledger import SUFFIX, Job
from ..stored_inventories import remove_inventory
from .rows import BatchRow, of_ledger

_FOLDER: Final = ".d"
_TOGETHER: Final = 100
"""Archives with one folder: creating a job file lists its folder."""
_TOLD: Final = ".json"
_NAME: Final = re.compile(rf"(?P<number>[0-9]+)(?:{re.escape(SUFFIX)}|{re.escape(_TOLD)})")


class Ledgers:
    """The folder of a batch."""

    def __init__(self, batch: Path) -> None:
        self.root = batch.with_name(batch.name + _FOLDER)

    def path(self, number: int) -> Path:
        """The ledger of an archive."""
        return self._folder(number) / f"{number}{SUFFIX}"

    def prepare(self, number: int) -> None:
        """Make the folder of an archive, in which its listings may be stored before its ledger; JobError."""
        try:
            self._folder(number).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            found = error.strerror
            raise JobError("cannot write a job file", key=str(self.path(number)), found=found) from error

    def has(self, number: int) -> bool:
        """Whether the ledger is in the folder."""
        return self.path(number).exists()

    def exists(self, number: int) -> bool:
        """Whether anything of an archive is in the folder."""
        return self.has(number) or self._told(number).exists()

    def put(self, number: int, content: bytes) -> None:
        """Write a ledger; it appears complete or not at all."""
        self._write(self.path(number), content)

    def tell(self, row: BatchRow) -> None:
        """Write what the run of a part says of an archive; its ledger may not have it, or not exist."""
        problems = [problem.to_json() for problem in row.problems]
        data = {"state": row.state, "problems": problems, "seconds": row.seconds}
        self._write(self._told(row.number), json.dumps(data).encode())

    def found(self) -> list[int]:
        """Numbers of the archives with files in the folder."""
        numbers: set[int] = set()
        for folder in _listed(self.root):
            names = map(_NAME.fullmatch, _listed(self.root / folder))
            numbers.update(int(name["number"]) for name in names if name is not None)
        return sorted(numbers)

    def read(self, row: BatchRow, *, write: bool, problems: tuple[Problem, ...] | None = None) -> BatchRow:
        """The row of an archive as its files in the folder tell; JobError.

        `write` rolls back what a killed process has not committed, and fails if a process runs the archive.
        `problems` are those of a run that has ended now.
        """
        told: dict[str, Any] = {}
        if problems is None:
            with contextlib.suppress(OSError, ValueError):
                told = json.loads(self._told(row.number).read_bytes())
            problems = tuple(map(Problem.from_json, told["problems"])) if told else None
        known: dict[str, Any] = {}
        if self.has(row.number):
            with Job.open(self.path(row.number), write=write) as job:
                known = of_ledger(job, problems)
        elif told:
            known = {"state": told["state"], "problems": problems}
        return replace(row, **{"seconds": told.get("seconds", row.seconds), **known})

    def compressed(self, row: BatchRow) -> bytes | None:
        """The ledger of an archive whose process has closed it; None if it has none.

        Nor is it kept if nothing was done: the next run makes a new plan of an archive that was refused.
        """
        path = self.path(row.number)
        try:
            if row.state == "refused" and path.exists():
                with Job.open(path, write=False) as job:
                    if not any(node.state == "done" for node in job.nodes()) and not job.totals():
                        return None
            return zlib.compress(path.read_bytes(), 6)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JobError("cannot read a job file", key=str(path), found=str(error)) from error

    def remove(self, number: int) -> None:
        """Remove the files of an archive."""
        path = self.path(number)
        remove_inventory(path)
        with contextlib.suppress(OSError):
            for name in _listed(path.parent):
                if name.split(".", 1)[0] == str(number):
                    os.unlink(path.parent / name)

    def tidy(self) -> None:
        """Remove empty folders; no other process may be writing there."""
        for folder in (*_listed(self.root), ""):
            with contextlib.suppress(OSError):
                (self.root / folder).rmdir()

    def _folder(self, number: int) -> Path:
        return self.root / str(number // _TOGETHER)

    def _told(self, number: int) -> Path:
        return self._folder(number) / f"{number}{_TOLD}"

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = Path(partial_name(str(path)))
            partial.write_bytes(content)
            os.replace(partial, path)
        except OSError as error:
            raise JobError("cannot write a job file", key=str(path), found=error.strerror) from error


def _listed(folder: Path) -> Iterator[str]:
    try:
        yield from os.listdir(folder)
    except OSError:
        return
