"""Gives a job exclusive use of its destination by a claim, from before the first write until the end.

A claim is a small object that is created only if none exists: next to a local directory
(`NAME.zarrlift.claim`), or in the root of any other destination. It names the host and process that hold it.
The claim of a killed process can be taken over if that process has provably ended, on this host or because
its scheduler has started it again, and by one process only: to take over a claim, a process first creates a
second claim named after the content of the first.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from zarrstack.core.errors import Problem, StorageError
from zarrstack.system.this import State

from ..core.problems import command
from ..errors import JobError
from ..storage.base import BESIDE, Storage
from ..storage.local.own_names import with_suffix
from ..storage.local.owner_process import OwnerProcess
from ..storage.local.partial_files import sweep_partial
from ..storage.local.storage import LocalStorage
from ..storage.open_storage import is_url, place_below
from .ledger.database import HeldError
from .ledger.ledger import Job
from .outcome import Outcome

_CLOSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""Errors that systems raise for a directory in which files cannot be created."""
_ATTEMPTS: Final = 20
"""Maximum number of retries if a claim disappears or changes between two requests."""
_SETTLED: Final = 0.2
"""Seconds after which an empty claim is considered left by a power failure, not being written."""

_held: Final[set[str]] = set()
"""Tokens of the claims held by this process."""
_RESTARTS: Final = {"SLURM_JOB_ID": "SLURM_RESTART_COUNT", "AWS_BATCH_JOB_ID": "AWS_BATCH_JOB_ATTEMPT"}
"""Variables with the id of an element of a job array, which it keeps when it is started again, and with how
often that was (sbatch(1), "Output environment variables"; AWS Batch, "Job environment variables").
"""
_SCHEDULED: Final = (*_RESTARTS, "LSB_JOBID", "JOB_COMPLETION_INDEX")
"""Variables that schedulers set for every job."""
_claiming = threading.Lock()
"""Held while a claim is made: stores inside this process have no other means of exclusion."""


def _is_scheduled() -> bool:
    """Whether a scheduler has started this process, and reports it if it dies."""
    return any(os.environ.get(name) for name in _SCHEDULED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of an element of a job array; a scheduler makes the next one when this one has ended."""

    element: str
    number: int

    @classmethod
    def of_this_process(cls, environment: Mapping[str, str] | None = None) -> Self | None:
        """That of this process; None without a scheduler, or if it does not count the starts."""
        variables = os.environ if environment is None else environment
        for name, counter in _RESTARTS.items():
            if element := variables.get(name):
                count = variables.get(counter, "0")
                cluster = variables.get("SLURM_CLUSTER_NAME", "")
                return cls(
                    element=f"{name}={element} {cluster}".strip(),
                    number=int(count) if count.isdecimal() else 0,
                )
        return None

    def is_over(self) -> bool:
        """Whether its element has been started again, as this process."""
        own = Attempt.of_this_process()
        return own is not None and own.element == self.element and own.number > self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimHolder:
    """The content of a claim."""

    token: str
    """Random, which makes every claim unique."""
    job: str
    """The job's id."""
    file: str
    """Path of the job file, on the host that made the claim."""
    since: float
    """Unix time in seconds."""
    replaced: str = ""
    """Digest of the claim that this one replaced."""
    owner: OwnerProcess
    attempt: Attempt | None = None

    def to_bytes(self) -> bytes:
        """The stored form."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> ClaimHolder | None:
        """Inverse of `to_bytes`; None for any other content."""
        try:
            members: Any = json.loads(data)
            texts = {name: str(members[name]) for name in ("token", "job", "file", "replaced")}
            attempt = members.get("attempt")
            return cls(
                attempt=None if attempt is None else Attempt(**attempt),
                since=float(members["since"]),
                owner=OwnerProcess.from_json(members["owner"]),
                **texts,
            )
        except (ValueError, TypeError, KeyError):
            return None

    @property
    def state(self) -> State:
        """Whether the process that holds the claim is still running."""
        state = self.owner.state()
        if state == "unknown" and self.attempt is not None and self.attempt.is_over():
            return "ended"
        if state == "running" and self.owner.pid == os.getpid() and self.token not in _held:
            return "ended"  # its release failed
        return state

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        return f"{self.owner}, since {since}, job file {self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A location of a claim."""

    storage: Storage
    key: str

    @property
    def shown(self) -> str:
        return place_below(self.storage.url, self.key)

    def read(self) -> bytes | None:
        """The stored claim, if any; waits for a claim that is being written."""
        data = self.storage.get(self.key)
        if data is not None and not data.strip(b"\0"):
            time.sleep(_SETTLED)
            data = self.storage.get(self.key)
        return data

    def behind(self, content: str) -> _Place:
        """The location of the claim that grants the right to replace the claim with that digest."""
        return replace(self, key=f"{self.key}-{content}")


@dataclass(slots=True, kw_only=True)
class Claim:
    """Exclusive use of a destination by this process. Created by `claimed`."""

    holder: ClaimHolder
    new_id: str | None
    """Id of the job to create; None if a job file existed when the claim was made."""
    notes: tuple[Problem, ...] = ()
    places: list[_Place] = field(default_factory=list)
    directories: tuple[Path, ...] = ()
    """Directories created for the claim, innermost first."""

    @property
    def path(self) -> Path | None:
        """The file of the claim; None if the destination is not a directory."""
        for place in self.places:
            if isinstance(place.storage, LocalStorage):
                return Path(place.storage.path(place.key))
        return None

    def require_held(self) -> None:
        """Raise JobError if the claim is not where it was made: its directory may be another one now."""
        for place in self.places:
            current = ClaimHolder.from_bytes(place.read() or b"")
            if current is None or current.token != self.holder.token:
                raise JobError(
                    "the claim of the destination is gone: it was removed, or its directory was replaced",
                    key=place.shown,
                    found="nothing" if current is None else str(current),
                    advice="Run the command again.",
                )

    def release(self) -> tuple[Problem, ...]:
        """Release the destination; returns notes about objects that could not be removed. May be repeated."""
        problems = []
        _held.discard(self.holder.token)  # a claim that remains nevertheless can be taken over
        while self.places:
            place = self.places.pop()
            try:
                current = ClaimHolder.from_bytes(place.read() or b"")
                if current is not None and current.token == self.holder.token:
                    place.storage.delete(place.key)
            except StorageError as error:
                problems.append(_stays(place, error))
        with _claiming if self.directories else nullcontext():  # another thread may be about to write there
            for directory in self.directories:
                with suppress(OSError):
                    LocalStorage(directory, resolved=True).delete_empty("")
        return tuple(problems)

    def end(self, outcome: Outcome) -> Outcome:
        """Release the destination and add the resulting problems to the outcome."""
        problems = (*self.notes, *self.release())
        return replace(outcome, problems=(*outcome.problems, *problems)) if problems else outcome


@contextmanager
def claimed(destination: Storage, file: Path, *, take_over: bool = False) -> Iterator[Claim]:
    """Hold the destination of the job with that file exclusively.

    `destination` is the storage without layers on top. Raises JobError if another job holds it, and
    StorageError.
    """
    file = Path(os.path.abspath(file))
    holder = ClaimHolder(
        token=os.urandom(8).hex(),
        job=_existing_job(file) or os.urandom(4).hex(),
        file=str(file),
        owner=OwnerProcess.of_this_process(),
        since=time.time(),
        attempt=Attempt.of_this_process(),
    )
    claim = Claim(holder=holder, new_id=None if os.path.lexists(file) else holder.job)
    try:
        with _claiming:
            _held.add(holder.token)
            _claim(claim, _places(destination), take_over=take_over)
        if isinstance(destination, LocalStorage):
            destination.hold()
        yield claim
    finally:
        claim.release()


def sweep_claim(destination: Storage, file: Path) -> None:
    """Remove the claim that a killed process of this job left; claims of other jobs are kept."""
    with suppress(JobError, StorageError), claimed(destination, file):
        pass


def is_exclusive(destination: Storage) -> bool:
    """Whether a claim excludes every other job, as far as this is known before one is made."""
    return destination.exclusive or destination.in_process


def not_exclusive(url: str) -> Problem:
    """The problem to report for a destination where two jobs may start at the same time."""
    return Problem(
        kind="claim",
        severity="note",
        message="the destination cannot be claimed exclusively: its store has no exclusive creation",
        found=url,
        advice="Start one job at a time.",
    )


def _existing_job(file: Path) -> str | None:
    """The id of an existing job; JobError, before anything is claimed, for a file that cannot be opened."""
    if not os.path.lexists(file):
        return None
    with Job.open(file, write=False) as job:
        return job.id


def _places(destination: Storage) -> list[_Place]:
    """Possible locations of the claim, the usual one first; the other one is checked too.

    The claim is inside the directory if files cannot be created next to it, or if another file system begins
    there.
    """
    storage, key = destination.claim_place()
    inside = _Place(storage=storage, key=key)
    if not isinstance(destination, LocalStorage):
        return [inside]
    root = Path(destination.real)
    beside = _Place(storage=LocalStorage(root.parent, resolved=True), key=with_suffix(root.name, BESIDE))
    return [inside, beside] if os.path.ismount(root) else [beside, inside]


def _claim(claim: Claim, places: Sequence[_Place], *, take_over: bool) -> None:
    for number, place in enumerate(places):
        try:
            claim.directories = tuple(_missing(place))
            _take(place, claim.holder, take_over=take_over)
        except StorageError as error:
            cause = error.__cause__
            if number + 1 < len(places) and isinstance(cause, OSError) and cause.errno in _CLOSED:
                continue
            problem = error.problem
            advice = problem.advice or _nothing_created(place, cause)
            raise StorageError(
                "cannot claim the destination", key=place.shown, found=problem.found, advice=advice
            ) from error
        claim.places.append(place)
        break
    for other in places:
        if other not in claim.places and (content := other.read()) is not None:
            _require_free(other, content, claim.holder, take_over=take_over)
            other.storage.delete(other.key)
    main = claim.places[0]
    if not isinstance(main.storage, LocalStorage):
        _prove(claim, main)


def _nothing_created(place: _Place, cause: BaseException | None) -> str | None:
    """Advice for a directory that exists and takes no files, such as `/proc`, and for a server."""
    # aiohttp's, and that of fsspec where it only reads, as early versions do from web servers
    if isinstance(cause, NotImplementedError) or type(cause).__name__ == "ClientResponseError":
        return "Not every server takes files: name a directory, or a store such as s3://bucket/path."
    if not isinstance(place.storage, LocalStorage) or not isinstance(cause, OSError):
        return None
    if cause.errno not in (*_CLOSED, errno.ENOENT):
        return None
    above = next((path for path in (place.storage.root, *place.storage.root.parents) if path.exists()), None)
    return f"Nothing can be created in {above}. Choose another destination."


def _prove(claim: Claim, place: _Place) -> None:
    """Detect servers that ignore the condition and accept the same object twice, which excludes no one."""
    data = claim.holder.to_bytes()
    if place.storage.exclusive and place.storage.create(place.key, data):
        place.storage.exclusive = False
    current = ClaimHolder.from_bytes(place.read() or b"")
    if current is None or current.token != claim.holder.token:
        claim.places.clear()
        raise _beaten(place)
    if not is_exclusive(place.storage):
        claim.notes = (not_exclusive(place.storage.url),)


def _missing(place: _Place) -> Iterator[Path]:
    """Missing parent directories of a local claim."""
    if isinstance(place.storage, LocalStorage):
        directory = place.storage.root
        while not os.path.lexists(directory):
            yield directory
            directory = directory.parent


def _take(place: _Place, holder: ClaimHolder, *, take_over: bool) -> None:
    """Make a claim; JobError if another job may hold one."""
    if isinstance(place.storage, LocalStorage):
        sweep_partial(place.storage.path(place.key))
    for _ in range(_ATTEMPTS):
        if place.storage.create(place.key, holder.to_bytes()):
            return
        content = place.read()
        if content is None:
            continue
        other = ClaimHolder.from_bytes(content)
        if other is not None and other.token == holder.token:
            return  # the response was lost, not the request
        _require_free(place, content, holder, take_over=take_over)
        right = place.behind(_digest(content))
        _take(right, holder, take_over=take_over)
        try:
            if place.read() == content:
                place.storage.put(place.key, replace(holder, replaced=_digest(content)).to_bytes())
                if other is not None and other.replaced:
                    left = place.behind(other.replaced)
                    left.storage.delete(left.key)
                return
        finally:
            right.storage.delete(right.key)
    raise _beaten(place)


def _require_free(place: _Place, content: bytes, holder: ClaimHolder, *, take_over: bool) -> None:
    """Raise JobError unless the existing claim may be taken over."""
    other = ClaimHolder.from_bytes(content)
    state: State = "unknown" if content.strip(b"\0") else "ended"
    if other is not None:
        state = other.state
    job_left = other is not None and (is_url(other.file) or os.path.lexists(other.file))
    own = other is not None and (other.job == holder.job or other.file == holder.file)
    if state == "running":
        assert other is not None
        message = (
            "another process is running this job" if own else "another job is writing to this destination"
        )
        key, advice = (holder.file if own else place.shown), "Wait for it, or stop it first."
    elif state == "unknown" and not take_over:
        message = "this destination is claimed by a process that cannot be checked from this host"
        key = place.shown
        advice = "Wait for it. If it has certainly ended, use --take-over (in Python take_over=True)."
    elif state == "ended" and other is not None and job_left and not own and not take_over:
        message, key = "another job was stopped while it wrote to this destination", place.shown
        advice = f"Resume or undo it: {command('resume', other.file)}. --take-over leaves it as it is."
    else:
        return
    found = f"a claim that cannot be read: {content[:60]!r}" if other is None else str(other)
    held_by_others = state == "running" or (state == "unknown" and other is not None and _is_scheduled())
    raise (HeldError if held_by_others else JobError)(message, key=key, found=found, advice=advice)


def _beaten(place: _Place) -> HeldError:
    return HeldError(
        "another process claims this destination at the same time",
        key=place.shown,
        advice="Run the command again.",
    )


def _stays(place: _Place, error: StorageError) -> Problem:
    return Problem(
        kind="claim",
        severity="note",
        message="the claim of the destination cannot be removed",
        key=place.shown,
        found=error.problem.found,
        advice="Delete it, or use --take-over with the next job there.",
    )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
