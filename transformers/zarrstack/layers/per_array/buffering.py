"""Chunks that wait in memory, of all arrays below a `PerArray`, under one budget."""

from __future__ import annotations

from typing import Any

from ...base.descend import UNBOUND
from ...base.transformer import StorageTransformer
from ...core.paths import folder_prefix
from ..sharding.buffer import ShardBuffer, ShardingStatistics
from ..sharding.buffered import BufferedArray, later
from ..sharding.locks import may_block
from .described import DescribedArray, buffer_in


class BufferedArrays(StorageTransformer):
    """The arrays that have been accessed so far, and their buffer."""

    _arrays: dict[str, DescribedArray]
    _buffer: ShardBuffer | None = None

    def buffer_writes(self, memory_bytes: int) -> None:
        """Let the sharding layers of all arrays keep chunks in memory until their shards are whole.

        They share one budget. `flush`, `flush_sync`, `close` and `end_buffer` store what waits.
        """
        self._buffer = ShardBuffer(memory_bytes)
        for array in list(self._arrays.values()):
            buffer_in(array.layers, self._buffer)

    def end_buffer(self) -> None:
        """Store what waits; afterwards a chunk is stored when `set` returns."""
        if self._buffer is not None:
            self.flush_sync()
            self._buffer.active = False
            self._buffer = None

    def figures(self) -> ShardingStatistics:
        """What waits in memory, and how often shards were written while chunks waited."""
        return (ShardBuffer(0) if self._buffer is None else self._buffer).figures()

    @property
    def buffers(self) -> bool:
        return self._buffer is not None and self._buffer.active

    def _buffered(self, path: str = "") -> list[BufferedArray]:
        """The layers, from the array down, that may hold chunks of the arrays at and below a path."""
        folder = folder_prefix(path)
        arrays = [array for each, array in list(self._arrays.items()) if f"{each}/".startswith(folder)]
        return [layer for array in arrays for layer in array.layers if isinstance(layer, BufferedArray)]

    async def _store_waiting(self, path: str = "", *, seen: bool = True) -> None:
        for layer in self._buffered(path):
            await layer.store_waiting(seen=seen)

    def _tops(self) -> list[StorageTransformer]:
        """The topmost layer of each array, which passes a flush on to those below it."""
        return [array.layers[0] for array in list(self._arrays.values()) if array.layers]

    async def flush(self) -> None:
        """Store what the layers of all arrays hold in memory."""
        for layer in self._tops():
            await layer.flush()
        await super().flush()

    def flush_sync(self) -> None:
        for layer in self._tops():
            layer.flush_sync()
        super().flush_sync()

    def close(self) -> None:
        """Store what waits, then close the store below; as `Sharding.close`."""
        if may_block():
            self.flush_sync()
            super().close()
        else:
            later(self._close_later())

    async def _close_later(self) -> None:
        await self._store_waiting(seen=False)
        await self.flush()
        super().close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._store is not UNBOUND:
            for layer in self._buffered():
                layer.flush_sync()
        return super().__reduce__()
