"""Capabilities of a store beyond zarr's `Store`: listing directories, sending parts, server-side copies.

zarr's `list_dir` gives names without their type, `set` requires the whole value in memory, and there is no
copy. If a store only wraps a library with these capabilities, the library is used directly.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from ..base import PART, ListedPage
from ..versions import Version

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest, Store

    from ..local.files import ReadLimit


ObjectState: TypeAlias = "tuple[int | None, str]"
"""Size of an object in bytes, None if not provided, and all that its store tells of its version."""
HTTP: Final = frozenset({"http", "https"})
_MAX_PARTS: Final = 10_000
"""Maximum number of parts of an object in S3
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html).
"""


def part_size(size: int) -> int:
    """Size in bytes of the parts in which a file of this size is sent."""
    return max(PART, -(-size // _MAX_PARTS))


def version_text(value: object) -> str | None:
    """The version in a listing as text; an ETag with quotes equals one without."""
    if value is None:
        return None
    text = str(value)
    return text.removeprefix("W/").strip('"') if text.endswith('"') else text


def version_texts(values: Sequence[object]) -> Sequence[str | None]:
    """The text of each of many versions; quotes are removed from all at once if all have them."""
    if values and all(type(value) is str for value in values):
        text = "\n".join(values)  # type: ignore[arg-type]
        inside = text[1:-1].split('"\n"')
        if text[:1] == text[-1:] == '"' and len(inside) == len(values) and text.count('"') == 2 * len(values):
            return inside
    return [version_text(value) for value in values]


async def stored_bytes(store: Store, key: str, part: ByteRequest | None) -> bytes | None:
    """An object or a part of it, from any store."""
    from zarr.buffer import default_buffer_prototype

    value = await store.get(key, default_buffer_prototype(), part)
    return None if value is None else value.to_bytes()


async def stored_size(store: Store, key: str) -> int | None:
    """The size of an object in any store in bytes, None if missing."""
    try:
        return await store.getsize(key)
    except FileNotFoundError:
        return None


async def write_bytes(store: Store, key: str, data: bytes) -> None:
    """Write a whole object to any store."""
    from zarr.buffer import default_buffer_prototype

    await store.set(key, default_buffer_prototype().buffer.from_bytes(data))


async def bounded_bytes(store: Store, key: str, bound: ReadLimit) -> bytes | None:
    """A whole object, requested as its first bytes, so that a larger one does not fill the memory."""
    from zarr.abc.store import RangeByteRequest

    data = await stored_bytes(store, key, RangeByteRequest(0, bound.most + 1))
    if data is not None and len(data) > bound.most:
        raise bound.too_large(f"more than {bound.most} bytes")
    return data


class Backend(ABC):
    """The library below a store. Keys are those of the store; all methods run in the storage's loop."""

    store: Any
    """The zarr store."""
    absence: str = "missing"
    """As of `Storage`."""
    gives_ranges: bool = True
    """False after a server has ignored the range of a request."""
    tells_versions: ClassVar[bool] = False
    """Whether a read can be compared with the version given by a listing."""
    copies_at_once: bool = True
    """False if `copy` may return before the store has copied."""

    @abstractmethod
    async def read(self, key: str, bound: ReadLimit, version: Version | None = None) -> bytes | None:
        """A whole object, None if missing; of a larger one, no more than `bound` is read before the error.

        Libraries that provide a version with a read compare it with `version`: SourceChangedError.
        """

    async def read_part(self, key: str, part: ByteRequest, version: Version | None = None) -> bytes | None:
        """Bytes of an object, None if missing; `version` as in `read`."""
        return await stored_bytes(self.store, key, part)

    async def size(self, key: str) -> int | None:
        """The size of an object in bytes, None if missing."""
        return await stored_size(self.store, key)

    @abstractmethod
    async def state(self, key: str) -> ObjectState | None:
        """The state of an object, None if missing."""

    async def read_with_state(
        self, key: str, part: ByteRequest, version: Version | None = None
    ) -> tuple[bytes, ObjectState] | None:
        """Bytes of an object and its state, None if missing; `version` as in `read`."""
        state, data = await asyncio.gather(self.state(key), self.read_part(key, part, version))
        return None if data is None or state is None else (data, state)

    def version_in(self, size: int, state: str) -> Version | None:
        """The version of an object in a text of its state, with which later reads are compared."""
        return None

    async def write(self, key: str, data: bytes) -> None:
        """Write a whole object."""
        await write_bytes(self.store, key, data)

    @abstractmethod
    async def children(self, prefix: str) -> dict[str, bool]:
        """Name -> whether it is a directory, for entries directly below a prefix ("" is the root)."""

    @abstractmethod
    def pages(
        self, prefix: str, keys: Callable[[], Sequence[str]] | None = None
    ) -> AsyncIterator[ListedPage]:
        """All objects below a prefix, page by page; `keys` as for `Storage.list_objects`.

        With `keys`, UnorderedListingError if the ranges between them cannot be listed.
        """

    @abstractmethod
    async def put_file(self, key: str, name: str, size: int) -> None:
        """Write the file `name` of `size` bytes as one object, in parts that take little memory."""

    @property
    @abstractmethod
    def creates(self) -> bool:
        """Whether `create` is atomic in the store, as far as this is known in advance."""

    @abstractmethod
    async def create(self, key: str, data: bytes) -> None:
        """Write an object if there is none; the library's own error if there is one."""

    @abstractmethod
    async def copy(self, source: Backend, before: str, after: str, size: int) -> None:
        """Copy an object of `source`, whose identity is equal, within the store.

        NotImplementedError if the store does not support it.
        """

    @property
    @abstractmethod
    def identity(self) -> tuple[object, ...]:
        """The values that are equal for the same store: kind, address and credentials."""
