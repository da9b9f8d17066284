"""The checks of a job, before an array appears: in this process, or in one apart.

Loading zarr-python takes as long as moving half a gigabyte. A run that starts from
nothing, as the command line does, therefore lets a process apart load it while the
archive is still being read, and asks that process afterwards; the reader that judges the
result then shares no memory with the code that wrote it. Where that is not possible (a
library's caller owns the process, zarr is loaded already, other threads run, stores that
live in this process, no `fork`), the same checks run here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from zarrstack.core.errors import Problem, ZarrstackError

from ...archive.chunk_inventory import Indexes
from ...planning.plans import ArrayPlan
from ...storage.base import Storage
from ...transfer.unexpected_errors import unforeseen

if TYPE_CHECKING:
    from ...verification.sampling import Sampler

VerifyLevel: TypeAlias = Literal["none", "sample", "full"]
Items: TypeAlias = Sequence[tuple[ArrayPlan, Indexes]]
"""Plans, and the linear indexes of the chunks their sources have, which a full check lists by itself."""
Found: TypeAlias = list[tuple[Problem, ...]]
"""What is wrong with each, in the same order."""


class Checks(ABC):
    """Compares what a job wrote with its source."""

    @abstractmethod
    def __call__(self, job_id: str, level: VerifyLevel, items: Items, budget: int) -> Found:
        """The problems of each array; raises nothing.

        `budget`: bytes that the checks may take where all of an array is compared.
        """

    def soon(self, job_id: str, level: VerifyLevel, items: Items, budget: int) -> Callable[[], Found]:
        """Begin where that can go on beside other work; a call gives the problems, of the oldest first."""
        return lambda: self(job_id, level, items, budget)

    def prepare_workers(self) -> None:
        """Load what workers and checks share, before there are workers.

        A package that two threads import at once is seen half-made by one of them.
        """
        import numcodecs  # noqa: F401

    def prepare(self) -> None:  # noqa: B027 - a process apart has done so by itself
        """Load what the checks need, while others are at work."""

    def close(self) -> None:  # noqa: B027
        """No more checks will be asked for."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ChecksHere(Checks):
    """Checks in this process."""

    def __init__(self, source: Storage, destination: Storage) -> None:
        self.source = source
        self.destination = destination
        self._sampler: Sampler | None = None

    def __call__(self, job_id: str, level: VerifyLevel, items: Items, budget: int) -> Found:
        """Documents first; chunks only of arrays whose documents are right."""
        return [self._check(job_id, level, plan, present, budget) for plan, present in items]

    def prepare(self) -> None:
        """Load zarr."""
        import zarr  # noqa: F401

    def _check(
        self, job_id: str, level: VerifyLevel, plan: ArrayPlan, present: Indexes, budget: int
    ) -> tuple[Problem, ...]:
        from ...verification.documents import document_problems
        from ...verification.sampled_chunks import compare_chunks
        from ...verification.sampling import Sampler

        try:
            problems = document_problems(plan)
            if not problems and level == "full":
                from ...verification.every_chunk import compare_all

                return compare_all(plan, self.source, self.destination, budget=budget)
            if problems or not len(present):
                return problems
            if self._sampler is None:
                self._sampler = Sampler(job_id)
            chosen = self._sampler.choose(plan, present)
            return compare_chunks(plan, self.source, self.destination, chosen) if chosen else ()
        except ZarrstackError as error:
            return (error.at(node=plan.path).problem,)
        except Exception as error:  # noqa: BLE001 - see `unforeseen`
            return (unforeseen(plan.path, error),)
