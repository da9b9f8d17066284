"""Azure's and Google's stores by URL, through obstore; Azure's against Azurite, which Microsoft wrote."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import zarr
from tests.support.s3_servers import AZURITE_KEY, azurite
from tests.zarrlift.storage.conftest import files

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote.backend_obstore import ObstoreBackend
from zarrlift.storage.remote.obstore_urls import _AZURE_VARIABLES, obstore_store
from zarrlift.transfer.relink_server_side import IN_ONE_READ

ACCOUNT = "devstoreaccount1"
VARIABLES = ["AZURE_STORAGE_CONNECTION_STRING", "GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*VARIABLES, *_AZURE_VARIABLES.values()]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def connection() -> Iterator[str]:
    """Azurite with a container, `data`."""
    with azurite() as text:
        address = text.partition(";")[0].removeprefix("BlobEndpoint=")
        date = formatdate(usegmt=True)
        path = urlsplit(address).path
        signed = f"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2021-08-06\n"
        signed += f"/{ACCOUNT}{path}/data\nrestype:container"
        digest = hmac.new(base64.b64decode(AZURITE_KEY), signed.encode(), hashlib.sha256).digest()
        asked = urllib.request.Request(f"{address}/data?restype=container", method="PUT", data=b"")
        asked.remove_header("Content-type")
        for name, value in {
            "x-ms-date": date,
            "x-ms-version": "2021-08-06",
            "Content-Type": "",
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
        }.items():
            asked.add_header(name, value)
        urllib.request.urlopen(asked).close()
        yield text


def put(connection: str, prefix: str, content: dict[str, bytes]) -> str:
    url = f"az://data/{prefix}"
    open_storage(url, storage_options={"connection_string": connection}, mode="w").put_many(
        [*content.items()]
    )
    return url


def stored(connection: str, url: str) -> dict[str, bytes | None]:
    storage = open_storage(url, storage_options={"connection_string": connection})
    return {key: storage.get(key) for key in storage.list_prefix("")}


@pytest.mark.needs_reader("azurite")
@pytest.mark.parametrize("scheme", ["az", "abfs"])
@pytest.mark.parametrize("recipe", [{}, {"shards": "2x"}], ids=["copy", "shards"])
def test_a_copy_within_azure_is_as_one_from_directory_to_directory(
    recipe: dict[str, Any], scheme: str, connection: str, archive: Path, tmp_path: Path
) -> None:
    source = put(connection, f"{tmp_path.name}/in", files(archive))
    out = f"{scheme}://data/{tmp_path.name}/out"
    options: dict[str, Any] = {"connection_string": connection}
    both = {"storage_options": options, "dest_storage_options": options}
    made = Recipe(base=ArrayRecipe(**recipe))
    outcome = zarrlift.migrate(source, out, recipe=made, job=tmp_path / "job.db", **both)
    assert outcome.ok, outcome.problems
    assert zarrlift.migrate(archive, tmp_path / "local", recipe=made).ok
    assert stored(connection, out) == files(tmp_path / "local")


@pytest.mark.needs_reader("azurite")
@pytest.mark.parametrize("replaced", [False, True])
def test_azure_copies_large_payloads_itself(
    replaced: bool, connection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 2 * IN_ONE_READ
    array = zarr.create_array(
        tmp_path / "in", shape=(2 * size,), chunks=(size,), dtype="u1", compressors=None, zarr_format=2
    )
    array[:] = np.random.default_rng(1).integers(0, 256, 2 * size)
    source = put(connection, f"{tmp_path.name}/in", files(tmp_path / "in"))
    out = f"az://data/{tmp_path.name}/out"
    copy, copied = ObstoreBackend.copy, []

    async def counted(self: ObstoreBackend, source: Any, before: str, after: str, size: int) -> None:
        if replaced and before.endswith("/1"):
            await self.write(before, bytes(size))
        copied.append(await copy(self, source, before, after, size))

    monkeypatch.setattr(ObstoreBackend, "copy", counted)
    options: dict[str, Any] = {"connection_string": connection}
    both = {"storage_options": options, "dest_storage_options": options}
    outcome = zarrlift.migrate(source, out, job=tmp_path / "job.db", verify="none", **both)
    assert len(copied) == 2
    if replaced:
        assert {(problem.kind, problem.key) for problem in outcome.problems} == {("source-changed", "1")}
        assert "zarr.json" not in stored(connection, out)
        return
    assert outcome.ok, outcome.problems
    assert zarrlift.migrate(tmp_path / "in", tmp_path / "local").ok
    assert stored(connection, out) == files(tmp_path / "local")


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
    made = obstore_store(url, options, read_only=True)
    assert made is not None
    store: Any = made[0]
    assert made[1] == "p"
    assert {name: store.store.config.get(name) for name in settings} == settings


def test_the_variables_of_adlfs_and_gcsfs_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", TEXT)
    made: Any = obstore_store("az://c/p", {}, read_only=True)
    assert made[0].store.config["account_key"] == NAMED["account_key"]
    key = tmp_path / "key.json"
    key.write_text(
        json.dumps({"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"})
    )
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    made = obstore_store("gs://b/p", {}, read_only=True)
    assert made[0].store.config["application_credentials"] == str(key)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("az://c/p", {"account_name": "acct"}),
        ("az://c/p", NAMED | {"assume_container_exists": True}),
        ("abfs://c@other.example.org/p", NAMED),
        ("https://acct.blob.core.windows.net/c/p", {}),
        ("https://acct.blob.core.windows.net/c/p?sv=1&sig=x", {}),
        ("gs://b/p", {}),
        ("gs://b/p", {"token": "cloud"}),
        ("gs://b/p", {"token": "anon", "requester_pays": True}),
        ("https://example.org/c/p", {}),
    ],
)
def test_what_leaves_open_who_asks_is_left_to_fsspec(url: str, options: dict[str, Any]) -> None:
    assert obstore_store(url, options, read_only=True) is None
