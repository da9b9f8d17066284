"""A limit of bandwidth: at both ends, of everything that works on a job."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.fake_clock import FakeClock
from tests.support.job_archives import tree

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import UsageError
from zarrlift.jobs.branch import NoBranch
from zarrlift.jobs.endpoints import Endpoints
from zarrlift.jobs.executors import with_share
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.status import status_of
from zarrlift.recipe.options import Places, Request
from zarrlift.storage.bandwidth import Bandwidth, parse_limit, shares_of
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.unanswered import longest_wait
from zarrlift.transfer.events import TaskDone
from zarrlift.transfer.executors import dispatcher
from zarrlift.transfer.executors.engine import Engine
from zarrlift.transfer.worker import WorkerSpec, both_ends

CHUNKS, SIZE = 64, 1000
RATE = 4000


def source(folder: Path, *, seed: int = 0) -> Path:
    """64 chunks of 1,000 random bytes."""
    array = zarr.create_array(
        folder, shape=(CHUNKS * SIZE,), chunks=(SIZE,), dtype="u1", zarr_format=2, compressors=None
    )
    array[:] = np.random.default_rng(seed).integers(0, 255, CHUNKS * SIZE, dtype="u1")
    return folder


def stop(event: object) -> None:
    """Interrupt a run after its first task, from the thread of the call."""
    if isinstance(event, TaskDone):
        raise KeyboardInterrupt


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("codecs", [None, "zstd:1"], ids=["relink", "recode"])
def test_both_ends_are_limited_and_the_result_is_the_same(codecs, tmp_path):
    old, clock = source(tmp_path / "old"), FakeClock()
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs=codecs)) if codecs else None
    zarrlift.migrate(old, tmp_path / "fast", recipe=recipe)
    limit = Bandwidth(RATE, clock)
    zarrlift.migrate(old, tmp_path / "new", recipe=recipe, bwlimit=limit).raise_for_problems()
    assert tree(tmp_path / "new") == tree(tmp_path / "fast")
    # What is read in one burst is free, at each end.
    assert clock.now() - 1000 >= CHUNKS * SIZE / RATE - 1


@pytest.mark.parametrize("shards", [None, str(CHUNKS)], ids=["a chunk", "a shard"])
def test_the_bytes_of_a_large_object_are_counted_while_they_pass(shards, tmp_path, monkeypatch):
    """Each second of the limit is held until the run has recorded what passed until then."""
    size = CHUNKS * SIZE
    old = tmp_path / "old"
    chunk = SIZE if shards else size
    values = np.random.default_rng(0).integers(0, 255, size, dtype="u1")
    array = zarr.create_array(
        old, shape=(size,), chunks=(chunk,), dtype="u1", zarr_format=2, compressors=None
    )
    array[:] = values
    monkeypatch.setattr(NoBranch, "seconds", 0)
    monkeypatch.setattr(dispatcher, "_LOOK_AGAIN", 0.001)
    asleep, recorded, seen = threading.Event(), threading.Event(), []
    commit = Job.commit

    def commit_and_look(job):
        was_asleep = asleep.is_set()
        commit(job)
        if was_asleep and not recorded.is_set():
            seen.append(status_of(job).bytes_done)
            recorded.set()

    class Clock(FakeClock):
        def sleep_sync(self, seconds):
            super().sleep_sync(seconds)
            recorded.clear()
            asleep.set()
            assert recorded.wait(60)
            asleep.clear()

    monkeypatch.setattr(Job, "commit", commit_and_look)
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(shards=shards)) if shards else None
    limit = Bandwidth(RATE, Clock())
    options = {"recipe": recipe, "workers": 1, "verify": "none"}
    zarrlift.migrate(old, tmp_path / "new", bwlimit=limit, **options).raise_for_problems()
    assert np.array_equal(zarr.open_array(tmp_path / "new")[:], values)
    assert seen == sorted(seen)
    assert len(set(seen)) > size / RATE - 5  # in each second of writing, except the first ones
    assert size * 0.9 < seen[-1] <= size


def test_a_full_comparison_is_limited(tmp_path):
    old, clock = source(tmp_path / "old"), FakeClock()
    zarrlift.migrate(old, tmp_path / "new")
    report = zarrlift.verify(old, tmp_path / "new", full=True, bwlimit=Bandwidth(RATE, clock))
    assert report.ok
    assert clock.now() - 1000 >= CHUNKS * SIZE / RATE - 1


def test_archives_of_a_batch_share_a_limit(tmp_path):
    clock = FakeClock()
    for name in ("a", "b", "c"):
        source(tmp_path / "in" / name)
    limit = Bandwidth(RATE, clock)
    batch = zarrlift.batch(str(tmp_path / "in" / "*"), to=str(tmp_path / "out/{relative}"), bwlimit=limit)
    batch.outcome.raise_for_problems()
    assert clock.now() - 1000 >= 3 * CHUNKS * SIZE / RATE - 1


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(("first", "second"), [(None, "1GB/s"), ("1GB/s", None), ("off", "1GB/s")])
def test_runs_with_and_without_a_limit_continue_each_other(first, second, tmp_path):
    old, new = source(tmp_path / "old"), tmp_path / "new"
    with pytest.raises(zarrlift.Interrupted):
        zarrlift.migrate(old, new, bwlimit=first, progress=stop)
    assert zarrlift.resume(new, bwlimit=second).raise_for_problems().state == "done"
    assert zarrlift.update(new, bwlimit=first).state == "nothing to do"
    zarr.open_array(old, mode="r+")[:10] = 7
    assert zarrlift.update(new, bwlimit=second).raise_for_problems().chunks == 1
    assert zarrlift.verify(new, full=True, bwlimit=first).ok
    assert zarrlift.undo(new).state == "undone"
    assert {path.name for path in tmp_path.iterdir()} == {"old", "new.zarrlift.db"}


def test_workers_share_the_limit(tmp_path):
    """A call has its share; as many calls as run in a process have theirs together, in whatever thread."""
    old, new = source(tmp_path / "old"), tmp_path / "new"
    outcome = zarrlift.migrate(old, new, executor="processes", workers=1, bwlimit="1GB/s")
    assert outcome.raise_for_problems().state == "done"
    spec = WorkerSpec(job_id="", run="r", source=str(old), destination=str(new))
    with ThreadPoolExecutor(4) as pool:
        shared = with_share(spec, Bandwidth(1000), Engine(pool))
    assert shared.bytes_per_second == 250
    assert shared == spec  # a changed limit opens neither end again
    clock = FakeClock()
    shares = shares_of("r")
    shares._clock = clock
    ends = both_ends(shared, write=False)
    with shares.during(250):
        assert shares.rate() == 250
        thread = threading.Thread(target=lambda: both(shares))
        thread.start()
        thread.join()
        for key in map(str, range(CHUNKS)):
            assert ends[0].get(key) is not None
    assert clock.now() - 1000 == pytest.approx(CHUNKS * SIZE / 250 - 1)


def both(shares) -> None:
    with shares.during(250):
        assert shares.rate() == 500


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("rate", ["fast", "0", "-1MB/s", "50 MB per s", 0])
def test_what_is_no_rate_is_refused_before_anything_is_written(rate, tmp_path):
    with pytest.raises(UsageError, match=r"not a rate.*such as 50MB/s, or off"):
        zarrlift.migrate(source(tmp_path / "old"), tmp_path / "new", bwlimit=rate)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert parse_limit("50MB/s") == 50e6


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("rate", ["10", "10/s", 10, 99_999.0, "99999"])
def test_a_small_number_needs_a_unit(rate, tmp_path, capsys):
    old, new = source(tmp_path / "old"), tmp_path / "new"
    with pytest.raises(UsageError, match=r"100 kB/s needs a unit; found .*Was [0-9.]+[kM] per second meant"):
        zarrlift.migrate(old, new, bwlimit=rate)
    assert main(["migrate", str(old), str(new), "--bwlimit", str(rate)]) == 2
    said = capsys.readouterr().err
    assert "needs a unit" in said
    assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_rates_with_a_unit_and_large_ones_are_limits():
    rates = {"10B": 10, "10B/s": 10, "10k": 10e3, "10M": 10e6, "10M/s": 10e6, "100000": 1e5, 1e5: 1e5}
    assert {text: parse_limit(text) for text in rates} == rates
    assert parse_limit("off") == math.inf


def test_documents_do_not_wait_for_a_limit(tmp_path):
    """A plan of any format reads documents and lists; at one byte per second it takes no time."""
    zarr.create_group(tmp_path / "old", zarr_format=2, attributes={"text": "x" * 10_000})
    source(tmp_path / "old/a")
    clock = FakeClock()
    ends = Endpoints.open(tmp_path / "old", tmp_path / "new", Request(), Places())
    ends = ends.limited(Bandwidth(1, clock))
    plan = ends.plan(zarrlift.Recipe(), None)
    assert [array.path for array in plan.arrays] == ["a"]
    ends.destination.put("zarr.json", b" " * 10_000)
    assert ends.destination.get("zarr.json") == b" " * 10_000
    assert clock.now() == 1000
    ends.source.get("a/0")
    assert clock.now() > 1000


def test_a_wait_for_the_limit_is_no_silence_of_a_server(tmp_path):
    """Neither at a local directory nor at a store, whose own requests are watched below the limit."""
    silences = []

    class Watching(FakeClock):
        async def sleep(self, seconds):
            await super().sleep(seconds)
            silences.append(longest_wait())

    clock = Watching()
    limited = Bandwidth(1, clock).over(open_storage(source(tmp_path / "old")), "source")
    limited.pace._clock = limited.pace._watch._clock = clock
    assert len(limited.get("0") or b"") == SIZE
    assert clock.now() - 1000 >= SIZE - 1
    assert set(silences) == {None}
