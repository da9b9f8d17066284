"""References in a repository of Icechunk, whose readers are told when an object has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import StorageError, UsageError
from zarrstack.core.grid.chunk_keys_v3 import KeyEncoding
from zarrstack.core.json_text import JSONObject, document

from ...storage.icechunk.place import MAIN, IcechunkPlace
from ...storage.icechunk.session import SessionStorage
from .output import ReferenceOutput, exists
from .virtual_containers import container, credentials, credentials_text, storage_text

if TYPE_CHECKING:
    from ...planning.plans import ArrayPlan
    from ...storage.base import Storage
    from ...transfer.references import ConvertedChunk, References
    from ...transfer.referred_objects import ReferredPlace, Version

_MAX_MESSAGE: Final = 3
"""Number of refused references that an error names."""


def _size(directory: str) -> int:
    return sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())


class IcechunkOutput(ReferenceOutput):
    """A new repository, whose branch moves to the references in a single commit."""

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
        self._session: Any = None
        self._storage: Storage | None = None
        self._bytes = 0

    def refuse_existing(self) -> None:
        """Raise UsageError if there is a repository."""
        if self._place.version != f"branch {MAIN}":
            raise UsageError(
                "references are the first commit of a new repository",
                found=self._place.version,
                expected=f"{self.url}, whose branch is {MAIN}",
            )
        if self._place.exists():
            raise exists(self.url)

    def _opened(self) -> Any:
        """The session to write to; creates the repository."""
        if self._session is None:
            repository = self._place.open_repository(
                create=True,
                virtual_containers=[self._container],
                authorize=credentials(self._source, self._options),
            )
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

        run(self._opened().store.delete_dir(path))

    def publish(self, message: str) -> int:
        """Commit; in a store, the number is that of documents and chunks alone."""
        self._opened().commit(message)
        return _size(self._place.prefix) if self._place.scheme == "file" else self._bytes

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
