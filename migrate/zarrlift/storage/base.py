"""Storage as the engine sees it: synchronous, keyed by paths relative to one root.

`LocalStorage` goes straight to the file system, which is where archives of many small
chunks spend their time. Every other place is reached through zarr's own `Store`
interface (`storage.remote.zarr_store.StoreStorage`), so that a source or destination may be any
stack of transformers. None means *proven absent*, never *could not read*.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, Protocol

from zarrstack.core.errors import StorageError

from .listing import L, Listed
from .local.files import DOCUMENT, Bound

if TYPE_CHECKING:
    from concurrent.futures import Future

    from zarr.abc.store import Store


CLAIM: Final = ".zarrlift-claim"
"""How the names in a root begin by which a job keeps others away (`claiming`); they are in no listing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name directly under a prefix."""

    name: str
    is_dir: bool
    link: str | None = None
    """Where a symbolic link leads, resolved to an absolute path; None for anything else."""


class AsyncRequests(Protocol):
    """Requests to a place that are answered later; each gives a future."""

    def get(self, keys: Sequence[str], bound: Bound | None = None) -> list[Future[bytes | None]]:
        """Whole objects, as `Storage.get` gives them."""

    def parts(self, key: str, spans: Sequence[tuple[int, int]]) -> list[Future[bytes | None]]:
        """(start, stop) of one object, as `Storage.get_part` gives them."""

    def ends(self, keys: Sequence[str], start: int, length: int) -> list[Future[tuple[int, bytes] | None]]:
        """Size of each object and a part of it, as `size` and `get_part` of `Storage` give them, or None."""

    def put(self, key: str, data: bytes) -> Future[None]:
        """Write a whole object."""

    def gap(self) -> int:
        """Bytes that are better read along than left out by another request."""


class Storage(ABC):
    """A place that holds objects by key."""

    url: str
    can_list: bool = True
    scratch: str | None = None
    """A local directory with what writers have half-written, which is removed while there are none."""
    in_process: bool = False
    """Whether what lies here lives and dies with this process."""
    exclusive: bool = False
    """Whether `create` is one operation, so that of many who try one succeeds."""
    soon: AsyncRequests | None = None
    """Requests that are answered later, of places where an answer takes time; None elsewhere."""
    document_bound: Bound = DOCUMENT
    """What is read of an object where the caller says no other bound."""
    tells_versions: bool = False
    """Whether what is read can be held against the version that a listing told."""
    beneath: Storage | None = None
    """Where layers stand over a place and change neither its keys nor its bytes: that place."""

    @abstractmethod
    def get(self, key: str, bound: Bound | None = None) -> bytes | None:
        """The whole object, or None if it is proven absent; StorageError otherwise.

        Of a larger one than `bound` (else `document_bound`) no more is read: ChunkError, BadObjectError.
        """

    def get_part(self, key: str, start: int, length: int) -> bytes | None:
        """Bytes of an object from `start` on, or its last ones where `start` is -`length`.

        Shorter where the object ends; None if it is proven absent. StorageError otherwise.
        """
        data = self.get(key)
        if data is None:
            return None
        return data[max(len(data) - length, 0) :] if start < 0 else data[start : start + length]

    def size(self, key: str) -> int | None:
        """Bytes of an object; None if it is proven absent. StorageError otherwise."""
        data = self.get(key)
        return None if data is None else len(data)

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write a whole object, so that a reader sees the old one or the new one."""

    def create(self, key: str, data: bytes) -> bool:
        """Write a whole object where none is; False if there is one.

        Where the place is not `exclusive`, the last one of several who try at once has it, mostly.
        """
        if self.get(key) is not None:
            return False
        self.put(key, data)
        return self.get(key) == data

    def put_file(self, key: str, file: IO[bytes], size: int) -> None:
        """Write the `size` bytes of an open file as one object; stores that can, take it in pieces."""
        data = file.read()
        if len(data) != size:
            raise StorageError("a temporary file ended early", key=key, found=f"{len(data)} of {size} bytes")
        self.put(key, data)

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; fine if it is absent."""

    @abstractmethod
    def list_dir(self, prefix: str) -> Iterator[Entry]:
        """The names directly under a prefix ("" is the root), in any order; none if absent."""

    @abstractmethod
    def zarr_store(self) -> Store:
        """The same place as zarr-python sees it; independent readers come in through it."""

    def get_many(self, keys: Sequence[str], bound: Bound | None = None) -> list[bytes | None]:
        """Several whole objects, each as `get` gives it; remote stores fetch them concurrently."""
        return [self.get(key, bound) for key in keys]

    def find_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """As `get_many`, where most objects are not expected to be there."""
        return self.get_many(keys)

    def put_many(self, items: Sequence[tuple[str, bytes]]) -> None:
        """Several whole objects; remote stores write them concurrently."""
        for key, data in items:
            self.put(key, data)

    def list_dirs(self, prefixes: Sequence[str]) -> list[list[Entry]]:
        """`list_dir` of several prefixes; remote stores list them concurrently."""
        return [list(self.list_dir(prefix)) for prefix in prefixes]

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Every key that starts with `prefix`, which is "" or ends with "/", in any order."""
        pending = [prefix.rstrip("/")]
        while pending:
            directory = pending.pop()
            for entry in self.list_dir(directory):
                key = f"{directory}/{entry.name}" if directory else entry.name
                if entry.is_dir:
                    pending.append(key)
                else:
                    yield key

    def list_objects(self, prefix: str, new: Callable[[], L]) -> L:
        """As `list_prefix`, with what a listing tells of each object at no further cost.

        `new` makes what takes them, once more where a listing has to begin again; the last one is given.
        """
        taken = new()
        taken.take(map(Listed, self.list_prefix(prefix)))
        return taken

    def link(self, key: str) -> str | None:
        """Where `key` leads if it is a symbolic link, resolved; None for anything else."""
        return None

    def leaves_root(self, link: str | None) -> bool:
        """Whether a link (`Entry.link`, or what `link` gave) leads out of this place."""
        return False

    def require_absent(self, key: str) -> None:  # noqa: B027 - nothing to look for where there are no links
        """StorageError where an object that another reader did not find is a link that leads nowhere."""
