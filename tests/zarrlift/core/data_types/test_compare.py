"""Values are compared bit by bit, whatever their byte order, memory order and the padding of structs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.data_types.compare import matches_json_text, mismatch, same, same_bits

NAN = float("nan")
VALUES = np.arange(35, dtype="f4").reshape(7, 5) - 3
PADDED = np.dtype([("a", "i1"), ("b", "i4")], align=True)


def nan(bits: int, order: str) -> np.ndarray[Any, Any]:
    """A float32 with these bits."""
    return np.array([bits], f"{order}u4").view(f"{order}f4")


EQUAL: dict[str, tuple[Any, Any]] = {
    "byte order": (np.array([1, 2], ">i4"), np.array([1, 2], "<i4")),
    "memory order": (np.asfortranarray(VALUES), VALUES),
    "the same NaN in another byte order": (nan(0x7FA00001, "<"), nan(0x7FA00001, ">")),
    "byte order in structs": (np.zeros(2, [("a", ">i4")]), np.zeros(2, [("a", "<i4")])),
    "padding": (np.frombuffer(b"\1\7\7\7\1\0\0\0", PADDED), np.frombuffer(b"\1\0\0\0\1\0\0\0", PADDED)),
    "packed and padded": (np.array([(1, 2)], PADDED), np.array([(1, 2)], [("a", "i1"), ("b", ">i4")])),
    "kinds of string": (np.array(["a", ""], object), np.array(["a", ""], np.dtypes.StringDType())),
    "objects": (np.array(["a", None, 1], object), np.array(["a", None, 1], object)),
    "NaN in objects": (np.array([{"a": [1, NAN]}], object), np.array([{"a": [1, NAN]}], object)),
    "scalars": (np.float32(1), np.float32(1)),
    "no elements": (np.zeros((0, 3)), np.zeros((0, 3))),
    "elements without bytes": (np.zeros(2, "V0"), np.zeros(2, "V0")),
}
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "NaN payloads": (nan(0x7FC00001, "<"), nan(0x7FC00000, "<")),
    "the sign of zero": (np.array([0.0]), np.array([-0.0])),
    "the sign of an imaginary zero": (np.array([1 + 0j]), np.array([complex(1, -0.0)])),
    "the sign of a zero among objects": (np.array([[0.0]], object), np.array([[-0.0]], object)),
    "types": (np.zeros(2, "i4"), np.zeros(2, "f4")),
    "signedness": (np.array([1], "i4"), np.array([1], "u4")),
    "lengths of text": (np.array(["a"], "U3"), np.array(["a"], "U4")),
    "shapes": (np.zeros((2, 1)), np.zeros(2)),
    "text and bytes": (np.array(["a"], object), np.array([b"a"], object)),
    "a number and a truth value": (np.array([1, True], object), np.array([1, 1], object)),
    "a field of a struct": (np.array([(1, 2.0)], "i4,f8"), np.array([(1, -2.0)], "i4,f8")),
    "an element of a sub-array": (np.array([(1, [2, 3])], "i4,2i2"), np.array([(1, [2, 4])], "i4,2i2")),
    "no time and the epoch": (np.array("NaT", "M8[s]"), np.array(0, "M8[s]")),
    "raw bytes": (np.array([b"ab"], "V2"), np.array([b"ac"], "V2")),
}


@pytest.mark.parametrize("case", [*EQUAL, *DIFFERENT])
def test_sameness_is_of_bits(case: str) -> None:
    one, other = {**EQUAL, **DIFFERENT}[case]
    for a, b in ((one, other), (other, one)):
        assert same_bits(a, b) is (case in EQUAL)
        assert (mismatch(np.asarray(a), np.asarray(b)) is None) is (case in EQUAL)


@given(st.integers(0, 34), st.integers(0, 31))
def test_one_flipped_bit_is_found_and_placed(place: int, bit: int) -> None:
    other = VALUES.copy()
    other.view("u4").reshape(-1)[place] ^= np.uint32(1 << bit)
    found = mismatch(other, VALUES)
    assert found is not None
    assert (found.count, found.index) == (1, (place // 5, place % 5))


@pytest.mark.parametrize("data_type", [np.longdouble, np.clongdouble])
def test_each_byte_of_a_long_double_counts_but_none_that_only_fills_up_its_place(data_type: type) -> None:
    value = np.array([1.5], data_type)
    size, is_x87 = np.dtype(np.longdouble).itemsize, np.finfo(np.longdouble).nmant == 63
    for place in range(value.itemsize):
        stored = bytearray(value.tobytes())
        stored[place] ^= 1
        other = np.frombuffer(bytes(stored), data_type)
        counts = not is_x87 or place % size < 10
        assert (same_bits(other, value), same(other[0], value[0])) == (not counts, not counts)


def test_objects_are_the_same_only_with_their_types() -> None:
    assert not same({"a": [1]}, {"a": [1.0]})
    assert not same((1,), [1])


def test_json_texts_are_compared_as_values() -> None:
    assert matches_json_text('{"b": 1, "a": [1.5, "NaN"]}', {"a": [1.5, NAN], "b": 1})
    assert not matches_json_text('{"a": 1}', {"a": True})
    assert not matches_json_text("{", {})
