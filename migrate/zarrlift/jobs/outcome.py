"""The result of a call on a job, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ..archive.notebook import NotebookResult
from ..core.json_fields import json_of_fields
from ..core.problems import JoinedProblems, any_refusal
from ..errors import JobError
from ..planning.plans import Plan

OutcomeState: TypeAlias = Literal["done", "incomplete", "nothing to do", "undone", "finished"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome(NotebookResult):
    """The result of a call on a job.

    Examples
    --------
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    >>> outcome.ok, outcome.state, outcome.problems
    (True, 'done', ())
    """

    job: str
    """Path or URL of the job file."""
    state: OutcomeState
    arrays_done: int = 0
    """Arrays completed at the destination, by this and earlier runs."""
    arrays_total: int = 0
    groups_done: int = 0
    chunks: int = 0
    """Source objects moved by this call; an object that is read for two blocks counts twice."""
    bytes_in: int = 0
    """Stored bytes of the source read by this call."""
    bytes_out: int = 0
    """Bytes written by this call."""
    dropped: int = 0
    """Chunks omitted as empty by this call."""
    filled: int = 0
    """N5 blocks smaller than their grid cell that this call decoded and padded."""
    retries: int = 0
    """Requests that were repeated; those that a client repeats itself, such as obstore, are not known."""
    removed: int = 0
    """Objects deleted by `finish` or `undo`, or of nodes that `update` has removed or replaced as a whole."""
    restored: int = 0
    """Legacy documents restored by `undo`."""
    seconds: float = 0.0
    part: int | None = None
    """The part that was run, of a job in parts."""
    parts_left: tuple[tuple[int, int], ...] = ()
    """After `gather`: (part, number of its tasks that are not done), for parts that have some."""
    second_pass: bool = False
    """Whether first passes are complete, so that parts have to be run once more for the second."""
    options: tuple[str, ...] = ()
    """Command line arguments to open the job's places; `<name>` replaces possible secrets."""
    how_to_open: str = ""
    """Python that opens a result of references, without secrets."""
    problems: tuple[Problem, ...] = ()
    """Refusals and failures, with their locations, and warnings of changes that a resume took over."""
    plan: Plan | None = None

    def __repr__(self) -> str:
        part = "" if self.part is None else f"part {self.part} "
        arrays = f"{self.arrays_done} of {self.arrays_total} arrays, {self.groups_done} groups"
        counts = f"{arrays}, {self.chunks} chunks, {len(self.problems)} problems"
        return f"<Outcome {part}{self.state}: {counts}, job {self.job!r}>"

    @property
    def ok(self) -> bool:
        """Whether everything requested is done."""
        return self.state != "incomplete" and not any_refusal(self.problems)

    def raise_for_problems(self) -> Self:
        """This outcome if it is `ok`; otherwise JobError with every refusal and failure.

        Examples
        --------
        >>> zarrlift.migrate("ocean.zarr", "new.zarr").raise_for_problems().state
        'done'
        """
        if self.ok:
            return self
        found = [problem for problem in self.problems if problem.severity == "refusal"]
        counts = f"{self.arrays_done} of {self.arrays_total} arrays are done"
        raise JobError(JoinedProblems.of(found, before=f"{counts}; " if found else counts), key=self.job)

    def to_json(self) -> JSONObject:
        """JSON for machines, without the plan (see `zarrlift migrate --dry-run --json`)."""
        unset = () if self.how_to_open else ("how_to_open",)
        parts_left = [{"part": part, "tasks": tasks} for part, tasks in self.parts_left]
        return json_of_fields(self, "plan", *unset) | {"parts_left": parts_left}
