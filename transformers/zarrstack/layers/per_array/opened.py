"""zarr-python's arrays and groups as context managers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

import zarr

from .layer import PerArray


@dataclass(kw_only=True, slots=True)
class Block:
    """What begins with a `with` statement, and ends with it."""

    store: PerArray
    budget: int | None
    """Bytes of chunks that may wait for their shards; None: none do."""
    concurrency: int | None
    closes: bool
    """Whether to close the store: if it was opened for this node."""
    entered: list[ExitStack] = field(default_factory=list)

    def enter(self) -> None:
        """Begin; in a block of the same node this does nothing."""
        with ExitStack() as stack:
            if not self.entered:
                self._begin(stack)
            self.entered.append(stack.pop_all())

    def _begin(self, stack: ExitStack) -> None:
        if self.concurrency is not None:
            stack.enter_context(zarr.config.set({"async.concurrency": self.concurrency}))
        if self.closes:
            stack.callback(self.store.close)
        if self.budget is not None:
            if not self.store.buffers:
                self.store.buffer_writes(self.budget)
            stack.callback(self.store.end_buffer)

    def leave(self) -> None:
        """Store what waits, whether or not the block failed; errors are raised, and what waits stays."""
        self.entered.pop().close()


class _InBlock:
    """A node that is a context manager."""

    _block: Block

    def __enter__(self) -> Self:
        self._block.enter()
        return self

    def __exit__(self, *error: object) -> None:
        self._block.leave()


class OpenArray(_InBlock, zarr.Array[Any]):
    """An array; in a `with` statement, its chunks may wait until their shard is whole."""

    @classmethod
    def of(cls, array: zarr.Array[Any], block: Block) -> Self:
        """The same array as a context manager."""
        opened = cls(array._async_array)  # noqa: SLF001 - as zarr-python itself wraps it
        object.__setattr__(opened, "_block", block)
        return opened

    @property
    def store(self) -> PerArray:
        """The store, whose `flush`, `flush_sync` and `figures` are about the chunks that wait."""
        store = super().store
        assert isinstance(store, PerArray)
        return store

    def __reduce__(self) -> tuple[Any, ...]:
        return (zarr.Array, (self._async_array,))


class OpenGroup(_InBlock, zarr.Group):
    """A group; in a `with` statement, the chunks of its arrays may wait until their shard is whole."""

    @classmethod
    def of(cls, group: zarr.Group, block: Block) -> Self:
        """The same group as a context manager."""
        opened = cls(group._async_group)  # noqa: SLF001 - as zarr-python itself wraps it
        object.__setattr__(opened, "_block", block)
        return opened

    @property
    def store(self) -> PerArray:
        """The store, whose `flush`, `flush_sync` and `figures` are about the chunks that wait."""
        store = super().store
        assert isinstance(store, PerArray)
        return store

    def __reduce__(self) -> tuple[Any, ...]:
        return (zarr.Group, (self._async_group,))
