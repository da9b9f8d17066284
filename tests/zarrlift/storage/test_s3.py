"""S3 through obstore: the same results as in a directory, with the options and the errors that s3fs has.

The servers are our own (`object_server.py`), which speaks enough of S3, and two that others wrote (`bucket`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from aiohttp import web
from obstore.store import MemoryStore, S3Store
from tests.support.starters import BEATEN, start_together
from tests.zarrlift.storage.conftest import files, fill
from zarr.storage import ObjectStore

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.storage.base import CLAIM
from zarrlift.storage.limits import PART, SPOOLED
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote import adaptive_concurrency, obstore_s3
from zarrlift.storage.remote.backend_obstore import ObstoreBackend
from zarrlift.storage.remote.obstore_s3 import LeftToFsspec, s3_store
from zarrlift.storage.remote.zarr_store import StoreStorage
from zarrlift.transfer.relink_server_side import IN_ONE_READ
from zarrstack.core.errors import StorageError
from zarrstack.system.transient_errors import is_not_found, is_throttled, may_pass

NAMES = ["AWS_PROFILE", *obstore_s3._ELSEWHERE]
NAMES += [name for names in (obstore_s3._PLACE | obstore_s3._WHO).values() for name in names]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-such-file"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-such-file"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def paths(found: zarrlift.Archive) -> list[tuple[str, str]]:
    """What was found, and where."""
    return [(type(node).__name__, node.path) for node in found.nodes]


RECIPES = {"copy": Recipe(), "shards": Recipe(base=ArrayRecipe(shards="2x"))}


@pytest.mark.slow(one_in=7)
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_from_bucket_to_bucket_is_as_from_directory_to_directory(bucket, archive, recipe, tmp_path) -> None:
    source = bucket.put("in", files(archive))
    outcome = zarrlift.migrate(
        source,
        "s3://bucket/out/of.zarr",
        recipe=recipe,
        job=tmp_path / "job.db",
        storage_options=bucket.options,
        dest_storage_options=bucket.options,
    )
    assert outcome.ok, outcome.problems
    assert zarrlift.migrate(archive, tmp_path / "local", recipe=recipe).ok
    assert bucket.stored("out/of.zarr") == files(tmp_path / "local")
    report = zarrlift.verify(
        source,
        "s3://bucket/out/of.zarr",
        full=True,
        storage_options=bucket.options,
        dest_storage_options=bucket.options,
    )
    assert report.ok, report.problems


@pytest.mark.slow(one_in=3)
def test_of_sixteen_jobs_into_one_bucket_that_start_together_one_wins(bucket, tmp_path) -> None:
    """By `If-None-Match: *`, which S3 knows since 2024."""
    won, others = start_together("s3://bucket/out.zarr", tmp_path, bucket.options)
    assert won == 1
    assert others <= BEATEN
    assert bucket.stored("out.zarr") == {}


def test_a_server_that_passes_over_the_condition_is_named(our_bucket, archive, tmp_path, monkeypatch) -> None:
    """The second request for the same object must fail; where it does not, a job may have company."""
    answer = our_bucket.store.object

    def careless(request: web.Request, objects: dict[str, bytes], key: str, body: bytes) -> Any:
        if "If-None-Match" in request.headers:
            objects.pop(key, None)
        return answer(request, objects, key, body)

    options = {"job": tmp_path / "job.db", "dest_storage_options": our_bucket.options}
    assert "claim" not in {
        problem.kind for problem in zarrlift.migrate(archive, "s3://bucket/one", **options).problems
    }
    monkeypatch.setattr(our_bucket.store, "object", careless)
    options["job"] = tmp_path / "two.db"
    (noted,) = zarrlift.migrate(archive, "s3://bucket/two", **options).problems
    assert (noted.kind, noted.severity, noted.found) == ("claim", "note", "s3://bucket/two")
    assert CLAIM not in our_bucket.stored("two")


def test_a_zarr_store_over_obstore_is_listed_by_directory(archive, tmp_path) -> None:
    """zarr's own `list_dir` does not say what is a directory, so that everything below would be listed."""
    store = ObjectStore(MemoryStore())
    fill(store, archive)
    assert isinstance(open_storage(store).native, ObstoreBackend)  # type: ignore[attr-defined]
    assert paths(zarrlift.inspect(store)) == paths(zarrlift.inspect(archive))
    out = ObjectStore(MemoryStore())
    assert zarrlift.migrate(store, out, job=tmp_path / "job.db").ok
    assert zarrlift.migrate(archive, tmp_path / "local").ok
    storage = open_storage(out)
    found = {key: storage.get(key) for key in storage.list_prefix("")}
    assert found == files(tmp_path / "local")


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
    options = {"storage_options": bucket.options, "dest_storage_options": bucket.options}
    assert zarrlift.migrate(source, "s3://bucket/new", job=tmp_path / "job.db", **options).ok
    assert zarrlift.migrate(tmp_path / "odd.zarr", tmp_path / "local").ok
    assert bucket.stored("new") == files(tmp_path / "local")


def test_an_empty_object_that_stands_for_a_directory_is_none_of_its_files(our_bucket, archive) -> None:
    source = our_bucket.put("in", files(archive))
    our_bucket.store.objects["bucket"] |= {"in/": b"", "in/group/": b""}
    shown = zarrlift.inspect(source, storage_options=our_bucket.options)
    assert paths(shown) == paths(zarrlift.inspect(archive))


def test_the_store_copies_large_payloads_itself(bucket, tmp_path) -> None:
    size = 2 * IN_ONE_READ
    root = zarr.open_group(tmp_path / "large.zarr", mode="w", zarr_format=2)
    array = root.create_array("a", shape=(3 * size,), chunks=(size,), dtype="u1", compressors=None)
    array[:] = np.random.default_rng(1).integers(0, 256, 3 * size)
    source = bucket.put("in", files(tmp_path / "large.zarr"))
    options = {"storage_options": bucket.options, "dest_storage_options": bucket.options}
    job = tmp_path / "job.db"
    assert zarrlift.migrate(source, "s3://bucket/out", job=job, verify="none", **options).ok
    assert bucket.asked["copy"] == 3
    assert zarrlift.migrate(tmp_path / "large.zarr", tmp_path / "local").ok
    assert bucket.stored("out") == files(tmp_path / "local")


@pytest.mark.slow(one_in=3)
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
        tmp_path / "a.zarr", "s3://bucket/out", recipe=recipe, job=job, dest_storage_options=bucket.options
    )
    assert outcome.ok, outcome.problems
    assert bucket.asked["parts"] == -(-chunks * size // PART)
    assert zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "local", recipe=recipe).ok
    assert bucket.stored("out") == files(tmp_path / "local")


@pytest.mark.parametrize("retries", [0, 3])
@pytest.mark.slow(one_in=5)
def test_a_store_that_is_asked_too_much_is_asked_less(
    bucket, archive, retries, monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr(obstore_s3, "_RETRIES", retries)
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
    monkeypatch.setattr(obstore_s3, "_RETRIES", 0)
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


def test_a_server_that_is_gone_is_one_line(monkeypatch) -> None:
    monkeypatch.setattr(obstore_s3, "_RETRIES", 0)
    monkeypatch.setattr(adaptive_concurrency, "_DELAYS", ())
    options = {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:9"}
    with pytest.raises(StorageError) as caught:
        zarrlift.inspect("s3://bucket/archive", storage_options=options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(503, "throttled"), (429, "throttled"), (500, "passes"), (403, "stays"), (404, "absent")],
)
def test_errors_say_whether_they_pass(our_bucket, status, verdict) -> None:
    below = S3Store(
        "bucket",
        endpoint=our_bucket.endpoint,
        access_key_id="k",
        secret_access_key="s",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    our_bucket.instead = lambda _: status
    with pytest.raises(Exception, match=str(status)) as caught:
        below.get("a")
    error = caught.value
    assert is_throttled(error) is (verdict == "throttled")
    assert may_pass(error) is (verdict in ("throttled", "passes"))
    assert is_not_found(error) is (verdict == "absent")


def test_a_connection_that_breaks_may_be_there_again() -> None:
    below = S3Store(
        "bucket",
        endpoint="http://127.0.0.1:9",
        skip_signature=True,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    with pytest.raises(Exception, match="HTTP error") as caught:
        below.get("a")
    assert may_pass(caught.value)
    assert not is_throttled(caught.value)


KEYS = {"key": "k", "secret": "s"}
HERE = {"endpoint_url": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (KEYS | HERE, {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1"}),
        (KEYS | HERE | {"token": "t"}, {"session_token": "t"}),
        ({"anon": True, "endpoint_url": "https://host"}, {"skip_signature": "true"}),
        (KEYS | {"client_kwargs": {"region_name": "eu-west-3"}}, {"region": "eu-west-3"}),
        (
            KEYS | {"client_kwargs": {"region_name": "x", "endpoint_url": "https://h"}},
            {"endpoint": "https://h"},
        ),
        (KEYS | HERE | {"requester_pays": True, "anon": False}, {"request_payer": "true"}),
    ],
)
def test_options_of_s3fs_are_understood(options, settings) -> None:
    store, path = s3_store("s3://bucket/a/b", options, read_only=True)
    assert path == "a/b"
    assert isinstance(store, ObjectStore)
    assert store.read_only
    assert {name: store.store.config.get(name) for name in settings} == settings


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://bucket/a", KEYS | HERE | {"config_kwargs": {"read_timeout": 9}}),
        ("s3://bucket/a", KEYS | HERE | {"version_aware": True}),
        ("s3://bucket/a", KEYS | HERE | {"client_kwargs": {"verify": False}}),
        ("s3://bucket/a", HERE | {"key": "k"}),
        ("s3://key:pass@bucket/a", KEYS | HERE),
        ("s3://bucket/a?versionId=3", KEYS | HERE),
        ("s3://bucket/a#b", KEYS | HERE),
    ],
)
def test_what_obstore_cannot_be_told_is_left_to_s3fs(url, options) -> None:
    with pytest.raises(LeftToFsspec):
        s3_store(url, options, read_only=True)


def test_variables_that_only_botocore_reads_are_left_to_it(monkeypatch) -> None:
    given = KEYS | HERE
    assert s3_store("s3://bucket/a", given, read_only=True)
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    with pytest.raises(LeftToFsspec, match="AWS_USE_FIPS_ENDPOINT"):
        s3_store("s3://bucket/a", given, read_only=True)


def test_the_environment_says_who_asks_where_nothing_else_does(our_bucket, archive, monkeypatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-outside")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-word")
    monkeypatch.setenv("AWS_ENDPOINT_URL", our_bucket.endpoint)
    storage = open_storage(our_bucket.put("in", files(archive)))
    assert isinstance(storage, StoreStorage)
    assert isinstance(storage.native, ObstoreBackend)
    assert paths(zarrlift.inspect(storage)) == paths(zarrlift.inspect(archive))
    store, _ = s3_store("s3://bucket/a", {"anon": True}, read_only=True)
    assert "access_key_id" not in store.store.config  # type: ignore[attr-defined]


def test_etags_that_listings_write_otherwise_are_no_change(
    our_bucket, archive, tmp_path, monkeypatch
) -> None:
    """Some servers put other ETags into listings than into answers; what the listing says counts."""
    url = our_bucket.put("old.zarr", files(archive))
    read = our_bucket.store.read

    def other(*arguments: Any) -> web.StreamResponse:
        answer: web.StreamResponse = read(*arguments)
        if "ETag" in answer.headers:
            answer.headers["ETag"] = '"other"'
        return answer

    monkeypatch.setattr(our_bucket.store, "read", other)
    outcome = zarrlift.migrate(url, tmp_path / "new.zarr", storage_options=our_bucket.options)
    assert outcome.ok, outcome.problems
