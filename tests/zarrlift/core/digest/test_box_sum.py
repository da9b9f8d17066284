"""The sums of matrices are those of the formula, evaluated element by element with Python's integers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.digest.box_sum import Axis, sum_of_box
from zarrlift.core.digest.position_keys import MODULUS, key_of, sum_of_keys

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mixed(number: int) -> int:
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


def digit(axis: int, high: bool, number: int) -> int:
    if high and number == 0:
        return 1
    seed = mixed(((2 * axis + high + 1) * _GOLDEN) & _MASK)
    return mixed((seed + (number + 1) * _GOLDEN) & _MASK) | 1


def key(place: Sequence[int]) -> int:
    result = 1
    for axis, at in enumerate(place):
        result *= digit(axis, True, at // 1024) * digit(axis, False, at % 1024)
    return result % MODULUS


def by_formula(words: np.ndarray, starts: Sequence[int]) -> int:
    bits = 8 * words.dtype.itemsize
    total = 0
    for place in product(*map(range, words.shape[:-1])):
        value = sum(int(word) << (bits * at) for at, word in enumerate(words[place]))
        total += key([start + at for start, at in zip(starts, place, strict=True)]) * value
    return total % MODULUS


def words(shape: tuple[int, ...], number: int, dtype: str, *, extreme: bool = False) -> np.ndarray:
    most = np.iinfo(dtype).max
    if extreme:
        return np.full((*shape, number), most, dtype)
    return np.random.default_rng(7).integers(0, most, (*shape, number), dtype, endpoint=True)


@given(
    sides=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5000)), max_size=4),
    number=st.sampled_from([("u1", 1), ("u2", 1), ("u2", 2), ("u2", 3), ("u2", 4), ("u2", 8)]),
    axes=st.randoms(use_true_random=False),
)
def test_a_box_has_the_sum_of_the_formula(
    sides: list[tuple[int, int]], number: tuple[str, int], axes: object
) -> None:
    shape, starts = tuple(side[0] for side in sides), [side[1] for side in sides]
    values = words(shape, number[1], number[0])
    expected = by_formula(values, starts)
    places = [Axis(axis, start) for axis, start in enumerate(starts)]
    assert sum_of_box(values, places) == expected
    order = list(range(len(shape)))
    axes.shuffle(order)
    turned = np.ascontiguousarray(values.transpose(*order, len(shape)))
    assert sum_of_box(turned, [places[axis] for axis in order]) == expected


@pytest.mark.slow(one_in=6)
@pytest.mark.parametrize("number", [("u1", 1), ("u2", 1), ("u2", 2), ("u2", 4), ("u2", 8)])
@pytest.mark.parametrize(
    ("shape", "starts"),
    [
        ((3000,), (1000,)),
        ((2, 2100), (1023, 900)),
        ((2100, 1), (0, 0)),
        ((1030, 3), (1020, 0)),
        ((70, 40), (1000, 1000)),
        ((1024,), (2048,)),
        ((4, 4, 130), (0, 1022, 1)),
    ],
)
def test_long_and_large_boxes(
    shape: tuple[int, ...], starts: tuple[int, ...], number: tuple[str, int]
) -> None:
    places = [Axis(axis, start) for axis, start in enumerate(starts)]
    for extreme in (False, True):  # the largest sums that occur are exact too
        values = words(shape, number[1], number[0], extreme=extreme)
        assert sum_of_box(values, places) == by_formula(values, starts)


def test_the_largest_box_of_one_matrix_is_exact() -> None:
    shape = (257 * 1024,)
    values = words(shape, 1, "u2", extreme=True)
    expected = 65535 * sum(key((at,)) for at in range(shape[0])) % MODULUS
    assert sum_of_box(values, [Axis(0, 0)]) == expected


def test_the_key_of_a_coordinate_is_that_of_the_formula() -> None:
    for axis, at in [(0, 0), (0, 1023), (1, 1024), (2, 5_000_000_000)]:
        assert (
            key_of(axis, at) % MODULUS == key([0] * axis + [at]) * pow(key([0] * axis), -1, MODULUS) % MODULUS
        )


@given(start=st.integers(0, 6000), length=st.integers(1, 4000), axis=st.integers(0, 2))
def test_the_sum_of_keys_is_that_of_the_formula(start: int, length: int, axis: int) -> None:
    expected = sum(key_of(axis, at) for at in range(start, start + min(length, 40)))
    assert sum_of_keys(axis, start, start + min(length, 40)) == expected % MODULUS


@pytest.mark.parametrize(("start", "stop"), [(0, 5000), (1023, 1025), (1, 3072), (1024, 2048), (7, 9)])
def test_the_sum_of_keys_of_long_intervals(start: int, stop: int) -> None:
    assert sum_of_keys(1, start, stop) == sum(key_of(1, at) for at in range(start, stop)) % MODULUS
