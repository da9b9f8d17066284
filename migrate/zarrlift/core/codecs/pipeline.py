"""A codec chain compiled for the inner chunks of one array.

*Position* k of a chain is after its first k codecs, counted from the array side: position 0 is the array,
`len(codecs)` the stored payload. `undo` and `apply` convert between the stored payload and a position after
the array-to-bytes codec, so that chains with a common prefix need to exchange only the remaining codecs.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zarrstack.core.errors import CastError, ChunkError, MetadataError, ZarrstackError
from zarrstack.core.json_text import canonical

from ..codec_table import SEVERAL
from .base import OBJECT_LIMIT, HeadAndTail, InnerChunk, Options, Size, memory
from .layout import in_c_order
from .registry import compile_array_codec, compile_bytes_codec

if TYPE_CHECKING:
    from ..chain.chain import Chain
    from ..codec_spec import CodecSpec
    from ..data_types.v3 import DataType
    from .base import Buffer

    Array = np.ndarray[Any, Any]


_FLOOR: Final = 64 << 20
_PER_ITEM: Final = 8
_RATIO: Final = 64
"""Limits on the unpacked size of an inner chunk of variable-length data: the larger of `_FLOOR` plus
`_PER_ITEM` bytes per item (the lengths alone take 4) and `_RATIO` times its stored size. Genuine text
compresses to a twentieth; a decompression bomb of a kilobyte per megabyte must not fill the memory before
its first item is checked.
"""


_SLACK: Final = 64 << 10


class Pipeline:
    """A compiled chain for inner chunks of one shape and data type; thread-safe."""

    __slots__ = (
        "_array_codec",
        "_bytes_codecs",
        "_first",
        "_has_streams",
        "_inverse",
        "_native",
        "_order",
        "_shape",
        "chain",
        "sizes",
    )

    chain: Chain
    sizes: tuple[Size, ...]
    """Size of the value at every position; up to the array-to-bytes codec, of the array's items."""

    def __init__(
        self,
        chain: Chain,
        shape: tuple[int, ...],
        data_type: DataType,
        *,
        object_limit: int = OBJECT_LIMIT,
        allow_pickle: bool = False,
    ) -> None:
        """Compile; raises the codecs' MetadataError and UnsupportedError.

        `object_limit` limits the unpacked size in bytes of one inner chunk of variable-length data; for
        fixed-size data the shape determines it.
        """
        middle = chain.middle
        self.chain = chain
        self._first = middle + 1
        self._has_streams = any(spec.name in SEVERAL for spec in chain.codecs)
        self._shape = shape
        self._native = data_type.numpy
        self._order = axes_order(chain, len(shape))
        self._inverse = None if self._order is None else tuple(map(int, np.argsort(self._order)))
        inner = shape if self._order is None else tuple(shape[axis] for axis in self._order)
        options = Options(object_limit=object_limit, allow_pickle=allow_pickle)
        self._array_codec = compile_array_codec(chain.codecs[middle], InnerChunk(inner, data_type), options)

        item = self._array_codec.item
        size = self._array_codec.size
        whole = size
        if not self._native.hasobject:
            whole = Size(InnerChunk(shape, data_type).items * self._native.itemsize, exact=True)
        sizes = [whole] * (middle + 1) + [size]
        codecs = []
        for spec in chain.codecs[middle + 1 :]:
            codec = compile_bytes_codec(spec, item).for_chunk(inner)
            item = codec.encoded_item(item)
            size = codec.encoded_size(size)
            codecs.append(codec)
            sizes.append(size)
        self._bytes_codecs = tuple(codecs)
        self.sizes = tuple(sizes)

    @property
    def most_stored(self) -> int:
        """Limit in bytes on a stored payload.

        Slightly more than twice the largest encoded size of an inner chunk: a valid stream may contain more
        than an encoder needs, such as empty blocks and skippable frames. For variable-length data, half of
        `object_limit`, so that the stored and the decoded data together stay within it.
        """
        values = self.sizes[self._first]
        if self._native.hasobject and not values.exact:
            return values.at_most // 2
        return 2 * self.sizes[-1].at_most + _SLACK

    def decode(self, data: Buffer, position: int | None = None) -> Array:
        """Decode to an inner chunk: its shape, native byte order, C-contiguous; read-only if it is `data`.

        `position` is the position of `data`; None for the end of the chain. ChunkError for any invalid
        payload.
        """
        data = self.undo(data, self._first, position)
        try:
            array = self._array_codec.decode(data)
        except (ZarrstackError, MemoryError):
            raise
        except Exception as error:
            raise _unforeseen(self.chain.codecs[self.chain.middle], error) from error
        if self._inverse is not None:
            array = array.transpose(self._inverse)
        return in_c_order(array, self._native)

    def encode(self, array: Array) -> Buffer:
        """Encode an inner chunk, which must have the inner chunk's shape and data type, in any byte order.

        Raises CastError for an array that the chain cannot represent without loss.
        """
        if array.shape != self._shape:
            raise CastError("not an array of this chunk", found=str(array.shape), expected=str(self._shape))
        if self._order is not None:
            array = array.transpose(self._order)
        return self.apply(self._array_codec.encode(array), self._first)

    def undo(self, data: Buffer, start: int, position: int | None = None) -> Buffer:
        """Convert a payload to position `start` by undoing `chain.codecs[start:]`; see `decode`."""
        first = self._first
        sizes = self.sizes_for(memory(data).nbytes)
        for index in range(self._end(position) - 1, self._place(start) - 1, -1):
            try:
                data = self._bytes_codecs[index - first].decode(data, sizes[index])
            except (ZarrstackError, MemoryError):
                raise
            except Exception as error:
                raise _unforeseen(self.chain.codecs[index], error) from error
        return data

    def sizes_for(self, stored: int) -> tuple[Size, ...]:
        """`sizes` for one payload of `stored` bytes, limited to plausible sizes for variable-length data."""
        if self.sizes[self._first].exact:
            return self.sizes
        most = max(_FLOOR + _PER_ITEM * prod(self._shape), _RATIO * stored)
        return tuple(
            size if size.exact else Size(min(size.at_most, most), exact=False) for size in self.sizes
        )

    def apply(self, data: Buffer, start: int) -> Buffer:
        """Convert data at position `start` to a payload: the inverse of `undo`."""
        for codec in self._bytes_codecs[self._place(start) - self._first :]:
            data = codec.encode(data)
        return data

    def check(self, ends: HeadAndTail, position: int | None = None) -> bool:
        """Check headers and trailers of a payload in microseconds; ChunkError if it cannot be valid.

        `position` is as in `decode`. The outermost codec checks the payload, and so do the codecs inside a
        checksum, which exposes their ends. False: only decoding can tell (see `BytesCodec.check`); in that
        case, `undo` to the innermost relevant position, or use `check_whole`.
        """
        first = self._first
        certain = True
        for index in range(self._end(position) - 1, first - 1, -1):
            codec = self._bytes_codecs[index - first]
            certain = codec.check(ends, self.sizes[index]) and certain
            inner = codec.inner_ends(ends)
            if inner is None:
                return certain
            ends = inner
        return self._array_codec.check(ends) and certain

    def check_whole(self, data: Buffer, position: int | None = None) -> Buffer:
        """Like `check` for a payload in memory, which is decoded if necessary.

        Returns the payload, without the bytes behind the end that its header states. ChunkError for one of
        several streams, unless the codec allows them.
        """
        certain = self.check(HeadAndTail.of(data), position)
        if not certain:
            data = self._without_trailing_bytes(data, position)
            if not self.check(HeadAndTail.of(data), position):
                self.decode(data, position)
        if (several := self.several_streams(data, position, thorough=not certain)) is not None:
            place, count = several
            raise ChunkError(
                f"{self.chain.codecs[place].name}: the payload has several streams; some readers refuse it",
                found=str(count),
                expected="1, as in the chunks that were looked at for the plan",
                advice="Migrate the array with --codecs, such as --codecs zstd:3, which encodes it again.",
            )
        return data

    def several_streams(
        self, data: Buffer, position: int | None = None, *, thorough: bool = False
    ) -> tuple[int, int] | None:
        """The outermost codec with several streams in a payload, by its place, and their number; or None.

        Inside a checksum, the payload that it protects is looked at. `thorough` is that of
        `BytesCodec.streams`.
        """
        if not self._has_streams:
            return None
        sizes = self.sizes_for(memory(data).nbytes)
        for index in range(self._end(position) - 1, self._first - 1, -1):
            codec = self._bytes_codecs[index - self._first]
            count = codec.streams(data, sizes[index], thorough=thorough)
            if count != 1:
                return index, count
            if codec.inner_ends(HeadAndTail.of(data)) is None:
                return None
            data = codec.decode(data, sizes[index])
        return None

    def trailing_bytes(self, data: Buffer) -> int:
        """The number of bytes of a payload behind the end that its header states."""
        return self._bytes_codecs[-1].trailing_bytes(HeadAndTail.of(data)) if self._bytes_codecs else 0

    def _without_trailing_bytes(self, data: Buffer, position: int | None) -> Buffer:
        """A payload without trailing bytes, of itself or, inside of checksums, of what they protect."""
        first, end = self._first, self._end(position)
        ends = HeadAndTail.of(data)
        for index in range(end - 1, first - 1, -1):
            codec = self._bytes_codecs[index - first]
            if surplus := codec.trailing_bytes(ends):
                data = memory(self.undo(data, index + 1, position))[:-surplus]
                for outer in self._bytes_codecs[index + 1 - first : end - first]:
                    data = outer.encode(data)
                return data
            inner = codec.inner_ends(ends)
            if inner is None:
                break
            ends = inner
        return data

    def _end(self, position: int | None) -> int:
        return len(self.chain.codecs) if position is None else self._place(position)

    def _place(self, start: int) -> int:
        if not self._first <= start <= len(self.chain.codecs):
            raise ValueError(f"position {start} is not behind the array-to-bytes codec of {self.chain}")
        return start


def axes_order(chain: Chain, ndim: int) -> tuple[int, ...] | None:
    """The combined transposes of a chain for `ndim` axes, or None if they have no effect; MetadataError."""
    return _composed([_axes(spec, ndim) for spec in chain.codecs[: chain.middle]], ndim)


def _axes(spec: CodecSpec, ndim: int) -> tuple[int, ...]:
    """The permutation of a `transpose` codec.

    https://zarr-specs.readthedocs.io/en/latest/v3/codecs/transpose/ : axis i of the encoded array is axis
    order[i] of the decoded one. "C" and "F" are from earlier drafts.
    """
    order = spec.configuration.get("order")
    if order == "C":
        return tuple(range(ndim))
    if order == "F":
        return tuple(reversed(range(ndim)))
    if (
        not isinstance(order, list | tuple)
        or any(isinstance(axis, bool) or not isinstance(axis, int) for axis in order)
        or sorted(order) != list(range(ndim))
    ):
        raise MetadataError(
            "codec 'transpose': the order is not a permutation of the axes",
            found=canonical(order),
            expected=f"each of 0 to {ndim - 1} once" if ndim else "no axes",
        )
    return tuple(order)


def _composed(orders: list[tuple[int, ...]], ndim: int) -> tuple[int, ...] | None:
    """Combine transposes; None if they have no effect."""
    result = tuple(range(ndim))
    for order in orders:
        result = tuple(result[axis] for axis in order)
    return None if result == tuple(range(ndim)) else result


def _unforeseen(spec: CodecSpec, error: Exception) -> ChunkError:
    return ChunkError(
        f"{spec.name}: the payload does not decode", found=f"{type(error).__name__}: {error}"[:200]
    )
