"""The sum, over a box of elements, of key times value."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .position_keys import BITS, MODULUS, RADIX, Digits, digit_key, key_matrix

Words: TypeAlias = npt.NDArray[Any]
"""uint8 or uint16; the last axis has the words of an element, the lowest first."""

_KEY_BITS: Final = 64
_LIMB: Final = {8: (32, 1 << 13), 16: (28, 1 << 9)}
"""By bits of a word: bits of a limb, and the most products whose sum stays below 2^53."""
_SHORT: Final = 64
"""Fewer words are summed together with those of the axis before."""
_HIGHS: Final = 256
"""Most high digits of one piece, which bounds the matrices of keys."""
_BUFFER: Final = 1 << 15
"""Words converted at a time. The products of larger ones are divided among threads by OpenBLAS."""

_local = threading.local()


class Axis(NamedTuple):
    """The place of a box along one axis."""

    axis: int
    start: int


def sum_of_box(words: Words, axes: Sequence[Axis]) -> int:
    """The sum of key times value, modulo 2^128, of the elements of a box.

    `axes` are those of `words` without the last one, in any order.
    """
    words, axes = _in_memory_order(words, axes)
    lengths = words.shape[:-1]
    last = len(axes) - 1
    cuts = [
        list(_cuts(axis.start, length, whole=place == last))
        for place, (axis, length) in enumerate(zip(axes, lengths, strict=True))
    ]
    total = 0
    for piece in product(*cuts):
        part = words[_place(piece)] if any(len(cut) > 1 for cut in cuts) else words
        starts = [Axis(a.axis, a.start + cut.start) for a, cut in zip(axes, piece, strict=True)]
        total += _sum_of_piece(part, starts)
    return total % MODULUS


def _place(piece: Sequence[slice]) -> Any:
    return (*piece, ...)


def _in_memory_order(words: Words, axes: Sequence[Axis]) -> tuple[Words, Sequence[Axis]]:
    """The same box with its axes in the order in which memory has them."""
    order = sorted(range(len(axes)), key=lambda axis: -abs(words.strides[axis]))
    if order == list(range(len(axes))):
        return words, axes
    return words.transpose(*order, len(axes)), [axes[axis] for axis in order]


def _cuts(start: int, length: int, *, whole: bool) -> Iterator[slice]:
    """Parts of an interval, each with one high digit; with `whole`, also with all low ones of some."""
    at = start
    while at < start + length:
        stop = min(at - at % RADIX + RADIX, start + length)
        if whole and at % RADIX == 0:
            stop = max(stop, min(at + _HIGHS * RADIX, (start + length) // RADIX * RADIX))
        yield slice(at - start, stop - start)
        at = stop


def _sum_of_piece(words: Words, axes: Sequence[Axis]) -> int:
    digits: list[Digits] = []
    factor = 1
    for (axis, start), length in zip(axes, words.shape, strict=False):
        high, low = divmod(start, RADIX)
        if length > RADIX:
            digits.append(Digits(axis, True, high, high + length // RADIX))
            digits.append(Digits(axis, False, 0, RADIX))
            continue
        if high:
            factor *= digit_key(Digits(axis, True, high, high + 1))
        one = Digits(axis, False, low, low + length)
        if length == 1:
            factor *= digit_key(one)
        else:
            digits.append(one)
    return _contracted(words, digits) * factor


def _contracted(words: Words, digits: list[Digits]) -> int:
    """The sum of key times value for elements with these digits, in C order."""
    word_bits, number = words.dtype.itemsize * 8, words.shape[-1]
    shifts = tuple(range(0, word_bits * number, word_bits))
    group, rest = _group(digits, number)
    bits = _KEY_BITS + shifts[-1] if len(group) < 2 else BITS
    sums: Words = words
    while True:
        limb_bits, most = _LIMB[word_bits]
        limbs = -(-min(bits, BITS) // limb_bits)
        limbs += limbs == 3  # the matrix product of four is faster
        matrix = key_matrix(group, shifts, limb_bits, limbs)
        added = _matrix_product(sums.reshape(-1, len(matrix)), matrix, most)
        if not rest:
            return sum(int(limb) << (limb_bits * place) for place, limb in enumerate(added[0]))
        # Each sum is four words; those beyond 2^128 add nothing.
        shifts = tuple(limb_bits * limb + 16 * word for limb in range(limbs) for word in range(4))
        sums = added.astype("<u8", copy=False).view("<u2")
        group, rest, word_bits, bits = tuple(rest[-1:]), rest[:-1], 16, BITS


def _group(digits: list[Digits], number: int) -> tuple[tuple[Digits, ...], list[Digits]]:
    """The last digits that are summed together first, and those before."""
    first = max(len(digits) - 1, 0)
    length = number * prod(digit.stop - digit.start for digit in digits[first:])
    while first > 0 and length < _SHORT:
        first -= 1
        length *= digits[first].stop - digits[first].start
    return tuple(digits[first:]), digits[:first]


def _matrix_product(words: Words, matrix: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.uint64]:
    """Words times matrix as whole numbers, adding at most `most` products in floating point."""
    rows, columns = words.shape
    limbs = matrix.shape[1]
    total = np.zeros((rows, limbs), dtype=np.uint64)
    buffer = _buffer()
    for column, width, parts in _columns(columns, most, rows):
        factors = matrix[column : column + width * parts].reshape(parts, width, limbs)
        step = _BUFFER // (width * parts)
        for row in range(0, rows, step):
            number = min(step, rows - row)
            numbers = buffer[: number * width * parts].reshape(number, width * parts)
            np.copyto(numbers, words[row : row + number, column : column + width * parts])
            if parts == 1:
                total[row : row + number] += (numbers @ factors[0]).astype(np.uint64)
            else:
                products = numbers.reshape(number, parts, width).transpose(1, 0, 2) @ factors
                total[row : row + number] += products.astype(np.uint64).sum(axis=0)
    return total


def _columns(columns: int, most: int, rows: int) -> Iterator[tuple[int, int, int]]:
    """(first, width, number) of parts of the columns; several together if there are few rows."""
    together = max(min(_BUFFER // most // rows, columns // most), 1)
    at = 0
    while at < columns:
        width = min(most, columns - at)
        parts = max(min(together, (columns - at) // width), 1)
        yield at, width, parts
        at += width * parts


def _buffer() -> npt.NDArray[np.float64]:
    buffer: npt.NDArray[np.float64] | None = getattr(_local, "buffer", None)
    if buffer is None:
        buffer = _local.buffer = np.empty(_BUFFER)
    return buffer
