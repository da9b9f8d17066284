"""Runs tasks, in the same way in a thread, a process or on another machine.

In a move over an earlier result, objects that a task does not make any more are deleted.
"""

from __future__ import annotations

import functools
import json
import pickle
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import ZarrstackError
from zarrstack.version import __version__

from ..archive.shard_reader import chunk_reader
from ..core.codecs.base import Buffer
from ..core.grid.frames import Shards
from ..core.grid.grid import Grid
from ..core.grid.overlap import touched
from ..errors import WorkerError
from ..planning.routes import Move
from ..storage.bandwidth import passing, shares_of
from ..storage.base import Storage
from ..storage.giving_up import Stop
from ..storage.open_storage import open_storage
from ..storage.remote.store_writer import writer_for
from ..storage.transformer_stack import with_layers
from ..storage.unanswered import report_in
from ..storage.writer import Writer, at_destination
from .blocks import reshard
from .counts import MoveCounts, MoveResult
from .reframe import Mover, ObjectConversion, Objects
from .regrid import ValueAssembler
from .relink import relink
from .tasks import Task
from .unexpected_errors import unexpected_error

if TYPE_CHECKING:
    from ..storage.writer import ObjectStream


def may_omit_objects(move: Move) -> bool:
    """Whether a task may make fewer objects than its units have."""
    if move.route.copies:
        return False
    return move.values.drop_empty or move.route.name == "regrid" or isinstance(move.source.frame, Shards)


class RecordingWriter(Writer):
    """A writer that knows what each thread has written since it was asked to begin."""

    def __init__(self, writer: Writer) -> None:
        self.storage = writer.storage
        self._writer = writer
        self._local = threading.local()

    def begin(self) -> set[str]:
        """A set that receives the keys of this thread's objects from now on."""
        keys: set[str] = set()
        self._local.keys = keys
        return keys

    def write(self, key: str, data: Buffer) -> None:
        self._local.keys.add(key)
        self._writer.write(key, data)

    def write_many(self, items: Sequence[tuple[str, Buffer]]) -> None:
        self._local.keys.update(key for key, _ in items)
        self._writer.write_many(items)

    def stream(self, key: str, *, reserve: int = 0) -> ObjectStream:
        """An object in pieces; one that is discarded fails its task."""
        self._local.keys.add(key)
        return self._writer.stream(key, reserve=reserve)

    def behind(self) -> AbstractContextManager[None]:
        return self._writer.behind()


class Replacing:
    """A mover that deletes what remains of an earlier result in the units of a task."""

    def __init__(self, move: Move, writer: RecordingWriter, mover: Mover) -> None:
        """`mover` writes to `writer`."""
        self._writer = writer
        self._mover = mover
        self._move = move
        self._objects = move.destination.objects
        self._blocks = None if move.block_shape is None else Grid(move.source.shape, move.block_shape)

    def __call__(self, task: Task, counts: MoveCounts) -> None:
        """Move the units of a task, then delete; raises DestinationError, other errors are counted."""
        written = self._writer.begin()
        self._mover(task, counts)
        if counts.failures or not len(task.indexes):
            return
        objects = task.indexes
        if self._blocks is not None:
            objects = touched(objects, self._blocks, self._objects)
        places = self._objects.coordinates_of(objects)
        with at_destination():
            for key in self._move.destination.object_keys(self._move.path, places):
                if key not in written:
                    self._writer.storage.delete(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """Access of a worker to both ends of a job; hashable and picklable.

    The options are JSON text. They may contain credentials, so this is never stored.
    """

    job_id: str
    run: str
    """Unique for each run: a worker's knowledge of the destination is valid for one run only."""
    source: str = field(repr=False)  # Dask logs the arguments of a call that fails
    destination: str = field(repr=False)
    source_options: str = field(default="{}", repr=False)
    destination_options: str = field(default="{}", repr=False)
    source_through: str | None = None
    destination_through: str | None = None
    fsync: bool = False
    hard_links: bool = False
    recheck: bool = True
    unanswered: str | None = None
    """Where a worker on this machine reports that a server does not answer (`storage.unanswered`)."""
    bytes_per_second: float | None = field(default=None, compare=False)
    """The limit at each end of one call, if there is one; it may change between calls."""


class Worker:
    """Runs tasks of one job in one process; compiles each array once."""

    def __init__(
        self,
        source: Storage,
        writer: Writer,
        *,
        hard_links: bool = False,
        recheck: bool = True,
        stop: Stop | None = None,
    ) -> None:
        self.stop = stop or Stop()
        """Ends its tasks, which raise KeyboardInterrupt then."""
        self._source = source
        self._writer = writer
        self._hard_links = hard_links
        self._recheck = recheck
        self._movers: dict[str, tuple[Move, Mover]] = {}
        self._running: dict[int, MoveCounts] = {}
        """Counts by thread."""

    def forked(self) -> None:
        """Prepare a process made by `fork`, before it runs a task."""
        self._writer.forked()

    def run(self, task: Task) -> MoveResult:
        """Move the chunks of a task; raises DestinationError, other errors are in the result.

        A task is safe to repeat, so it may run again after a kill, in any process. All bad chunks of a task
        are reported; an error of the destination ends it at once, since it would affect the other chunks too.
        """
        move, mover = self._movers.get(task.move.path, (None, None))
        if mover is None or move != task.move:
            mover = self._mover(task.move)
            self._movers[task.move.path] = task.move, mover
        counts = MoveCounts(task.move.path, certain=task.certain, inner_chunks=task.inner_chunks)
        self._running[threading.get_ident()] = counts
        before = passing.set(counts.let_pass)
        try:
            with self.stop.heeded():
                with self._writer.behind():
                    mover(task, counts)
                self._writer.settle()
            return counts.moved()
        finally:
            passing.reset(before)
            del self._running[threading.get_ident()]

    def _mover(self, move: Move) -> Mover:
        """Compiles the move of one array, by its route; shared between threads."""
        writer = self._writer
        if move.replaces and may_omit_objects(move):
            recorder = RecordingWriter(writer)
            return Replacing(move, recorder, self._compiled(move, recorder))
        return self._compiled(move, writer)

    def _compiled(self, move: Move, writer: Writer) -> Mover:
        recheck = self._recheck
        source = writer.storage if move.source_is_destination else self._source
        match move.route.name:
            case "relink" | "pass":
                return relink(move, source, writer, hard_links=self._hard_links)
            case "reframe" | "recode" | "rewrite" if move.block_shape is None:
                chunks = chunk_reader(source, move.path, move.source, allow_pickle=move.values.allow_pickle)
                return Objects(move, chunks, writer, ObjectConversion(move, chunks, recheck=recheck))
            case "reframe" | "recode" | "rewrite":
                return reshard(move, source, writer, recheck=recheck)
            case "regrid":
                return ValueAssembler(move, source, writer, recheck=recheck)
            case "stay":
                raise AssertionError("chunks that stay have no tasks")

    def under_way(self) -> dict[str, tuple[int, int]]:
        """(chunks, bytes) of the source read by running tasks, by path of the array."""
        amounts: dict[str, tuple[int, int]] = {}
        for counts in list(self._running.values()):
            chunks, nbytes = amounts.get(counts.path, (0, 0))
            amounts[counts.path] = (chunks + counts.chunks, nbytes + counts.bytes_under_way)
        return amounts


def sent(*content: Any) -> tuple[str, bytes]:
    """Content for a worker: the version, and data that only this version can read."""
    return __version__, pickle.dumps(content)


def received(version: str, errand: bytes) -> Any:
    """What was `sent`; WorkerError if another version sent it.

    That is not unpickled: Dask's workers do not survive arguments that cannot be unpickled.
    """
    if version != __version__:
        raise WorkerError(
            "a worker has another version of zarrlift",
            found=__version__,
            expected=version,
            advice="Install the same version everywhere, then resume.",
        )
    return pickle.loads(errand)  # noqa: S301 - of our own coordinator, whose calls are pickled anyway


def move(version: str, errand: bytes) -> MoveResult:
    """Run a task in any process; both ends are opened once per process.

    Unexpected errors are in the result, so that raised ones come from the executor.
    """
    spec, task = received(version, errand)
    share = spec.bytes_per_second
    try:
        with nullcontext() if share is None else shares_of(spec.run).during(share):
            return _worker(spec).run(task)
    except ZarrstackError:
        raise
    except KeyboardInterrupt:
        if stop_of(spec.run).is_set():  # Dask's workers would end with it
            raise WorkerError("the run of this task was interrupted") from None
        raise
    except Exception as error:  # noqa: BLE001 - see `unexpected_error`
        return MoveResult(problems=(unexpected_error(task.move.path, error),))


_stops: Final[dict[str, Stop]] = {}


def stop_of(run: str) -> Stop:
    """What ends the calls of a run in this worker process."""
    while len(_stops) > 4 and run not in _stops:  # as many runs as `_worker` keeps
        _stops.pop(next(iter(_stops)), None)
    return _stops.setdefault(run, Stop())


def give_up(version: str, errand: bytes) -> None:
    """End the calls of a run in this worker process."""
    (run,) = received(version, errand)
    stop_of(run).set()


def both_ends(spec: WorkerSpec, *, write: bool) -> tuple[Storage, Storage]:
    """The source and the destination, through their layers."""
    source = open_storage(spec.source, storage_options=json.loads(spec.source_options))
    destination = open_storage(
        spec.destination,
        storage_options=json.loads(spec.destination_options),
        mode="w" if write else "r",
    )
    destination.attach(spec.job_id, worker=write)
    source = with_layers(source, spec.source_through)
    destination = with_layers(destination, spec.destination_through, written=write)
    if spec.bytes_per_second is None:
        return source, destination
    limit = shares_of(spec.run)
    return limit.over(source, "source"), limit.over(destination, "destination")


@functools.lru_cache(maxsize=4)
def _worker(spec: WorkerSpec) -> Worker:
    report_in(spec.unanswered)
    source, destination = both_ends(spec, write=True)
    return Worker(
        source,
        writer_for(destination, spec.job_id, fsync=spec.fsync),
        hard_links=spec.hard_links,
        recheck=spec.recheck,
        stop=stop_of(spec.run),
    )
