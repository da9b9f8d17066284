"""One object of a store, replaced only if it is still the version that is known.

S3 and Azure compare ETags (`If-Match`, `If-None-Match`), Google Cloud Storage generations; obstore does so
under one name. Libraries below fsspec have no such request.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeAlias

from zarrstack.core.errors import UsageError

from ..open_storage import open_storage
from .backend_obstore import ObstoreBackend
from .event_loop import begin, run
from .zarr_store import StoreStorage

ObjectVersion: TypeAlias = dict[str, str]
"""Version of an object as obstore compares it: `e_tag`, `version`, or both."""

_MOST: Final = 5 << 30
"""Maximum number of bytes that S3 takes in one request, which conditional writes need
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html).
"""
_PART: Final = 64 << 20
"""Bytes of a larger file that are in memory at a time."""
_OTHER: Final = {"e_tag": '"00000000000000000000000000000000"', "version": "1"}
"""Parts of a version that no object has."""


class StoredObject:
    """An object, and the requests that compare its version."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        """UsageError if the store of the URL cannot compare versions; `options` are those of storages."""
        folder, _, self._key = url.rpartition("/")
        place = open_storage(folder, storage_options=options, mode="w")
        if not isinstance(place, StoreStorage) or not isinstance(place.native, ObstoreBackend):
            raise UsageError(
                "this store cannot compare versions, so that it cannot keep a job file",
                found=place.url,
                expected="a store that obstore opens, with options that it has, such as s3://",
                advice="Install the extra s3 (obstore), or keep the job file in a local directory.",
            )
        self._place = place
        self._store: Any = place.native.store.store
        self.url: Final = f"{place.url}/{self._key}"
        """The URL without secrets."""

    def read(self) -> tuple[bytes, ObjectVersion] | None:
        """Content and version; None if there is no such object. StorageError."""
        return run(self._place.request("cannot read", self._key, self._read))

    def version(self) -> ObjectVersion | None:
        """The version alone; None if there is no such object. StorageError."""
        return run(self._place.request("cannot read", self._key, self._head))

    def replace(self, data: bytes, version: ObjectVersion | None) -> Future[ObjectVersion | None]:
        """Start to write the object, if its version is `version` (None: if there is none).

        The result is the new version, or None if the object has another one; or StorageError.
        """

        async def write() -> ObjectVersion | None:
            return await self._place.request("cannot write", self._key, lambda: self._put(data, version))

        return begin([write()])[0]

    def is_compared(self, data: bytes, version: ObjectVersion) -> bool:
        """Whether the server refuses to replace another version; the arguments are those of the object."""
        return self.replace(data, {name: _OTHER[name] for name in version}).result() is None

    def delete(self) -> None:
        """Delete the object, whatever its version is; StorageError."""
        self._place.delete(self._key)

    def send_beside(self, suffix: str, path: Path) -> None:
        """Write a file as another object, whose name has a suffix, whatever is there; StorageError."""
        with path.open("rb") as file:
            self._place.put_file(self._key + suffix, file, path.stat().st_size)

    def fetch_beside(self, suffix: str, path: Path) -> bool:
        """Copy such an object to a file; False if there is none. StorageError."""
        size = self._place.size(self._key + suffix)
        if size is None:
            return False
        with path.open("wb") as file:
            for start in range(0, size, _PART):
                part = self._place.get_part(self._key + suffix, start, min(_PART, size - start))
                file.write(part or b"")
        return True

    def delete_beside(self, suffix: str) -> None:
        """Delete such an object, which may be absent; StorageError."""
        self._place.delete(self._key + suffix)

    async def _read(self) -> tuple[bytes, ObjectVersion] | None:
        import obstore

        try:
            answer = await obstore.get_async(self._store, self._path)
        except FileNotFoundError:
            return None
        if answer.meta["size"] > _MOST:
            raise UsageError("the object is too large for a job file", found=f"{answer.meta['size']} bytes")
        return bytes(await answer.bytes_async()), _version(answer.meta)

    async def _head(self) -> ObjectVersion | None:
        import obstore

        try:
            return _version(await obstore.head_async(self._store, self._path))
        except FileNotFoundError:
            return None

    async def _put(self, data: bytes, version: ObjectVersion | None) -> ObjectVersion | None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: Any = "create" if version is None else version
        try:
            put = await obstore.put_async(self._store, self._path, data, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            return None
        return _version(put)

    @property
    def _path(self) -> str:
        return self._place.key(self._key)


def _version(answer: Mapping[str, Any]) -> ObjectVersion:
    version = {name: answer[name] for name in _OTHER if answer.get(name) is not None}
    if not version:
        raise UsageError("this store gives objects no versions, so that it cannot keep a job file")
    return version
