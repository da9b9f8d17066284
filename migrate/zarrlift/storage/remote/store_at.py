"""Opens the store of a URL: with obstore where it can, else with fsspec.

A wrong name of a storage option is found before anything is opened. S3, Azure and Google have the options of
fsspec's packages; what cannot be translated, or leaves open who asks, is left to these packages.

Sources: obstore 0.12 (https://developmentseed.org/obstore), the options and variables of adlfs 2026.8
(https://github.com/fsspec/adlfs) and gcsfs 2026.9 (https://gcsfs.readthedocs.io).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from zarrstack.core.errors import StorageError, UsageError, ZarrstackError
from zarrstack.core.similar_names import did_you_mean

from ..redact import redact, redact_foreign, secrets_of
from .backend import HTTP
from .backend_http import HttpBackend
from .error_text import plainly
from .obstore_s3 import LeftToFsspec, opened, s3_store
from .redirects import guarded
from .zarr_store import StoreStorage

if TYPE_CHECKING:
    from zarr.abc.store import Store


_AZURE_SETTINGS: Final = {
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
_GOOGLE_SETTINGS: Final = {"endpoint_url": "base_url", "anon": "skip_signature"}
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
    if settings is None or not options.keys() <= _AZURE_SETTINGS.keys():
        unknown = options.keys() - _AZURE_SETTINGS.keys()
        raise LeftToFsspec(f"the storage option {min(unknown, default='connection_string')}", "adlfs")
    named = text is not None or bool(options.keys() & {"account_key", "sas_token", "client_id", "anon"})
    for name, value in (options if named else variables | options).items():
        settings[_AZURE_SETTINGS[name]] = value
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
    if unknown := options.keys() - _GOOGLE_SETTINGS.keys():
        raise LeftToFsspec(f"the storage option {min(unknown)}", "gcsfs")
    settings: dict[str, Any] = {
        _GOOGLE_SETTINGS[name]: value for name, value in options.items() if value is not False
    }
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


_COMMON: Final = frozenset({
    "anon", "asynchronous", "batch_size", "default_block_size", "default_cache_type",
    "default_fill_cache", "endpoint_url", "listings_expiry_time", "loop", "max_paths",
    "skip_instance_cache", "use_listings_cache", "version_aware",
})  # fmt: skip
"""Options of fsspec's file systems, and those that all of these packages have."""
_S3: Final = _COMMON | {
    "cache_regions", "client_kwargs", "config_kwargs", "fixed_upload_size", "key", "max_concurrency",
    "password", "profile", "requester_pays", "s3_additional_kwargs", "secret", "session", "token",
    "use_ssl", "username",
}  # fmt: skip
_GOOGLE: Final = _COMMON | {
    "access", "block_size", "cache_timeout", "check_connection", "consistency", "default_location",
    "project", "requester_pays", "requests_timeout", "secure_serialize", "session_kwargs", "timeout",
    "token",
}  # fmt: skip
_AZURE: Final = _COMMON | {
    "account_host", "account_key", "account_name", "assume_container_exists", "blocksize", "client_id",
    "client_secret", "connection_string", "connection_timeout", "credential", "location_mode",
    "max_concurrency", "read_timeout", "request_session", "sas_token", "socket_timeout", "tenant_id",
}  # fmt: skip
_NAMES: Final = {
    **dict.fromkeys(("s3", "s3a"), _S3),
    **dict.fromkeys(("gs", "gcs"), _GOOGLE),
    **dict.fromkeys(("az", "abfs", "abfss"), _AZURE),
}
"""URL scheme -> names of options, of s3fs 2026.9, gcsfs 2026.9 and adlfs 2026.8."""


def check_names(scheme: str, options: Mapping[str, Any]) -> None:
    """Raise UsageError for an option that no package for the scheme has, if their names are known here."""
    names = _NAMES.get(scheme)
    unknown = set() if names is None else options.keys() - names
    if names is None or not unknown:
        return
    names |= _of_installed(scheme)
    for name in sorted(unknown - names):
        raise UsageError(
            f"unknown storage option {name!r} for {scheme}://",
            expected=None if (advice := did_you_mean(name, names)) else ", ".join(sorted(names)),
            advice=advice,
        )


def _of_installed(scheme: str) -> frozenset[str]:
    """Names of options of the installed package, which may be a later version; empty without it."""
    import fsspec

    try:
        kind = fsspec.get_filesystem_class(scheme)
    except ImportError:
        return frozenset()
    makers = [each for each in kind.__mro__ if "__init__" in vars(each)]
    return frozenset(name for each in makers for name in inspect.signature(each).parameters)


_ABSENT: Final = "absent_status"
"""Our own option of `http://` and `https://`: further statuses that say that an object is missing."""


def store_at(url: str, options: Mapping[str, Any] | None, *, read_only: bool) -> StoreStorage:
    """The store of a URL that names no path of this machine, whatever objects are there.

    UsageError, or StorageError if it cannot be opened.
    """
    from zarr.storage import FsspecStore

    secrets = secrets_of(options)
    redacted = redact(url, secrets)
    if not redacted.endswith("://"):  # the root of a file system without names: reference://
        redacted = redacted.rstrip("/")
    protocol = url.split("::", 1)[0].split("://", 1)[0]
    without = None  # the error if fsspec's package is not installed
    if "::" not in url:
        check_names(protocol, options or {})
        try:
            bucket = obstore_store(url, options or {}, read_only=read_only)
        except LeftToFsspec as left:
            bucket, without = None, left.error
        except ZarrstackError:
            raise
        except Exception as error:
            raise _unopened(error, redacted, secrets) from error
        if bucket is not None:
            return StoreStorage(*bucket, url=redacted, secrets=secrets)
    try:
        # Our own instance: a shared one may be bound to another event loop.
        fsspec_options = {"skip_instance_cache": True, **(options or {})}
        absent = _statuses(fsspec_options.pop(_ABSENT, None)) if protocol in HTTP else frozenset()
        for link in {part.split("://", 1)[0] for part in url.split("::")[1:]} & HTTP:
            fsspec_options[link] = guarded(fsspec_options.get(link) or {})
        store = FsspecStore.from_url(url, storage_options=fsspec_options, read_only=read_only)
    except UsageError:
        raise
    except ImportError as error:
        from ..open_errors import no_package

        raise without or no_package(protocol, redact_foreign(str(error))) from error
    except ValueError as error:
        found = redact_foreign(f"{redacted} ({error})")
        raise UsageError("not a place", found=found, expected="a path or a URL that fsspec knows") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"no such file or directory: {redacted}") from error
    except Exception as error:
        raise _unopened(error, redacted, secrets) from error
    storage = StoreStorage(store, url=redacted, secrets=secrets)
    if absent and isinstance(storage.native, HttpBackend):
        storage.native.absent = absent
        storage.absence = "HTTP status " + " or ".join(map(str, (404, *sorted(absent))))
    return storage


def _unopened(error: Exception, url: str, secrets: Sequence[str]) -> ZarrstackError:
    """The error for a location whose client cannot be made, for example of damaged credentials."""
    plain = plainly(error, f"cannot open the location {url}", "", url, secrets)
    if plain.problem.advice is not None:
        return plain
    return StorageError(plain.problem.message, found=plain.problem.found, advice="Check the storage options.")


def _statuses(option: object) -> frozenset[int]:
    """The values of the option `absent_status`; UsageError for others than one of 401, 403 and 410."""
    values = [] if option is None else option if isinstance(option, list) else [option]
    texts = [str(value) for value in values]
    if not {"401", "403", "410"}.issuperset(texts):
        raise UsageError(f"invalid storage option {_ABSENT}", found=str(option), expected="401, 403 or 410")
    return frozenset(map(int, texts))
