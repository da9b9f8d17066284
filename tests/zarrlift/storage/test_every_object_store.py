"""What must hold in every object store, on our own server and on those that others wrote (`store_servers`).

`test_faulty_lines.py` and `test_changed_in_a_bucket.py` beside it have the rest: answers that are lost, and
objects that change under a job.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zarr
from aiohttp import web
from tests.support.bucket import Bucket
from tests.support.job_processes import BEATEN, start_together
from tests.zarrlift.storage.conftest import files

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.storage.base import PART, SPOOLED
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote import adaptive_concurrency, buckets
from zarrlift.transfer.relink_server_side import IN_ONE_READ
from zarrstack.core.errors import StorageError, ZarrstackError

RECIPES = {"copy": Recipe(), "shards": Recipe(base=ArrayRecipe(shards="2x"))}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are not repeated."""
    monkeypatch.setattr(buckets, "_RETRIES", 0)
    monkeypatch.setattr(adaptive_concurrency, "_DELAYS", ())


@pytest.mark.slow(one_in=13)
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_from_bucket_to_bucket_is_as_from_directory_to_directory(
    bucket: Bucket, archive: Path, recipe: Recipe, tmp_path: Path
) -> None:
    ends = bucket.put("in", files(archive)), bucket.url("out/of.zarr")
    outcome = zarrlift.migrate(*ends, recipe=recipe, job=tmp_path / "job.db", **bucket.ends)
    assert outcome.ok, outcome.problems
    assert zarrlift.migrate(archive, tmp_path / "local", recipe=recipe).ok
    assert bucket.stored("out/of.zarr") == files(tmp_path / "local")
    report = zarrlift.verify(*ends, full=True, **bucket.ends)
    assert report.ok, report.problems


@pytest.mark.slow(one_in=5)
def test_a_killed_copy_is_resumed(bucket: Bucket, archive: Path, tmp_path: Path) -> None:
    ends = bucket.put("in", files(archive)), bucket.url("out")
    place = str(tmp_path / "job.db")
    words = [sys.executable, "-m", "zarrlift", "migrate", *ends, "--job", place]
    for end in ("src", "dst"):
        words += ["--storage-options", f"{end}:{json.dumps(bucket.options)}"]
    count, running = itertools.count(), []

    def kill(request: web.Request) -> None:
        if request.method == "PUT" and "relink" in request.path and next(count) == 12:
            running[0].kill()

    bucket.instead = kill
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        running.append(process)
        told = process.communicate(timeout=120)[0]
    assert process.returncode == -signal.SIGKILL, told
    bucket.calm()
    assert zarrlift.status(place).state == "incomplete"
    outcome = zarrlift.resume(place, **bucket.ends)
    assert outcome.ok, outcome.problems
    assert zarrlift.migrate(archive, tmp_path / "local").ok
    assert bucket.stored("out") == files(tmp_path / "local")


@pytest.mark.slow
def test_thousands_of_objects_are_listed_and_copied(bucket: Bucket, tmp_path: Path) -> None:
    """More than two pages of a listing; there and back."""
    old, many = tmp_path / "old", 10_000
    zarr.create_array(old, shape=(many,), chunks=(1,), dtype="u1", compressors=None, zarr_format=2)
    for number in range(many):
        (old / str(number)).write_bytes(bytes([number % 251]))
    place, options = bucket.url("there"), bucket.options
    assert zarrlift.migrate(old, place, job=tmp_path / "1.db", dest_storage_options=options).ok
    storage = open_storage(place, storage_options=options)
    assert {*storage.list_prefix("")} == {"zarr.json", *(f"c/{number}" for number in range(many))}
    outcome = zarrlift.migrate(place, tmp_path / "back", job=tmp_path / "2.db", storage_options=options)
    assert outcome.ok, outcome.problems
    assert files(tmp_path / "back/c") == {str(number): bytes([number % 251]) for number in range(many)}


@pytest.mark.usefixtures("impatient")
def test_credentials_that_do_not_fit_are_named(bucket: Bucket, archive: Path, tmp_path: Path) -> None:
    source, checks = bucket.put("in", files(archive)), bucket.server.checks_credentials
    bucket.instead = lambda _: None if checks else 403
    for options in bucket.server.wrong_options(bucket.endpoint) if checks else [bucket.options]:
        given = {"dest_storage_options": options, "job": tmp_path / "job.db"}
        for call in (
            lambda: zarrlift.migrate(source, tmp_path / "out", storage_options=options),  # noqa: B023
            lambda: zarrlift.migrate(archive, bucket.url("out"), **given),  # noqa: B023
        ):
            with pytest.raises(ZarrstackError, match=r"HTTP status 40[13].*Access is denied: ") as caught:
                call()
            assert "\n" not in str(caught.value)
    bucket.calm()
    assert not (tmp_path / "out").exists()
    assert bucket.stored("out") == {}


@pytest.mark.usefixtures("impatient")
def test_a_bucket_that_does_not_exist_is_named(bucket: Bucket, archive: Path, tmp_path: Path) -> None:
    place, job = f"{bucket.server.scheme}://no-such-bucket/x", tmp_path / "job.db"
    with pytest.raises(ZarrstackError, match=f"bucket of {place} does not exist"):
        zarrlift.inspect(place, storage_options=bucket.options)
    with pytest.raises(ZarrstackError, match=f"bucket of {place} does not exist"):
        zarrlift.migrate(archive, place, dest_storage_options=bucket.options, job=job)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_gone_is_one_line(bucket: Bucket) -> None:
    options = bucket.server.options("http://127.0.0.1:9")
    with pytest.raises(StorageError, match=r"does not answer; found no connection to http://127") as caught:
        zarrlift.inspect(bucket.url("archive"), storage_options=options)
    assert "\n" not in str(caught.value)


@pytest.mark.slow(one_in=7)
def test_of_sixteen_jobs_into_one_bucket_that_start_together_one_wins(bucket, tmp_path) -> None:
    """By `If-None-Match: *`, which S3 knows since 2024."""
    won, others = start_together(bucket.url("out.zarr"), tmp_path, bucket.options)
    assert won == 1
    assert others <= BEATEN
    assert bucket.stored("out.zarr") == {}


@pytest.mark.slow(one_in=3)
def test_names_arrive_as_they_are(bucket, tmp_path) -> None:
    names = [
        "a b",
        "ü-é",
        "a%20b",
        "100%",
        "a~b",
        "[1]",
        "{x}",
        "a+b&c=d",
        "a|b^c`d",
        "it's",
        "a*b",
        "*",
        "q?",
    ]
    root = zarr.open_group(tmp_path / "odd.zarr", mode="w", zarr_format=2)
    for number, name in enumerate(names):
        root.create_array(name, shape=(4,), chunks=(2,), dtype="u1", compressors=None)[:] = number + 1
    source = bucket.put("odd", files(tmp_path / "odd.zarr"))
    assert zarrlift.migrate(source, bucket.url("new"), job=tmp_path / "job.db", **bucket.ends).ok
    assert zarrlift.migrate(tmp_path / "odd.zarr", tmp_path / "local").ok
    assert bucket.stored("new") == files(tmp_path / "local")


@pytest.mark.slow(one_in=3)
def test_the_store_copies_large_payloads_itself(bucket, tmp_path) -> None:
    size = 2 * IN_ONE_READ
    root = zarr.open_group(tmp_path / "large.zarr", mode="w", zarr_format=2)
    array = root.create_array("a", shape=(3 * size,), chunks=(size,), dtype="u1", compressors=None)
    array[:] = np.random.default_rng(1).integers(0, 256, 3 * size)
    source = bucket.put("in", files(tmp_path / "large.zarr"))
    job = tmp_path / "job.db"
    assert zarrlift.migrate(source, bucket.url("out"), job=job, verify="none", **bucket.ends).ok
    assert bucket.asked["copy"] == 3
    assert zarrlift.migrate(tmp_path / "large.zarr", tmp_path / "local").ok
    assert bucket.stored("out") == files(tmp_path / "local")


@pytest.mark.slow(one_in=7)
def test_a_large_shard_goes_in_parts(bucket, tmp_path) -> None:
    size = 1 << 20
    chunks = SPOOLED // size + 3
    old = zarr.create_array(
        tmp_path / "a.zarr",
        shape=(chunks * size,),
        chunks=(size,),
        dtype="u1",
        zarr_format=2,
        compressors=None,
    )
    old[:] = np.random.default_rng(2).integers(0, 256, chunks * size)
    recipe = Recipe(base=ArrayRecipe(shards=str(chunks)))
    job = tmp_path / "job.db"
    outcome = zarrlift.migrate(
        tmp_path / "a.zarr", bucket.url("out"), recipe=recipe, job=job, dest_storage_options=bucket.options
    )
    assert outcome.ok, outcome.problems
    assert bucket.asked["parts"] >= -(-chunks * size // PART)
    assert zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "local", recipe=recipe).ok
    assert bucket.stored("out") == files(tmp_path / "local")


@pytest.mark.parametrize("retries", [0, 3])
@pytest.mark.slow(one_in=11)
def test_a_store_that_is_asked_too_much_is_asked_less(
    bucket, archive, retries, monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr(buckets, "_RETRIES", retries)
    source = bucket.put("in", files(archive))
    turned_away: Counter[str] = Counter()

    def instead(request: web.Request) -> int | None:
        turned_away[str(request.rel_url)] += 1
        return 503 if turned_away[str(request.rel_url)] == 1 else None

    bucket.instead = instead
    outcome = zarrlift.migrate(
        source, tmp_path / "out", job=tmp_path / "job.db", storage_options=bucket.options, verify="none"
    )
    assert outcome.ok, outcome.problems
    assert zarrlift.migrate(archive, tmp_path / "local").ok
    assert files(tmp_path / "out") == files(tmp_path / "local")
    assert len(turned_away) > 10


@pytest.mark.parametrize("status", [403, 400, 301, 500])
def test_what_is_refused_is_not_taken_for_absent(bucket, status, monkeypatch) -> None:
    monkeypatch.setattr(buckets, "_RETRIES", 0)
    monkeypatch.setattr(adaptive_concurrency, "_DELAYS", ())
    storage = open_storage(bucket.put("in", {"there": b"1"}), storage_options=bucket.options)
    assert storage.get("there") == b"1"
    assert storage.get("elsewhere") is None
    assert storage.size("elsewhere") is None
    bucket.instead = lambda _: status
    for ask in (storage.get, storage.size, lambda key: storage.get_part(key, 0, 1), storage.delete):
        with pytest.raises(StorageError) as caught:
            ask("elsewhere")
        told = str(caught.value)
        assert "Debug source" not in told
        assert "hidden-word" not in told
    with pytest.raises(StorageError):
        list(storage.list_dir(""))
