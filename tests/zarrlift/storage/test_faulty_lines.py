"""Stores whose answers get lost: requests are repeated, and nothing is taken for absent or whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import zarr
from tests.support.bucket import Bucket, Fault
from tests.zarrlift.storage.conftest import files

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote import adaptive_concurrency, buckets
from zarrstack.core.errors import StorageError

RECIPES = {"copy": Recipe(), "shards": Recipe(base=ArrayRecipe(shards="2x"))}


@pytest.fixture(autouse=True)
def _no_time_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_RETRIES", 0)
    monkeypatch.setattr(adaptive_concurrency, "_DELAYS", (0.0,) * len(adaptive_concurrency._DELAYS))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_fifth_of_the_answers_lost_changes_nothing(
    recipe: Recipe, bucket: Bucket, archive: Path, tmp_path: Path
) -> None:
    ends = bucket.put("in", files(archive)), bucket.url("out")
    met = bucket.disturb(0, 0.2)
    outcome = zarrlift.migrate(*ends, recipe=recipe, job=tmp_path / "job.db", **bucket.ends)
    assert outcome.ok, outcome.problems
    assert zarrlift.verify(*ends, full=True, **bucket.ends).ok
    assert met.keys() == {"500", "503", "429", "reset", "cut", "late"}
    assert zarrlift.migrate(archive, tmp_path / "local", recipe=recipe).ok
    assert bucket.stored("out") == files(tmp_path / "local")


def test_a_web_server_may_fail_as_well(our_bucket: Bucket, archive: Path, tmp_path: Path) -> None:
    our_bucket.put("in", files(archive))
    met = our_bucket.disturb(0, 0.2)
    url = f"{our_bucket.endpoint}/bucket/in"
    outcome = zarrlift.migrate(url, tmp_path / "out", job=tmp_path / "job.db")
    assert outcome.ok, outcome.problems
    assert met.keys() == {"500", "503", "429", "reset", "cut", "late"}
    assert zarrlift.migrate(archive, tmp_path / "local").ok
    assert files(tmp_path / "out") == files(tmp_path / "local")


@pytest.mark.parametrize("fault", ["reset", "cut"])
def test_what_never_arrives_is_an_error_and_not_absent(bucket: Bucket, fault: Fault) -> None:
    storage = open_storage(bucket.put("in", {"there": b"12"}), storage_options=bucket.options)
    bucket.fault = lambda _: fault
    for ask in (storage.get, lambda key: storage.get_part(key, 0, 2), lambda _: list(storage.list_dir(""))):
        with pytest.raises(StorageError):
            ask("there")


@pytest.mark.slow(one_in=3)
def test_a_chunk_that_was_cut_unseen_is_refused_and_read_again_by_resume(
    bucket: Bucket, tmp_path: Path
) -> None:
    old = zarr.create_array(tmp_path / "old.zarr", shape=(100,), chunks=(50,), dtype="i4", zarr_format=2)
    old[:] = range(100)
    source = bucket.put("in", files(tmp_path / "old.zarr"))
    bucket.fault = lambda request: "short" if request.path.endswith("/1") else None
    job = tmp_path / "job.db"
    outcome = zarrlift.migrate(source, tmp_path / "out", job=job, storage_options=bucket.options)
    (problem,) = (each for each in outcome.problems if each.severity == "refusal")
    assert (problem.kind, problem.key) == ("chunk", "1")
    assert problem.advice is not None
    assert "resume reads it again" in problem.advice
    bucket.fault = lambda _: None
    assert zarrlift.resume(job, storage_options=bucket.options).ok
    assert zarr.open_array(tmp_path / "out", mode="r")[:].tolist() == list(range(100))
