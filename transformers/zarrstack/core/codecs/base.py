"""What a codec is, once compiled: plain synchronous functions on buffers and arrays.

Every decode is told how large its result may be and refuses more *before* it unpacks,
so that neither a damaged header nor a bomb costs more memory than the chunk it claims
to be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, cast

from ..errors import ChunkError
from ..json_text import JSON

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..chain.codec_spec import CodecSpec
    from ..data_types.v3 import DataType

Buffer: TypeAlias = "bytes | bytearray | memoryview | npt.NDArray[Any]"
"""Contiguous memory; arrays are one-dimensional uint8."""


def memory(data: Buffer) -> memoryview:
    """A view of the bytes, for functions that take no array."""
    # numpy says that arrays are buffers to type checkers of Python 3.12 and later only.
    return memoryview(cast("bytes", data))


OBJECT_LIMIT = 1 << 30
"""The most bytes, one GiB, that one leaf of variable-length data unpacks to unless the caller says more."""

HEAD_BYTES = 64
TAIL_BYTES = 16
"""How much of a payload's ends `check` is given; enough for every codec's header and trailer."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many bytes a value holds: exactly `at_most`, or anything up to it."""

    at_most: int
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user allows; it is no part of a chain, and the same for every codec of it."""

    object_limit: int = OBJECT_LIMIT
    """Bytes that one leaf of variable-length data may unpack to."""
    allow_pickle: bool = False
    """Whether pickles may be loaded, which runs whatever code they name."""
    fill_value: JSON = None
    """What missing inner chunks of a shard hold, in the data type's v3 JSON form; None is its zero."""


DEFAULT_OPTIONS = Options()


@dataclass(frozen=True, slots=True)
class Leaf:
    """The array one codec chain encodes: a whole chunk, or an inner chunk of a shard."""

    shape: tuple[int, ...]
    data_type: DataType

    @property
    def items(self) -> int:
        """Number of elements."""
        count = 1
        for length in self.shape:
            count *= length
        return count


class Ends(NamedTuple):
    """The first and last bytes of a stored payload and its length, without the rest.

    A tuple, since one is made for every chunk that moves: a frozen dataclass takes three times as long.
    """

    head: bytes
    tail: bytes
    length: int

    @classmethod
    def of(cls, data: Buffer) -> Ends:
        """The ends of a payload that is in memory."""
        if isinstance(data, bytes):
            return cls(data[:HEAD_BYTES], data[-TAIL_BYTES:], len(data))
        view = memory(data)
        return cls(bytes(view[:HEAD_BYTES]), bytes(view[-TAIL_BYTES:]), len(view))


class BytesCodec(ABC):
    """A compiled bytes-to-bytes codec; stateless and safe to share between threads."""

    spec: CodecSpec

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; raises MetadataError (bad configuration), UnsupportedError (known, unusable).

        `item` is what the decoded buffer's items are, where that is known: some codecs
        take the element size or type from it if their configuration does not say.
        """

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        """What the encoded buffer's items are; None once they are no longer items."""
        return None

    @abstractmethod
    def encoded_size(self, decoded: Size) -> Size:
        """Size of the encoded form of a value of the given size (exact only if it always is)."""

    @abstractmethod
    def encode(self, data: Buffer) -> Buffer:
        """Encode one payload; the same input gives the same bytes."""

    @abstractmethod
    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode one payload to at most `decoded.at_most` bytes, exactly that many if exact.

        Raises ChunkError for anything else: garbage, truncation, trailing bytes, too large.
        """

    def check(self, ends: Ends, decoded: Size) -> bool:
        """Look at what the payload says about itself; ChunkError where it cannot fit.

        True: nothing speaks against it. False: only decoding can tell (a gzip payload
        whose size trailer differs may be truncated, or may hold several members).
        """
        return _require_length(self.spec.name, ends, self.encoded_size(decoded))

    def inner_ends(self, ends: Ends) -> Ends | None:
        """The ends of the decoded payload, where they can be seen without decoding; else None."""
        return None


class ArrayCodec(ABC):
    """A compiled array-to-bytes codec for one kind of leaf."""

    spec: CodecSpec
    leaf: Leaf

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: CodecSpec, leaf: Leaf, options: Options = DEFAULT_OPTIONS) -> Self:
        """Compile for a leaf (its shape already transposed); errors as for `BytesCodec`."""

    @property
    def item(self) -> np.dtype[Any] | None:
        """What the encoded buffer's items are, byte order included; None if there are none."""
        return None

    @property
    @abstractmethod
    def size(self) -> Size:
        """Size of one encoded leaf; for variable-length data the most this project will unpack."""

    @abstractmethod
    def encode(self, array: np.ndarray[Any, Any]) -> Buffer:
        """Encode an array of the leaf's shape."""

    @abstractmethod
    def decode(self, data: Buffer) -> np.ndarray[Any, Any]:
        """Decode to an array of the leaf's shape; ChunkError where the bytes do not fit.

        The array may be a read-only view of `data` in the stored byte order: `Pipeline`
        makes it native and undoes transposes in one step.
        """

    def check(self, ends: Ends) -> bool:
        """Look at what the payload says about itself; as for `BytesCodec`."""
        return _require_length(self.spec.name, ends, self.size)


def _require_length(codec: str, ends: Ends, encoded: Size) -> bool:
    if encoded.exact and ends.length != encoded.at_most:
        raise ChunkError(
            f"{codec}: the payload has the wrong length",
            found=f"{ends.length} bytes",
            expected=f"{encoded.at_most} bytes",
        )
    return True
