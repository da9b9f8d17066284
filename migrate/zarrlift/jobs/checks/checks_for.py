"""Which checks a run has: in this process, or in one apart.

Loading zarr-python takes as long as moving half a gigabyte. A run that starts from nothing, as the
command line does, therefore lets a process apart load it while the archive is still being read, and
asks that process afterwards; the reader that judges the result then shares no memory with the code
that wrote it. Where that is not possible (a library's caller owns the process, zarr is loaded already,
other threads run, stores that live in this process, no `fork`), the same checks run here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING, cast

from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from . import checks_process
from .checks import Checks, ChecksHere, Found, Items, VerifyLevel

if TYPE_CHECKING:
    from ..processes.forked_process import Twin


class ChecksApart(Checks):
    """Checks in a process apart, which ends with this one."""

    def __init__(self, source: LocalStorage, destination: LocalStorage, apart: Twin) -> None:
        """`apart` answers as `ahead.new` makes it; it is closed with these."""
        self.source = source
        self.destination = destination
        self._here: ChecksHere | None = None
        self._apart = apart

    def __call__(self, job_id: str, level: VerifyLevel, items: Items, budget: int) -> Found:
        """Ask the process apart; if it died, do its work here."""
        return self.soon(job_id, level, items, budget)()

    def soon(self, job_id: str, level: VerifyLevel, items: Items, budget: int) -> Callable[[], Found]:
        """Ask now; the answer is waited for when it is wanted."""
        question = (job_id, level, list(items), budget)

        def here() -> Found:
            if self._here is None:
                self._here = ChecksHere(self.source, self.destination)
            return self._here(*question)

        def answer() -> Found:
            try:
                return cast("Found", self._apart.answer())
            except BrokenExecutor:
                return here()

        try:
            self._apart.ask((self.source, self.destination, *question))
        except BrokenExecutor:
            return here
        return answer

    def prepare_workers(self) -> None:
        """Nothing is shared with a process apart.

        Our codecs load numcodecs by its package first (`from numcodecs import ...`), so that no
        thread waits for another one's half of it.
        """

    def close(self) -> None:
        """End the process apart."""
        self._apart.close()


def checks_for(source: Storage, destination: Storage, level: VerifyLevel) -> Checks:
    """The checks of a run; apart where that saves time and can be done safely."""
    if level == "none" or not isinstance(source, LocalStorage) or not isinstance(destination, LocalStorage):
        checks_process.drop()
        return ChecksHere(source, destination)
    apart = checks_process.take()
    if apart is None and "zarr" not in sys.modules:
        apart = checks_process.new()
    return ChecksHere(source, destination) if apart is None else ChecksApart(source, destination, apart)
