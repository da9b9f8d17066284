"""The checks that run before an array is published.

They run in this process (`Checks`) or in a separate one (`checks_for`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from zarrstack.core.errors import Problem, ZarrstackError

from ...archive.chunk_inventory import Indexes
from ...errors import WorkerError
from ...planning.plans import ArrayPlan
from ...recipe.options import VerifyLevel
from ...storage.base import Storage
from ...transfer.unexpected_errors import unexpected_error

if TYPE_CHECKING:
    from ...verification.elsewhere import Elsewhere
    from ...verification.sampling import Sampler


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
        from ...verification.before_publishing import compare_all, compare_sample
        from ...verification.documents import document_problems
        from ...verification.sampling import Sampler

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
