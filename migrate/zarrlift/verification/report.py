"""The result of `verify`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ..archive.notebook import NotebookResult
from ..core.problems import JoinedProblems
from ..errors import VerificationError


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VerificationReport(NotebookResult):
    """The differences between two archives, and the extent of the comparison.

    Examples
    --------
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    >>> report = zarrlift.verify("new.zarr")
    >>> report.ok, report.differences
    (True, ())
    """

    source: str
    destination: str
    full: bool
    """Whether every value was compared, rather than a sample of chunks."""
    groups: int = 0
    """Groups present on both sides."""
    arrays: int = 0
    """Arrays present on both sides."""
    chunks: int = 0
    """Chunks, or blocks of them, whose values were compared."""
    bytes: int = 0
    """Decoded bytes compared."""
    share: float = 1.0
    """Compared values, of those in objects that are stored on either side; from 0 to 1."""
    listed: bool = True
    """Whether the names and sizes of all objects were compared."""
    differences: tuple[tuple[str, int], ...] = ()
    """(node, number of differences) of nodes that differ; `problems` contains the first ones of each."""
    problems: tuple[Problem, ...] = ()
    """Differences with node, key, the value found in the destination and the expected one.

    A note says why the job could not record the result.
    """

    def __repr__(self) -> str:
        many = sum(count for _, count in self.differences)
        result = "equal" if self.ok else f"{many} differences at {len(self.differences)} nodes"
        counts = f"{self.arrays} arrays, {self.groups} groups, {self.chunks} chunks compared"
        return f"<VerificationReport {self.source!r} and {self.destination!r}: {result}; {counts}>"

    @property
    def ok(self) -> bool:
        """Whether there are no differences."""
        return not self.differences

    def raise_for_problems(self) -> Self:
        """This report if it is `ok`; otherwise VerificationError with the first differences of each node."""
        if self.ok:
            return self
        differences = [problem for problem in self.problems if problem.severity != "note"]
        raise VerificationError(JoinedProblems.of(differences, before=f"{self.source} differs; "))

    @property
    def counts(self) -> Mapping[str, int]:
        """The extent of the comparison, for people."""
        return {"arrays": self.arrays, "groups": self.groups, "chunks": self.chunks, "bytes": self.bytes}

    def with_problems(self, problems: Sequence[Problem]) -> VerificationReport:
        """The same report with further differences, one for each problem."""
        counts = dict(self.differences)
        for problem in problems:
            counts[problem.node or ""] = counts.get(problem.node or "", 0) + 1
        return replace(self, differences=tuple(sorted(counts.items())), problems=(*self.problems, *problems))

    def to_json(self) -> JSONObject:
        """JSON for machines; member names are stable."""
        return {
            "source": self.source,
            "destination": self.destination,
            "full": self.full,
            "ok": self.ok,
            "listed": self.listed,
            "share": self.share,
            "compared": dict(self.counts),
            "differences": dict(self.differences),
            "problems": [problem.to_json() for problem in self.problems],
        }
