"""Selects where the checks of a run take place: in this process or in a separate one.

Loading zarr-python takes as long as moving half a gigabyte. A run that starts from the command line therefore
has a separate process load it while the archive is being read. As a further benefit, the reader that verifies
the result shares no memory with the code that wrote it. The checks run in this process if a separate one is
impossible: a library caller owns the process, zarr is already loaded, other threads are running, a store
exists only in this process, or `fork` is not available.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING, cast

from ...recipe.options import VerifyLevel
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from . import checks_process
from .checks import Checks, Found, Question

if TYPE_CHECKING:
    from ..processes.forked_process import ForkedProcess


class ForkedChecks(Checks):
    """Checks in a separate process, which ends with this one."""

    def __init__(self, source: LocalStorage, destination: LocalStorage, apart: ForkedProcess) -> None:
        """`apart` answers as `checks_process.new` makes it, and is closed together with this object."""
        super().__init__(source, destination)
        self._apart = apart

    def submit(self, question: Question) -> Callable[[], Found]:
        """Send the question now and wait for the answer only when it is needed.

        If the process has died, the checks run here.
        """
        here = super().submit(question)

        def answer() -> Found:
            try:
                return cast("Found", self._apart.answer())
            except BrokenExecutor:
                return here()

        try:
            self._apart.ask((self.source, self.destination, question))
        except BrokenExecutor:
            return here
        return answer

    def prepare_workers(self) -> None:
        """Do nothing: no modules are shared with a separate process.

        The codecs import numcodecs by its package first (`from numcodecs import ...`), so no thread sees it
        partially initialized.
        """

    def prepare(self) -> None:
        """Do nothing: the separate process has done so by itself."""

    def close(self) -> None:
        """End the separate process."""
        self._apart.close()


def checks_for(source: Storage, destination: Storage, level: VerifyLevel) -> Checks:
    """The checks of a run; in a separate process if that is faster and safe."""
    if level == "none" or not isinstance(source, LocalStorage) or not isinstance(destination, LocalStorage):
        checks_process.drop()
        return Checks(source, destination)
    apart = checks_process.take()
    if apart is None and "zarr" not in sys.modules:
        apart = checks_process.new()
    return Checks(source, destination) if apart is None else ForkedChecks(source, destination, apart)
