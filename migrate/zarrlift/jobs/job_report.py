"""`job_report`: what a job did, as frozen data, read from its ledger alone.

Neither the source nor the result is opened, so that a report can be made wherever the job file is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self, Unpack

from zarrstack.core.errors import Problem, short
from zarrstack.core.json_text import JSONObject

from ..archive.nodes import Layout
from ..core.grid.frames import Shards
from ..core.json_fields import FieldsAsJSON, json_of_fields
from ..planning.changes import Whole
from ..planning.plans import ArrayPlan, Refusal
from ..recipe.keywords import JobPlaceKeywords
from ..recipe.options import Format, JobPlace, PathText, VerifyLevel
from ..recipe.signatures import explicit, given
from ..storage.redact import redact
from .ledger.find_job import find_job
from .ledger.last_run import Activity, activity, last_run, seconds_spent
from .ledger.ledger import Job
from .ledger.rows import NodeRow, NodeState, State, TaskTotals
from .option_words import option_words

if TYPE_CHECKING:
    from ..planning.plans import Planned

_CHAIN = 200
"""Maximum number of characters of a codec chain or data type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredForm(FieldsAsJSON):
    """How an array is stored, in Zarr v3 terms."""

    data_type: str
    chunk_shape: tuple[int, ...]
    """Shape of a chunk; of one inside a shard, if there are shards."""
    shard_shape: tuple[int, ...] | None
    codecs: str

    @classmethod
    def of(cls, layout: Layout) -> Self:
        """The form of a layout."""
        return cls(
            data_type=short(str(layout.data_type), _CHAIN),
            chunk_shape=layout.chunk_shape,
            shard_shape=layout.object_shape if isinstance(layout.frame, Shards) else None,
            codecs=short(str(layout.chain), _CHAIN),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayReport(FieldsAsJSON):
    """What became of one array.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> array = zarrlift.job_report("new.zarr").arrays[0]
    >>> array.path, array.state, array.route
    ('lat', 'done', 'relink')
    """

    path: str
    state: NodeState
    route: str | None = None
    """None if it is refused."""
    reason: str = ""
    """What the route changes."""
    shape: tuple[int, ...] | None = None
    before: StoredForm | None = None
    after: StoredForm | None = None
    objects_before: int = 0
    objects_after: int | None = None
    """Objects of chunks; None unless the array is done and the number is known."""
    bytes_before: int | None = None
    """Stored bytes; None if they are not known."""
    bytes_after: int | None = None
    """None unless the array is done, or if an update has made only some objects again by another route than
    `relink`.
    """
    bytes_read: int = 0
    """Stored bytes read so far, since the last update if there was one; those that are read twice count
    twice.
    """
    bytes_written: int = 0
    dropped: int = 0
    """Chunks omitted because they contained only the fill value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What a job did, what it refused, what failed and why.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> report = zarrlift.job_report("new.zarr")
    >>> report.arrays_done, sorted(report.routes())
    (4, ['recode', 'relink'])
    """

    job: str
    source: str
    destination: str
    in_place: bool
    format: Format
    state: State
    activity: Activity | None
    """What an incomplete job is doing; None for a job in another state."""
    created: float
    """Unix time in seconds."""
    updated: float
    """Time of the last record."""
    seconds: float
    """Duration of all runs."""
    retries: int
    """Requests to stores that were repeated."""
    checked: VerifyLevel | None
    """How much was compared before arrays were published; None if no run came so far."""
    verified: Literal["sample", "full"] | None
    """What `verify` has compared since the last change, if it found no difference."""
    arrays: tuple[ArrayReport, ...] = field(repr=False)
    """Sorted by path, refused ones included."""
    groups_done: int
    groups_total: int
    problems: tuple[Problem, ...] = field(repr=False)
    """Refusals and failures first, then warnings and notes."""
    conventions: tuple[tuple[str, str], ...] = ()
    """(name, what was recognized)"""
    options: Mapping[str, str] = field(default_factory=dict)
    """What was requested of the job, without secrets."""
    recipe: JSONObject = field(default_factory=dict, repr=False)
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of zarrlift, Python and packages, in the last run; empty if there was none."""
    host: str | None = None
    """Of the last run."""
    excluded: int = 0
    """Nodes that the recipe excluded."""

    @property
    def arrays_done(self) -> int:
        """Number of arrays that are published."""
        return sum(array.state == "done" for array in self.arrays)

    @property
    def refusals(self) -> tuple[Problem, ...]:
        """Why nodes are refused or have failed."""
        return tuple(problem for problem in self.problems if problem.severity == "refusal")

    def total(self, name: str) -> int | None:
        """The sum of a figure over the arrays that are done; None if one of them is not known."""
        values = [getattr(array, name) for array in self.arrays if array.state == "done"]
        return None if None in values else sum(values)

    def routes(self) -> Mapping[str, TaskTotals]:
        """Arrays, objects and bytes by route, of the arrays that are done."""
        totals: dict[str, TaskTotals] = {}
        for array in self.arrays:
            if array.state == "done" and array.route is not None:
                sums = totals.get(array.route, TaskTotals())
                read = array.bytes_read or array.bytes_before or 0
                more = (1, array.objects_before, read, array.bytes_after or 0, array.dropped)
                totals[array.route] = TaskTotals(*map(sum, zip(sums, more, strict=True)))
        return totals

    def to_json(self) -> JSONObject:
        """JSON for machines; member names are stable."""
        rows = ("arrays", "problems", "conventions", "options")
        routes = self.routes()
        return {
            **json_of_fields(self, *rows),
            "totals": {
                "arrays": len(self.arrays),
                "arrays_done": self.arrays_done,
                **{name: self.total(name) for name in _SUMMED},
            },
            "routes": {
                name: {
                    "arrays": sums.tasks,
                    "objects": sums.chunks,
                    "bytes_in": sums.bytes_in,
                    "bytes_out": sums.bytes_out,
                }
                for name, sums in routes.items()
            },
            "requested": self.options,
            "conventions": [{"name": name, "summary": summary} for name, summary in self.conventions],
            "problems": [problem.to_json() for problem in self.problems],
            "arrays": [array.to_json() for array in self.arrays],
        }


_SUMMED = (
    "objects_before",
    "objects_after",
    "bytes_before",
    "bytes_after",
    "bytes_read",
    "bytes_written",
    "dropped",
)
_FACTS = {
    "link": "--link",
    "overwrite": "--overwrite",
    "source_through": "--source-through",
    "dest_through": "--dest-through",
}
"""Notes of a job that say what was requested."""
_ORDER = {"refusal": 0, "warning": 1, "note": 2}


@explicit
def job_report(target: PathText, **options: Unpack[JobPlaceKeywords]) -> JobReport:
    """Report what a job did: each array with its route and sizes, and all problems.

    A running job is not affected. The arguments are those of `status`. Only the job file is read.

    Raises
    ------
    JobError
        If there is no such job.

    Examples
    --------
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    >>> zarrlift.job_report("new.zarr").total("objects_before")
    12
    """
    with Job.open(find_job(target, given(options, JobPlace)), write=False) as opened:
        return report_of(opened)


def report_of(job: Job) -> JobReport:
    """The report of an open job."""
    plan, run = job.plan(), last_run(job)
    retries = job.fact("retries")
    rows = {row.path: row for row in job.nodes()}
    both, last = job.totals(), job.totals(passes="last")
    arrays = [
        _array(node, rows[node.path], both, last)
        for node in plan.nodes
        if isinstance(node, ArrayPlan) or (isinstance(node, Refusal) and node.kind == "array")
    ]
    failures = (problem for row in rows.values() if row.state != "refused" for problem in row.problems)
    problems = dict.fromkeys((*plan.all_problems(), *failures))
    return JobReport(
        job=redact(str(job.path)),
        source=redact(plan.source),
        destination=redact(plan.destination),
        in_place=plan.in_place,
        format=plan.format,
        state=job.state,
        activity=activity(job.path, run) if job.state == "incomplete" else None,
        created=float(job.fact("created") or 0),
        updated=float(job.fact("updated") or 0),
        seconds=seconds_spent(job),
        retries=int(retries) if retries and retries.isdecimal() else 0,
        checked=job.fact("checked"),  # type: ignore[arg-type]
        verified=job.fact("verified"),  # type: ignore[arg-type]
        arrays=tuple(arrays),
        groups_done=job.done("group"),
        groups_total=len(plan.groups),
        problems=tuple(sorted(problems, key=lambda problem: _ORDER[problem.severity])),
        conventions=tuple((seen.name, seen.summary) for seen in plan.conventions),
        options=_options(job),
        recipe=_changes(plan.recipe.to_json()),
        versions={} if run is None else dict(run.versions),
        host=run.owner.host if run else None,
        excluded=len(plan.excluded),
    )


def _array(
    plan: Planned, row: NodeRow, both: Mapping[int, TaskTotals], last: Mapping[int, TaskTotals]
) -> ArrayReport:
    """An array, with what is recorded of both passes and of the last one, by node."""
    if not isinstance(plan, ArrayPlan):
        return ArrayReport(path=plan.path, state=row.state)
    done, stays = row.state == "done", plan.route.name == "stay"
    moved, written = both.get(row.id, TaskTotals()), last.get(row.id, TaskTotals())
    bytes_in = plan.bytes_in if plan.bytes_in_known else None
    whole = Whole(plan.chunks, bytes_in, plan.chunks if stays else plan.objects_out)
    is_counted = not moved.dropped or plan.move.block_shape is None
    bytes_after = whole.bytes_in if stays else written.bytes_out
    if plan.changes is not None:
        # Of what an update left as it is, the job has no record: it is known where it is that of the source.
        whole = plan.changes.whole
        is_counted = not plan.move.drop_empty
        bytes_after = whole.bytes_in if plan.route.name == "relink" and is_counted else None
    return ArrayReport(
        path=plan.path,
        state=row.state,
        route=plan.route.name,
        reason=plan.route.reason,
        shape=plan.source.shape,
        before=StoredForm.of(plan.source),
        after=StoredForm.of(plan.destination),
        objects_before=whole.chunks,
        # An omitted chunk is an object less only if each object is made of one chunk.
        objects_after=whole.objects_out - moved.dropped if done and is_counted else None,
        bytes_before=whole.bytes_in,
        bytes_after=bytes_after if done else None,
        bytes_read=moved.bytes_in,
        bytes_written=moved.bytes_out,
        dropped=moved.dropped,
    )


def _options(job: Job) -> dict[str, str]:
    recorded = {name: job.fact(fact) for fact, name in _FACTS.items()}
    options = {name: redact(value) for name, value in recorded.items() if value not in (None, "auto")}
    if words := option_words(job):
        options["storage"] = " ".join(words)
    return options


def _changes(recipe: JSONObject) -> JSONObject:
    """The members of a recipe that request something."""
    base = {name: value for name, value in recipe.pop("base").items() if value not in (None, [], {}, False)}
    rest = {name: value for name, value in recipe.items() if value not in (None, [], {}, False)}
    return {**base, **rest}
