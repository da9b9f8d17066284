"""What a codec is, once compiled: plain synchronous functions on buffers and arrays.

Every decode is told how large its result may be and refuses more *before* it unpacks,
so that neither a damaged header nor a bomb costs more memory than the chunk it claims
to be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..chain import CodecSpec
    from ..dtypes import DataType

Buffer: TypeAlias = "bytes | bytearray | memoryview | npt.NDArray[Any]"
"""Contiguous memory; arrays are one-dimensional uint8."""

HEAD_BYTES = 64
TAIL_BYTES = 16
"""How much of a payload's ends `check` is given; enough for every codec's header and trailer."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many bytes a value holds: exactly `at_most`, or anything up to it."""

    at_most: int
    exact: bool


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


@dataclass(frozen=True, slots=True)
class Ends:
    """The first and last bytes of a stored payload and its length, without the rest."""

    head: bytes
    tail: bytes
    length: int

    @classmethod
    def of(cls, data: Buffer) -> Ends:
        """The ends of a payload that is in memory."""
        view = memoryview(data).cast("B")
        return cls(bytes(view[:HEAD_BYTES]), bytes(view[-TAIL_BYTES:]), len(view))


class BytesCodec(ABC):
    """A compiled bytes-to-bytes codec; stateless and safe to share between threads."""

    spec: CodecSpec

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: CodecSpec) -> Self:
        """Compile; raises MetadataError (bad configuration), UnsupportedError (known, unusable)."""

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

    def check(self, ends: Ends, decoded: Size) -> None:  # noqa: B027 - nothing to look at is a valid answer
        """Look at what the payload says about itself; ChunkError where it cannot fit."""


class ArrayCodec(ABC):
    """A compiled array-to-bytes codec for one kind of leaf."""

    spec: CodecSpec
    leaf: Leaf

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: CodecSpec, leaf: Leaf) -> Self:
        """Compile for a leaf (its shape already transposed); errors as for `BytesCodec`."""

    @property
    @abstractmethod
    def size(self) -> Size:
        """Size of one encoded leaf; for variable-length data the most this project will unpack."""

    @abstractmethod
    def encode(self, array: np.ndarray[Any, Any]) -> Buffer:
        """Encode an array of the leaf's shape."""

    @abstractmethod
    def decode(self, data: Buffer) -> np.ndarray[Any, Any]:
        """Decode to an array of the leaf's shape; ChunkError where the bytes do not fit."""

    def check(self, ends: Ends) -> None:  # noqa: B027 - nothing to look at is a valid answer
        """Look at what the payload says about itself; ChunkError where it cannot fit."""
