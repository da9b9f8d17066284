"""What a store can do beyond zarr's `Store`: tell directories from objects, send parts, copy by itself.

zarr's `list_dir` gives names without saying what they are, `set` wants the whole value in memory, and there
is no copy. A store that is nothing but a wrapper around a library which can is asked there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from .storage import PART

if TYPE_CHECKING:
    from zarr.abc.store import Store


_MOST_PARTS: Final = 10_000
"""Parts of an object that S3 takes
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html)."""


def part_size(size: int) -> int:
    """Bytes of each part in which a file of so many bytes is sent."""
    return max(PART, -(-size // _MOST_PARTS))


class Native(ABC):
    """The library below a store. Keys are those of the store; every method runs in the storage's loop."""

    @abstractmethod
    async def children(self, prefix: str) -> dict[str, bool]:
        """Name -> whether it is a directory, of what lies directly below a prefix ("" is the root)."""

    @abstractmethod
    async def find(self, prefix: str) -> list[str]:
        """Every key below a prefix."""

    @abstractmethod
    async def put_file(self, key: str, name: str, size: int) -> None:
        """Write the file of that name, of `size` bytes, as one object, in parts that take little memory."""

    @abstractmethod
    async def copy(self, source: Native, before: str, after: str, size: int) -> None:
        """Let the store copy an object of `source`, whose identity is the same.

        NotImplementedError where it cannot.
        """

    @property
    @abstractmethod
    def identity(self) -> tuple[object, ...]:
        """What makes two stores one: kind, address and credentials."""


def native(store: Store) -> Native | None:
    """The library below a store; None for stores that are more than a wrapper, such as stacks of layers."""
    from zarr.storage import FsspecStore

    if type(store) is FsspecStore:
        from .storage_fsspec import Fsspec

        return Fsspec(store)
    if is_obstore(store):
        from .storage_obstore import Obstore

        return Obstore(store)
    return None


def is_obstore(store: Any) -> bool:
    """Whether it is zarr's store over obstore; told without importing obstore, which may not be there."""
    kind = type(store)
    return kind.__name__ == "ObjectStore" and kind.__module__.startswith("zarr.storage")
