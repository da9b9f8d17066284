"""What a view shows: documents made once, and values that are found below when they are asked for."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from zarrstack.core.errors import Problem, StorageError, UnsupportedError
from zarrstack.core.paths import nearest

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from ..storage.base import Storage
    from ..storage.local.files import Bound

A = TypeVar("A")


class Held(ABC):
    """A key's value lies in an object of the source."""

    key: str
    """The object's key."""
    header: bytes = b""
    """What is shown before it."""

    @property
    @abstractmethod
    def as_it_lies(self) -> bool:
        """Whether it is shown without a change."""

    @property
    def alone(self) -> bool:
        """Whether nothing else lies in the object: it is no shard."""
        return True

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """What is read of the object at most."""

    @abstractmethod
    def shown(self, data: bytes) -> bytes | None:
        """What is shown for stored bytes, with its header; ChunkError and CastError with their place."""

    def stored(self, storage: Storage) -> bytes | None:
        """The stored bytes, None where there are none; ChunkError, StorageError."""
        return storage.get(self.key, self.bound)

    def stored_size(self, storage: Storage) -> int | None:
        """How many bytes `stored` gives."""
        return storage.size(self.key)

    def read(self, storage: Storage) -> bytes | None:
        """What is shown, None where nothing is stored; the errors of `stored` and `shown`."""
        data = self.stored(storage)
        return None if data is None else self.shown(data)


@dataclass(slots=True, kw_only=True)
class ShownHierarchy(ABC, Generic[A]):
    """A hierarchy as a view shows it; what `A` knows of an array is how its objects are shown."""

    storage: Storage
    store: Store
    """The same place for asynchronous reading."""
    follow_links: bool
    """Whether values may lie where a link leads out of the archive."""
    documents: dict[str, bytes]
    arrays: dict[str, A]
    """By path."""
    children: dict[str, list[str]]
    """Path of a node -> names right below it, its documents' among them."""

    @property
    def fixed(self) -> Iterator[str]:
        """Keys that are known without a look at the source."""
        yield from self.documents

    def array_above(self, path: str) -> A | None:
        """The array that a path is, or lies below."""
        return nearest(path, self.arrays)

    def find(self, key: str) -> bytes | Held | None:
        """A document, or where in the source a key's value lies.

        StorageError where that may not be read; UnsupportedError for a document of a node that is left out.
        """
        content = self.documents.get(key)
        if content is not None:
            return content
        held = self._held(key)
        if held is not None and not self.follow_links:
            self._check_link(held.key)
        return held

    @abstractmethod
    def _held(self, key: str) -> Held | None:
        """Where the value of a key lies that is no document's."""

    def _check_link(self, key: str) -> None:
        target = self.storage.link(key)
        if target is not None and self.storage.leaves_root(target):
            if not os.path.exists(target):
                self.storage.require_absent(key)
            raise StorageError(
                "a link leads out of the archive", key=key, advice="Use follow_links if that is meant."
            )


def refusal_error(problem: Problem) -> UnsupportedError:
    """A refusal as an error, for who asks for that node by name."""
    return UnsupportedError(
        problem.message,
        node=problem.node,
        key=problem.key,
        found=problem.found,
        expected=problem.expected,
        advice=problem.advice,
    )
