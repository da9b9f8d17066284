"""The checks that run before an array is published: in this process, or in a copy of it.

Loading zarr-python takes as long as moving half a gigabyte, and longer than loading the rest of this project.
A run that starts from the command line therefore has a copy of its process load it, forked before this one
parses its words, while the archive is being read. Without the copy, 2,000 arrays in place take 1.26 times as
long, and 1.25 times if it is forked only when the archive has been read (docs/design/0024). As a
further benefit, the reader that verifies the result shares no memory with the code that wrote it.

The checks run in this process if a copy is impossible: a library caller owns the process, zarr is already
loaded, other threads are running, a store exists only in this process, or `fork` is not available.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias, cast

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError

from ..archive.chunk_inventory import Indexes
from ..errors import WorkerError
from ..planning.plans import ArrayPlan
from ..recipe.options import VerifyLevel
from ..storage.base import Storage
from ..storage.local.storage import LocalStorage
from ..transfer.executors.process_pool import WorkerProcess
from ..transfer.unexpected_errors import unexpected_error
from . import process_tuning

if TYPE_CHECKING:
    from ..verification.elsewhere import Elsewhere
    from ..verification.sampling import Sampler

_begun: Final[list[WorkerProcess]] = []
"""The copy of this process that `begin_process` has made; at most one."""


class Question(NamedTuple):
    """What is to be checked of arrays."""

    job_id: str
    level: VerifyLevel
    items: Sequence[tuple[ArrayPlan, Indexes]]
    """Plans, each with the linear indexes of the source's chunks; a full check lists the chunks itself."""
    budget: int
    """Memory in bytes that a full comparison may use."""


Found: TypeAlias = list[tuple[Problem, ...]]
"""The problems of each item, in the same order."""


class Checks:
    """Compares what a job wrote with its source, in this process."""

    def __init__(self, source: Storage, destination: Storage, *, elsewhere: Elsewhere | None = None) -> None:
        """`elsewhere`: where full checks compare the values; WorkerError or BrokenExecutor if it is gone."""
        self.source = source
        self.destination = destination
        self.elsewhere = elsewhere
        self._sampler: Sampler | None = None

    def __call__(self, question: Question) -> Found:
        """Compare the documents, then the chunks of the arrays whose documents are correct."""
        return [self._check(question, plan, present) for plan, present in question.items]

    def submit(self, question: Question) -> Callable[[], Found]:
        """Start the checks, in the background if possible.

        The returned function gives the results; they come in the order of the calls. It raises nothing.
        """
        return lambda: self(question)

    def prepare_workers(self) -> None:
        """Load the modules that workers and checks share, before any worker starts.

        If two threads import a package at the same time, one of them may see it partially initialized.
        """
        import numcodecs  # noqa: F401

    def prepare(self) -> None:
        """Load what the checks need, while workers are busy."""
        import zarr  # noqa: F401

    def close(self) -> None:
        """Release resources; no checks follow."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, question: Question, plan: ArrayPlan, present: Indexes) -> tuple[Problem, ...]:
        from ..verification.before_publishing import compare_all, compare_sample
        from ..verification.documents import document_problems
        from ..verification.sampling import Sampler

        if plan.route.name == "pass":
            return self._check_bytes(question, plan, present)
        try:
            problems = document_problems(plan)
            if not problems and question.level == "full":
                ends = self.source, self.destination
                return compare_all(plan, *ends, budget=question.budget, elsewhere=self.elsewhere)
            if problems or not len(present):
                return problems
            if self._sampler is None:
                self._sampler = Sampler(question.job_id)
            chosen = self._sampler.choose(plan, present)
            return compare_sample(plan, self.source, self.destination, chosen)
        except (WorkerError, BrokenExecutor):
            raise
        except ZarrstackError as error:
            return (error.at(node=plan.path).problem,)
        except Exception as error:  # noqa: BLE001 - see `unexpected_error`
            return (unexpected_error(plan.path, error),)

    def _check_bytes(self, question: Question, plan: ArrayPlan, present: Indexes) -> tuple[Problem, ...]:
        from ..archive.chunk_inventory import take_inventory
        from ..verification.passed_through import compare, differing_objects
        from ..verification.sampling import Sampler

        array, ends = (plan.path, plan.source), (self.source, self.destination)
        try:
            if question.level == "full":  # which links are followed was decided for the plan
                now = take_inventory(self.source, *array, follow_links=True)
                return tuple(compare(*array, now, *ends, full=True).problems)
            self._sampler = self._sampler or Sampler(question.job_id)
            chosen = np.array(self._sampler.choose(plan, present), np.int64)
            return tuple(differing_objects(*array, chosen, *ends))
        except ZarrstackError as error:
            return (error.at(node=plan.path).problem,)


class ForkedChecks(Checks):
    """Checks in a separate process, which ends with this one."""

    def __init__(self, source: LocalStorage, destination: LocalStorage, apart: WorkerProcess) -> None:
        """`apart` has `_Answers`, and is closed together with this object."""
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
            self._apart.ask(None, self.source, self.destination, question)
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
        drop_process()
        return Checks(source, destination)
    apart = _take()
    if apart is None and "zarr" not in sys.modules:
        apart = _new()
    return Checks(source, destination) if apart is None else ForkedChecks(source, destination, apart)


def begin_process() -> None:
    """Fork the process that checks, if a fork is safe.

    What both processes need, mainly numpy, is loaded with this module, once: neither process would have it
    sooner by loading it itself.
    """
    if not _begun and (begun := _new()) is not None:
        _begun.append(begun)


def _take() -> WorkerProcess | None:
    """The process that was begun, if any; the caller closes it."""
    return _begun.pop() if _begun else None


def drop_process() -> None:
    """Stop the process that was begun, because it is not needed."""
    begun = _take()
    if begun is not None:
        begun.terminate()
        begun.close()


def _new() -> WorkerProcess | None:
    """A copy of this process that answers `ForkedChecks`; None if it cannot be made."""
    if not process_tuning.may_fork():
        return None
    try:
        return WorkerProcess(_Answers(), start="fork", initializer=_load)
    except OSError:  # the checks run in this process instead
        return None


def _load() -> None:
    import zarr  # noqa: F401

    # Load before the first question arrives.
    from ..verification import before_publishing, zarr_python_reader  # noqa: F401

    zarr_python_reader.warm_up()
    process_tuning.keep_objects()


class _Answers:
    """Answers in the separate process."""

    def __init__(self) -> None:
        self._checks: Checks | None = None

    def __call__(self, source: Storage, destination: Storage, question: Question) -> Found:
        if self._checks is None:
            self._checks = Checks(source, destination)
        return self._checks(question)
