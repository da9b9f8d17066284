"""Dask: the same bytes as threads, from a cluster here or workers over TCP, also if one is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster
from tests.support.job_processes import running
from tests.zarrlift.storage.conftest import files

import zarrlift
from zarrlift.transfer.events import Event, TaskDone
from zarrlift.transfer.executors.engine import open_engine

pytestmark = pytest.mark.needs_reader("once")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chunks that are recoded, rechunked in blocks, and copied; a hundred tasks."""
    path = tmp_path_factory.mktemp("source") / "source.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    for name in "abc":
        array = group.create_array(name, shape=(2000,), chunks=(2,), dtype="<i4")
        array[:] = np.arange(2000)
    return path


RECIPE = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="zstd:1"))


@pytest.fixture(scope="module")
def expected(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    place = tmp_path_factory.mktemp("expected") / "out.zarr"
    assert zarrlift.migrate(source, place, recipe=RECIPE).ok
    return files(place)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as made:
        yield made


@pytest.mark.parametrize("form", ["client", "executor", "cluster"])
@pytest.mark.slow
def test_a_cluster_made_in_python_gives_the_same_bytes(form, cluster, source, expected, tmp_path) -> None:
    place = tmp_path / "out.zarr"
    with Client(cluster) as client:
        given = {"client": client, "executor": client.get_executor(), "cluster": cluster}[form]
        assert open_engine(given, workers=None).slots() == 2
        outcome = zarrlift.migrate(source, place, recipe=RECIPE, executor=given, verify="full")
        assert outcome.ok, outcome.problems
        assert files(place) == expected
        report = zarrlift.verify(source, place, full=True, executor=given)
        assert report.ok, report.problems
        assert client.submit(abs, -1).result() == 1, "the caller's client is still open"


@pytest.mark.slow
def test_processes_of_its_own_by_name(source, expected, tmp_path) -> None:
    words = [sys.executable, "-m", "zarrlift", "migrate", str(source), str(tmp_path / "out.zarr")]
    words += ["--executor", "dask", "--workers", "2", "--codecs", "zstd:1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert files(tmp_path / "out.zarr") == expected


class KillsOne:
    """Kills a process when the first task has ended."""

    def __init__(self, process: int) -> None:
        self.process = process

    def __call__(self, event: Event) -> None:
        if self.process and isinstance(event, TaskDone):
            os.kill(self.process, signal.SIGKILL)
            self.process = 0


@pytest.mark.slow
def test_workers_that_cannot_be_started_are_one_error(source, tmp_path, monkeypatch) -> None:
    def fails(**_: object) -> None:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr("distributed.LocalCluster", fails)
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr", executor="dask", workers=2)
    (problem,) = outcome.problems
    assert str(problem) == "Dask cannot start its workers; found Nanny failed to start."


@pytest.mark.slow
def test_two_workers_over_tcp_one_of_which_is_killed(source, expected, tmp_path) -> None:
    with ExitStack() as stack:
        scheduler = stack.enter_context(LocalCluster(n_workers=0, dashboard_address=":0"))
        address = scheduler.scheduler_address
        assert address.startswith("tcp://")
        client = stack.enter_context(Client(scheduler))
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path)]
        words = [sys.executable, "-m", "distributed.cli.dask_worker", address, *options]
        workers = [stack.enter_context(running(words)) for _ in range(2)]
        client.wait_for_workers(2)
        places = tmp_path / "calm.zarr", tmp_path / "killed.zarr"
        for place, process in zip(places, (0, workers[0].pid), strict=True):
            outcome = zarrlift.migrate(
                source,
                place,
                recipe=RECIPE,
                executor=f"dask={address}",
                progress=KillsOne(process),
            )
            assert outcome.ok, outcome.problems
            assert files(place) == expected
        assert workers[0].wait() == -signal.SIGKILL


@pytest.mark.slow
def test_a_batch_opens_a_cluster_once_for_all_archives(cluster, source, expected, tmp_path) -> None:
    for name in "ab":
        shutil.copytree(source, tmp_path / "old" / f"{name}.zarr")
    with Client(cluster) as client:
        to = f"{tmp_path}/new/{{relative}}.zarr"
        made = zarrlift.batch(tmp_path / "old", to=to, recipe=RECIPE, executor=client)
        assert made.outcome.state == "done", made.rows
        assert client.status == "running"
        assert made.verify(full=True, executor=client).ok
    assert all(files(tmp_path / "new" / f"{name}.zarr") == expected for name in "ab")
