"""What a call has done to a job: frozen data, for people and machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from zarrstack.core.errors import Problem, any_refusal
from zarrstack.core.json_text import JSONObject

from ..planning.plans import Plan

OutcomeState: TypeAlias = Literal["done", "incomplete", "nothing to do", "undone", "finished"]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C (or a termination signal) stopped the run; `job` can be resumed."""

    def __init__(self, job: str, options: tuple[str, ...] = ()) -> None:
        """`options` are words of a command line, as `Outcome.options`."""
        super().__init__(job)
        self.job = job
        self.options = options


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a call has done to a job."""

    job: str
    """Path of the job file."""
    state: OutcomeState
    arrays_done: int = 0
    """Arrays that are whole at the destination, from this and earlier runs."""
    arrays_total: int = 0
    groups_done: int = 0
    chunks: int = 0
    """Objects of the source that this call moved; one that is read for two blocks counts twice."""
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: int = 0
    """Chunks left out as empty by this call."""
    filled: int = 0
    """N5 blocks shorter than their cell, which this call decoded to fill them up."""
    removed: int = 0
    """Objects that `finish` or `undo` deleted."""
    restored: int = 0
    """Legacy documents that `undo` put back."""
    seconds: float = 0.0
    problems: tuple[Problem, ...] = ()
    """Refusals and failures, with their places."""
    options: tuple[str, ...] = ()
    """Words by which a command reaches the job's places; `<name>` stands for what may be secret."""
    plan: Plan | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether all that was asked for is done."""
        return self.state != "incomplete" and not any_refusal(self.problems)

    def to_json(self) -> JSONObject:
        """For machines; the plan is left out (`zarrlift plan --json` gives it)."""
        names = (
            "job",
            "state",
            "arrays_done",
            "arrays_total",
            "groups_done",
            "chunks",
            "bytes_in",
            "bytes_out",
            "dropped",
            "filled",
            "removed",
            "restored",
            "seconds",
        )
        return {
            **{name: getattr(self, name) for name in names},
            "options": list(self.options),
            "problems": [problem.to_json() for problem in self.problems],
        }
