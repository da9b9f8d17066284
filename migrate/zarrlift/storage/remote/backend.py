"""What a store can do beyond zarr's `Store`: tell directories from objects, send parts, copy by itself.

zarr's `list_dir` gives names without saying what they are, `set` wants the whole value in memory, and there
is no copy. A store that is nothing but a wrapper around a library which can is asked there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from ..limits import PART
from ..listed_versions import Version
from ..listing import Listed

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest, Store

    from ..local.files import Bound


HTTP: Final = frozenset({"http", "https"})
_MOST_PARTS: Final = 10_000
"""Parts of an object that S3 takes
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html)."""


def part_size(size: int) -> int:
    """Bytes of each part in which a file of so many bytes is sent."""
    return max(PART, -(-size // _MOST_PARTS))


def version_text(value: object) -> str | None:
    """What a listing tells of an object's version, as text; an ETag is one with and without its quotes."""
    if value is None:
        return None
    text = str(value)
    return text.removeprefix("W/").strip('"') if text.endswith('"') else text


async def stored_bytes(store: Store, key: str, part: ByteRequest | None) -> bytes | None:
    """An object or bytes of it, as any store gives them."""
    from zarr.core.buffer import default_buffer_prototype

    value = await store.get(key, default_buffer_prototype(), part)
    return None if value is None else value.to_bytes()


async def bounded_bytes(store: Store, key: str, bound: Bound) -> bytes | None:
    """A whole object, asked for as its first bytes, so that a larger one is not held."""
    from zarr.abc.store import RangeByteRequest

    data = await stored_bytes(store, key, RangeByteRequest(0, bound.most + 1))
    if data is not None and len(data) > bound.most:
        raise bound.too_large(f"more than {bound.most} bytes")
    return data


class Native(ABC):
    """The library below a store. Keys are those of the store; every method runs in the storage's loop."""

    store: Any
    """The store as zarr has it."""

    @abstractmethod
    async def read(self, key: str, bound: Bound, version: Version | None = None) -> bytes | None:
        """A whole object, None where there is none; no more than `bound` of a larger one, and its error.

        Libraries that tell of it when an object is read hold it against the `version`: SourceChangedError.
        """

    async def read_part(self, key: str, part: ByteRequest, version: Version | None = None) -> bytes | None:
        """Bytes of an object, None where there is none; `version` as above."""
        return await stored_bytes(self.store, key, part)

    @abstractmethod
    async def children(self, prefix: str) -> dict[str, bool]:
        """Name -> whether it is a directory, of what lies directly below a prefix ("" is the root)."""

    @abstractmethod
    def pages(self, prefix: str) -> AsyncIterator[list[Listed]]:
        """Every object below a prefix, some at a time."""

    @abstractmethod
    async def put_file(self, key: str, name: str, size: int) -> None:
        """Write the file of that name, of `size` bytes, as one object, in parts that take little memory."""

    @property
    @abstractmethod
    def creates(self) -> bool:
        """Whether `create` is one operation of the store, as far as that can be known beforehand."""

    @abstractmethod
    async def create(self, key: str, data: bytes) -> None:
        """Write an object where none is; an error of the library's own where there is one."""

    @abstractmethod
    async def copy(self, source: Native, before: str, after: str, size: int) -> None:
        """Let the store copy an object of `source`, whose identity is the same.

        NotImplementedError where it cannot.
        """

    @property
    @abstractmethod
    def identity(self) -> tuple[object, ...]:
        """What makes two stores one: kind, address and credentials."""
