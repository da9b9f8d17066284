"""zarr-python's arrays and groups as context managers."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import zarr

from ..write_back.layer import WriteBack


class Block(NamedTuple):
    """What a `with` statement needs to know."""

    store: WriteBack
    """The stack of the node: its changes wait inside the block."""
    closes: bool
    """Whether to close the store: if it was opened for this node."""


class _InBlock:
    """A node that is a context manager, made from what zarr-python's own node wraps."""

    _plain: ClassVar[type]
    _wraps: ClassVar[str]
    _block: Block

    @classmethod
    def of(cls, node: Any, block: Block) -> Self:
        """The same node as a context manager."""
        make: Any = cls
        opened: Self = make(getattr(node, cls._wraps))
        object.__setattr__(opened, "_block", block)
        return opened

    @property
    def store(self) -> WriteBack:
        """The store, whose `flush`, `flush_sync` and `figures` are about the changes that wait."""
        store: WriteBack = getattr(self, self._wraps).store
        return store

    def __enter__(self) -> Self:
        self.store.begin()
        return self

    def __exit__(self, *error: object) -> None:
        # If what waits cannot be stored, the store stays open with it.
        self.store.end()
        if self._block.closes:
            self.store.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (self._plain, (getattr(self, self._wraps),))


class OpenArray(_InBlock, zarr.Array[Any]):
    """An array; in a `with` statement, changes wait in memory, so that each object is stored once."""

    _plain, _wraps = zarr.Array, "_async_array"


class OpenGroup(_InBlock, zarr.Group):
    """A group; in a `with` statement, changes wait in memory, so that each object is stored once."""

    _plain, _wraps = zarr.Group, "_async_group"
