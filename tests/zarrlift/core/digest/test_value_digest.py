"""What a digest depends on, and what it does not."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.data_types.v3 import DataType, fill_to_json
from zarrlift.core.digest.box_sum import Axis, sum_of_box
from zarrlift.core.digest.position_keys import MODULUS, key_of, sum_of_keys
from zarrlift.core.digest.value_digest import ArrayDigest, BlockSums, ValueSums, block_shape
from zarrstack.core.errors import MetadataError, UnsupportedError

TYPES = (
    "bool", "int8", "uint16", "float16", "float32", "int64", "float64", "complex64", "complex128",
)  # fmt: skip


def whole(shape: tuple[int, ...]) -> list[slice]:
    return [slice(0, length) for length in shape]


def digest(values: np.ndarray, data_type: str | dict = "uint16", fill: object = 0) -> ArrayDigest:
    kind = DataType.from_json(data_type)
    adder = ValueSums(values.shape, kind, fill)
    sums = BlockSums()
    adder.add(sums, whole(values.shape), values)
    return adder.digest(sums)


def random_values(shape: tuple[int, ...], data_type: str) -> np.ndarray:
    dtype = np.dtype(data_type)
    if dtype.kind == "b":
        return np.random.default_rng(3).integers(0, 2, shape).astype(bool)
    raw = np.random.default_rng(3).integers(0, 256, (*shape, dtype.itemsize), "u1")
    return raw.view(dtype)[..., 0]


def json_fill(values: np.ndarray, data_type: str) -> object:
    return fill_to_json(values.reshape(-1)[0], DataType.from_json(data_type))


shapes = st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple)


@given(shape=shapes, data_type=st.sampled_from(TYPES), data=st.data())
def test_any_partition_in_any_order_with_missing_chunks_has_the_same_digest(
    shape: tuple[int, ...], data_type: str, data: st.DataObject
) -> None:
    values = random_values(shape, data_type)
    fill = json_fill(values, data_type)
    values[tuple(slice(0, max(length // 2, 1)) for length in shape)] = values.reshape(-1)[0]
    expected = digest(values, data_type, fill)
    chunks = tuple(data.draw(st.integers(1, length)) for length in shape)
    counts = tuple(-(-a // b) for a, b in zip(shape, chunks, strict=True))
    adder = ValueSums(shape, DataType.from_json(data_type), fill)
    parts = [BlockSums(), BlockSums()]
    for number in data.draw(st.permutations(range(prod(counts)))):
        place = np.unravel_index(number, counts)
        region = [
            slice(int(at) * c, min((int(at) + 1) * c, n))
            for at, c, n in zip(place, chunks, shape, strict=True)
        ]
        part = values[tuple(region)]
        if part.tobytes() == np.full(part.shape, values.reshape(-1)[0]).tobytes():
            continue  # as if it were missing
        if number % 2:
            part = np.asfortranarray(part)
        if number % 3 == 0:
            part = part.astype(part.dtype.newbyteorder(">"))
        adder.add(parts[number % 2], region, part)
    parts[0].update(BlockSums.from_bytes(pickle.loads(pickle.dumps(parts[1])).to_bytes()))
    assert adder.digest(parts[0]) == expected
    assert adder.digest(parts[0]).text == expected.text


@given(shape=shapes, data_type=st.sampled_from(TYPES), data=st.data())
def test_every_flipped_bit_changes_the_digest(
    shape: tuple[int, ...], data_type: str, data: st.DataObject
) -> None:
    values = random_values(shape, data_type)
    before = digest(values, data_type, json_fill(values, data_type))
    raw = np.ascontiguousarray(values).reshape(-1).view("u1").copy()
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= 1 << (0 if data_type == "bool" else data.draw(st.integers(0, 7)))
    flipped = raw.view(values.dtype).reshape(shape)
    after = digest(flipped, data_type, json_fill(values, data_type))
    assert after.text != before.text
    assert list(after.differing_blocks(before)) == [0]


def test_every_bit_counts_where_two_are_flipped() -> None:
    values = np.zeros((40, 30), "uint64")
    seen = set()
    for bit in (0, 31, 63):
        for other in (1, 29, 30, 600, 1199):
            flipped = values.copy()
            flipped.flat[[0, other]] = 1 << bit
            seen.add(digest(flipped, "uint64").text)
    assert len(seen) == 15
    assert digest(values, "uint64").text not in seen


def test_places_count() -> None:
    values = np.random.default_rng(0).integers(0, 1000, (64, 64), "uint16")
    texts = {
        digest(changed).text
        for changed in (
            values,
            values[::-1],
            values[:, ::-1],
            values.T,
            np.roll(values, 1, axis=0),
            np.roll(values, 1, axis=1),
            np.roll(values, 32, axis=1),
            values[np.r_[1, 0, 2:64]],
            values[:, np.r_[1, 0, 2:64]],
        )
    }
    assert len(texts) == 9


def test_shape_type_and_fill_value_are_in_the_header() -> None:
    zeros = np.zeros(12, "uint16")
    texts = {
        digest(zeros).text,
        digest(zeros.reshape(3, 4)).text,
        digest(zeros.view("int16"), "int16").text,
        digest(zeros, fill=1).text,
    }
    assert len(texts) == 4
    assert not digest(zeros).blocks
    assert digest(zeros, fill=1).blocks


@pytest.mark.parametrize("text", ["NaN", "0x7fc00001", "-0.0", "Infinity"])
def test_fill_values_are_compared_by_their_bits(text: str) -> None:
    fill = float(text) if text == "-0.0" else text
    kind = DataType.from_json("float32")
    bits = {"NaN": 0x7FC00000, "0x7fc00001": 0x7FC00001, "-0.0": 0x80000000, "Infinity": 0x7F800000}[text]
    values = np.full(9, bits, "u4").view("f4")
    assert not digest(values, "float32", fill).blocks
    values.view("u4")[4] ^= 1
    assert digest(values, "float32", fill).blocks
    assert ValueSums((9,), kind, fill).digest(BlockSums()).fill_value == bits.to_bytes(4, "little").hex()


def test_zero_and_minus_zero_are_two_values() -> None:
    assert digest(np.array([0.0]), "float64").text != digest(np.array([-0.0]), "float64").text


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (
            {"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}},
            np.array([b"ab", b"abcde"]),
        ),
        (
            {"name": "null_terminated_bytes", "configuration": {"length_bytes": 37}},
            np.array([b"a" * 37, b"b"], "S37"),
        ),
        ({"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}}, np.array(["äöü", "x"])),
        ({"name": "raw_bytes", "configuration": {"length_bytes": 3}}, np.array([b"\1\2\3", b"\0\0\1"], "V3")),
        (
            {"name": "numpy.datetime64", "configuration": {"unit": "ns", "scale_factor": 1}},
            np.array(["2020-01-01", "NaT"], "M8[ns]"),
        ),
        (
            {
                "name": "structured",
                "configuration": {"fields": [["a", "int16"], ["b", "float64"], ["c", "bool"]]},
            },
            np.array([(1, 2.5, True), (-3, np.nan, False)], [("a", "i2"), ("b", "f8"), ("c", "?")]),
        ),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_other_types_of_fixed_length(data_type: dict, values: np.ndarray) -> None:
    kind = DataType.from_json(data_type)
    fill = fill_to_json(values[1], kind)
    one = digest(values, data_type, fill)
    assert one.blocks
    assert digest(values[::-1], data_type, fill).text != one.text
    assert not digest(values[[1, 1]], data_type, fill).blocks
    swapped = values.astype(values.dtype.newbyteorder(">"))
    assert digest(swapped, data_type, fill) == one


def test_padding_between_fields_does_not_count() -> None:
    fields = [("a", "u1"), ("b", "<f4")]
    data_type = {"name": "structured", "configuration": {"fields": [["a", "uint8"], ["b", "float32"]]}}
    aligned = np.zeros(3, np.dtype(fields, align=True))
    aligned.view("u1")[:] = 255
    aligned["a"], aligned["b"] = 1, 2.5
    packed = aligned.astype(np.dtype(fields))
    fill = fill_to_json(np.zeros((), np.dtype(fields))[()], DataType.from_json(data_type))
    assert digest(aligned, data_type, fill) == digest(packed, data_type, fill)


def test_text_and_bytes_of_variable_length() -> None:
    texts = np.array(["a", "", "ü" * 40], dtype=object)
    expected = digest(texts, "string", "")
    assert digest(texts, "object", 0) == expected
    assert digest(texts[[0, 2, 1]], "string", "").text != expected.text
    data = np.array([b"a", b""], dtype=object)
    assert digest(data, "bytes", "") == digest(data, "variable_length_bytes", "")
    assert digest(data, "bytes", "").blocks != digest(texts[:2], "string", "").blocks
    with pytest.raises(UnsupportedError, match="Python objects"):
        digest(np.array([{"a": 1}], dtype=object), "object", None)


def test_an_array_without_axes_and_one_without_elements() -> None:
    one = digest(np.array(7, "uint16"))
    assert one.blocks == {0: 7}
    assert not digest(np.zeros((0, 4), "uint16")).blocks
    assert digest(np.zeros((0, 4), "uint16")).text != digest(np.zeros((4, 0), "uint16")).text


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((), ()),
        ((5,), (8,)),
        ((10**9,), (1 << 24,)),
        ((4097, 4097), (4096, 4096)),
        ((10**6, 3), (1 << 20, 4)),
        ((2048, 2048, 2048), (256, 256, 256)),
        ((10, 10**6, 3), (16, 1 << 18, 4)),
        ((0, 7), (1, 8)),
    ],
)
def test_blocks_follow_from_the_shape(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert block_shape(shape) == expected


@given(st.lists(st.integers(1, 2**14), min_size=1, max_size=4).map(tuple))
def test_the_number_of_blocks_is_bounded(shape: tuple[int, ...]) -> None:
    sides = block_shape(shape)
    count = prod(-(-a // b) for a, b in zip(shape, sides, strict=True))
    assert all(side & (side - 1) == 0 for side in sides)
    assert count <= 2 ** (17 + len(shape))


def test_several_blocks() -> None:
    shape = (2, 1 << 24)
    kind = DataType.from_json("uint8")
    adder = ValueSums(shape, kind, 0)
    sums, other = BlockSums(), BlockSums()
    assert block_shape(shape) == (2, 1 << 23)
    region = [slice(0, 2), slice((1 << 23) - 3, (1 << 23) + 3)]
    values = np.arange(12, dtype="u1").reshape(2, 6)
    adder.add(sums, region, values)
    assert sums.sums.keys() == {0, 1}
    for row in (1, 0):
        for column in range(6):
            at = region[1].start + column
            adder.add(
                other, [slice(row, row + 1), slice(at, at + 1)], values[row : row + 1, column : column + 1]
            )
    assert other.sums == sums.sums
    values[1, 5] ^= 4
    changed = BlockSums()
    adder.add(changed, region, values)
    differing = adder.digest(changed).differing_blocks(adder.digest(sums))
    assert list(differing) == [1]


def test_json() -> None:
    one = digest(np.arange(12, dtype="uint16").reshape(3, 4), fill=3)
    data = json.loads(json.dumps(one.to_json()))
    assert ArrayDigest.from_json(data) == one
    assert data["block_shape"] == [4, 4]


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [3, 5]},
        {"shape": [-1]},
        {"shape": None},
        {"blocks": {"0": "x"}},
        {"blocks": []},
        {"blocks": {"0": "00"}},
        {"blocks": {"7": "01"}},
        {"blocks": {"-1": "01"}},
        {"digest": "0"},
        {"fill_value": "0001"},
    ],
)
def test_a_damaged_digest_is_refused(change: dict) -> None:
    data = digest(np.arange(12, dtype="uint16").reshape(3, 4), fill=3).to_json()
    with pytest.raises(MetadataError):
        ArrayDigest.from_json({**data, **change})
    with pytest.raises(MetadataError):
        ArrayDigest.from_json("text")


def test_the_digest_stays_what_it_is() -> None:
    """Digests are stored in files: a change of the formula would make them all differ."""
    values = np.arange(5000, dtype="float32").reshape(50, 100)
    assert digest(values, "float32", "NaN").text == "c16af9eeccfdbbd74c2b1d299f1b3c06"


# The sums of matrices are those of the formula, evaluated element by element with Python's integers.


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
