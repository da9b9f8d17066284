"""S3 through obstore, with the options of s3fs. Options that cannot be translated are left to s3fs.

Sources: obstore 0.12 (https://developmentseed.org/obstore), the options of s3fs 2026.9
(https://s3fs.readthedocs.io/en/latest/api.html), and the variables that botocore reads
(https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from zarrstack.core.errors import StorageError, UsageError, ZarrstackError

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


class LeftToFsspec(Exception):  # noqa: N818 - not an error where s3fs is installed
    """A store must be accessed through fsspec; `error` is the one to raise where its package is missing."""

    def __init__(self, reason: str, package: str = "s3fs") -> None:
        super().__init__(reason)
        self.error: ZarrstackError = UsageError(
            f"obstore does not support {reason}",
            expected=package,
            advice=f"Install it: pip install {package}.",
        )


def s3_store(url: str, options: Mapping[str, Any], *, read_only: bool) -> tuple[Store, str]:
    """The bucket of an `s3://` URL and the path in it.

    Raises LeftToFsspec for an option or setting without a counterpart, UsageError without credentials, and
    StorageError if those of a profile cannot be obtained.
    """
    parts = urlsplit(url)
    if not parts.netloc:
        raise UsageError("the URL names no bucket", expected="s3://BUCKET/PATH")
    if not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        # "#" is part of a key, which urlsplit does not support
        raise LeftToFsspec("an s3:// URL with a user, a query or a fragment")
    bucket = parts.netloc
    settings = _translated(options)
    provider = None
    has_credentials = settings.get("skip_signature") or "secret_access_key" in settings
    if not has_credentials or ("endpoint" not in settings and has_settings()):
        try:
            profile = AwsProfile(options.get("profile"))
        except ImportError:
            if not has_credentials:
                raise no_credentials(f"s3://{bucket}", None) from None
            raise LeftToFsspec(f"the settings of {config_file()}") from None
        if "endpoint" not in settings and (endpoint := profile.endpoint()) is not None:
            settings["endpoint"] = endpoint
        plain = str(settings.get("endpoint", "")).startswith("http://")
        if (name := profile.untranslated(plain=plain)) is not None:
            raise LeftToFsspec(f"the setting {name} of {config_file()}")
        if not has_credentials:
            provider = profile.credentials()
            if provider is None:
                raise no_credentials(f"s3://{bucket}", profile.name)
        if "region" not in settings and (region := profile.region()) is not None:
            settings["region"] = region
    if "region" not in settings:
        settings["region"] = "us-east-1" if "endpoint" in settings else _region_of(bucket)
    arguments: dict[str, Any] = dict(settings)
    if provider is not None:
        arguments["credential_provider"] = provider
    path = parts.path.strip("/")
    return opened("S3Store", bucket, arguments, settings.get("endpoint"), path, read_only=read_only)


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
    bucket = getattr(kinds, kind)(name, retry_config=retries, client_options=client, **settings)
    return ObjectStore(bucket, read_only=read_only), path


def _translated(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options under obstore's names, with those of the environment; LeftToFsspec for others."""
    settings: dict[str, Any] = {}
    for name, value in options.items():
        if name in ("skip_instance_cache", "profile") or value is None:
            continue
        if name == "client_kwargs" and isinstance(value, dict) and value.keys() <= _OF_CLIENT.keys():
            settings |= {_OF_CLIENT[inner]: each for inner, each in value.items()}
        elif name in _PLAIN:
            settings[_PLAIN[name]] = value
        else:
            raise LeftToFsspec(f"the storage option {name}")
    # If the options contain credentials, those of the environment are ignored.
    named = settings.get("skip_signature") or "access_key_id" in settings or options.get("profile")
    for name, variables in (_PLACE if named else _PLACE | _WHO).items():
        value = next((os.environ[variable] for variable in variables if os.environ.get(variable)), None)
        if value is not None:
            settings.setdefault(name, value)
    if ("access_key_id" in settings) != ("secret_access_key" in settings):
        if "access_key_id" in settings:
            raise UsageError("an access key needs its secret key", expected="both, or neither")
        raise LeftToFsspec("a secret key without its access key")
    plain = str(settings.get("endpoint", "")).startswith("http://")
    for name in _ELSEWHERE:
        if os.environ.get(name) and not (plain and name == "AWS_CA_BUNDLE"):
            raise LeftToFsspec(f"the variable {name}")
    return {name: value for name, value in settings.items() if value is not False}


def _region_of(bucket: str) -> str:
    """The region of a bucket, which S3 reveals without credentials; LeftToFsspec if it does not answer."""
    from http.client import HTTPSConnection

    # Names of buckets with dots do not match the certificate, so the name is not used as a host.
    connection = HTTPSConnection("s3.amazonaws.com", timeout=10)
    try:
        connection.request("HEAD", f"/{bucket}")
        # A bucket that does not exist has none; S3 says so when it is read.
        return connection.getresponse().getheader("x-amz-bucket-region") or "us-east-1"
    except OSError as error:
        left = LeftToFsspec("a bucket whose region is unknown")
        left.error = StorageError(
            f"the region of s3://{bucket} is unknown",
            found=f"no answer from s3.amazonaws.com ({error})",
            advice="Check the network, or name a region with AWS_REGION, and another server with the storage"
            " option endpoint_url.",
        )
        raise left from error
    finally:
        connection.close()
