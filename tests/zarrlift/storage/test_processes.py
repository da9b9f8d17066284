"""Workers in other processes: the same result, nothing is left whoever dies, and no store waits in a fork."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import uuid
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.zarrlift.storage.conftest import files, fill, zipped
from zarr.abc.store import Store
from zarr.storage import MemoryStore, ObjectStore

import zarrlift
from zarrlift.errors import JobError
from zarrlift.transfer import worker
from zarrlift.transfer.events import Event, TaskDone
from zarrstack.core.errors import ZarrstackError
from zarrstack.system.fork_safety import REQUESTS

KILLER = Path(__file__).parents[1] / "jobs" / "faults" / "killed_run.py"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight hundred chunks, so that there is always another task to come."""
    path = tmp_path_factory.mktemp("many") / "source.zarr"
    array = zarr.create_array(path, shape=(1600,), chunks=(2,), dtype="<i4", compressors=None, zarr_format=2)
    array[:] = np.arange(1600)
    return path


@pytest.fixture(scope="module")
def expected(many: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    place = tmp_path_factory.mktemp("expected") / "out.zarr"
    assert zarrlift.migrate(many, place).ok
    return files(place)


def test_processes_and_any_executor_give_the_same_result(archive, tmp_path: Path) -> None:
    zarrlift.migrate(archive, tmp_path / "threads.zarr")
    wanted = files(tmp_path / "threads.zarr")
    outcome = zarrlift.migrate(archive, tmp_path / "processes.zarr", executor="processes", workers=2)
    assert outcome.ok, outcome.problems
    assert files(tmp_path / "processes.zarr") == wanted
    start = zipped(tmp_path / "a.zip", archive)
    outcome = zarrlift.migrate(start, tmp_path / "executor.zarr", executor=Cluster())
    assert outcome.ok, outcome.problems
    assert files(tmp_path / "executor.zarr") == wanted
    assert multiprocessing.active_children() == []


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("end", ["source", "destination"])
@pytest.mark.parametrize("kind", ["MemoryStore", "memory://"])
def test_a_store_in_memory_is_beyond_their_reach(kind, end, archive, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = MemoryStore() if kind == "MemoryStore" else f"memory://{uuid.uuid4()}/x.zarr"
    ends = (fill(store, archive), tmp_path / "out.zarr") if end == "source" else (archive, store)
    with pytest.raises(JobError, match=r"a store that exists only in this one.*Use threads"):
        zarrlift.migrate(*ends, executor="processes")
    assert not list(tmp_path.iterdir())
    with ThreadPoolExecutor(2) as threads:
        assert zarrlift.migrate(*ends, executor=threads).ok


class KillsWorkers:
    """Kills every worker as soon as one has done something."""

    killed = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, TaskDone):
            for child in () if self.killed else multiprocessing.active_children():
                os.kill(child.pid, signal.SIGKILL)
            self.killed = True


@pytest.mark.slow
def test_the_tasks_of_workers_that_die_are_done_again(many, expected, tmp_path: Path) -> None:
    place = tmp_path / "out.zarr"
    outcome = zarrlift.migrate(many, place, executor="processes", workers=2, progress=KillsWorkers())
    assert outcome.ok, outcome.problems
    assert multiprocessing.active_children() == []
    assert files(place) == expected


@pytest.mark.slow
def test_a_pool_of_the_caller_that_breaks_is_one_clear_problem_and_the_job_resumes(
    many, expected, tmp_path: Path
) -> None:
    place = tmp_path / "out.zarr"
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        outcome = zarrlift.migrate(many, place, executor=pool, progress=KillsWorkers())
    assert outcome.state == "incomplete"
    assert [(p.kind, p.message) for p in outcome.problems] == [("worker", "a worker died")]
    assert "Resume" in outcome.problems[0].advice
    assert not (place / "zarr.json").exists()
    assert zarrlift.resume(place, executor="processes", workers=2).ok
    assert files(place) == expected


class Cluster(Executor):
    """Workers elsewhere, reached by pickling, as Dask does: with a version of their own."""

    def __init__(self, version: str = zarrlift.__version__) -> None:
        self.version = version
        self.tasks = 0
        self.functions = []

    def submit(self, function, /, *arguments):
        """Run it at once, after a trip."""
        self.tasks += 1
        message, future = pickle.dumps((function, arguments)), Future()
        self.functions.append(function)
        function, arguments = pickle.loads(message)  # which no version may fail at: Dask's workers would die
        try:
            with pytest.MonkeyPatch.context() as there:
                there.setattr(worker, "__version__", self.version)
                future.set_result(function(*arguments))
        except ZarrstackError as error:
            future.set_exception(error)
        return future


class ClosedClientError(Exception):
    """As Dask's client raises it."""


class RefusesTasks(Cluster):
    """Its scheduler dies before the fifth task."""

    def submit(self, function, /, *arguments):
        """Run it, or not."""
        if self.tasks == 4:
            raise ClosedClientError("client already closed")
        return super().submit(function, *arguments)


class LosesResults(Cluster):
    """Its scheduler dies while the fifth task runs."""

    def submit(self, function, /, *arguments):
        """Run it; the answer may be lost."""
        future = super().submit(function, *arguments)
        if self.tasks >= 5:
            future = Future()
            future.set_exception(ClosedClientError("client already closed"))
        return future


def test_workers_of_another_version_are_refused_with_both_versions(many, expected, tmp_path: Path) -> None:
    place = tmp_path / "out.zarr"
    outcome = zarrlift.migrate(many, place, executor=Cluster("0.0.7"))
    (problem,) = outcome.problems
    assert (problem.kind, problem.found, problem.expected) == ("worker", "0.0.7", zarrlift.__version__)
    assert not (place / "zarr.json").exists()
    assert zarrlift.resume(place, executor=Cluster()).ok
    assert files(place) == expected


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("cluster", [RefusesTasks, LosesResults])
def test_workers_that_cannot_be_reached_any_more_are_one_problem(
    cluster, many, expected, tmp_path: Path
) -> None:
    place = tmp_path / "out.zarr"
    (problem,) = zarrlift.migrate(many, place, executor=cluster()).problems
    assert (problem.kind, problem.found) == ("worker", "ClosedClientError: client already closed")
    assert "resume" in problem.advice
    assert zarrlift.resume(place, executor=Cluster()).ok
    assert files(place) == expected


@pytest.mark.slow(one_in=3)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("seed", range(3))
def test_workers_end_with_a_coordinator_that_is_killed(seed, many, expected, tmp_path: Path) -> None:
    place = tmp_path / "out.zarr"
    arguments = [
        "migrate",
        str(many),
        str(place),
        "--executor",
        "processes",
        "--workers",
        "2",
        "--verify",
        "none",
    ]
    # Before, while and after the workers do theirs; the coordinator changes little by itself.
    moment = random.Random(seed).randint(2, 9)
    killed = subprocess.run(
        [sys.executable, str(KILLER), str(moment), str(tmp_path), *arguments],
        capture_output=True,  # waits for every process that holds the pipes, so for all workers too
        text=True,
        check=False,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL
    assert "Traceback" not in killed.stderr
    again = zarrlift.migrate(many, place)
    assert again.ok, again.problems
    assert files(place) == expected


INTERRUPTED = """
import os, signal, sys
from zarrlift.jobs import progress_display
from zarrlift.transfer.events import TaskDone
class Progress(progress_display.LogProgress):
    def __call__(self, event):
        if isinstance(event, TaskDone):
            os.killpg(0, signal.SIGINT)  # as a terminal does: everybody gets it
progress_display.progress_for = lambda **options: Progress()
from zarrlift.cli import main
sys.exit(main())
"""


def test_ctrl_c_ends_all_without_a_traceback(many, expected, tmp_path: Path) -> None:
    place = tmp_path / "out.zarr"
    words = ["migrate", str(many), str(place), "--executor", "processes", "--workers", "2"]
    stopped = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        start_new_session=True,
    )
    assert stopped.returncode == 130
    stopping, interrupted = stopped.stderr.splitlines()
    assert stopping.startswith("zarrlift: Stopping: ")
    assert interrupted.startswith("zarrlift: interrupted. Continue with: zarrlift resume ")
    assert zarrlift.resume(place).ok
    assert files(place) == expected


# Processes that used obstore: in a child forked later, where its stores wait for ever; at the end.

SCRIPT = """
import os, pickle, signal, sys, warnings
from pathlib import Path
import obstore.store, zarr, zarrlift
from zarr.storage import LoggingStore, MemoryStore, ObjectStore
from zarrstack import Cache, Log, Retry, stack
from zarrstack.system.zarr_internals import sync

warnings.simplefilter("ignore", DeprecationWarning)
folder = sys.argv[1]

def raw():
    return ObjectStore(obstore.store.LocalStore(folder))

def read(store):
    return int(zarr.open_array(store, mode="r", zarr_format=3)[1])

def forked(act):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            print(act())
        except Exception as error:
            print(type(error).__name__, "forked after obstore was used" in str(error))
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "it waits for ever"

if __name__ == "__main__":
    layers = stack(raw(), Retry(), Cache())
    forked(lambda: read(layers))
    print(read(layers))
    array = zarr.open_array(stack(raw(), Log()), mode="r")
    view = zarrlift.open(raw())
    print(view[1])
    for act in (
        lambda: read(layers),
        lambda: read(raw()),
        lambda: sync(layers.exists("c/1")),
        lambda: array[1],
        lambda: read(stack(LoggingStore(raw(), log_level="ERROR"), Cache())),
        lambda: view[1],
        lambda: zarrlift.open(raw())[1],
        lambda: forked(lambda: read(layers)),
        lambda: (Path("pickled").write_bytes(pickle.dumps(layers)), str(layers))[1],
    ):
        forked(act)
    print(read(layers), read(pickle.loads(Path("pickled").read_bytes())))
"""
REFUSED = "StorageError True\n"


def test_a_child_forked_after_obstore_was_used_gets_an_error(tmp_path):
    import zarr

    zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="i4")[:] = 7
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, tmp_path / "script.py", tmp_path / "a"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = f'retry > cache > object_store://LocalStore("{tmp_path / "a"}")\n'
    assert done.stdout == "7\n7\n7\n" + 8 * REFUSED + "None\n" + shown + "7 7\n"


def test_every_request_of_a_store_is_refused():
    asks = {name for name in vars(Store) if callable(getattr(Store, name))} | {"_ensure_open"}
    harmless = {"open", "close", "with_read_only", "_check_writable", "_open"}
    synchronous = {name for name in asks if name.endswith("_sync")}
    own = {name for name in asks if name.startswith("__")} | {"_get_bytes", "_get_json", "_get_bytes_sync"}
    assert asks - harmless - synchronous - own <= set(REQUESTS)
    assert not any(hasattr(ObjectStore, name) for name in ("get_sync", "set_sync", "delete_sync"))


LAST = """
import asyncio, sys
import obstore
from obstore.store import S3Store
from zarrlift.storage.remote import event_loop

keys = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1"}
store = S3Store("bucket", endpoint=sys.argv[1], **keys, client_options={"allow_http": True})

async def put():
    await asyncio.gather(*(obstore.put_async(store, f"{number}", b"") for number in range(64)))

event_loop.run(put())
"""


@pytest.mark.slow
def test_a_process_that_ends_after_its_last_request_is_not_aborted(our_bucket, tmp_path):
    """Without the last turn of obstore's threads, one in eight is."""
    (tmp_path / "script.py").write_text(LAST)
    words = [sys.executable, tmp_path / "script.py", our_bucket.endpoint]
    codes = [subprocess.run(words, check=False).returncode for _ in range(20)]
    assert codes == [0] * 20
