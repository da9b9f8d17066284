"""zarr-python's arrays and groups as context managers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

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
    def store(self) -> PerArray:
        """The store, whose `flush`, `flush_sync` and `figures` are about the chunks that wait."""
        store: PerArray = getattr(self, self._wraps).store
        return store

    def __enter__(self) -> Self:
        self._block.enter()
        return self

    def __exit__(self, *error: object) -> None:
        self._block.leave()

    def __reduce__(self) -> tuple[Any, ...]:
        return (self._plain, (getattr(self, self._wraps),))


class OpenArray(_InBlock, zarr.Array[Any]):
    """An array; in a `with` statement, its chunks may wait until their shard is whole."""

    _plain, _wraps = zarr.Array, "_async_array"


class OpenGroup(_InBlock, zarr.Group):
    """A group; in a `with` statement, the chunks of its arrays may wait until their shard is whole."""

    _plain, _wraps = zarr.Group, "_async_group"
