"""References in a repository of Icechunk, whose readers are told when an object has changed.

A repository stores the containers of its references, which say where objects are, without secrets. A reader
authorizes each of them when it opens the repository (https://icechunk.io/en/stable/virtual/; observed in
1.1.21 and 2.3.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import StorageError, UsageError
from zarrstack.core.json_text import JSONObject

from ...core.json_document import document
from ...storage.icechunk.place import MAIN, IcechunkPlace, icechunk_errors, is_empty, major, with_containers
from ...storage.icechunk.session import SessionStorage
from ...storage.remote.obstore_s3 import s3_settings
from ..places import existing

if TYPE_CHECKING:
    import icechunk

    from ...planning.plans import ArrayPlan
    from ...storage.base import Storage
    from ...transfer.references import ConvertedChunk, References
    from ...transfer.referred_objects import ReferredPlace, Version

_MAX_MESSAGE: Final = 3
"""Number of refused references that an error names."""
_OF_NO_MATTER: Final = frozenset({"skip_instance_cache", "asynchronous", "use_listings_cache"})
_KEPT: Final = {
    "endpoint": "endpoint_url",
    "region": "region",
    "skip_signature": "anonymous",
    "request_payer": "requester_pays",
}
"""Names of `s3_settings` -> arguments of `icechunk.s3_store`, without secrets."""


def _size(directory: str) -> int:
    return sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())


class IcechunkOutput:
    """A repository without commits, whose branch moves to the references in a single one.

    The methods are those of `Kerchunk`.
    """

    keys = KeyEncoding("default", "/")
    keeps_versions = True

    def __init__(
        self, place: IcechunkPlace, source: ReferredPlace, source_options: Mapping[str, Any] | None
    ) -> None:
        self.url = place.url
        self._place = place
        self._source = source
        self._options = dict(source_options or {})
        self._container = container(source, self._options)
        self._empty: icechunk.Repository | None = None
        """The repository, if it is there already."""
        self._session: Any = None
        self._storage: Storage | None = None
        self._bytes = 0

    def refuse_existing(self) -> None:
        """Raise UsageError if there is a repository with commits; an interrupted run leaves an empty one."""
        if self._place.version != f"branch {MAIN}":
            raise UsageError(
                "references are the first commit of a new repository",
                found=self._place.version,
                expected=f"{self.url}, whose branch is {MAIN}",
            )
        if self._place.exists():
            with icechunk_errors(self.url):
                self._empty = self._place.open_repository()
                if not is_empty(self._empty):
                    raise existing(self.url)

    def _opened(self) -> Any:
        """The session to write to; creates the repository, or configures the empty one."""
        if self._session is None:
            containers, who = [self._container], credentials(self._source, self._options)
            repository = self._empty
            if repository is None:
                repository = self._place.create_repository(containers=containers, authorize=who)
            with icechunk_errors(self.url, "cannot write"):
                if self._empty is not None:
                    repository = repository.reopen(with_containers(repository.config, containers), who)
                    repository.save_config()
                self._session = repository.writable_session(MAIN)
            self._storage = SessionStorage(self._session.store, url=self.url)
        return self._session

    def storage(self) -> Storage:
        """What the session holds."""
        self._opened()
        assert self._storage is not None
        return self._storage

    def document(self, key: str, content: JSONObject) -> None:
        """Receive a document."""
        data = document(content)
        self.storage().put(key, data)
        self._bytes += len(data)

    def refer(self, array: ArrayPlan, references: References, versions: Sequence[Version | None]) -> None:
        """Receive references."""
        from icechunk import VirtualChunkSpec

        rows: Iterable[Any] = zip(
            references.places.tolist(),
            self._source.strict_urls(references.keys),
            references.offsets.tolist(),
            references.lengths.tolist(),
            versions,
            strict=True,
        )
        specs = [
            VirtualChunkSpec(
                place,
                url,
                offset,
                length,
                version if isinstance(version, str) else None,
                version if isinstance(version, datetime) else None,
            )
            for place, url, offset, length, version in rows
        ]
        with icechunk_errors(self.url, "cannot write", array.path):
            refused = self._opened().store.set_virtual_refs(f"/{array.path}", specs)
        if refused:
            raise StorageError(
                "Icechunk refused references",
                node=array.path,
                found=", ".join(map(str, refused[:_MAX_MESSAGE])),
                expected=f"URLs below {self._source.container.root}",
            )

    def store(self, array: ArrayPlan, chunk: ConvertedChunk) -> None:
        """Receive a chunk."""
        self.storage().put(array.destination.key(array.path, chunk.place), chunk.data)
        self._bytes += len(chunk.data)

    def drop(self, path: str) -> None:
        """Forget an array."""
        from ...storage.remote.event_loop import run

        if self._session is not None:
            with icechunk_errors(self.url, "cannot write", path):
                run(self._session.store.delete_dir(path))

    def complete(self) -> tuple[()]:
        """Nothing follows from everything received."""
        return ()

    def close(self) -> None:
        """There is nothing to close."""

    def publish(self, message: str) -> int:
        """Commit; in a store, the number is that of documents and chunks alone."""
        with icechunk_errors(self.url, "cannot commit"):
            self._opened().commit(message)
        if self._place.scheme == "file":
            with suppress(OSError):  # the commit is made
                return _size(self._place.prefix)
        return self._bytes

    def how_to_open(self) -> str:
        """Python that opens the result."""
        return "\n".join(
            (
                "import icechunk",
                f"storage = {storage_text(self._place)}",
                f"access = {credentials_text(self._source, self._options)}",
                "repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access)",
                'store = repository.readonly_session("main").store  # for zarr.open and xarray.open_zarr',
            )
        )


# Containers


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
            settings = _s3_settings(place.options)
            settings.pop("s3_compatible", None)
            words = [f"{name}={value!r}" for name, value in settings.items()]
            words += [] if settings.get("anonymous") else ["from_env=True"]
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
    icechunk_settings = {_KEPT[name]: value for name, value in settings.items() if name in _KEPT}
    endpoint = icechunk_settings.get("endpoint_url")
    if endpoint is not None:
        plain = str(endpoint).startswith("http://")
        icechunk_settings |= {"allow_http": plain, "s3_compatible": True, "force_path_style": True}
        icechunk_settings.setdefault("region", "us-east-1")
    return icechunk_settings


def _require(options: Mapping[str, Any], supported: set[str]) -> None:
    unknown = sorted(
        name for name, value in options.items() if name not in supported | _OF_NO_MATTER and value
    )
    if unknown:
        raise UsageError(
            "Icechunk has no counterpart for storage options of the source",
            found=", ".join(unknown),
            expected=", ".join(sorted(supported)) or "none",
        )
