"""`DecodedChunks`: a codec pipeline for zarr-python that keeps decoded chunks in the memory of a `Cache`.

    zarr.config.set({"codec_pipeline.path": "zarrstack.decoded.DecodedChunks"})
    store = zarrstack.stack(store, zarrstack.Cache(memory_bytes="4GB"))
    array = zarr.open_array(store, mode="r")

A layer sees encoded bytes, so this cannot be one. The memory tier holds the decoded chunk instead of its
bytes, under the same budget and by the same rule (layers/cache/versions.py): a change that the cache sees, by
this array or another, by the store's own methods or by a process that shares its folder, makes it invalid.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from zarr import config
from zarr.abc.buffer import NDBuffer
from zarr.buffer import cpu
from zarr.codecs import ShardingCodec
from zarr.storage import StorePath

from .system.zarr_internals import ArraySpec, BatchedCodecPipeline

if TYPE_CHECKING:
    from .layers.cache.state import CacheState

Request: TypeAlias = tuple[Any, ArraySpec, Any, Any, bool]
"""Place of a chunk, its properties, the selection in it and that in the result, whether it is all of it."""


class DecodedChunks(BatchedCodecPipeline):
    """zarr-python's default pipeline; chunks of arrays over a `Cache` are decoded once while they are kept.

    Between the array and the cache may only be layers that keep keys and bytes as they are (`transparent`).
    Of zarr-python's own shards, inner chunks are kept. Texts of any length, arrays outside main memory, and
    selections by lists of indexes within shards are read as without it.

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
        state = _cache_of(requests[0]) if requests else None
        if state is None:
            return await default.read(requests, out, drop_axes)
        if self.supports_partial_decode:
            return await self._read_shards(state, requests, out, drop_axes)
        results: list[Any] = [{"status": "present"}] * len(requests)
        others = []
        for number, request in enumerate(requests):
            chunk = self._cached_array(state, request)
            if chunk is None:
                others.append(number)
            else:
                _fill(out, request, chunk[request[2]], drop_axes)
        if others:
            read = await default.read([requests[number] for number in others], out, drop_axes)
            for number, result in zip(others, read or (), strict=False):
                results[number] = result
        return tuple(results)

    async def _read_shards(
        self, state: CacheState, requests: list[Request], out: NDBuffer, drop_axes: tuple[int, ...]
    ) -> Any:
        """Fill `out` from inner chunks: kept ones at once, then the others of each shard together."""
        default: Any = super()
        results: list[Any] = [{"status": "present"}] * len(requests)
        free = asyncio.Semaphore(config.get("async.concurrency") or 1)

        async def finish(number: int, part: _ShardPart | None) -> None:
            async with free:
                if part is not None and await self._decode_inner(state, part):
                    _fill(out, requests[number], part.selected(), drop_axes)
                else:
                    read = await default.read([requests[number]], out, drop_axes)
                    results[number] = (*(read or ()), results[number])[0]

        others = []
        for number, request in enumerate(requests):
            part = self._shard_part(state, request)
            if part is None or part.missing:
                others.append(finish(number, part))
            else:
                _fill(out, request, part.selected(), drop_axes)
        await asyncio.gather(*others)
        return tuple(results)

    def _shard_part(self, state: CacheState, request: Request) -> _ShardPart | None:
        """What a request selects of a shard, and the kept inner chunks; None if zarr-python reads it."""
        place, spec, selection = request[:3]
        codec, kind = self.array_bytes_codec, self._cache_kind(spec)
        bounds = _bounds(selection, spec.shape)
        if kind is None or bounds is None or not isinstance(codec, ShardingCodec):
            return None
        shape = codec.chunk_shape
        part = _ShardPart(place, spec, kind, shape, selection, bounds)
        ranges = [range(first // n, -(-stop // n)) for (first, stop), n in zip(bounds, shape, strict=True)]
        for chunk in product(*ranges):
            data = state.in_memory_as(place.path, (*kind, chunk))
            if data is None:
                part.missing.append(chunk)
            else:
                part.chunks[chunk] = np.frombuffer(data, kind[2]).reshape(shape)
        return part

    async def _decode_inner(self, state: CacheState, part: _ShardPart) -> bool:
        """Decode the smallest box with the missing inner chunks, and keep these; False without a shard."""
        codec: Any = self.array_bytes_codec
        spans = [range(min(axis), max(axis) + 1) for axis in zip(*part.missing, strict=True)]
        box = [slice(span[0] * n, (span[-1] + 1) * n) for span, n in zip(spans, part.shape, strict=True)]
        version = state.version_of(part.place.path)
        (decoded,) = await codec.decode_partial([(part.place, tuple(box), part.spec)])
        if decoded is None:
            return False
        values, dtype = decoded.as_numpy_array(), part.kind[2]
        for chunk in product(*spans):
            first = [(at - span[0]) * n for at, span, n in zip(chunk, spans, part.shape, strict=True)]
            inner = values[tuple(slice(at, at + n) for at, n in zip(first, part.shape, strict=True))]
            part.chunks[chunk] = inner
            if version is not None and inner.dtype.newbyteorder("=") == dtype.newbyteorder("="):
                data = _own_bytes(inner, dtype)
                state.remember_as(part.place.path, (*part.kind, chunk), data, version, instead=False)
        return True

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
                _fill(out, request, chunk[request[2]], drop_axes)
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


def _fill(out: NDBuffer, request: Request, part: Any, drop_axes: Sequence[int]) -> None:
    """Put what a request selects of a chunk to its place in the result."""
    if drop_axes:
        part = part.squeeze(axis=tuple(drop_axes))
    out[request[3]] = request[1].prototype.nd_buffer.from_numpy_array(part)


@dataclass(frozen=True, slots=True)
class _ShardPart:
    """What a request selects of a shard."""

    place: StorePath
    spec: ArraySpec
    kind: tuple[str, tuple[int, ...], np.dtype[Any]]
    shape: tuple[int, ...]
    """Of an inner chunk."""
    selection: Any
    bounds: list[tuple[int, int]]
    """First index and end along each axis."""
    chunks: dict[tuple[int, ...], np.ndarray[Any, Any]] = field(default_factory=dict)
    """The inner chunks by their coordinates in the shard."""
    missing: list[tuple[int, ...]] = field(default_factory=list)

    def selected(self) -> np.ndarray[Any, Any]:
        """The values, when no chunk is missing."""
        region = np.empty([stop - first for first, stop in self.bounds], self.kind[2])
        for chunk, values in self.chunks.items():
            here, there = [], []
            for at, n, (first, stop) in zip(chunk, self.shape, self.bounds, strict=True):
                begin, end = max(at * n, first), min((at + 1) * n, stop)
                there.append(slice(begin - first, max(end, begin) - first))
                here.append(slice(begin - at * n, max(end, begin) - at * n))
            region[tuple(there)] = values[tuple(here)]
        steps = (slice(None, None, each.step) if isinstance(each, slice) else 0 for each in self.selection)
        part: np.ndarray[Any, Any] = region[tuple(steps)]
        return part


def _bounds(selection: Any, shape: Sequence[int]) -> list[tuple[int, int]] | None:
    """First index and end along each axis of a selection by numbers and slices; None for any other."""
    bounds = []
    for each, length in zip(selection, shape, strict=True):
        if isinstance(each, slice):
            first, stop, step = each.indices(length)
            if step < 1 or first >= stop:
                return None
            bounds.append((first, stop))
        elif isinstance(each, int | np.integer):
            bounds.append((int(each), int(each) + 1))
        else:
            return None
    return bounds


def _own_bytes(chunk: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> memoryview:
    """The bytes of a chunk in C order, which nobody else can write to."""
    whole = np.ascontiguousarray(chunk, dtype)
    if whole is chunk and not (chunk.base is None and chunk.flags.owndata):
        whole = chunk.copy()
    return whole.reshape(-1).view(np.uint8).data.toreadonly()
