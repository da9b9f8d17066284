"""Keys of positions, as matrices of whole numbers in float64.

The key of an element is the product, modulo 2^128, of one odd 64-bit number per axis and digit: a coordinate
is divided into a low digit below 1024 and a high digit. Values times keys can therefore be summed along one
axis after another, in any order, and the sum along an axis is a matrix product.

Floating-point arithmetic is exact here: a word of a value has 8 or 16 bits, a limb of a key 32 or 28, and so
few products are added that a sum stays below 2^53.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

RADIX: Final = 1024
"""Low digits of a coordinate."""
BITS: Final = 128
MODULUS: Final = 1 << BITS
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)

Numbers: TypeAlias = npt.NDArray[np.uint64]


class Digits(NamedTuple):
    """Consecutive numbers of one digit of an axis."""

    axis: int
    high: bool
    start: int
    stop: int


def digit_key(digit: Digits) -> int:
    """The key of the first number."""
    return int(_numbers(digit)[0])


def key_of(axis: int, coordinate: int) -> int:
    """The key of a coordinate of one axis."""
    high, low = divmod(coordinate, RADIX)
    return digit_key(Digits(axis, True, high, high + 1)) * digit_key(Digits(axis, False, low, low + 1))


@lru_cache(maxsize=256)
def sum_of_keys(axis: int, start: int, stop: int) -> int:
    """The sum of the keys of an interval of coordinates, modulo 2^128."""
    first, last = -(-start // RADIX), stop // RADIX
    if first > last:  # between two multiples
        low = Digits(axis, False, start % RADIX, stop % RADIX)
        return _sum(Digits(axis, True, last, first)) * _sum(low) % MODULUS
    ends = [
        Digits(axis, False, start - first * RADIX + RADIX, RADIX),
        Digits(axis, False, 0, stop - last * RADIX),
    ]
    highs = [Digits(axis, True, max(first - 1, 0), first), Digits(axis, True, last, last + 1)]
    whole = _sum(Digits(axis, True, first, last)) * _sum(Digits(axis, False, 0, RADIX))
    return (whole + sum(_sum(high) * _sum(low) for high, low in zip(highs, ends, strict=True))) % MODULUS


def _sum(digit: Digits) -> int:
    numbers = _numbers(digit)
    return (int((numbers >> _HALF).sum()) << 32) + int((numbers & _LOW).sum())


@lru_cache(maxsize=96)
def key_matrix(
    digits: tuple[Digits, ...], shifts: tuple[int, ...], limb_bits: int, limbs: int
) -> npt.NDArray[np.float64]:
    """The limbs of the keys of all combinations of digits (last fastest), each shifted left.

    One row for each combination and shift, the shifts fastest; limbs from the lowest.
    """
    low = np.ones(1, dtype=np.uint64)
    high = np.zeros(1, dtype=np.uint64)
    for digit in digits:
        numbers = _numbers(digit)
        low, high = _product(
            np.repeat(low, len(numbers)), np.repeat(high, len(numbers)), np.tile(numbers, len(low))
        )
    shifted = [_shifted(low, high, shift) for shift in shifts]
    lows = np.stack([pair[0] for pair in shifted], axis=-1).reshape(-1)
    highs = np.stack([pair[1] for pair in shifted], axis=-1).reshape(-1)
    matrix = np.empty((len(lows), limbs))
    mask = np.uint64((1 << limb_bits) - 1)
    for limb in range(limbs):
        least, _ = _shifted(lows, highs, -limb * limb_bits)
        matrix[:, limb] = least & mask
    matrix.setflags(write=False)
    return matrix


def _numbers(digit: Digits) -> Numbers:
    """One odd pseudo-random number for each; 1 for the high digit 0, which short axes only have."""
    counter = np.arange(digit.start, digit.stop, dtype=np.uint64)
    seed = _mixed(np.array([2 * digit.axis + digit.high + 1], dtype=np.uint64) * np.uint64(_GOLDEN))
    numbers = _mixed(seed + (counter + np.uint64(1)) * np.uint64(_GOLDEN)) | np.uint64(1)
    if digit.high and digit.start == 0 < digit.stop:
        numbers[0] = 1
    return numbers


_GOLDEN: Final = 0x9E3779B97F4A7C15


def _mixed(numbers: Numbers) -> Numbers:
    """The output function of splitmix64 (https://prng.di.unimi.it/splitmix64.c)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _product(low: Numbers, high: Numbers, factor: Numbers) -> tuple[Numbers, Numbers]:
    """(low, high) words of 128-bit numbers times 64-bit numbers, modulo 2^128."""
    a, b, c, d = low & _LOW, low >> _HALF, factor & _LOW, factor >> _HALF
    middle = (a * c >> _HALF) + (a * d & _LOW) + (b * c & _LOW)
    upper = b * d + (a * d >> _HALF) + (b * c >> _HALF) + (middle >> _HALF) + high * factor
    return (a * c & _LOW) | (middle << _HALF), upper


def _shifted(low: Numbers, high: Numbers, bits: int) -> tuple[Numbers, Numbers]:
    """(low, high) words of 128-bit numbers, shifted left by `bits`, or right if negative."""
    inner, rest = np.uint64(abs(bits) % 64), np.uint64(64 - abs(bits) % 64)
    zero = np.zeros_like(low)
    if abs(bits) >= BITS:
        return zero, zero
    if abs(bits) >= 64:
        return (zero, low << inner) if bits > 0 else (high >> inner, zero)
    if bits == 0:
        return low, high
    if bits > 0:
        return low << inner, (high << inner) | (low >> rest)
    return (low >> inner) | (high << rest), high >> inner
