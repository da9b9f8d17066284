"""S3 through obstore, with the options of s3fs. Options that cannot be translated are left to s3fs.

Sources: obstore 0.12 (https://developmentseed.org/obstore), the options of s3fs 2026.9
(https://s3fs.readthedocs.io/en/latest/api.html), and the variables that botocore reads
(https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

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
_FRESH: Final = timedelta(minutes=5)
"""Lifetime of credentials without an expiry time."""

_PLAIN: Final = {
    "key": "access_key_id",
    "username": "access_key_id",
    "secret": "secret_access_key",
    "password": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "anon": "skip_signature",
    "requester_pays": "request_payer",
}
"""Options of s3fs -> obstore's names."""
_OF_CLIENT: Final = {"endpoint_url": "endpoint", "region_name": "region"}
"""The same for its `client_kwargs`."""
_PLACE: Final = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
_WHO: Final = {
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
}
_ELSEWHERE: Final = (
    *("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_CA_BUNDLE"),
    *("AWS_USE_DUALSTACK_ENDPOINT", "AWS_USE_FIPS_ENDPOINT"),
)
"""Variables with a meaning for botocore and none here."""
_MORE: Final = ("endpoint_url", "services", "s3 =", "s3=", "ca_bundle", "use_dualstack", "use_fips")
"""The same for its profile file."""


def s3_store(url: str, options: Mapping[str, Any], *, read_only: bool) -> tuple[Store, str] | None:
    """The bucket of an `s3://` URL and the path in it; None if s3fs must be used.

    That is the case for an option or setting without a counterpart, and if no credentials
    are found in the way of s3fs.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("s3", "s3a") or not parts.hostname or "@" in parts.netloc or parts.query:
        return None
    if parts.fragment:
        return None  # "#" is part of a key, which urlsplit does not support
    settings = s3_settings(options)
    if settings is None:
        return None
    bucket = parts.netloc
    provider = None
    if not settings.get("skip_signature") and "secret_access_key" not in settings:
        found = _from_botocore(options.get("profile"))
        if found is None:
            return None
        provider, more = found
        settings = {**more, **settings}
    if "region" not in settings:
        settings["region"] = "us-east-1" if "endpoint" in settings else _region_of(bucket)
    if settings["region"] is None:
        return None
    given: dict[str, Any] = dict(settings)
    if provider is not None:
        given["credential_provider"] = provider
    path = parts.path.strip("/")
    return opened("S3Store", bucket, given, settings.get("endpoint"), path, read_only=read_only)


def opened(
    kind: str, name: str, settings: Mapping[str, Any], endpoint: object, path: str, *, read_only: bool
) -> tuple[Store, str]:
    """A bucket or container through one of obstore's classes, and the path."""
    from obstore import store as kinds
    from zarr.storage import ObjectStore

    client = {
        "allow_http": str(endpoint or "").startswith("http://"),
        "timeout": _LONGEST,
        "read_timeout": _SILENT,
    }
    retries = {"max_retries": _RETRIES}
    made = getattr(kinds, kind)(name, retry_config=retries, client_options=client, **settings)
    return ObjectStore(made, read_only=read_only), path


def s3_settings(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options under obstore's names, with those of the environment; None without a counterpart."""
    settings: dict[str, Any] = {}
    for name, value in options.items():
        if name in ("skip_instance_cache", "profile") or value is None:
            continue
        if name == "client_kwargs" and isinstance(value, dict) and value.keys() <= _OF_CLIENT.keys():
            settings |= {_OF_CLIENT[inner]: each for inner, each in value.items()}
        elif name in _PLAIN:
            settings[_PLAIN[name]] = value
        else:
            return None
    # If the options contain credentials, those of the environment are ignored.
    named = settings.get("skip_signature") or "access_key_id" in settings or options.get("profile")
    for name, variables in (_PLACE if named else _PLACE | _WHO).items():
        value = next((os.environ[variable] for variable in variables if os.environ.get(variable)), None)
        if value is not None:
            settings.setdefault(name, value)
    if ("access_key_id" in settings) != ("secret_access_key" in settings):
        return None
    plain = str(settings.get("endpoint", "")).startswith("http://")
    if any(os.environ.get(name) for name in _ELSEWHERE if name != "AWS_CA_BUNDLE" or not plain):
        return None
    if "endpoint" not in settings and _configured():
        return None
    return {name: value for name, value in settings.items() if value is not False}


def _configured() -> bool:
    """Whether botocore's profile file has S3 settings other than credentials and region."""
    path = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return path.exists()
    return any(word in text for word in _MORE)


def _from_botocore(profile: str | None) -> tuple[Callable[[], Any], dict[str, Any]] | None:
    """Credentials as s3fs finds them (profiles, roles, instance metadata), and the profile's region.

    None without botocore, or if there are none.
    """
    try:
        botocore = import_module("botocore.session")  # a dependency of s3fs
    except ImportError:
        return None
    try:
        session = botocore.Session(profile=profile)
        credentials = session.get_credentials()
        region = session.get_config_variable("region")
    except Exception:  # noqa: BLE001 - s3fs will meet the same, and say so
        return None
    if credentials is None:
        return None

    def provide() -> dict[str, Any]:
        frozen = credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _FRESH,
        }

    return provide, {} if region is None else {"region": region}


def _region_of(bucket: str) -> str | None:
    """The region of a bucket, which S3 reveals without credentials; None if it does not."""
    from http.client import HTTPSConnection

    # Names of buckets with dots do not match the certificate, so the name is not used as a host.
    asked = HTTPSConnection("s3.amazonaws.com", timeout=10)
    try:
        asked.request("HEAD", f"/{bucket}")
        return asked.getresponse().getheader("x-amz-bucket-region")
    except OSError:
        return None
    finally:
        asked.close()
