"""How many calls are in flight, and what becomes of those that are lost with a worker."""

from __future__ import annotations

import errno
import multiprocessing
import os
import re
import signal
import subprocess
from collections import deque
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.zarrlift.storage.conftest import files

import zarrlift
from zarrlift.errors import WorkerError
from zarrlift.transfer.executors import dispatcher
from zarrlift.transfer.executors.dispatcher import Dispatcher, LostTaskError
from zarrlift.transfer.executors.engine import Engine, ProcessEngine, slots_of
from zarrstack.core.errors import UsageError


class Held(Executor):
    """A cluster that answers no call before `enough` are in flight; it grows once."""

    def __init__(self, slots: int, grown: int, enough: int) -> None:
        self.now = slots
        self.grown = grown
        self.enough = enough
        self.waiting = []
        self.most = 0

    def slots(self) -> int:
        """As a cluster tells it."""
        return self.now

    def submit(self, function, /, *arguments):
        """Hold the call, or answer all that are held."""
        future = Future()
        self.waiting.append((future, function, arguments))
        self.most = max(self.most, len(self.waiting))
        if len(self.waiting) >= self.now:
            self.now = self.grown
        if len(self.waiting) >= self.enough:
            self.enough = 0
            waiting, self.waiting = self.waiting, []
            for answered, called, given in waiting:
                answered.set_result(called(*given))
        return future


@pytest.mark.slow
def test_a_cluster_of_64_slots_holds_64_tasks_and_grown_to_128_as_many(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "many.zarr", mode="w", zarr_format=2)
    for name in "abc":
        array = group.create_array(name, shape=(4000,), chunks=(2,), dtype="<i4", compressors=None)
        array[:] = np.arange(4000)
    cluster = Held(64, grown=128, enough=128)
    outcome = zarrlift.migrate(tmp_path / "many.zarr", tmp_path / "out.zarr", executor=cluster)
    assert outcome.ok, outcome.problems
    assert cluster.most >= 128


@pytest.mark.parametrize(("slots", "grown"), [(64, 128), (500, 1000)])
def test_calls_in_flight_follow_the_slots_while_no_call_ends(slots: int, grown: int, monkeypatch) -> None:
    monkeypatch.setattr(dispatcher, "_LOOK_AGAIN", 0.001)
    cluster = Held(slots, grown=slots, enough=10**9)
    calls = Dispatcher(Engine(cluster))
    while calls.has_room():
        calls.submit(len(calls), abs, -1)
    assert cluster.most >= slots
    assert calls.ended() == []
    cluster.now = grown
    while calls.has_room():
        calls.submit(len(calls), abs, -1)
    assert cluster.most >= grown
    cluster.now = 1
    assert not calls.has_room()


class Mpi(Executor):
    """As mpi4py's pool says its size."""

    num_workers = 5


def test_an_executor_says_its_own_number_of_slots() -> None:
    with ThreadPoolExecutor(3) as threads, ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert [slots_of(executor)() for executor in (threads, pool, Mpi())] == [3, 2, 5]
        assert Engine(threads).wanted() == 9
        assert Engine(pool, workers=1).wanted() == 3
    assert slots_of(Executor()) is None
    assert Engine(Executor()).wanted() >= 64


def die() -> None:
    """As a worker that the system ends."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_call_that_kills_three_workers_fails_alone() -> None:
    engine = ProcessEngine(2)
    calls = Dispatcher(engine)
    ended = {}
    try:
        for item in range(6):
            calls.submit(item, *((die,) if item == 2 else (abs, -item)))
        while calls:
            for call in calls.ended():
                try:
                    ended[call.item] = call.result()
                except LostTaskError as error:
                    ended[call.item] = error.problem.kind
    finally:
        engine.close()
    assert ended == {0: 0, 1: 1, 2: "worker", 3: 3, 4: 4, 5: 5}
    assert multiprocessing.active_children() == []


class Forgets(Executor):
    """Loses calls with an error of its own."""

    def __init__(self, times: int, error: type[Exception] = ConnectionError) -> None:
        self.times = times
        self.error = error

    def submit(self, function, /, *arguments):
        """Answer, or lose the call."""
        future = Future()
        if self.times > 0:
            self.times -= 1
            future.set_exception(self.error("lost"))
        else:
            future.set_result(function(*arguments))
        return future


def first_end(calls: Dispatcher[int]):
    while True:
        for call in calls.ended():
            return call


@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_lost_call_is_done_again(times: int) -> None:
    calls = Dispatcher(Engine(Forgets(times)))
    calls.submit(0, abs, -7)
    assert first_end(calls).result() == 7


def test_one_that_is_lost_three_times_fails() -> None:
    calls = Dispatcher(Engine(Forgets(3)))
    calls.submit(0, abs, -7)
    with pytest.raises(LostTaskError, match=r"lost with its worker.*ConnectionError: lost"):
        first_end(calls).result()
    calls.submit(1, abs, -8)
    assert first_end(calls).result() == 8


def test_workers_that_lose_everything_or_lack_zarrlift_end_the_run() -> None:
    calls = Dispatcher(Engine(Forgets(10**9)))
    for item in range(3):
        calls.submit(item, abs, -7)
    with pytest.raises(WorkerError, match="no longer be reached"):
        deque(iter(calls.ended, None), maxlen=0)
    calls = Dispatcher(Engine(Forgets(1, ModuleNotFoundError)))
    calls.submit(0, abs, -7)
    with pytest.raises(WorkerError, match="ModuleNotFoundError"):
        calls.ended()


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        (7, "not an executor; found int"),
        ("other", r"no executor 'other'; expected threads, processes, dask, mpi, or dask=ADDRESS"),
        ("threads=tcp://me:secret@here:1", r"no executor 'threads='; expected .* or dask=ADDRESS"),
        ("dask=", r"no executor 'dask='"),
    ],
)
def test_what_is_no_executor_is_refused_before_anything_is_read(executor, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        zarrlift.migrate("nowhere", "there", executor=executor)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ("mpi", r"needs the package mpi4py. Install mpi4py"),
        ("dask", r"needs the package distributed. Install zarrlift.dask"),
        ("dask=tcp://here:1", r"needs the package distributed"),
    ],
)
def test_an_executor_without_its_package_says_what_to_install(executor, message: str, monkeypatch) -> None:
    monkeypatch.setattr("zarrlift.transfer.executors.engine.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=message):
        zarrlift.migrate("nowhere", "there", executor=executor)


def test_mpi_that_has_not_started_the_program_is_refused(monkeypatch) -> None:
    """Each of the processes of mpiexec would migrate the archive, and start workers of its own."""
    monkeypatch.setattr("zarrlift.transfer.executors.engine.find_spec", lambda name: name)
    with pytest.raises(UsageError, match=r"expected mpiexec -n N python -m mpi4py.futures -m zarrlift"):
        zarrlift.migrate("nowhere", "there", executor="mpi")


# MPI by its name, and Ray by the recipe of the docs, in an environment of their own: the same bytes.


PAGE = Path(__file__).parents[4] / "docs" / "howto" / "cluster.md"


def in_engines(words: list[str | Path], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with the programs of the environment that has MPI and Ray."""
    folder = Path(os.environ["ZARRLIFT_ENGINES"]) / "bin"
    return subprocess.run(
        [folder / word if word in ("mpiexec", "python") else word for word in words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(tmp_path), "RAY_AUTH_MODE": "disabled", "PMIX_MCA_gds": "hash"},
    )


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """An archive of a hundred chunks, and beside it its result by threads."""
    source = tmp_path / "old.zarr"
    array = zarr.create_array(source, shape=(500, 40), chunks=(5, 40), dtype="<i4", zarr_format=2)
    array[:] = np.arange(20000).reshape(500, 40)
    assert zarrlift.migrate(source, tmp_path / "threads.zarr").ok
    return source


@pytest.mark.needs_reader("engines")
def test_mpi_gives_the_same_bytes(rows: Path, tmp_path: Path) -> None:
    mpiexec = "mpiexec -n 3 --oversubscribe --allow-run-as-root python -m mpi4py.futures -m zarrlift migrate"
    command = [*mpiexec.split(), rows, tmp_path / "mpi.zarr", "--executor", "mpi"]
    done = in_engines(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Done: 1 array" in done.stdout
    assert files(tmp_path / "mpi.zarr") == files(tmp_path / "threads.zarr")
    refused = in_engines([*command, "--verify", "wrong"], tmp_path)
    assert refused.returncode != 0, "the exit code is that of the command"


@pytest.mark.needs_reader("engines")
def test_the_recipe_of_the_docs_for_ray_gives_the_same_bytes(rows: Path, tmp_path: Path) -> None:
    script = tmp_path / "ray_migrate.py"
    script.write_text(re.search(rf'```text title="{script.name}"\n(.*?)```', PAGE.read_text(), re.DOTALL)[1])
    done = in_engines(["python", script, rows, tmp_path / "ray.zarr"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done"
    assert files(tmp_path / "ray.zarr") == files(tmp_path / "threads.zarr")


def test_worker_processes_without_enough_files_are_refused(monkeypatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (16, 16))
    with pytest.raises(WorkerError, match=r"found 16 .ulimit -n.; expected at least 60"):
        ProcessEngine(4)


def test_a_worker_process_that_cannot_be_started_says_why(monkeypatch) -> None:
    def start(_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(get_context("spawn").Process, "start", start)
    engine = ProcessEngine(2)
    calls = Dispatcher(engine)
    for item in range(3):
        calls.submit(item, abs, -1)
    ended = []
    while len(ended) < 3:
        ended += calls.ended()
    for each in ended:
        with pytest.raises(WorkerError, match="cannot be started; found Too many open files"):
            each.result()
    engine.close()
