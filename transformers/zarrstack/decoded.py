"""`DecodedChunks`: a codec pipeline for zarr-python that keeps decoded chunks in the memory of a `Cache`.

    zarr.config.set({"codec_pipeline.path": "zarrstack.decoded.DecodedChunks"})
    store = zarrstack.stack(store, zarrstack.Cache(memory_bytes="4GB"))
    array = zarr.open_array(store, mode="r")

A layer sees encoded bytes, so this cannot be one. The memory tier holds the decoded chunk instead of its
bytes, under the same budget and by the same rule (layers/cache/versions.py): a change that the cache sees, by
this array or another, by the store's own methods or by a process that shares its folder, makes it invalid.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from zarr.abc.buffer import NDBuffer
from zarr.buffer import cpu
from zarr.storage import StorePath

from .system.zarr_internals import ArraySpec, BatchedCodecPipeline

if TYPE_CHECKING:
    from .layers.cache.state import CacheState

Request: TypeAlias = tuple[Any, ArraySpec, Any, Any, bool]
"""Place of a chunk, its properties, the selection in it and that in the result, whether it is all of it."""


class DecodedChunks(BatchedCodecPipeline):
    """zarr-python's default pipeline; chunks of arrays over a `Cache` are decoded once while they are kept.

    Between the array and the cache may only be layers that keep keys and bytes as they are (`transparent`).
    Shards that zarr-python's own codec reads in parts, texts of any length, and arrays outside main memory
    are read as without it.

    Examples
    --------
    >>> store = zarrstack.stack(MemoryStore(), zarrstack.Cache())
    >>> with zarr.config.set({"codec_pipeline.path": "zarrstack.decoded.DecodedChunks"}):
    ...     array = zarr.create_array(store, name="a", shape=(4,), chunks=(2,), dtype="i4")
    >>> array[:] = 7
    >>> array[:] + array[:]
    array([14, 14, 14, 14], dtype=int32)
    """

    @cached_property
    def _codecs(self) -> str | None:
        """The codecs as text; None if they cannot say what they are, and must not be taken for others."""
        try:
            return json.dumps([codec.to_dict() for codec in self], sort_keys=True, default=_configuration)
        except (TypeError, ValueError, AttributeError, NotImplementedError):
            return None

    def _cache_kind(self, spec: ArraySpec) -> tuple[str, tuple[int, ...], np.dtype[Any]] | None:
        """What tells a decoded chunk from its bytes and from those of other codecs; None: it is not kept."""
        kind = spec.dtype.to_native_dtype()
        if kind.hasobject or kind.kind == "T" or not issubclass(spec.prototype.nd_buffer, cpu.NDBuffer):
            return None
        return (self._codecs, spec.shape, kind) if self._codecs is not None else None

    async def read(
        self, batch_info: Iterable[Request], out: NDBuffer, drop_axes: tuple[int, ...] = ()
    ) -> Any:
        """Fill `out`: chunks that are kept at once, the others as zarr-python does."""
        default: Any = super()  # its methods return results in newer versions of zarr
        requests = list(batch_info)
        state = _cache_of(requests[0]) if requests and not self.supports_partial_decode else None
        if state is None:
            return await default.read(requests, out, drop_axes)
        results: list[Any] = [{"status": "present"}] * len(requests)
        others = []
        for number, request in enumerate(requests):
            chunk = self._cached_array(state, request)
            if chunk is None:
                others.append(number)
            else:
                _fill(out, request, chunk, drop_axes)
        if others:
            read = await default.read([requests[number] for number in others], out, drop_axes)
            for number, result in zip(others, read or (), strict=False):
                results[number] = result
        return tuple(results)

    async def read_batch(
        self, batch_info: Iterable[Request], out: NDBuffer, drop_axes: tuple[int, ...] = ()
    ) -> Any:
        """Fill `out` from the store below the cache or from its bytes, and keep what was decoded."""
        default: Any = super()
        results: list[Any] = []
        for request in batch_info:
            chunk = None if self.supports_partial_decode else await self._decoded(request)
            if chunk is None:
                results.extend(await default.read_batch([request], out, drop_axes) or ())
            else:
                _fill(out, request, chunk, drop_axes)
                results.append({"status": "present"})
        return tuple(results)

    def _cached_array(self, state: CacheState, request: Request) -> np.ndarray[Any, Any] | None:
        kind = self._cache_kind(request[1])
        data = None if kind is None else state.in_memory_as(request[0].path, kind)
        return None if kind is None or data is None else np.frombuffer(data, kind[2]).reshape(kind[1])

    async def _decoded(self, request: Request) -> np.ndarray[Any, Any] | None:
        """Decode a chunk and keep it; None if it is missing, or is not one that is kept."""
        place, spec = request[:2]
        state, kind = _cache_of(request), self._cache_kind(spec)
        if state is None or kind is None:
            return None
        version = state.version_of(place.path)
        data = await place.get(spec.prototype)
        if data is None:
            return None
        (decoded,) = await self.decode([(data, spec)])
        assert decoded is not None
        chunk, dtype = decoded.as_numpy_array(), kind[2]
        same_kind = chunk.dtype.newbyteorder("=") == dtype.newbyteorder("=")
        if version is not None and chunk.shape == spec.shape and same_kind:
            state.remember_as(place.path, kind, _own_bytes(chunk, dtype), version)
        return chunk


def _configuration(codec: Any) -> Any:
    return codec.get_config()  # of numcodecs, in a codec of Zarr v2


def _cache_of(request: Request) -> CacheState | None:
    place = request[0]
    if not isinstance(place, StorePath):  # an inner chunk, for zarr-python's sharding codec
        return None
    find = getattr(place.store, "cache_of", None)
    state: CacheState | None = None if find is None else find(place.path)
    return state


def _fill(out: NDBuffer, request: Request, chunk: np.ndarray[Any, Any], drop_axes: Sequence[int]) -> None:
    _, spec, in_chunk, in_result, _ = request
    part = chunk[in_chunk]
    if drop_axes:
        part = part.squeeze(axis=tuple(drop_axes))
    out[in_result] = spec.prototype.nd_buffer.from_numpy_array(part)


def _own_bytes(chunk: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> memoryview:
    """The bytes of a chunk in C order, which nobody else can write to."""
    whole = np.ascontiguousarray(chunk, dtype)
    if whole is chunk and not (chunk.base is None and chunk.flags.owndata):
        whole = chunk.copy()
    return whole.reshape(-1).view(np.uint8).data.toreadonly()
