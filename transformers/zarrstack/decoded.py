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

Values: TypeAlias = np.ndarray[Any, Any]
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
        """Fill `out`: from decoded chunks that are kept at once, then from the others."""
        default: Any = super()  # its methods return results in newer versions of zarr
        requests = list(batch_info)
        states = [_cache_of(request) for request in requests]
        if not any(states):
            return await default.read(requests, out, drop_axes)
        results: list[Any] = [{"status": "present"}] * len(requests)
        in_shards = self.supports_partial_decode
        free = asyncio.Semaphore(config.get("async.concurrency") or 1)

        async def finish(number: int, part: _ShardPart | None) -> None:
            request, values = requests[number], None
            async with free:
                if (state := _cache_of(request)) is not None:
                    if part is not None:
                        values = await self._decode_inner(state, request, part)
                    elif not in_shards:
                        values = await self._decode(state, request)
                if values is not None:
                    _fill(out, request, values, drop_axes)
                else:
                    read = await default.read([request], out, drop_axes)
                    results[number] = (*(read or ()), results[number])[0]

        others = []
        for number, (request, state) in enumerate(zip(requests, states, strict=True)):
            part, values = None, None
            if state is not None and in_shards:
                part = self._shard_part(state, request)
                values = None if part is None or part.missing else part.selected()
            elif state is not None:
                values = self._kept(state, request)
            if values is None:
                others.append(finish(number, part))
            else:
                _fill(out, request, values, drop_axes)
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

    async def _decode_inner(self, state: CacheState, request: Request, part: _ShardPart) -> Values | None:
        """Decode the smallest box with the missing inner chunks, and keep these; None without a shard."""
        codec: Any = self.array_bytes_codec
        spans = [range(min(axis), max(axis) + 1) for axis in zip(*part.missing, strict=True)]
        box = [slice(span[0] * n, (span[-1] + 1) * n) for span, n in zip(spans, part.shape, strict=True)]
        version = state.version_of(part.place.path)
        (decoded,) = await codec.decode_partial([(part.place, tuple(box), part.spec)])
        if decoded is None:
            return None
        if _cache_of(request) is not state:
            version = None  # what was read waits above the cache
        values, dtype = decoded.as_numpy_array(), part.kind[2]
        for chunk in product(*spans):
            first = [(at - span[0]) * n for at, span, n in zip(chunk, spans, part.shape, strict=True)]
            inner = values[tuple(slice(at, at + n) for at, n in zip(first, part.shape, strict=True))]
            part.chunks[chunk] = inner
            if version is not None and inner.dtype.newbyteorder("=") == dtype.newbyteorder("="):
                data = _own_bytes(inner, dtype)
                state.remember_as(part.place.path, (*part.kind, chunk), data, version, instead=False)
        return part.selected()

    def _kept(self, state: CacheState, request: Request) -> Values | None:
        """What a request selects of a chunk that is kept."""
        kind = self._cache_kind(request[1])
        data = None if kind is None else state.in_memory_as(request[0].path, kind)
        if kind is None or data is None:
            return None
        selected: Values = np.frombuffer(data, kind[2]).reshape(kind[1])[request[2]]
        return selected

    async def _decode(self, state: CacheState, request: Request) -> Values | None:
        """Decode what the store has of a chunk, and keep it; None for none, or if zarr-python reads it."""
        place, spec, selection = request[:3]
        if (kind := self._cache_kind(spec)) is None:
            return None
        version = state.version_of(place.path)
        data = await place.get(spec.prototype)
        if data is None:
            return None
        if _cache_of(request) is not state:
            version = None  # what was read waits above the cache
        (decoded,) = await self.decode([(data, spec)])
        assert decoded is not None
        chunk, dtype = decoded.as_numpy_array(), kind[2]
        same_kind = chunk.dtype.newbyteorder("=") == dtype.newbyteorder("=")
        if version is not None and chunk.shape == spec.shape and same_kind:
            state.remember_as(place.path, kind, _own_bytes(chunk, dtype), version)
        selected: Values = chunk[selection]
        return selected


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
    chunks: dict[tuple[int, ...], Values] = field(default_factory=dict)
    """The inner chunks by their coordinates in the shard."""
    missing: list[tuple[int, ...]] = field(default_factory=list)

    def selected(self) -> Values:
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
        part: Values = region[tuple(steps)]
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


def _own_bytes(chunk: Values, dtype: np.dtype[Any]) -> memoryview:
    """The bytes of a chunk in C order, which nobody else can write to."""
    whole = np.ascontiguousarray(chunk, dtype)
    if np.may_share_memory(whole, chunk) and not (chunk.base is None and chunk.flags.owndata):
        whole = whole.copy()
    return whole.reshape(-1).view(np.uint8).data.toreadonly()
