"""Killed at any call, or with calls that fail: nothing wrong is seen, and it ends as a calm run does.

`kills.py` does the same with moments drawn at random, as many as are wanted. Where calls cannot be counted,
a command kills itself before a change (`killed_run.py`).
"""

from __future__ import annotations

import json
import logging
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.bucket import serving
from tests.support.job_archives import tree, write_archive
from tests.support.store_servers import OF_S3, server
from tests.zarrlift.jobs.faults.judging import Calm, wrong_at_the_end, wrong_now
from tests.zarrlift.jobs.faults.playground import Playground
from tests.zarrlift.jobs.faults.scenarios import BY_ID, SCENARIOS

import zarrlift

pytestmark = pytest.mark.needs_reader("once")
shimmed = pytest.mark.needs_reader("system-calls")

ON_OUR_SERVER = [one.id for one in SCENARIOS if not one.remote >= {"icechunk", "dst"}]
"""The clock of our own server stands still, which Icechunk does not accept."""
KILLS = {
    "copy": ["call 3%", "change 12%", "change 60%"],
    "copy, processes": ["change 50% alone"],
    "shards": ["change 70%", "change 50%"],
    "regrid, shards built together": ["change 60%"],
    "regrid in two passes": ["change 88%"],
    "hard links": ["change 55%", "change 5%"],
    "overwrite": ["change 95%"],
    "overwrite what no job made": ["change 40%"],
    "in place, N5": ["call 80%"],
    "finish, taken back": ["change 60%", "change 20%"],
    "undo": ["change 30%"],
    "retry over the destination, taken back": ["change 50%"],
    "to S3, a shard in parts": ["change 40%"],
    "from S3": ["call 75%"],
}
"""Moments that once went wrong, or that take most steps to go right, in parts of a calm run."""
FAILURES = {
    "copy": "seed=3 share=42949672 stats=1",
    "copy, forked": "seed=1 full_from=9000",
    "N5": "seed=5 share=42949672 stats=1",
    "log over the source": "seed=2 full_from=2000",
    "regrid in shards": "seed=4 full_from=500",
    "undo of shards": "seed=3 share=85899345",
    "regrid of shards in two passes": "seed=8 share=8589934",
    "overwrite": "seed=9 full_from=900",
}
"""Calls that fail, as fields of the control block."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    # A killed client is no error of the server's.
    logging.getLogger("aiohttp.server").disabled = True
    with serving() as bucket:
        made = Playground(tmp_path_factory.mktemp("kills"), bucket)
        yield made
        made.close()


@shimmed
@pytest.mark.slow(one_in=8)
@pytest.mark.parametrize("id", KILLS)
def test_a_killed_command_goes_on_as_if_nothing_had_been(id: str, place: Playground) -> None:
    told = place.killed(BY_ID[id], KILLS[id])
    assert told.reached == len(told.orders), "what was to be disturbed ended before"
    assert not told.wrong, told


@shimmed
@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("id", FAILURES)
def test_a_command_with_calls_that_fail_says_so_or_does_right(id: str, place: Playground) -> None:
    told = place.failing(BY_ID[id], FAILURES[id])
    assert told.failed
    assert not told.wrong, told


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.needs_reader(name)) for name in OF_S3]
)
def failing_place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Playground]:
    """Buckets of others' servers, a twentieth of whose answers goes wrong."""
    with server(request.param) as others, serving(others) as bucket:
        made = Playground(tmp_path_factory.mktemp("kills"), bucket, faults=0.05)
        yield made
        made.close()


@shimmed
@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    "id", ["from S3 to S3", "from S3 to S3, processes", "to S3, a shard in parts", "to Icechunk on S3"]
)
def test_a_killed_command_goes_on_where_the_bucket_fails_too(id: str, failing_place: Playground) -> None:
    told = failing_place.killed(BY_ID[id], random.Random(id))
    assert not told.wrong, told


@shimmed
@pytest.mark.slow
@pytest.mark.parametrize("id", ON_OUR_SERVER)
def test_at_other_moments_too(id: str, place: Playground) -> None:
    for told in (
        place.killed(BY_ID[id], random.Random(id)),
        place.failing(BY_ID[id], random.Random(id)),
    ):
        assert not told.wrong, told


# The judge


def calm() -> Calm:
    """A copy of one array of two chunks."""
    before = {"source.zarr": None, "source.zarr/0": b"a", "source.zarr/1": b"b"}
    made = {"out.zarr/zarr.json": b'{"node_type": "array"}', "out.zarr/c/0": b"A", "out.zarr/c/1": b"B"}
    after = {**before, "out.zarr": None, "out.zarr/c": None, **made}
    return Calm(10, 5, source=before, old=before, whole=after, then=after, last=after)


WRONG = {
    "a chunk is missing": {"out.zarr/c/1": None},
    "a chunk is of other bytes": {"out.zarr/c/1": b"C"},
    "a chunk of the source is gone": {"source.zarr/0": None},
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_found(what: str) -> None:
    made = calm()
    changed = {**made.whole, **WRONG[what]}
    now = {name: data for name, data in changed.items() if data is not None or name not in WRONG[what]}
    assert wrong_now(now, BY_ID["copy"], made)
    assert not wrong_now(made.whole, BY_ID["copy"], made)


def test_an_array_that_is_not_seen_may_have_few_chunks() -> None:
    made = calm()
    unseen = {"out.zarr/zarr.json", "out.zarr/c/1"}
    now = {name: data for name, data in made.whole.items() if name not in unseen}
    assert not wrong_now(now, BY_ID["copy"], made)
    assert wrong_now({**now, "out.zarr/c/0": b""}, BY_ID["copy"], made), "half an object has its name"


def test_what_is_left_about_is_found() -> None:
    made, copy = calm(), BY_ID["copy"]
    assert not wrong_at_the_end(made.last, copy, made)
    assert wrong_at_the_end({**made.last, "out.zarr.zarrlift.db-journal": b""}, copy, made)
    assert wrong_at_the_end(made.last, copy, replace(made, last={**made.last, "x": b""}))


def test_scenarios_have_names_of_their_own() -> None:
    assert len(BY_ID) == len(SCENARIOS)


# Where calls cannot be counted: a copy that is killed, wherever Python runs.
#
# It walks through moments of a migration at which a process can die (see `killed_run`), kills it
# there for real, looks at what a reader of the destination would see, and lets `resume` finish the work.

RUNNER = Path(__file__).with_name("killed_run.py")
MOMENTS = 3


def run_and_kill(moment: int, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUNNER), str(moment), str(directory), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def in_part(number: int, parts: int, changes: int) -> int:
    """One of so many changes, at random in one of as many equal parts of a run: each phase is met."""
    return random.Random(number).randint(changes * number // parts + 1, changes * (number + 1) // parts)


def assert_whole_where_visible(destination: Path, reference: dict[str, bytes]) -> None:
    """Whoever sees an array's zarr.json sees every one of its chunks."""
    for document in destination.rglob("zarr.json"):
        if json.loads(document.read_bytes())["node_type"] != "array":
            continue
        prefix = str(document.parent.relative_to(destination))
        for name, content in reference.items():
            if name.startswith(f"{prefix}/"):
                assert (destination / name).read_bytes() == content, name


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kill") / "source.zarr"
    return write_archive(path)


@pytest.fixture(scope="module")
def reference(source: Path) -> tuple[dict[str, bytes], int]:
    """The uninterrupted result, and how many changes a run makes."""
    directory = source.parent / "uninterrupted"
    directory.mkdir()
    done = run_and_kill(0, directory, "migrate", str(source), str(directory / "out.zarr"))
    assert done.returncode == 0, done.stderr
    return tree(directory / "out.zarr"), int(done.stderr.split()[-1])


@pytest.mark.parametrize("seed", range(MOMENTS))
@pytest.mark.slow(one_in=3)
def test_a_killed_copy_resumes_to_the_same_bytes(
    seed: int, source: Path, reference: tuple[dict[str, bytes], int], tmp_path: Path, destination: Path
) -> None:
    expected, changes = reference
    moment = in_part(seed, MOMENTS, changes)
    killed = run_and_kill(moment, tmp_path, "migrate", str(source), str(destination))
    assert killed.returncode == -signal.SIGKILL
    assert_whole_where_visible(destination, expected)
    if not destination.with_name("out.zarr.zarrlift.db").exists():
        outcome = zarrlift.migrate(source, destination)  # killed before there was a job
    else:
        outcome = zarrlift.resume(destination)
    assert outcome.ok, outcome.problems
    assert tree(destination) == expected
    again = zarrlift.resume(destination)
    assert again.state == "nothing to do"
