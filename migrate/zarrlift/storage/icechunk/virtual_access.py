"""Permission for the virtual chunks of an Icechunk repository, such as VirtualiZarr writes.

A repository names containers, prefixes of URLs below which its virtual chunks are. Icechunk reads none of
them without authorization, which is given here for places that the user permits (`allow_references`), and for
the bucket of the repository itself. Where a container is reached is taken from the user's options, because a
repository of a stranger could name a server that collects credentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import UsageError

from ..redact import redact
from ..reference_options import AskedReferences
from ..references.targets import Target, Targets, allowed_place
from .place import IcechunkPlace, icechunk_errors, require_icechunk, with_containers

if TYPE_CHECKING:
    import icechunk

    from ..base import Storage

_S3: Final = ("s3", "s3a")
_REGION: Final = "us-east-1"
_WITHOUT_CREDENTIALS: Final = {"file": "LocalFileSystemAccess", "http": "HttpAccess", "https": "HttpAccess"}
"""Scheme -> Icechunk's name of no credentials, since 2."""


def authorized(
    repository: icechunk.Repository, place: IcechunkPlace, references: AskedReferences
) -> icechunk.Repository:
    """The repository with access to the permitted containers of its virtual chunks.

    UsageError for a container whose server the options do not name.
    """
    icechunk = require_icechunk()
    config = repository.config
    declared: Mapping[str, Any] = config.virtual_chunk_containers or {}
    containers, credentials = [], {}
    for container in declared.values():
        prefix = container.url_prefix
        options = _options(prefix, place, references)
        if options is None:
            continue
        store, credential = _opened(prefix, container.store, options)
        if store is not None:
            containers.append(icechunk.VirtualChunkContainer(prefix, store))
        credentials[prefix] = credential
    if not credentials:
        return repository
    with icechunk_errors(place.url):
        return repository.reopen(
            with_containers(config, containers), icechunk.containers_credentials(credentials)
        )


def check_virtual_chunks(
    session: icechunk.Session, place: IcechunkPlace, references: AskedReferences
) -> None:
    """Raise UsageError that names all places of a version's virtual chunks which are not permitted."""
    if session.config.virtual_chunk_containers:
        targets = Targets(_home(place), {}, references, _never)
        with icechunk_errors(place.url, "cannot read the references"):
            locations = session.all_virtual_chunk_locations()
        targets.check(dict.fromkeys(locations))


def _options(prefix: str, place: IcechunkPlace, references: AskedReferences) -> Mapping[str, Any] | None:
    """The options with which a container is opened; None if it is not permitted."""
    root, key = allowed_place(prefix)
    if root and root == _home(place).root:
        return place.options
    for permitted in references.allowed:
        other, start = allowed_place(permitted)
        # A permission for a part of a container opens it; `check_virtual_chunks` refuses the rest.
        if other == root and (_is_below(key, start) or _is_below(start, key)):
            return references.options
    return None


def _is_below(key: str, start: str) -> bool:
    return not start or key == start or key.startswith(start.rstrip("/") + "/")


def _home(place: IcechunkPlace) -> Target:
    root = "" if place.scheme == "file" else f"{place.scheme}://{place.bucket}"
    return Target(root, place.prefix)


def _opened(prefix: str, store: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """The store of a container, None for that of the repository, and credentials for it."""
    icechunk = require_icechunk()
    scheme = prefix.partition("://")[0]
    if scheme in _S3:
        return _s3(prefix, store, options)
    if scheme in _WITHOUT_CREDENTIALS:
        # Icechunk 1 has None for this.
        return None, getattr(icechunk.credentials, _WITHOUT_CREDENTIALS[scheme], None)
    if scheme in ("gs", "gcs"):
        return None, icechunk.gcs_from_env_credentials()
    if scheme in ("az", "abfs"):
        return None, icechunk.azure_from_env_credentials()
    raise UsageError("a container of virtual chunks has an unknown scheme", found=redact(prefix))


def _s3(prefix: str, store: Any, options: Mapping[str, Any]) -> tuple[Any, Any]:
    icechunk = require_icechunk()
    from ..remote.obstore_s3 import s3_settings

    settings = s3_settings(dict(options))
    if settings is None:
        raise UsageError("these options cannot be given to Icechunk", found=", ".join(sorted(options)))
    named = getattr(getattr(store, "_0", None), "endpoint_url", None)
    endpoint = settings.get("endpoint")
    if named is not None and endpoint is None:
        raise UsageError(
            "a container of virtual chunks is on a server that the options do not name",
            found=f"{redact(prefix)} on {redact(str(named))}",
            advice=f"If you trust it: --storage-options ref:endpoint_url={redact(str(named))}",
        )
    anonymous = bool(settings.get("skip_signature"))
    region = settings.get("region") or getattr(getattr(store, "_0", None), "region", None)
    arguments: dict[str, Any] = {"region": region or _REGION, "anonymous": anonymous}
    if endpoint is not None:
        arguments |= {
            "endpoint_url": str(endpoint),
            "allow_http": str(endpoint).startswith("http://"),
            "s3_compatible": True,
            "force_path_style": True,
        }
    if anonymous:
        return icechunk.s3_store(**arguments), icechunk.s3_anonymous_credentials()
    if "secret_access_key" in settings:
        credential = icechunk.s3_static_credentials(
            access_key_id=str(settings["access_key_id"]),
            secret_access_key=str(settings["secret_access_key"]),
            session_token=settings.get("session_token"),
        )
        return icechunk.s3_store(**arguments), credential
    return icechunk.s3_store(**arguments), icechunk.s3_from_env_credentials()


def _never(place: str, options: Mapping[str, Any] | None) -> Storage:  # noqa: ARG001
    raise AssertionError("a permission opens nothing")
