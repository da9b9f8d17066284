"""Icechunk's virtual chunk containers: where the objects of references are, and who may read them.

A repository stores the containers of its references, without secrets. A reader authorizes each of them when
it opens the repository (https://icechunk.io/en/stable/virtual/; observed in 1.1.21 and 2.3.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import UsageError

from ...storage.icechunk.place import major
from ...storage.remote.obstore_s3 import s3_settings

if TYPE_CHECKING:
    from ...storage.icechunk.place import IcechunkPlace
    from ...transfer.referred_objects import ReferredPlace

_OF_NO_MATTER: Final = frozenset({"skip_instance_cache", "asynchronous", "use_listings_cache"})
_KEPT: Final = {
    "endpoint": "endpoint_url",
    "region": "region",
    "skip_signature": "anonymous",
    "request_payer": "requester_pays",
}
"""Names of `s3_settings` -> arguments of `icechunk.s3_store`, without secrets."""


def container(source: ReferredPlace, options: Mapping[str, Any]) -> Any:
    """The container of a source opened with these fsspec options; UsageError for unknown ones."""
    import icechunk

    match source.scheme:
        case "file":
            store: Any = icechunk.local_filesystem_store(source.container.path)
        case "s3":
            store = icechunk.s3_store(**_s3_settings(options))
        case "gs":
            _require(options, {"token", "project"})
            store = icechunk.gcs_store({})
        case _:
            _require(options, set())
            if major() == 1 and ":" in source.root.split("/")[2]:
                raise UsageError(
                    "Icechunk 1 cannot refer to a URL with a port",
                    found=source.root,
                    advice="Use Icechunk 2, with Python 3.12 or later, or write a .json file.",
                )
            store = icechunk.http_store({"allow_http": "true"} if source.scheme == "http" else {})
    return icechunk.VirtualChunkContainer(source.container.root, store)


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
    return dict(icechunk.containers_credentials({source.container.root: who}))


def credentials_text(source: ReferredPlace, options: Mapping[str, Any]) -> str:
    """Python that authorizes the container, without secrets."""
    import icechunk

    match source.scheme:
        case "s3" | "gs" as scheme:
            anonymous = bool(options.get("anon")) or options.get("token") == "anon"
            package = "s3" if scheme == "s3" else "gcs"
            who = f"icechunk.{package}_credentials({'anonymous' if anonymous else 'from_env'}=True)"
        case scheme:
            name = "LocalFileSystemAccess" if scheme == "file" else "HttpAccess"
            who = f"icechunk.credentials.{name}" if hasattr(icechunk.credentials, name) else "None"
    return f"icechunk.containers_credentials({{{source.container.root!r}: {who}}})"


def storage_text(place: IcechunkPlace) -> str:
    """Python that names the storage of a repository, without secrets."""
    match place.scheme:
        case "file":
            return f"icechunk.local_filesystem_storage({place.prefix!r})"
        case "s3":
            given = _s3_settings(place.options)
            given.pop("s3_compatible", None)
            words = [f"{name}={value!r}" for name, value in given.items()]
            words += [] if given.get("anonymous") else ["from_env=True"]
            return f"icechunk.s3_storage({', '.join((*_bucket(place), *words))})"
        case "gs":
            return f"icechunk.gcs_storage({', '.join((*_bucket(place), 'from_env=True'))})"
        case _:
            where = f"account=..., container={place.bucket!r}, prefix={place.prefix!r}"
            return f"icechunk.azure_storage({where}, from_env=True)"


def _bucket(place: IcechunkPlace) -> tuple[str, str]:
    return f"bucket={place.bucket!r}", f"prefix={place.prefix!r}"


def _s3_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    settings = s3_settings(options)
    if settings is None:
        raise UsageError(
            "Icechunk has no counterpart for storage options of the source",
            found=", ".join(sorted(options)) or "the settings of AWS in the environment",
            expected="key, secret, token, endpoint_url, anon, requester_pays, client_kwargs",
        )
    kept = {_KEPT[name]: value for name, value in settings.items() if name in _KEPT}
    endpoint = kept.get("endpoint_url")
    if endpoint is not None:
        plain = str(endpoint).startswith("http://")
        kept |= {"allow_http": plain, "s3_compatible": True, "force_path_style": True}
        kept.setdefault("region", "us-east-1")
    return kept


def _require(options: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(name for name, value in options.items() if name not in known | _OF_NO_MATTER and value)
    if unknown:
        raise UsageError(
            "Icechunk has no counterpart for storage options of the source",
            found=", ".join(unknown),
            expected=", ".join(sorted(known)) or "none",
        )
