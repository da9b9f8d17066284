"""The storage interface of the engine: synchronous, with keys relative to one root.

`LocalStorage` accesses the file system directly, because file operations dominate for archives of many small
chunks. All other places are a `RemoteStorage`: buckets, web servers, the members of a file, and any zarr
`Store`, which may be a stack of transformers. None means *proven absent*, never *could not be read*.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import IO, TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from zarrstack.core.errors import StorageError

from .local.files import DOCUMENT, ReadLimit
from .versions import Version

if TYPE_CHECKING:
    from concurrent.futures import Future

    import numpy as np
    import numpy.typing as npt
    from zarr.abc.store import Store

CLAIM: Final = ".zarrlift-claim"
"""Prefix of the names in a root that are claims of jobs (`claim`); listings exclude them."""
BESIDE: Final = ".zarrlift.claim"
"""Suffix of a claim that is next to a local directory or a repository, after its name."""

READ_AHEAD: Final = 16 << 20
WRITE_BEHIND: Final = 8 << 20
"""Bytes that a worker reads ahead from a store, and bytes that it writes without waiting for the response.
Two chunks of 4 MB, or thirty of 256 KB, keep four workers and a connection busy.
"""
SPOOLED: Final = 8 << 20
"""Maximum size in bytes of an object built in memory for a store; larger ones use a file."""
PART: Final = 8 << 20
PARTS_AT_ONCE: Final = 2
"""Size of the parts in which a file is sent to a store that supports parts (S3 requires at least 5 MiB), and
number of parts that a worker sends concurrently.
"""
STORE_READ: Final = READ_AHEAD
STORE_WRITTEN: Final = WRITE_BEHIND + max(SPOOLED, PART * PARTS_AT_ONCE)
"""Additional memory of a worker in bytes if the source, or if the destination, is a store."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One name directly below a prefix."""

    name: str
    is_dir: bool
    link: str | None = None
    """Target of a symbolic link, resolved to an absolute path; None for anything else."""


@dataclass(frozen=True, slots=True)
class ListedPage:
    """Some objects of a listing, as columns: a Python object for each would cost more than the listing."""

    keys: Sequence[str]
    sizes: Sequence[int | None] | npt.NDArray[np.int64] | None = None
    """Size of each in bytes; None if not provided."""
    versions: Sequence[str | None] | None = None
    """For each a text that changes if it is rewritten: ETag, checksum or time; None if not provided."""

    def relative(self, start: int) -> ListedPage:
        """The same with keys that begin at their character `start`."""
        return replace(self, keys=[key[start:] for key in self.keys]) if start else self

    def only(self, wanted: Iterable[bool]) -> ListedPage:
        """Some of the objects; `wanted` has a value for each."""
        marks = list(wanted)
        if all(marks):
            return self
        return ListedPage(
            list(compress(self.keys, marks)),
            None if self.sizes is None else list(compress(self.sizes, marks)),
            None if self.versions is None else list(compress(self.versions, marks)),
        )

    def shown(self, hidden: str) -> ListedPage:
        """Without keys that end with "/" or start with `hidden`."""
        # One search in all keys: a call for each takes as long as the rest of the listing.
        text = "\n".join(["", *self.keys, ""])
        if "/\n" not in text and f"\n{hidden}" not in text:
            return self
        return self.only(not (key.endswith("/") or key.startswith(hidden)) for key in self.keys)


class ListingReceiver(Protocol):
    """Receives the objects of a listing page by page, and keeps what it needs."""

    def take(self, page: ListedPage) -> None:
        """Receive the next objects."""


L = TypeVar("L", bound=ListingReceiver)


class ObjectPart(NamedTuple):
    """Bytes of an object, and what the same request tells of it."""

    data: bytes
    size: int
    """Size of the object in bytes."""
    version: Version | None
    """Its version then; None if the storage tells none."""


class LayeredDirectory(Protocol):
    """A local directory below layers."""

    def make_directory(self, name: str) -> None:
        """Make a directory in it, unless there is one; StorageError."""

    def delete_tree(self, key: str) -> None:
        """Remove a directory with its content, which may be absent; StorageError."""

    def refuse_links(self, key: str) -> None:
        """Raise StorageError if a link that is not followed is in place of a directory."""


class AsyncRequests(Protocol):
    """Asynchronous requests to a storage; each returns a future."""

    def get(
        self, keys: Sequence[str], limit: ReadLimit | None, versions: Sequence[Version | None]
    ) -> list[Future[bytes | None]]:
        """Whole objects, each as `Storage.get` returns it."""

    def parts(
        self, key: str, spans: Sequence[tuple[int, int]], version: Version | None
    ) -> list[Future[bytes | None]]:
        """Ranges (start, stop) of one object, as `Storage.get_part` returns them."""

    def ends(
        self, keys: Sequence[str], start: int, length: int, versions: Sequence[Version | None]
    ) -> list[Future[ObjectPart | None]]:
        """A part of each object, as `Storage.get_end` returns it."""

    def put(self, key: str, data: bytes) -> Future[None]:
        """Write a whole object."""


class Storage(ABC):
    """A storage of objects by key."""

    url: str
    can_list: bool = True
    layered: LayeredDirectory | None = None
    """The local directory below layers, in which writers have directories of their own."""
    in_process: bool = False
    """Whether the content exists only in this process."""
    exclusive: bool = False
    """Whether `create` is atomic, so that exactly one of several concurrent calls succeeds."""
    requests: AsyncRequests | None = None
    """Asynchronous requests, for storages with latency; None for others."""
    document_limit: ReadLimit = DOCUMENT
    """The default size limit for reading an object."""
    tells_versions: bool = False
    """Whether a read can be compared with the version given by a listing."""
    absence: str = "missing"
    """How an object is reported that is proven absent, in words."""
    on_branch: bool = False
    """Whether what is written is seen by readers only after `publish` (Icechunk)."""
    holds_consolidated: bool = True
    """Whether consolidated metadata is of use here; zarr-python asks the store the same."""
    beneath: Storage | None = None
    """The storage below layers that change neither keys nor bytes; else None."""

    @abstractmethod
    def get(
        self, key: str, limit: ReadLimit | None = None, *, version: Version | None = None
    ) -> bytes | None:
        """The whole object, or None if it is proven absent; StorageError otherwise.

        No more than `limit` (by default `document_limit`) is read of a larger object: ChunkError,
        BadObjectError. SourceChangedError if it has another version, in storages that tell versions.
        """

    def get_part(self, key: str, start: int, length: int, *, version: Version | None = None) -> bytes | None:
        """Bytes of an object from `start` on, or the last ones if `start` is -`length`.

        Shorter at the end of the object; None if it is proven absent. StorageError otherwise; `version` as
        for `get`.
        """
        data = self.get(key, version=version)
        if data is None:
            return None
        return data[max(len(data) - length, 0) :] if start < 0 else data[start : start + length]

    def get_end(
        self, key: str, start: int, length: int, *, version: Version | None = None
    ) -> ObjectPart | None:
        """As `get_part`, with the size and the version of the object that these bytes are of."""
        size, data = self.size(key), self.get_part(key, start, length, version=version)
        return None if size is None or data is None else ObjectPart(data, size, None)

    def size(self, key: str) -> int | None:
        """Size of an object in bytes; None if it is proven absent. StorageError otherwise."""
        data = self.get(key)
        return None if data is None else len(data)

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write a whole object atomically: a reader sees the old or the new one."""

    def create(self, key: str, data: bytes) -> bool:
        """Write a whole object if there is none; False if there is one.

        If the storage is not `exclusive`, several concurrent calls may succeed; the last one usually wins.
        """
        if self.get(key) is not None:
            return False
        self.put(key, data)
        return self.get(key) == data

    def put_file(self, key: str, file: IO[bytes], size: int) -> None:
        """Write `size` bytes of an open file as one object; in parts if the store supports them."""
        data = file.read()
        if len(data) != size:
            raise StorageError("a temporary file ended early", key=key, found=f"{len(data)} of {size} bytes")
        self.put(key, data)

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object, which may be absent."""

    @abstractmethod
    def list_dir(self, prefix: str) -> Iterator[DirectoryEntry]:
        """The names directly below a prefix ("" is the root), in any order; none if it is absent."""

    @abstractmethod
    def zarr_store(self) -> Store:
        """A zarr store at the same place, for zarr-python and other independent readers."""

    def get_many(self, keys: Sequence[str], limit: ReadLimit | None = None) -> list[bytes | None]:
        """Several whole objects, each as from `get`; remote stores fetch them concurrently."""
        return [self.get(key, limit) for key in keys]

    def find_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Like `get_many`, for objects most of which are expected to be absent."""
        return self.get_many(keys)

    def put_many(self, items: Sequence[tuple[str, bytes]]) -> None:
        """Write several whole objects; concurrently in remote stores."""
        for key, data in items:
            self.put(key, data)

    def list_dirs(self, prefixes: Sequence[str]) -> list[list[DirectoryEntry]]:
        """`list_dir` for several prefixes; concurrently in remote stores."""
        return [list(self.list_dir(prefix)) for prefix in prefixes]

    def is_empty(self) -> bool:
        """Whether it has no object; StorageError."""
        return next(iter(self.list_dir("")), None) is None

    def refuse_links(self, key: str) -> None:
        """Raise StorageError if a link that is not followed is in place of a directory, below layers too."""
        if self.layered is not None:
            self.layered.refuse_links(key)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """All keys that start with `prefix`, which is "" or ends with "/", in any order."""
        pending = [prefix.rstrip("/")]
        while pending:
            directory = pending.pop()
            for entry in self.list_dir(directory):
                key = f"{directory}/{entry.name}" if directory else entry.name
                if entry.is_dir:
                    pending.append(key)
                else:
                    yield key

    def list_objects(
        self, prefix: str, new: Callable[[], L], keys: Callable[[], Sequence[str]] | None = None
    ) -> L:
        """Like `list_prefix`, with the properties that a listing provides without further requests.

        `new` creates the receiver of the objects, again if a listing must be restarted; the last one is
        returned. `keys` gives keys that may exist, spread evenly: a store may list the ranges between them
        concurrently.
        """
        receiver = new()
        receiver.take(ListedPage(list(self.list_prefix(prefix))))
        return receiver

    def claim_place(self) -> tuple[Storage, str]:
        """The storage and the key of the claim of a job that writes here."""
        return self, CLAIM

    def attach(self, job_id: str, *, worker: bool = False) -> None:  # noqa: B027 - for `on_branch`
        """Read and write what a job has written so far, although readers do not see it yet."""

    def settle(self) -> None:  # noqa: B027
        """At the end of a task, make what a worker has written last, if its coordinator cannot do it."""

    def link(self, key: str) -> str | None:
        """The resolved target of `key` if it is a symbolic link; None for anything else."""
        return None

    def leaves_root(self, link: str | None) -> bool:
        """Whether a link (`DirectoryEntry.link` or the result of `link`) leaves this storage."""
        return False

    def require_absent(self, key: str) -> None:  # noqa: B027 - nothing to look for where there are no links
        """Raise StorageError if an object that another reader did not find is a broken link."""
