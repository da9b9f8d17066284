"""The content of a view: documents created in advance, and values read from the source on demand."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from zarrstack.core.errors import Problem, StorageError, UnsupportedError

from ..core.node_paths import nearest

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from ..storage.base import Storage
    from ..storage.local.files import ReadLimit

A = TypeVar("A")


class InShard(NamedTuple):
    """How a part of a shard is read; both give None if it is missing. ChunkError, StorageError."""

    stored: Callable[[], bytes | None]
    size: Callable[[], int | None]
    """Its stored length, for which only the index is read."""


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value that comes from one object of the source."""

    key: str
    """The object's key."""
    bound: ReadLimit
    """The maximum size of the object."""
    shown: Callable[[bytes], bytes | None]
    """The presented value for stored bytes, with its header; ChunkError and CastError with location."""
    is_unchanged: bool
    """Whether the stored bytes are presented unchanged."""
    header: bytes = b""
    """Bytes that precede the object's content."""
    part: InShard | None = None
    """None if the value is the whole object."""

    def stored(self, storage: Storage) -> bytes | None:
        """The stored bytes, None if missing; ChunkError, StorageError."""
        return storage.get(self.key, self.bound) if self.part is None else self.part.stored()

    def read(self, storage: Storage) -> bytes | None:
        """The presented value, None if nothing is stored; the errors of `stored` and `shown`."""
        data = self.stored(storage)
        return None if data is None else self.shown(data)


@dataclass(slots=True, kw_only=True)
class PresentedHierarchy(ABC, Generic[A]):
    """A hierarchy as a view presents it; `A` describes how the objects of an array are presented."""

    storage: Storage
    store: Store
    """The same source for asynchronous reads."""
    follow_links: bool
    """Whether links to targets outside the archive are followed."""
    names: frozenset[str]
    """Names of metadata documents."""
    documents: dict[str, bytes]
    arrays: dict[str, A]
    """Arrays by path."""
    refusals: Mapping[str, Problem]
    """Reasons for omitted nodes, by path."""
    children: dict[str, dict[str, None]] = field(init=False, default_factory=dict)
    """Path of a node -> names directly below it, including its documents, in order."""

    def __post_init__(self) -> None:
        for key in self.documents:
            below = key
            while below:
                above, _, name = below.rpartition("/")
                self.children.setdefault(above, {})[name] = None
                below = above

    @property
    def fixed(self) -> Iterator[str]:
        """Keys that are known without reading the source."""
        yield from self.documents

    def array_above(self, path: str) -> A | None:
        """The array at a path or above it."""
        return nearest(path, self.arrays)

    def find(self, key: str) -> bytes | StoredValue | None:
        """A document, or the location of a key's value in the source.

        StorageError if it may not be read; UnsupportedError for a document of an omitted node.
        """
        content = self.documents.get(key)
        if content is not None:
            return content
        above, _, name = key.rpartition("/")
        if name in self.names:
            self.require_shown(above)
            return None
        held = self._held(key, above)
        if held is not None and not self.follow_links:
            self._check_link(held.key)
        return held

    @abstractmethod
    def _held(self, key: str, above: str) -> StoredValue | None:
        """The location of the value of a key below the path `above` that is not a document."""

    def require_shown(self, path: str) -> None:
        """Raise the reason as UnsupportedError if a node is omitted."""
        problem = self.refusals.get(path)
        if problem is not None:
            raise UnsupportedError.of(problem)

    def _check_link(self, key: str) -> None:
        target = self.storage.link(key)
        if target is not None and self.storage.leaves_root(target):
            if not os.path.exists(target):
                self.storage.require_absent(key)
            raise StorageError(
                "a link points outside the archive", key=key, advice="Use follow_links if this is intended."
            )
