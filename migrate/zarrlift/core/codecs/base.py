"""The interface of compiled codecs: plain synchronous functions on buffers and arrays.

Every decode receives the maximum size of its result and raises an error *before* it unpacks more, so neither
a damaged header nor a decompression bomb costs more memory than its chunk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias, cast

import numpy as np

from zarrstack.core.errors import ChunkError, MetadataError, UnsupportedError

from ..codec_table import require_facts

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..codec_spec import CodecSpec
    from ..data_types.v3 import DataType

Buffer: TypeAlias = "bytes | bytearray | memoryview | npt.NDArray[Any]"
"""Contiguous memory; arrays are one-dimensional uint8."""


def memory(data: Buffer) -> memoryview:
    """A view of the bytes, for functions that do not accept arrays."""
    # To type checkers, numpy arrays are buffers only from Python 3.12 on.
    return memoryview(cast("bytes", data))


OBJECT_LIMIT = 1 << 30
"""Default limit, one GiB, on the unpacked size of one inner chunk of variable-length data."""

HEAD_BYTES = 64
TAIL_BYTES = 16
"""Bytes of a payload's start and end that `check` receives; enough for every codec's header and trailer."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a value in bytes: exactly `at_most`, or up to it."""

    at_most: int
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """User settings; not part of a chain, and the same for all its codecs."""

    object_limit: int = OBJECT_LIMIT
    """Limit in bytes on the unpacked size of one inner chunk of variable-length data."""
    allow_pickle: bool = False
    """Whether pickles may be loaded, which runs any code that they name."""


DEFAULT_OPTIONS = Options()


@dataclass(frozen=True, slots=True)
class InnerChunk:
    """The array that one codec chain encodes: a whole chunk, or an inner chunk of a shard."""

    shape: tuple[int, ...]
    data_type: DataType

    @property
    def items(self) -> int:
        """Number of elements."""
        count = 1
        for length in self.shape:
            count *= length
        return count


class HeadAndTail(NamedTuple):
    """The first and last bytes of a stored payload, and its length.

    A named tuple, because one is created for every chunk that moves: a frozen dataclass takes three times as
    long.
    """

    head: bytes
    tail: bytes
    length: int

    @classmethod
    def of(cls, data: Buffer) -> HeadAndTail:
        """The ends of a payload in memory."""
        if isinstance(data, bytes):
            return cls(data[:HEAD_BYTES], data[-TAIL_BYTES:], len(data))
        view = memory(data)
        return cls(bytes(view[:HEAD_BYTES]), bytes(view[-TAIL_BYTES:]), len(view))


@dataclass(frozen=True, slots=True)
class BytesCodec(ABC):
    """A compiled bytes-to-bytes codec; stateless and safe to share between threads."""

    spec: CodecSpec

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; raises MetadataError (bad configuration), UnsupportedError (known, unusable).

        `item` is the type of the decoded buffer's items, if known: some codecs derive the element size or
        type from it if their configuration does not state it. By default, the members of the configuration
        are the fields of the class.
        """
        return cls(spec, **require_facts(spec.name).read(spec, item))

    def for_chunk(self, shape: tuple[int, ...]) -> Self:
        """The codec for inner chunks of a shape, which only codecs of images need to know."""
        return self

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        """Type of the encoded buffer's items; None if it does not consist of items."""
        return None

    def encoded_size(self, decoded: Size) -> Size:
        """Size of the encoded form of a value of the given size (exact only if it always is).

        By default a generous upper bound: actual compressors stay within a few per cent of incompressible
        input. The factor of two and the 64 KiB allow for writers that flush after every small piece, and
        still limit outer codecs in proportion to the chunk.
        """
        return Size(2 * decoded.at_most + 65536, exact=False)

    def encode(self, data: Buffer) -> Buffer:
        """Encode one payload; deterministic. UnsupportedError by default: no result uses the codec."""
        raise _only_read(self.spec)

    @abstractmethod
    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode one payload to at most `decoded.at_most` bytes, exactly that many if exact.

        Raises ChunkError for invalid, truncated or oversized payloads, and for trailing bytes unless
        `trailing_bytes` counts them.
        """

    def check(self, ends: HeadAndTail, decoded: Size) -> bool:
        """Check header and trailer of a payload; ChunkError if it cannot be valid.

        True: no contradiction found. False: only decoding can tell (a gzip payload with a different size in
        its trailer may be truncated, or may have several members).
        """
        if (encoded := self.encoded_size(decoded)).exact:
            require_length(self.spec.name, ends.length, encoded)
        return True

    def trailing_bytes(self, ends: HeadAndTail) -> int:
        """Number of bytes behind the end that a payload's header states; 0 if headers state no length.

        A payload with such bytes is valid: readers ignore them, or refuse it. `check` returns False for it.
        """
        return 0

    def streams(self, data: Buffer, decoded: Size, *, thorough: bool) -> int:
        """Number of streams of a payload that some readers refuse unless it is 1.

        Codecs that allow several return 1. Without `thorough`, the payload has passed `check`, which was
        certain, and nothing is decompressed.
        """
        return 1

    def inner_ends(self, ends: HeadAndTail) -> HeadAndTail | None:
        """The ends of the decoded payload, if known without decoding; otherwise None."""
        return None


@dataclass(frozen=True, slots=True)
class ArrayCodec(ABC):
    """A compiled array-to-bytes codec for one kind of inner chunk."""

    spec: CodecSpec
    inner_chunk: InnerChunk

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        """Compile for an inner chunk (its shape already transposed); errors as in `BytesCodec`."""

    @property
    def item(self) -> np.dtype[Any] | None:
        """Type of the encoded buffer's items, including byte order; None if there are none."""
        return None

    @property
    @abstractmethod
    def size(self) -> Size:
        """Size of one encoded inner chunk; for variable-length data, the limit for unpacking."""

    def encode(self, array: np.ndarray[Any, Any]) -> Buffer:
        """Encode an array of the inner chunk's shape; UnsupportedError as in `BytesCodec`."""
        raise _only_read(self.spec)

    @abstractmethod
    def decode(self, data: Buffer) -> np.ndarray[Any, Any]:
        """Decode to an array of the inner chunk's shape; ChunkError if the bytes do not match it.

        The array may be a read-only view of `data` in the stored byte order: `Pipeline` converts it to native
        order and undoes transposes in one step.
        """

    def check(self, ends: HeadAndTail) -> bool:
        """Check header and trailer of a payload; see `BytesCodec.check`."""
        if self.size.exact:
            require_length(self.spec.name, ends.length, self.size)
        return True


@dataclass(frozen=True, slots=True)
class ObjectCodec(ArrayCodec):
    """Base class of codecs for variable-length data."""

    limit: int
    """Limit in bytes of one inner chunk."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        require_facts(spec.name).read(spec)
        return cls(spec, inner_chunk, options.object_limit)

    @property
    def size(self) -> Size:
        return Size(self.limit, exact=False)

    def _fault(self, what: str) -> ChunkError:
        return ChunkError(f"{self.spec.name}: the payload does not decode", found=what[:200])


def _only_read(spec: CodecSpec) -> UnsupportedError:
    return UnsupportedError(
        f"codec {spec.name!r} is read, but not written",
        found=str(spec),
        advice="Choose other codecs for this array, such as --codecs portable.",
    )


# ----- views of buffers, and errors for wrong sizes

MIN_STEP: Final = 1 << 20
STEPS: Final = 16
"""Minimum bytes per step, and number of steps, in which a large stream is unpacked."""


def octets(data: Buffer) -> npt.NDArray[np.uint8]:
    """The buffer as a one-dimensional uint8 array, without a copy."""
    if isinstance(data, np.ndarray):
        return cast("npt.NDArray[np.uint8]", data.reshape(-1).view(np.uint8))
    return np.frombuffer(data, dtype=np.uint8)


def items_as_octets(array: np.ndarray[Any, Any]) -> npt.NDArray[np.uint8]:
    """The memory of a C-contiguous array of any fixed-size type as uint8, without a copy."""
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    return cast("npt.NDArray[np.uint8]", array.reshape(-1).view(np.uint8))


def buffer_length(data: Buffer) -> int:
    """Length of a buffer in bytes."""
    return data.nbytes if isinstance(data, np.ndarray | memoryview) else len(data)


def elements_of(codec: str, decoded: Size, itemsize: int) -> int:
    """Maximum number of elements of a chunk of this size; MetadataError if it cannot be an integer."""
    count, rest = divmod(decoded.at_most, itemsize)
    if rest and decoded.exact:
        raise MetadataError(
            f"{codec}: the chunk is not a whole number of elements",
            found=f"{decoded.at_most} bytes",
            expected=f"a multiple of {itemsize}",
        )
    return count


def elements_in(codec: str, length: int, itemsize: int) -> int:
    """Number of elements in a payload of `length` bytes; ChunkError if it is not an integer."""
    count, rest = divmod(length, itemsize)
    if rest:
        raise ChunkError(
            f"{codec}: the payload is not a whole number of elements",
            found=f"{length} bytes",
            expected=f"a multiple of {itemsize}",
        )
    return count


def bytes_text(size: Size) -> str:
    """A `Size` as text."""
    return f"{size.at_most} bytes" if size.exact else f"at most {size.at_most} bytes"


def require_length(codec: str, length: int, encoded: Size) -> None:
    """Raise ChunkError unless a payload of `length` bytes may be an encoded one."""
    if length > encoded.at_most or (encoded.exact and length != encoded.at_most):
        raise ChunkError(
            f"{codec}: the payload has the wrong length",
            found=f"{length} bytes",
            expected=bytes_text(encoded),
        )


def require_fit(codec: str, count: int, decoded: Size) -> None:
    """Raise ChunkError unless `decoded` allows `count` decoded bytes."""
    if count > decoded.at_most or (decoded.exact and count != decoded.at_most):
        raise ChunkError(
            f"{codec}: the payload unpacks to the wrong size",
            found=f"{count} bytes",
            expected=bytes_text(decoded),
        )


def require_stated(codec: str, stated: int, decoded: Size, *, exact: bool = True) -> None:
    """Raise ChunkError for a stated size that the chunk cannot have: a larger one, or if `exact` another."""
    if stated > decoded.at_most or (exact and decoded.exact and stated != decoded.at_most):
        raise ChunkError(
            f"{codec}: the payload states a size that its chunk cannot have",
            found=f"{stated} bytes",
            expected=bytes_text(decoded),
        )


def too_large(codec: str, decoded: Size) -> ChunkError:
    """The error for a payload that would unpack to more than its chunk may hold."""
    return ChunkError(
        f"{codec}: the payload unpacks to more than its chunk holds",
        found=f"more than {decoded.at_most} bytes",
        expected=bytes_text(decoded),
    )


def found(place: str) -> Any:
    """What the table of codecs names as `module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module, __package__), name)
