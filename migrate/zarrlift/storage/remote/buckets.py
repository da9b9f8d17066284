"""Opens buckets with obstore: `s3://`, `gs://`, `az://`, their other names, and blobs of Azure by `https://`.

Storage options have the names of obstore's settings, or those that fsspec's packages have for them. obstore
reads no variables and no files of profiles, so these are read here.

Sources: obstore 0.12 (https://developmentseed.org/obstore), the options of s3fs 2026.9, gcsfs 2026.9 and
adlfs 2026.8, and the variables that botocore reads
(https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html), as well as those of azure-identity
(https://learn.microsoft.com/python/api/overview/azure/identity-readme) and google-auth
(https://cloud.google.com/docs/authentication/application-default-credentials).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from zarrstack.core.errors import StorageError, UsageError
from zarrstack.core.similar_names import did_you_mean

from ..redact import redact
from .aws_profile import AwsProfile, config_file, has_settings, no_credentials

if TYPE_CHECKING:
    from zarr.abc.store import Store

_RETRIES: Final = 3
"""Retries after a broken connection or a 5xx, 0.1 s to 0.4 s apart; `ConcurrencyLimiter` repeats longer
failures.
"""
_LONGEST: Final = timedelta(minutes=15)
"""Timeout of a whole request including its body. obstore's 30 s are too short for large objects on slow
lines.
"""
_SILENT: Final = timedelta(minutes=3)
"""Timeout for the next byte; the store may take that long to copy a large object."""
_WITHOUT_EFFECT: Final = frozenset({"skip_instance_cache", "use_listings_cache", "asynchronous", "project"})
"""Options of fsspec's packages that change nothing here."""
_AZURE_HOSTS: Final = (".blob.core.windows.net", ".dfs.core.windows.net")


@dataclass(frozen=True, slots=True)
class Cloud:
    """What one of obstore's stores is told."""

    store: str
    """Name of obstore's class."""
    old_names: Mapping[str, str]
    """Option of fsspec's package -> setting of obstore."""
    settings: frozenset[str]
    """Further settings, whose options have the same name."""
    place: Mapping[str, tuple[str, ...]]
    """Setting -> environment variables that give it, the first wins."""
    who: Mapping[str, tuple[str, ...]]
    """The same for settings that say who asks; all of these variables are ignored if an option says so."""

    def option_names(self) -> list[str]:
        """The names of all options."""
        return sorted(self.old_names.keys() | self.settings | self.who.keys() | self.place.keys())


S3: Final = Cloud(
    "S3Store",
    {
        "key": "access_key_id",
        "username": "access_key_id",
        "secret": "secret_access_key",
        "password": "secret_access_key",
        "token": "session_token",
        "endpoint_url": "endpoint",
        "region_name": "region",
        "anon": "skip_signature",
        "requester_pays": "request_payer",
        "profile": "profile",
    },
    frozenset(
        {
            *("skip_signature", "request_payer", "checksum_algorithm", "unsigned_payload", "s3_express"),
            *("virtual_hosted_style_request", "server_side_encryption", "sse_kms_key_id"),
        }
    ),
    {
        "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    },
    {
        "access_key_id": ("AWS_ACCESS_KEY_ID",),
        "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
        "session_token": ("AWS_SESSION_TOKEN",),
    },
)
GOOGLE: Final = Cloud(
    "GCSStore",
    {"endpoint_url": "base_url", "anon": "skip_signature", "token": "application_credentials"},
    frozenset({"skip_signature"}),
    {"base_url": ("STORAGE_EMULATOR_HOST",)},
    {
        "application_credentials": ("GOOGLE_APPLICATION_CREDENTIALS",),
        "service_account": (),
        "service_account_key": (),
        "bearer_token": (),
    },
)
AZURE: Final = Cloud(
    "AzureStore",
    {
        "endpoint_url": "endpoint",
        "anon": "skip_signature",
        "sas_token": "sas_key",
        "connection_string": "connection_string",
    },
    frozenset({"skip_signature", "endpoint", "authority_host", "msi_endpoint", "object_id"}),
    {"account_name": ("AZURE_STORAGE_ACCOUNT_NAME",)},
    {
        "account_key": ("AZURE_STORAGE_ACCOUNT_KEY",),
        "sas_key": ("AZURE_STORAGE_SAS_TOKEN",),
        "client_id": ("AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID"),
        "client_secret": ("AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET"),
        "tenant_id": ("AZURE_STORAGE_TENANT_ID", "AZURE_TENANT_ID"),
        "federated_token_file": ("AZURE_FEDERATED_TOKEN_FILE",),
        "token": (),
        "use_azure_cli": (),
    },
)
CLOUDS: Final = {
    **dict.fromkeys(("s3", "s3a"), S3),
    **dict.fromkeys(("gs", "gcs"), GOOGLE),
    **dict.fromkeys(("az", "abfs", "abfss"), AZURE),
}
"""URL scheme -> what its store is told."""
UNSUPPORTED_VARIABLES: Final = (
    *("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_CA_BUNDLE"),
    *("AWS_USE_DUALSTACK_ENDPOINT", "AWS_USE_FIPS_ENDPOINT"),
)
"""Variables with a meaning for botocore and none here."""
_CONNECTION: Final = {
    "AccountName": "account_name",
    "AccountKey": "account_key",
    "SharedAccessSignature": "sas_key",
    "BlobEndpoint": "endpoint",
}
"""Part of a connection string of Azure -> setting."""


def bucket_store(url: str, options: Mapping[str, Any], *, read_only: bool) -> tuple[Store, str] | None:
    """The bucket or container of a URL and the path in it; None for a URL of another kind.

    UsageError for an option, a variable or a setting of a profile that is unknown or has no counterpart, and
    without credentials; StorageError if those of a profile cannot be obtained.
    """
    parts = urlsplit(url, allow_fragments=False)
    cloud = CLOUDS.get(parts.scheme)
    if cloud is None:
        blob = parts.scheme in ("http", "https") and str(parts.hostname).endswith(_AZURE_HOSTS)
        if not blob or parts.query or not options.keys() & set(AZURE.option_names()):
            return None  # without credentials, or signed, it is read as from any web server
        cloud = AZURE
    if find_spec("obstore") is None:
        from ..not_an_archive import no_package

        raise no_package(parts.scheme, "")
    if not parts.netloc or parts.query or ("@" in parts.netloc and cloud is not AZURE):
        raise UsageError(
            "the URL does not name a bucket and a path in it",
            found=redact(url),
            expected=f"{parts.scheme}://BUCKET/PATH",
        )
    settings = _settings(cloud, parts.scheme, options)
    bucket, path = parts.netloc, parts.path
    if cloud is AZURE:
        bucket, path = _azure(parts, settings)
    elif cloud is S3:
        _s3(bucket, settings)
    else:
        _google(bucket, settings, read_only=read_only)
    settings = {name: value for name, value in settings.items() if value is not False}
    return _opened(cloud.store, bucket, settings, read_only=read_only), path.strip("/")


def _settings(cloud: Cloud, scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that options and variables give; UsageError for an unknown option."""
    flat = dict(options)
    flat |= flat.pop("client_kwargs", None) or {}  # of s3fs
    names, settings = cloud.option_names(), {}
    for name, value in flat.items():
        if name not in names and name not in _WITHOUT_EFFECT:
            near = did_you_mean(name, names)
            raise UsageError(
                f"unknown storage option {name!r} for {scheme}://",
                expected=None if near else ", ".join(names),
                advice=near,
            )
        if value is not None and name not in _WITHOUT_EFFECT:
            settings[cloud.old_names.get(name, name)] = value
    named = _is_named(cloud, settings)
    for name, variables in (cloud.place if named else {**cloud.place, **cloud.who}).items():
        value = next((os.environ[variable] for variable in variables if os.environ.get(variable)), None)
        if value is not None:
            settings.setdefault(name, value)
    return settings


def _is_named(cloud: Cloud, settings: Mapping[str, Any]) -> bool:
    """Whether the settings say who asks, a profile or nobody included."""
    return any(settings.get(name) for name in (*cloud.who, "skip_signature", "profile", "connection_string"))


def _s3(bucket: str, settings: dict[str, Any]) -> None:
    """Add what a profile and the bucket tell."""
    place, plain = f"s3://{bucket}", str(settings.get("endpoint", "")).startswith("http://")
    for name in UNSUPPORTED_VARIABLES:
        if os.environ.get(name) and not (plain and name == "AWS_CA_BUNDLE"):
            raise _unsupported(f"the variable {name}")
    if ("access_key_id" in settings) != ("secret_access_key" in settings):
        raise UsageError("an access key needs its secret key", expected="both, or neither")
    profile_name = settings.pop("profile", None)
    has_credentials = bool(settings.get("skip_signature")) or "secret_access_key" in settings
    if not has_credentials or ("endpoint" not in settings and has_settings()):
        try:
            profile = AwsProfile(profile_name)
        except ImportError:
            if not has_credentials:
                raise no_credentials(place, None) from None
            raise UsageError(
                f"the settings of {config_file()} cannot be read without botocore",
                advice="Install it: pip install botocore.",
            ) from None
        if "endpoint" not in settings and (endpoint := profile.endpoint()) is not None:
            settings["endpoint"] = endpoint
        plain = str(settings.get("endpoint", "")).startswith("http://")
        if (setting := profile.untranslated(plain=plain)) is not None:
            raise _unsupported(f"the setting {setting} of {config_file()}")
        if not has_credentials:
            settings["credential_provider"] = profile.credentials()
            if settings["credential_provider"] is None:
                raise no_credentials(place, profile.name)
        if "region" not in settings and (region := profile.region()) is not None:
            settings["region"] = region
    if "region" not in settings:
        settings["region"] = "us-east-1" if "endpoint" in settings else _region_of(bucket)


def _google(bucket: str, settings: dict[str, Any], *, read_only: bool) -> None:
    """Tell the forms of gcsfs' `token` apart: a file, its content, "anon", or a word for a login."""
    if "://" not in (emulator := str(settings.get("base_url") or "://")):
        settings["base_url"] = f"http://{emulator}"
    token = settings.get("application_credentials")
    if token == "anon":  # noqa: S105 - gcsfs' word for none
        settings["skip_signature"] = True
    if token in ("anon", "cloud", "google_default"):
        del settings["application_credentials"]
    elif isinstance(token, Mapping):
        del settings["application_credentials"]
        settings["service_account_key"] = json.dumps(dict(token))
    elif token is not None and not os.path.isfile(token):
        raise UsageError(f"no such file with credentials of Google: {token}")
    if settings.get("skip_signature"):
        if "base_url" in settings:
            settings["credential_provider"] = _any_token
        elif not read_only:
            raise UsageError("writing to Google's stores without credentials is not supported")
    elif not _is_named(GOOGLE, settings) and not _google_login().exists() and not _has_identity():
        raise UsageError(
            f"no credentials found for gs://{bucket}: looked at the storage option token,"
            f" GOOGLE_APPLICATION_CREDENTIALS, {_google_login()} and the role of the virtual machine",
            advice="Give token=FILE, or sign in with gcloud auth application-default login; for a public"
            " bucket, give anon=true.",
        )


def _google_login() -> Path:
    """The file of `gcloud auth application-default login`, which obstore reads."""
    return Path.home() / ".config/gcloud/application_default_credentials.json"


def _any_token() -> dict[str, Any]:
    """What obstore 0.12 sends with a write even if it is to skip signatures; emulators take any."""
    return {"token": "anonymous", "expires_at": None}


def _azure(parts: SplitResult, settings: dict[str, Any]) -> tuple[str, str]:
    """`az://CONTAINER/PATH`, `abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH`, or the blob's own URL."""
    container, _, host = parts.netloc.partition("@")
    path = parts.path.strip("/")
    if parts.scheme in ("http", "https"):
        host = parts.netloc
        container, _, path = path.partition("/")
    account = next((host.removesuffix(end) for end in _AZURE_HOSTS if host.endswith(end)), None)
    if not container or (host and account is None):
        raise UsageError(
            "the URL does not name a container of Azure",
            found=redact(parts.geturl()),
            expected="az://CONTAINER/PATH or abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
        )
    text = settings.pop("connection_string", None)
    if text is None and not _is_named(AZURE, settings):
        text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    if text is not None:
        settings |= _connection(text)
    if account is not None:
        settings["account_name"] = account
    if "account_name" not in settings or not (_is_named(AZURE, settings) or _has_identity()):
        raise UsageError(
            f"no credentials found for {parts.scheme}://{parts.netloc}: looked at the storage options,"
            " AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT_NAME and others, and the role of the"
            " virtual machine",
            advice="Give account_name with account_key or sas_token, or connection_string; after az login,"
            " account_name and use_azure_cli=true; for a public container, account_name and anon=true.",
        )
    return container, path


def _connection(text: str) -> dict[str, Any]:
    """The settings in a connection string; UsageError for a part that has no counterpart."""
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    for name in ("DefaultEndpointsProtocol", "QueueEndpoint", "TableEndpoint", "FileEndpoint"):
        parts.pop(name, None)
    if parts.get("EndpointSuffix") == "core.windows.net":
        del parts["EndpointSuffix"]
    if unknown := parts.keys() - _CONNECTION.keys():
        raise _unsupported(f"the part {min(unknown)} of a connection string")
    return {_CONNECTION[name]: value for name, value in parts.items()}


def _unsupported(what: str) -> UsageError:
    return UsageError(
        f"obstore does not support {what}",
        advice="Unset it, and name the server, if it matters, with the storage option endpoint_url.",
    )


def _has_identity() -> bool:
    """Whether this machine is one of a cloud, which gives its role at this address."""
    try:
        socket.create_connection(("169.254.169.254", 80), timeout=1).close()
    except OSError:
        return False
    return True


def _region_of(bucket: str) -> str:
    """The region of a bucket, which S3 reveals without credentials; StorageError if it does not answer."""
    from http.client import HTTPSConnection

    # Names of buckets with dots do not match the certificate, so the name is not used as a host.
    connection = HTTPSConnection("s3.amazonaws.com", timeout=10)
    try:
        connection.request("HEAD", f"/{bucket}")
        # A bucket that does not exist has none; S3 says so when it is read.
        return connection.getresponse().getheader("x-amz-bucket-region") or "us-east-1"
    except OSError as error:
        raise StorageError(
            f"the region of s3://{bucket} is unknown",
            found=f"no answer from s3.amazonaws.com ({error})",
            advice="Check the network, or name a region with AWS_REGION, and another server with the storage"
            " option endpoint_url.",
        ) from error
    finally:
        connection.close()


def _opened(kind: str, name: str, settings: Mapping[str, Any], *, read_only: bool) -> Store:
    """A bucket or container as zarr's store."""
    from obstore import store as kinds
    from zarr.storage import ObjectStore

    endpoint = settings.get("endpoint") or settings.get("base_url") or ""
    client = {
        "allow_http": str(endpoint).startswith("http://"),
        "timeout": _LONGEST,
        "read_timeout": _SILENT,
    }
    retries = {"max_retries": _RETRIES}
    bucket = getattr(kinds, kind)(name, retry_config=retries, client_options=client, **settings)
    return ObjectStore(bucket, read_only=read_only)
