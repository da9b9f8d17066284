"""Helpers of all codecs: views of buffers, and errors for wrong sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from zarrstack.core.errors import ChunkError, MetadataError

from .base import Size

if TYPE_CHECKING:
    import numpy.typing as npt

    from .base import Buffer

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
