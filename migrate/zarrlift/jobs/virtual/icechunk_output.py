"""References in a repository of Icechunk, whose readers are told when an object has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import StorageError, UsageError
from zarrstack.core.grid.chunk_keys_v3 import KeyEncoding
from zarrstack.core.json_text import JSONObject, document

from ...storage.icechunk.place import MAIN, IcechunkPlace, icechunk_errors, is_empty, with_containers
from ...storage.icechunk.session import SessionStorage
from .output import ReferenceOutput, exists
from .virtual_containers import container, credentials, credentials_text, storage_text

if TYPE_CHECKING:
    import icechunk

    from ...planning.plans import ArrayPlan
    from ...storage.base import Storage
    from ...transfer.references import ConvertedChunk, References
    from ...transfer.referred_objects import ReferredPlace, Version

_MAX_MESSAGE: Final = 3
"""Number of refused references that an error names."""


def _size(directory: str) -> int:
    return sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())


class IcechunkOutput(ReferenceOutput):
    """A repository without commits, whose branch moves to the references in a single one."""

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
                    raise exists(self.url)

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

    def refer(self, array: ArrayPlan, found: References, versions: Sequence[Version | None]) -> None:
        """Receive references."""
        from icechunk import VirtualChunkSpec

        rows: Iterable[Any] = zip(
            found.places.tolist(),
            self._source.strict_urls(found.keys),
            found.offsets.tolist(),
            found.lengths.tolist(),
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
