"""S3, Azure's and Google's stores through obstore: what their options mean, and the errors that s3fs has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from aiohttp import web
from obstore.store import MemoryStore, S3Store
from tests.zarrlift.storage.conftest import files, fill
from zarr.storage import ObjectStore

import zarrlift
from zarrlift.storage.base import CLAIM
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote import bucket_storage, buckets
from zarrlift.storage.remote.adaptive_concurrency import is_throttled
from zarrlift.storage.remote.bucket_storage import BucketStorage
from zarrlift.storage.remote.buckets import bucket_store
from zarrlift.storage.remote.store_storage import StoreStorage
from zarrlift.transfer.relink_server_side import IN_ONE_READ
from zarrstack.core.errors import UsageError, ZarrstackError
from zarrstack.system.transient_errors import is_not_found, may_pass

VARIABLES = [
    *("AWS_PROFILE", "AZURE_STORAGE_CONNECTION_STRING", *buckets.UNSUPPORTED_VARIABLES),
]
for _cloud in buckets.CLOUDS.values():
    VARIABLES += [name for names in (*_cloud.place.values(), *_cloud.who.values()) for name in names]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.setattr(buckets, "_has_identity", lambda: False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-such-file"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-such-file"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def paths(found: zarrlift.Archive) -> list[tuple[str, str]]:
    """What was found, and where."""
    return [(type(node).__name__, node.path) for node in found.nodes]


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
    assert isinstance(open_storage(store), BucketStorage)
    assert paths(zarrlift.inspect(store)) == paths(zarrlift.inspect(archive))
    out = ObjectStore(MemoryStore())
    assert zarrlift.migrate(store, out, job=tmp_path / "job.db").ok
    assert zarrlift.migrate(archive, tmp_path / "local").ok
    storage = open_storage(out)
    found = {key: storage.get(key) for key in storage.list_prefix("")}
    assert found == files(tmp_path / "local")


def test_an_empty_object_that_stands_for_a_directory_is_none_of_its_files(our_bucket, archive) -> None:
    source = our_bucket.put("in", files(archive))
    our_bucket.store.objects["bucket"] |= {"in/": b"", "in/group/": b""}
    shown = zarrlift.inspect(source, storage_options=our_bucket.options)
    assert paths(shown) == paths(zarrlift.inspect(archive))


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
    store, path = bucket_store("s3://bucket/a/b", options, read_only=True)
    assert path == "a/b"
    assert isinstance(store, ObjectStore)
    assert store.read_only
    assert {name: store.store.config.get(name) for name in settings} == settings


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("s3://bucket/a", {"config_kwargs": {"read_timeout": 9}}, "unknown storage option 'config_kwargs'"),
        ("s3://bucket/a", {"version_aware": True}, "unknown storage option 'version_aware'"),
        ("s3://bucket/a", {"client_kwargs": {"verify": False}}, "unknown storage option 'verify'"),
        ("s3://bucket/a", {"key": None}, "an access key needs its secret key"),
        (
            "s3://key:hidden-word@bucket/a",
            {},
            "does not name a bucket and a path in it; found s3://.*bucket/a",
        ),
        ("s3://bucket/a?versionId=3", {}, "does not name a bucket and a path in it"),
    ],
)
def test_what_obstore_cannot_be_told_is_refused(url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        bucket_store(url, KEYS | HERE | options, read_only=True)
    assert "hidden-word" not in str(caught.value)


def test_a_key_may_contain_a_number_sign() -> None:
    made = bucket_store("s3://bucket/a#b", KEYS | HERE, read_only=True)
    assert made is not None
    assert made[1] == "a#b"


def test_variables_that_only_botocore_knows_are_refused(monkeypatch) -> None:
    given = KEYS | HERE
    assert bucket_store("s3://bucket/a", given, read_only=True)
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    with pytest.raises(UsageError, match="obstore does not support the variable AWS_USE_FIPS_ENDPOINT"):
        bucket_store("s3://bucket/a", given, read_only=True)


def test_the_environment_says_who_asks_where_nothing_else_does(our_bucket, archive, monkeypatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-outside")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-word")
    monkeypatch.setenv("AWS_ENDPOINT_URL", our_bucket.endpoint)
    storage = open_storage(our_bucket.put("in", files(archive)))
    assert isinstance(storage, StoreStorage)
    assert isinstance(storage, BucketStorage)
    assert paths(zarrlift.inspect(storage)) == paths(zarrlift.inspect(archive))
    store, _ = bucket_store("s3://bucket/a", {"anon": True}, read_only=True)
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


def test_every_request_says_that_the_requester_pays(our_bucket, archive, tmp_path) -> None:
    """As buckets that charge who reads them want it; copies, uploads in parts and listings too."""
    size = 12 << 20
    large = zarr.create_array(
        tmp_path / "in/large", shape=(size,), chunks=(size,), dtype="u1", compressors=None, zarr_format=2
    )
    large[:] = 1
    source = our_bucket.put("in", files(tmp_path / "in") | files(archive))
    requests = []
    our_bucket.instead = requests.append
    options = our_bucket.options | {"requester_pays": True}
    both = {"storage_options": options, "dest_storage_options": options}
    assert zarrlift.migrate(source, "s3://bucket/out", job=tmp_path / "job.db", **both).ok
    assert zarrlift.verify(source, "s3://bucket/out", **both).ok
    assert our_bucket.asked["copy"] == 1
    assert {request.method for request in requests} == {"GET", "HEAD", "PUT", "POST"}
    assert {request.headers.get("x-amz-request-payer") for request in requests} == {"requester"}


def test_an_object_too_large_for_a_copy_in_one_request_goes_in_parts(
    our_bucket, tmp_path, monkeypatch
) -> None:
    """S3 copies 5 GB at most in one request, and obstore has no copies in parts."""
    size = 12 << 20
    monkeypatch.setattr(bucket_storage, "_MAX_COPIED", size - 1)
    array = zarr.create_array(
        tmp_path / "in", shape=(size,), chunks=(size,), dtype="u1", compressors=None, zarr_format=2
    )
    array[:] = np.resize(np.arange(251, dtype="u1"), size)
    source = our_bucket.put("in", files(tmp_path / "in"))
    assert zarrlift.migrate(source, "s3://bucket/out", job=tmp_path / "job.db", **our_bucket.ends).ok
    assert (our_bucket.asked["copy"], our_bucket.asked["parts"]) == (0, 3)
    assert our_bucket.stored("out")["c/0"] == our_bucket.stored("in")["0"]


@pytest.mark.parametrize("spoiled", ["the first copy", "a later copy"])
def test_a_store_that_does_not_copy_what_it_says_is_not_trusted(
    spoiled, our_bucket, tmp_path, monkeypatch
) -> None:
    """Some servers take a request for a copy as one to write an empty object, and Azure may copy later.

    Of other stores the first copy is compared, of Azure's all.
    """
    if spoiled != "the first copy":
        monkeypatch.setattr(bucket_storage, "_STARTS_COPIES", {"S3Store"})
    size = 2 * IN_ONE_READ
    array = zarr.create_array(
        tmp_path / "in", shape=(3 * size,), chunks=(size,), dtype="u1", compressors=None, zarr_format=2
    )
    array[:] = np.resize(np.arange(251, dtype="u1"), 3 * size)
    source = our_bucket.put("in", files(tmp_path / "in"))
    answer = our_bucket.store.object

    def careless(request: web.Request, objects: dict[str, bytes], key: str, body: bytes) -> Any:
        told = answer(request, objects, key, body)
        if "x-amz-copy-source" in request.headers and (spoiled == "the first copy" or key != "out/c/0"):
            objects[key] = b""
        return told

    monkeypatch.setattr(our_bucket.store, "object", careless)
    outcome = zarrlift.migrate(
        source, "s3://bucket/out", job=tmp_path / "job.db", verify="none", **our_bucket.ends
    )
    assert outcome.ok, outcome.problems
    assert zarrlift.migrate(tmp_path / "in", tmp_path / "local").ok
    assert our_bucket.stored("out") == files(tmp_path / "local")


# Azure's and Google's stores by URL: what their options mean to obstore.

NAMED = {"account_name": "acct", "account_key": "QUFBQQ=="}
TEXT = "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=QUFBQQ==;EndpointSuffix=core.windows.net"


@pytest.mark.parametrize(
    ("url", "options", "settings"),
    [
        ("az://c/p", NAMED, NAMED | {"container_name": "c"}),
        ("abfs://c@acct.dfs.core.windows.net/p", {"account_key": "QUFBQQ=="}, NAMED),
        (
            "https://acct.blob.core.windows.net/c/p",
            {"account_key": "QUFBQQ=="},
            NAMED | {"container_name": "c"},
        ),
        ("az://c/p", {"connection_string": TEXT}, NAMED),
        ("az://c/p", {"account_name": "acct", "anon": True}, {"skip_signature": "true"}),
        ("az://c/p", {"account_name": "acct", "sas_token": "sv=1&sig=x"}, {"sas_key": "sv=1&sig=x"}),
        (
            "az://c/p",
            {"account_name": "acct", "client_id": "i", "client_secret": "s", "tenant_id": "t"},
            {"client_id": "i", "client_secret": "s"},
        ),
        ("az://c/p", NAMED | {"endpoint_url": "http://127.0.0.1:9/x"}, {"endpoint": "http://127.0.0.1:9/x"}),
        ("gs://b/p", {"token": "anon"}, {"bucket": "b", "skip_signature": "true"}),
        ("gcs://b/p", {"anon": True, "endpoint_url": "http://h:9"}, {"base_url": "http://h:9"}),
    ],
)
def test_options_of_adlfs_and_gcsfs_are_understood(
    url: str, options: dict[str, Any], settings: dict[str, str]
) -> None:
    made = bucket_store(url, options, read_only=True)
    assert made is not None
    store: Any = made[0]
    assert made[1] == "p"
    assert {name: store.store.config.get(name) for name in settings} == settings


def test_the_variables_of_adlfs_and_gcsfs_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", TEXT)
    made: Any = bucket_store("az://c/p", {}, read_only=True)
    assert made[0].store.config["account_key"] == NAMED["account_key"]
    key = tmp_path / "key.json"
    key.write_text(
        json.dumps({"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"})
    )
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    made = bucket_store("gs://b/p", {}, read_only=True)
    assert made[0].store.config["application_credentials"] == str(key)


NO_KEY = "no credentials found for {}: looked at"


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("az://c/p", {}, NO_KEY.format("az://c")),
        ("az://c/p", {"account_name": "acct"}, "Give account_name with account_key or sas_token"),
        ("az://c/p", NAMED | {"assume_container_exists": True}, "option 'assume_container_exists' for az://"),
        ("az://c/p", {"connection_string": f"{TEXT};Extra=1"}, "the part Extra of a connection string"),
        ("abfs://c@other.example.org/p", NAMED, "does not name a container of Azure"),
        ("gs://b/p", {}, NO_KEY.format("gs://b")),
        ("gs://b/p", {"token": "cloud"}, NO_KEY.format("gs://b")),
        ("gs://b/p", {"token": "anon", "requester_pays": True}, "option 'requester_pays' for gs://"),
    ],
)
def test_what_leaves_open_who_asks_is_refused(url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        bucket_store(url, options, read_only=True)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("https://acct.blob.core.windows.net/c/p", {}),
        ("https://acct.blob.core.windows.net/c/p?sv=1&sig=x", {}),
        ("https://example.org/c/p", {}),
    ],
)
def test_blobs_without_credentials_are_read_as_from_any_web_server(url: str, options: dict[str, Any]) -> None:
    assert bucket_store(url, options, read_only=True) is None


@pytest.mark.parametrize("url", ["gs://b/p", "az://c/p"])
def test_a_virtual_machine_gives_its_role(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """obstore asks for it where nothing else says who asks."""
    monkeypatch.setattr(buckets, "_has_identity", lambda: True)
    assert bucket_store(url, {"account_name": "acct"} if url[0] == "a" else {}, read_only=False)


def test_the_login_of_gcloud_is_found(tmp_path: Path) -> None:
    login = tmp_path / "home/.config/gcloud/application_default_credentials.json"
    login.parent.mkdir(parents=True)
    login.write_text(
        json.dumps({"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"})
    )
    assert bucket_store("gs://b/p", {}, read_only=False)


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("gs://b/p", {"token": "no/such.json"}, "no such file with credentials of Google: no/such.json"),
        ("gs://b/p", {"token": "key.json"}, "cannot open the location gs://b/p; found.*missing field `type`"),
        ("gs://b/p", {"anon": True}, "writing to Google's stores without credentials"),
        (
            "az://c/p",
            NAMED | {"account_key": "?"},
            "cannot open the location az://c/p; found.*Invalid Access Key",
        ),
    ],
)
def test_credentials_of_no_use_are_one_sentence(
    url: str, options: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key.json").write_text("{}")
    with pytest.raises(ZarrstackError, match=said) as caught:
        open_storage(url, storage_options=options, mode="w")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["http://localhost:4443", "localhost:4443"])
def test_the_address_of_an_emulator_may_have_no_scheme(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", host)
    made: Any = bucket_store("gs://b/p", {"anon": True}, read_only=False)
    assert made[0].store.config["base_url"] == "http://localhost:4443"
