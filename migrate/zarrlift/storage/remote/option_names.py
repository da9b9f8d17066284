"""The names of storage options of object stores: a wrong one is found before anything is opened."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

from zarrstack.core.errors import UsageError
from zarrstack.core.similar_names import meant

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
            expected=None if (advice := meant(name, names)) else ", ".join(sorted(names)),
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
