"""Azure's and Google's stores by URL: what their options mean to obstore, and what is left to fsspec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote.obstore_s3 import LeftToFsspec
from zarrlift.storage.remote.store_at import _AZURE_VARIABLES, obstore_store
from zarrstack.core.errors import ZarrstackError

VARIABLES = ["AZURE_STORAGE_CONNECTION_STRING", "GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*VARIABLES, *_AZURE_VARIABLES.values()]:
        monkeypatch.delenv(name, raising=False)


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


NO_KEY = "no credentials found for {}: looked at"


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("az://c/p", {}, NO_KEY.format("az://c")),
        ("az://c/p", {"account_name": "acct"}, "Give account_name with account_key or sas_token.*adlfs"),
        (
            "az://c/p",
            NAMED | {"assume_container_exists": True},
            "option assume_container_exists; expected adlfs",
        ),
        ("abfs://c@other.example.org/p", NAMED, None),
        ("https://acct.blob.core.windows.net/c/p", {}, None),
        ("https://acct.blob.core.windows.net/c/p?sv=1&sig=x", {}, None),
        ("gs://b/p", {}, NO_KEY.format("gs://b")),
        ("gs://b/p", {"token": "cloud"}, "option token; expected gcsfs"),
        ("gs://b/p", {"token": "anon", "requester_pays": True}, "option requester_pays; expected gcsfs"),
        ("https://example.org/c/p", {}, None),
    ],
)
def test_what_leaves_open_who_asks_is_left_to_fsspec(
    url: str, options: dict[str, Any], said: str | None
) -> None:
    """With what to do where its package is not installed."""
    if said is None:
        assert obstore_store(url, options, read_only=True) is None
        return
    with pytest.raises(LeftToFsspec) as caught:
        obstore_store(url, options, read_only=True)
    with pytest.raises(ZarrstackError, match=said):
        raise caught.value.error


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
    made: Any = obstore_store("gs://b/p", {"anon": True}, read_only=False)
    assert made[0].store.config["base_url"] == "http://localhost:4443"
