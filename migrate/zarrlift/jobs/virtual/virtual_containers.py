"""Icechunk's virtual chunk containers: where the objects of references are, and who may read them.

A repository stores the containers of its references, without secrets. A reader authorizes each of them when it
opens the repository (https://icechunk.io/en/stable/virtual/; observed in 1.1.21 and 2.3.0).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import UsageError

if TYPE_CHECKING:
    from ...transfer.referred_objects import ReferredPlace

_OF_NO_MATTER: Final = frozenset({"skip_instance_cache", "asynchronous", "use_listings_cache"})
_S3: Final = frozenset({"key", "secret", "token", "anon", "endpoint_url", "client_kwargs", "requester_pays"})
_REGION: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINT: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def container(source: ReferredPlace, options: Mapping[str, Any]) -> Any:
    """The container of a source, opened with these fsspec options; UsageError for one without a counterpart."""
    import icechunk

    match source.scheme:
        case "file":
            store: Any = icechunk.local_filesystem_store(source.path)
        case "s3":
            store = icechunk.s3_store(**_s3_settings(options))
        case "gs":
            _require(options, {"token", "project"})
            store = icechunk.gcs_store({})
        case _:
            _require(options, set())
            store = icechunk.http_store({"allow_http": "true"} if source.scheme == "http" else {})
    return icechunk.VirtualChunkContainer(source.escaped, store)


def credentials(source: ReferredPlace, options: Mapping[str, Any]) -> dict[str, Any]:
    """What authorizes the container, with the credentials of these fsspec options or of the environment."""
    import icechunk

    who: Any
    match source.scheme:
        case "file":
            # 2.x deprecates None; 1.x has nothing else.
            who = getattr(icechunk.credentials, "LocalFileSystemAccess", None)
        case "s3" if options.get("anon"):
            who = icechunk.s3_credentials(anonymous=True)
        case "s3" if options.get("key") is not None:
            who = icechunk.s3_credentials(
                access_key_id=options["key"],
                secret_access_key=options.get("secret"),
                session_token=options.get("token"),
            )
        case "s3":
            who = icechunk.s3_credentials(from_env=True)
        case "gs" if options.get("token") == "anon":
            who = icechunk.gcs_credentials(anonymous=True)
        case "gs" if isinstance(options.get("token"), str):
            who = icechunk.gcs_credentials(application_credentials=options["token"])
        case "gs":
            who = icechunk.gcs_credentials(from_env=True)
        case _:
            who = getattr(icechunk.credentials, "HttpAccess", None)
    return dict(icechunk.containers_credentials({source.escaped: who}))


def credentials_text(source: ReferredPlace, options: Mapping[str, Any]) -> str:
    """Python that authorizes the container, without secrets."""
    match source.scheme:
        case "s3" if options.get("anon"):
            who = "icechunk.s3_credentials(anonymous=True)"
        case "s3":
            who = "icechunk.s3_credentials(from_env=True)"
        case "gs" if options.get("token") == "anon":
            who = "icechunk.gcs_credentials(anonymous=True)"
        case "gs":
            who = "icechunk.gcs_credentials(from_env=True)"
        case _:
            who = "None"
    return f"icechunk.containers_credentials({{{source.escaped!r}: {who}}})"


def _s3_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    _require(options, _S3)
    client = dict(options.get("client_kwargs") or {})
    _require(client, {"endpoint_url", "region_name"})
    endpoint = options.get("endpoint_url") or client.get("endpoint_url") or _variable(_ENDPOINT)
    settings: dict[str, Any] = {
        "region": client.get("region_name") or _variable(_REGION),
        "anonymous": bool(options.get("anon")),
        "requester_pays": bool(options.get("requester_pays")),
    }
    if endpoint is not None:
        plain = endpoint.startswith("http://")
        settings |= {"endpoint_url": endpoint, "allow_http": plain, "s3_compatible": True}
        settings |= {"force_path_style": True, "region": settings["region"] or "us-east-1"}
    return settings


def _variable(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _require(options: Mapping[str, Any], known: frozenset[str] | set[str]) -> None:
    unknown = sorted(name for name, value in options.items() if name not in known | _OF_NO_MATTER and value)
    if unknown:
        raise UsageError(
            "Icechunk has no counterpart for storage options of the source",
            found=", ".join(unknown),
            expected=", ".join(sorted(known)) or "none",
        )
