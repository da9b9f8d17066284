"""Stores of URLs through obstore: S3, Azure and Google, with the options of fsspec's packages.

What cannot be translated, or leaves open who asks, is left to these packages.

Sources: obstore 0.12 (https://developmentseed.org/obstore), the options and variables of adlfs 2026.8
(https://github.com/fsspec/adlfs) and gcsfs 2026.9 (https://gcsfs.readthedocs.io).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from zarrstack.core.errors import UsageError

from .obstore_s3 import LeftToFsspec, opened, s3_store

if TYPE_CHECKING:
    from zarr.abc.store import Store

_AZURE: Final = {
    "account_name": "account_name",
    "account_key": "account_key",
    "sas_token": "sas_key",
    "client_id": "client_id",
    "client_secret": "client_secret",
    "tenant_id": "tenant_id",
    "endpoint_url": "endpoint",
    "anon": "skip_signature",
}
"""Options of adlfs -> obstore's names; `endpoint_url` is that of s3fs and gcsfs."""
_AZURE_CONNECTION: Final = {
    "AccountName": "account_name",
    "AccountKey": "account_key",
    "SharedAccessSignature": "sas_key",
    "BlobEndpoint": "endpoint",
}
"""The same for the parts of its `connection_string`."""
_AZURE_VARIABLES: Final = {
    name: f"AZURE_STORAGE_{name.upper()}"
    for name in ("account_name", "account_key", "sas_token", "client_id", "client_secret", "tenant_id")
}
_AZURE_HOSTS: Final = (".blob.core.windows.net", ".dfs.core.windows.net")
_GOOGLE: Final = {"endpoint_url": "base_url", "anon": "skip_signature"}
"""Options of gcsfs -> obstore's names."""
_OF_NO_MATTER: Final = frozenset({"skip_instance_cache", "project"})


def obstore_store(url: str, options: Mapping[str, Any], *, read_only: bool) -> tuple[Store, str] | None:
    """The bucket or container of a URL and the path in it; None if fsspec must be used.

    LeftToFsspec if that alone may find credentials, or supports an option; UsageError for a missing file.
    """
    if find_spec("obstore") is None:
        return None
    parts = urlsplit(url)
    if parts.scheme in ("s3", "s3a"):
        return s3_store(url, options, read_only=read_only)
    if not parts.hostname or parts.query or parts.fragment:
        return None
    settings = {name: value for name, value in options.items() if value is not None}
    settings = {name: value for name, value in settings.items() if name not in _OF_NO_MATTER}
    if parts.scheme in ("gs", "gcs"):
        return _google(parts, settings, read_only=read_only)
    if parts.scheme in ("az", "abfs", "abfss") or parts.hostname.endswith(_AZURE_HOSTS):
        return _azure(parts, settings, read_only=read_only)
    return None


def _azure(parts: SplitResult, options: dict[str, Any], *, read_only: bool) -> tuple[Store, str] | None:
    """`az://CONTAINER/PATH`, `abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH`, or the blob's own URL."""
    container, _, host = parts.netloc.partition("@")
    path = parts.path.strip("/")
    if parts.scheme in ("http", "https"):
        host = parts.netloc
        container, _, path = path.partition("/")
    account = next((host.removesuffix(end) for end in _AZURE_HOSTS if host.endswith(end)), None)
    if not container or (host and account is None):
        return None
    variables = {name: os.environ[key] for name, key in _AZURE_VARIABLES.items() if os.environ.get(key)}
    text = options.pop("connection_string", None)
    if text is None and not options.keys() - {"account_name"}:
        text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    settings = {} if text is None else _connection(text)
    if settings is None or not options.keys() <= _AZURE.keys():
        unknown = options.keys() - _AZURE.keys()
        raise LeftToFsspec(f"the storage option {min(unknown, default='connection_string')}", "adlfs")
    named = text is not None or bool(options.keys() & {"account_key", "sas_token", "client_id", "anon"})
    for name, value in (options if named else variables | options).items():
        settings[_AZURE[name]] = value
    if account is not None:
        settings["account_name"] = account
    elif "account_name" not in settings and "account_name" in variables:
        settings["account_name"] = variables["account_name"]
    settings = {name: value for name, value in settings.items() if value is not False}
    whole_client = {"client_id", "client_secret", "tenant_id"} <= settings.keys()
    has_credentials = whole_client or settings.keys() & {"account_key", "sas_key", "skip_signature"}
    if not has_credentials and parts.scheme in ("http", "https"):
        return None
    if not has_credentials or "account_name" not in settings:
        raise _no_credentials(
            f"{parts.scheme}://{parts.netloc}",
            "the storage options, AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT_NAME and others",
            "Give account_name with account_key or sas_token, or connection_string; for a public container,"
            " account_name and anon=true. For other logins",
            "adlfs",
        )
    return opened("AzureStore", container, settings, settings.get("endpoint"), path, read_only=read_only)


def _connection(text: str) -> dict[str, Any] | None:
    """The parts of a connection string; None if one of them has no counterpart."""
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    if parts.pop("EndpointSuffix", "core.windows.net") != "core.windows.net":
        return None
    for name in ("DefaultEndpointsProtocol", "QueueEndpoint", "TableEndpoint", "FileEndpoint"):
        parts.pop(name, None)
    if not parts.keys() <= _AZURE_CONNECTION.keys():
        return None
    return {_AZURE_CONNECTION[name]: value for name, value in parts.items()}


def _google(parts: SplitResult, options: dict[str, Any], *, read_only: bool) -> tuple[Store, str] | None:
    """`gs://BUCKET/PATH`; `token` is a file with credentials, or "anon"."""
    if "@" in parts.netloc:
        return None
    token = options.pop("token", None)
    if unknown := options.keys() - _GOOGLE.keys():
        raise LeftToFsspec(f"the storage option {min(unknown)}", "gcsfs")
    settings: dict[str, Any] = {_GOOGLE[name]: value for name, value in options.items() if value is not False}
    if token is None and not settings.get("skip_signature"):
        token = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if "base_url" not in settings and (emulator := os.environ.get("STORAGE_EMULATOR_HOST")):
        settings["base_url"] = emulator if "://" in emulator else f"http://{emulator}"
    if token == "anon":  # noqa: S105 - gcsfs' word for none
        settings["skip_signature"] = True
    elif isinstance(token, str) and os.path.isfile(token):
        settings["application_credentials"] = token
    elif isinstance(token, str) and (os.sep in token or token.endswith(".json")):
        raise UsageError(f"no such file with credentials of Google: {token}")
    elif token is not None:
        raise LeftToFsspec("this form of the storage option token", "gcsfs")
    elif not settings.get("skip_signature"):
        raise _no_credentials(
            f"gs://{parts.netloc}",
            "the storage option token and GOOGLE_APPLICATION_CREDENTIALS",
            "Give token=FILE, or anon=true for a public bucket. For the login of gcloud",
            "gcsfs",
        )
    if settings.get("skip_signature") and "base_url" in settings:
        settings["credential_provider"] = _any_token
    elif settings.get("skip_signature") and not read_only:
        raise LeftToFsspec("writing to Google's stores without credentials", "gcsfs")
    path = parts.path.strip("/")
    return opened("GCSStore", parts.netloc, settings, settings.get("base_url"), path, read_only=read_only)


def _any_token() -> dict[str, Any]:
    """What obstore 0.12 sends with a write even if it is to skip signatures; emulators take any."""
    return {"token": "anonymous", "expires_at": None}


def _no_credentials(place: str, looked_at: str, advice: str, package: str) -> LeftToFsspec:
    left = LeftToFsspec("a place without credentials")
    left.error = UsageError(
        f"no credentials found for {place}: looked at {looked_at}", advice=f"{advice}: pip install {package}."
    )
    return left
