"""`status`: where a job stands and what it did, as frozen data read from its file alone.

Neither the source nor the result is opened, so that it can be made wherever the job file is. A job may have
100,000 arrays and be watched: the plans of the arrays are not made, only the few layouts that they share.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Self, Unpack

from zarrstack.core.errors import Problem, short
from zarrstack.core.json_text import JSONObject

from ..archive.nodes import Layout, RecognizedConvention, layout_from_json
from ..archive.notebook import NotebookResult
from ..core.grid.frames import Shards
from ..core.identity_cache import IdentityCache
from ..core.json_fields import FieldsAsJSON, json_of_fields
from ..planning.plans import Whole
from ..recipe.keywords import JobPlaceKeywords
from ..recipe.options import Format, JobPlace, PathText, VerifyLevel
from ..recipe.signatures import explicit, given
from ..storage.redact import redact
from .ledger.database import reporting_damage
from .ledger.job_places import find_job
from .ledger.last_run import Activity, activity, last_run, seconds_spent
from .ledger.ledger import Job
from .ledger.schema import NodeRow, NodeState, State, TaskTotals
from .option_words import changed_members, option_words, requested
from .progress import total_bytes

_CHAIN: Final = 200
"""Maximum number of characters of a codec chain or data type."""
_ORDER: Final = ("refusal", "warning", "note")


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
class ArrayStatus(FieldsAsJSON):
    """Progress of one array, and what became of it.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> array = zarrlift.status("new.zarr").arrays[0]
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
    tasks_done: int = 0
    """Recorded tasks."""
    tasks_total: int = 0
    bytes_done: int = 0
    """Stored bytes read, since the last update if there was one; those that are read twice count twice, here
    and in the total.
    """
    bytes_total: int = 0
    """Total to read; of an array that is done what was read, and 0 for chunks that are not moved."""
    bytes_known: bool = True
    """False if the total is an estimate."""
    bytes_written: int = 0
    objects_done: int = 0
    """Objects of the source that were read, as `bytes_done`."""
    objects_before: int = 0
    objects_after: int | None = None
    """Objects of chunks; None unless the array is done and the number is known."""
    bytes_before: int | None = None
    """Stored bytes; None if they are not known."""
    bytes_after: int | None = None
    """None unless the array is done, or if a result that was updated could not be listed."""
    dropped: int = 0
    """Chunks omitted because they contained only the fill value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(FieldsAsJSON):
    """Sums over arrays that are done; None if the figure of one of them is not known."""

    arrays: int
    objects_before: int | None
    objects_after: int | None
    bytes_before: int | None
    bytes_after: int | None
    objects_done: int | None
    bytes_done: int | None
    bytes_written: int | None
    dropped: int | None

    @classmethod
    def of(cls, arrays: Iterable[ArrayStatus]) -> Self:
        """The sums over the arrays of these that are done."""
        done = [array for array in arrays if array.state == "done"]
        names = cls.__slots__[1:]
        figures = {name: [getattr(array, name) for array in done] for name in names}
        sums = {name: None if None in values else sum(values) for name, values in figures.items()}
        return cls(arrays=len(done), **sums)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Status(NotebookResult):
    """Where a job stands, what it did, what it refused, what failed and why.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> status = zarrlift.status("new.zarr")
    >>> status.arrays_done, sorted(status.routes)
    (4, ['recode', 'relink'])
    """

    job: str
    source: str
    destination: str
    in_place: bool
    format: Format
    state: State
    activity: Activity | None = None
    """Current activity of an incomplete job; None for a job in another state."""
    undoing: bool = False
    """Whether an `undo` has started and not ended."""
    created: float
    """Unix time in seconds."""
    updated: float
    """Time of the last record."""
    seconds: float = 0.0
    """Duration of all runs."""
    host: str | None = None
    """Host of the last run; None if there was none."""
    process: int | None = None
    """Process id of the last run."""
    began: float | None = None
    """Start of the last run, Unix time in seconds."""
    bytes_done: int = 0
    """Stored bytes of the source read, as in `arrays`; with a limit (`--bwlimit`), by running tasks too."""
    bytes_total: int = 0
    """Stored bytes to read in all."""
    bytes_known: bool = True
    """False if the total is an estimate."""
    rate: float | None = None
    """Bytes per second in the last minute that is recorded; before, since chunks started to move."""
    seconds_left: float | None = None
    """What is left at this rate."""
    silent_since: float | None = None
    """Unix time in seconds since which a server has not answered a running job, or with errors only."""
    silent_attempt: int | None = None
    """The present attempt of a request to it."""
    silent_errors: bool = False
    """Whether it answers with errors."""
    retries: int = 0
    """Requests that were repeated in all runs; those that a client repeats itself are not known."""
    checked: VerifyLevel | None = None
    """How much was compared before arrays were published; None if no run came so far."""
    verified: Literal["sample", "full"] | None = None
    """What `verify` has compared since the last change, if it found no difference."""
    arrays: tuple[ArrayStatus, ...]
    """Sorted by path, refused ones included."""
    groups_done: int = 0
    groups_total: int = 0
    problems: tuple[Problem, ...] = ()
    """Refusals and failures first, then warnings and notes."""
    conventions: tuple[RecognizedConvention, ...] = ()
    """Those whose metadata was converted."""
    options: tuple[str, ...] = ()
    """As in `Outcome`."""
    requested: Mapping[str, str] = field(default_factory=dict)
    """What was requested of the job, by option, without secrets."""
    recipe: JSONObject = field(default_factory=dict)
    """Members of the recipe that request something."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of zarrlift, Python and packages, in the last run; empty if there was none."""
    excluded: int = 0
    """Nodes that the recipe excluded."""
    last_update: Totals | None = None
    """The sums over the arrays that the last update has changed; None without one."""

    def __repr__(self) -> str:
        activity = f", {self.activity}" if self.activity else ""
        states = Counter(array.state for array in self.arrays)
        others = "".join(f", {states[state]} {state}" for state in ("failed", "refused") if states[state])
        counts = f"{states['done']} of {len(self.arrays)} arrays done{others}"
        return f"<Status {self.job!r} ({self.state}{activity}): {counts}>"

    @property
    def arrays_done(self) -> int:
        """Number of arrays that are published."""
        return sum(array.state == "done" for array in self.arrays)

    @property
    def refusals(self) -> tuple[Problem, ...]:
        """Why nodes are refused or have failed."""
        return tuple(problem for problem in self.problems if problem.severity == "refusal")

    @property
    def totals(self) -> Totals:
        """The sums over the arrays that are done."""
        return Totals.of(self.arrays)

    @property
    def routes(self) -> Mapping[str, Totals]:
        """The sums of each route over the arrays that are done."""
        names = dict.fromkeys(array.route for array in self.arrays if array.state == "done" and array.route)
        return {name: Totals.of(array for array in self.arrays if array.route == name) for name in names}

    def to_json(self) -> JSONObject:
        """JSON for machines; member names are stable."""
        return {
            **json_of_fields(self, "arrays", "conventions", "problems", "last_update"),
            "arrays_done": self.arrays_done,
            "arrays_total": len(self.arrays),
            "totals": self.totals.to_json(),
            "last_update": None if self.last_update is None else self.last_update.to_json(),
            "routes": {name: totals.to_json() for name, totals in self.routes.items()},
            "conventions": [{"name": seen.name, "summary": seen.summary} for seen in self.conventions],
            "problems": [problem.to_json() for problem in self.problems],
            "arrays": [array.to_json() for array in self.arrays],
        }


@explicit
def status(target: PathText, **options: Unpack[JobPlaceKeywords]) -> Status:
    """Return the status of a job: its progress, each array with its route and sizes, and all problems.

    A running job is not affected. Only the job file is read.
    `target` is the job file or the destination (in place, the source);
    `job` names the job file of a destination or source if it is not where jobs are looked for.

    Raises
    ------
    JobError
        If there is no such job.

    Examples
    --------
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    >>> status = zarrlift.status("new.zarr")
    >>> status.state, status.bytes_done == status.bytes_total, status.totals.objects_before
    ('done', True, 12)
    """
    with Job.open(find_job(target, given(options, JobPlace)), write=False) as opened:
        return status_of(opened)


def status_of(job: Job) -> Status:
    """The status of an open job; only reads it."""
    plan, run = job.header, last_run(job)
    both, last = job.totals(), job.totals(passes="last")
    shared = IdentityCache(_Shared.of)
    arrays: list[ArrayStatus] = []
    problems = [Problem.from_json(problem) for problem in plan["problems"]]
    groups: Counter[NodeState] = Counter()
    with reporting_damage(job.path):
        for row, own, common in job.planned_rows():
            problems += (*map(Problem.from_json, own["problems"]), *row.problems)
            moved = both.get(row.id, TaskTotals())
            if row.kind == "array":
                arrays.append(_array(row, own, shared(common), moved, last.get(row.id, TaskTotals())))
            elif row.kind == "group":
                groups[row.state] += 1
            elif own["kind"] == "array":
                arrays.append(ArrayStatus(path=row.path, state=row.state))
    updated = float(job.fact("updated") or 0)
    changed: list[str] | None = json.loads(job.fact("last_update") or "null")
    paths = frozenset(changed or ())
    now = activity(job.path, run) if job.state == "incomplete" else None
    done, total = sum(array.bytes_done for array in arrays), sum(array.bytes_total for array in arrays)
    if now == "running":
        done += min(int(job.fact("under_way") or 0), max(total - done, 0))
    silent = json.loads((now == "running" and job.fact("silent")) or "[null, null, false]")
    rate = None
    if run is not None and now == "running" and silent[0] is None:
        rate = float(job.fact("rate") or 0) or run.rate(done, updated)
    return Status(
        job=str(job.path),
        source=redact(plan["source"]),
        destination=redact(plan["destination"]),
        in_place=plan["in_place"],
        format=plan["format"],
        state=job.state,
        activity=now,
        undoing=job.fact("undoing") is not None,
        created=float(job.fact("created") or 0),
        updated=updated,
        seconds=seconds_spent(job),
        host=run.owner.host if run else None,
        process=run.owner.pid if run else None,
        began=run.began if run else None,
        bytes_done=done,
        bytes_total=total,
        bytes_known=all(array.bytes_known for array in arrays),
        rate=rate,
        seconds_left=(total - done) / rate if rate else None,
        silent_since=silent[0],
        silent_attempt=silent[1],
        silent_errors=silent[2],
        retries=int(job.fact("retries") or 0),
        checked=job.fact("checked"),  # type: ignore[arg-type]
        verified=job.fact("verified"),  # type: ignore[arg-type]
        arrays=tuple(arrays),
        groups_done=groups["done"],
        groups_total=groups.total(),
        problems=tuple(sorted(dict.fromkeys(problems), key=lambda problem: _ORDER.index(problem.severity))),
        conventions=tuple(RecognizedConvention(**seen) for seen in plan.get("conventions", ())),
        options=option_words(job),
        requested=requested(job),
        recipe=changed_members(plan["recipe"]),
        versions={} if run is None else dict(run.versions),
        excluded=len(plan["excluded"]),
        last_update=None if changed is None else Totals.of(array for array in arrays if array.path in paths),
    )


class _Shared(NamedTuple):
    """What the plans of arrays of one layout have in common, as far as a status has it."""

    reason: str
    shape: tuple[int, ...]
    before: StoredForm
    after: StoredForm
    has_blocks: bool
    drops_empty: bool

    @classmethod
    def of(cls, data: JSONObject) -> Self:
        source = layout_from_json(data["source"])
        return cls(
            reason=data["route"]["reason"],
            shape=source.shape,
            before=StoredForm.of(source),
            after=StoredForm.of(layout_from_json(data["destination"])),
            has_blocks=data.get("block_shape") is not None,
            drops_empty=data["drop_empty"],
        )


def _array(
    row: NodeRow, own: JSONObject, shared: _Shared, moved: TaskTotals, written: TaskTotals
) -> ArrayStatus:
    """An array, with what is recorded of both passes (`moved`) and of the last one (`written`)."""
    done, stays = row.state == "done", row.route == "stay"
    chunks, bytes_in = own["chunks"], own["bytes_in"] if own["bytes_in_known"] else None
    if done and bytes_in is None and not (stays or shared.has_blocks):  # each object was read once
        chunks, bytes_in = moved.chunks, moved.bytes_in
    # An omitted chunk is an object less only if each object is made of one chunk.
    objects = written.objects if shared.has_blocks else written.chunks - written.dropped
    whole = Whole(chunks, bytes_in, objects, written.bytes_out)
    if stays:
        whole = Whole(chunks, bytes_in, chunks, bytes_in)
    objects_after: int | None = whole.objects_out
    if "changes" in own:  # the job has no record of what an update left unchanged: it is counted afterwards
        whole = Whole(*own["changes"]["whole"])
        if whole.bytes_out is None and row.route in ("relink", "pass"):
            whole = whole._replace(bytes_out=whole.bytes_in)
        objects_after = None if whole.bytes_out is None and shared.drops_empty else whole.objects_out
    return ArrayStatus(
        path=row.path,
        state=row.state,
        route=row.route,
        reason=shared.reason,
        shape=shared.shape,
        before=shared.before,
        after=shared.after,
        tasks_done=moved.tasks,
        tasks_total=row.work.tasks,
        bytes_done=moved.bytes_in,
        bytes_total=total_bytes(row.work, moved, finished=done),
        bytes_known=done or row.work.bytes_known,
        bytes_written=moved.bytes_out,
        objects_done=moved.chunks,
        objects_before=whole.chunks,
        objects_after=objects_after if done else None,
        bytes_before=whole.bytes_in,
        bytes_after=whole.bytes_out if done else None,
        dropped=moved.dropped,
    )
