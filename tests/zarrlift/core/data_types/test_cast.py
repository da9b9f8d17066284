"""Casts, held against Python's exact numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zarrlift.core.data_types.cast import cast, cast_refusal
from zarrlift.core.data_types.v3 import DataType
from zarrstack.core.errors import CastError

INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")
CASTINGS = ("exact", "clamp", "round", "clamp+round")


def bounds(name: str) -> tuple[int, int]:
    if name == "bool":
        return 0, 1
    return int(np.iinfo(name).min), int(np.iinfo(name).max)


def near(low: int, high: int) -> st.SearchStrategy[int]:
    """Integers of a range, its ends and the powers of two where floats lose them among them."""
    special = [
        n
        for n in (
            low,
            high,
            0,
            1,
            -1,
            *(s * (2**p + d) for s in (1, -1) for p in (11, 24, 53, 63) for d in (-1, 0, 1)),
        )
        if low <= n <= high
    ]
    return st.sampled_from(special) | st.integers(low, high)


@st.composite
def values(draw: Any, names: tuple[str, ...] = (*INTEGERS, *FLOATS)) -> np.ndarray[Any, Any]:
    name = draw(st.sampled_from(names))
    if name in INTEGERS:
        return np.array([draw(near(*bounds(name)))], dtype=name)
    special = st.sampled_from(
        [
            0.5,
            -0.5,
            1.5,
            2.5,
            255.5,
            255.4,
            65504.0,
            2.0**31,
            2.0**63,
            2.0**64,
            -(2.0**63),
            math.inf,
            -math.inf,
            1e-30,
        ]
    )
    with np.errstate(over="ignore"):
        return np.array([draw(special | st.floats(allow_nan=False, width=64))]).astype(name)


def exact(value: Any) -> Fraction | float:
    """A number without rounding; infinities as floats."""
    value = value.item()
    return value if isinstance(value, float) and math.isinf(value) else Fraction(value)


def expected_integer(number: Any, name: str, casting: str) -> int | None:
    low, high = bounds(name)
    if isinstance(number, float):
        return (high if number > 0 else low) if "clamp" in casting else None
    rounded = Fraction(round(number)) if "round" in casting else number
    if "clamp" in casting:
        rounded = min(max(rounded, Fraction(low)), Fraction(high))
    if rounded.denominator != 1 or not low <= rounded <= high:
        return None
    return int(rounded)


@given(values(), st.sampled_from(INTEGERS), st.sampled_from(CASTINGS))
@example(np.array([2.5]), "int8", "round")
@example(np.array([300.5]), "int8", "clamp+round")
def test_what_becomes_an_integer_is_the_same_number_or_an_error(array: Any, name: str, casting: Any) -> None:
    wanted = expected_integer(exact(array[0]), name, casting)
    if wanted is None:
        with pytest.raises(CastError):
            cast(array, np.dtype(name), casting)
        return
    result = cast(array, np.dtype(name), casting)
    assert result.dtype == name
    assert int(result[0]) == wanted


@given(values(), st.sampled_from(FLOATS), st.sampled_from(CASTINGS))
@example(np.array([65504], np.float16), "float16", "round")
def test_what_becomes_a_float_is_the_same_number_or_the_nearest_or_an_error(
    array: Any, name: str, casting: Any
) -> None:
    number, largest = exact(array[0]), Fraction(float(np.finfo(name).max))
    try:
        result = cast(array, np.dtype(name), casting)
    except CastError:
        assert not isinstance(number, float), "infinities are floats"
        if "clamp" in casting:
            assert "round" not in casting
            assert abs(number) <= largest
        return
    assert result.dtype == name
    seen = exact(result[0])
    if isinstance(number, float) or casting == "exact":
        assert seen == number
    elif abs(number) > largest and "clamp" in casting:
        assert seen == (largest if number > 0 else -largest)
    elif "round" in casting:
        with np.errstate(over="ignore"):  # of the largest number
            below, above = (np.nextafter(result[0], np.dtype(name).type(end)) for end in (-np.inf, np.inf))
        distance = abs(Fraction(seen) - number)
        assert all(
            distance <= abs(Fraction(float(other)) - number) for other in (below, above) if np.isfinite(other)
        )
    else:
        assert seen == number


@given(values(FLOATS), st.sampled_from(FLOATS))
def test_a_cast_that_is_exact_leads_back(array: Any, name: str) -> None:
    try:
        result = cast(array, np.dtype(name))
    except CastError:
        return
    assert cast(result, array.dtype).tobytes() == array.tobytes()


@pytest.mark.parametrize("casting", CASTINGS)
def test_nan_is_no_integer_under_any_casting(casting: Any) -> None:
    with pytest.raises(CastError, match="NaN is not an integer"):
        cast(np.array([math.nan]), np.dtype("i4"), casting)


@pytest.mark.parametrize("name", FLOATS)
def test_nan_and_minus_zero_stay_what_they_are(name: str) -> None:
    result = cast(np.array([math.nan, -0.0, math.inf]), np.dtype(name))
    assert np.isnan(result[0])
    assert np.signbit(result[1])
    assert np.isinf(result[2])


def test_the_error_names_the_first_value_its_index_and_the_remedy() -> None:
    array = np.array([[1, 2, 3], [4, 300, 400]])
    with pytest.raises(CastError) as caught:
        cast(array, np.dtype("u1"))
    problem = caught.value.problem
    assert problem.found == "300 at (1, 1)"
    assert problem.expected == "a value of uint8"
    assert "'clamp'" in str(problem.advice)


@pytest.mark.parametrize("array", [np.array(300), np.zeros((0, 3), "i8"), np.array([300], ">i8")])
def test_any_shape_and_byte_order_is_taken(array: Any) -> None:
    result = cast(array, np.dtype("i2"))
    assert result.shape == array.shape
    assert result.dtype == np.dtype("i2")
    assert result.tolist() == array.tolist()


@pytest.mark.parametrize(
    ("array", "dtype", "wanted"),
    [
        (np.array([1 + 0j]), "f4", [1.0]),
        (np.array([1 + 2j]), "f4", None),
        (np.array([complex(1, math.nan)]), "f4", None),
        (np.array([1 + 0j]), "i2", [1]),
        (np.array([3], "i8"), "c8", [3 + 0j]),
        (np.array([2**24 + 1], "i8"), "c8", None),
        (np.array([0.1 + 0j]), "c8", None),
        (np.array([0.5 - 0.25j]), "c8", [0.5 - 0.25j]),
        (np.array(["ab", ""]), "U3", ["ab", ""]),
        (np.array(["abcd"]), "U3", None),
        (np.array(["abc"]), "O", ["abc"]),
        (np.array(["abc", "d"], object), "U3", ["abc", "d"]),
        (np.array(["a\0"], object), "U3", None),
        (np.array([b"abc"]), "O", [b"abc"]),
        (np.array([b"a\0"], object), "S3", None),
        (np.array([3], object), "U3", None),
        (np.array(["2020"], "M8[Y]"), "M8[D]", np.array(["2020-01-01"], "M8[D]").tolist()),
        (np.array(["2020-03"], "M8[M]"), "M8[Y]", None),
        (np.array([2**62], "M8[s]"), "M8[ns]", None),
        (np.array(["NaT"], "M8[s]"), "M8[ns]", np.array(["NaT"], "M8[ns]").tolist()),
        (np.array([90], "m8[s]"), "m8[m]", None),
        (np.array([120], "m8[s]"), "m8[m]", np.array([2], "m8[m]").tolist()),
        (np.array(["1"]), "i4", None),
        (np.array([1]), "M8[s]", None),
        (np.array([b"1"]), "U1", None),
    ],
)
def test_other_families_keep_their_values_or_refuse(array: Any, dtype: str, wanted: Any) -> None:
    if wanted is None:
        with pytest.raises(CastError):
            cast(array, np.dtype(dtype))
    else:
        assert cast(array, np.dtype(dtype)).tolist() == wanted


def data_type(text: str) -> DataType:
    return DataType(text) if text in ("string", "bytes") else DataType.from_numpy(np.dtype(text))


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        ("i4", "f8", True),
        ("?", "c8", True),
        ("U3", "string", True),
        ("S3", "bytes", True),
        ("M8[s]", "M8[ns]", True),
        ("i4", "string", False),
        ("U3", "bytes", False),
        ("M8[s]", "m8[s]", False),
        ("M8[s]", "i8", False),
        ("m8[s]", "m8", False),
        ("m8[s]", "m8[M]", False),
        ("m8[Y]", "m8[M]", True),
        ("V3", "V4", False),
        ([("a", "i4")], [("a", "i8")], False),
        ([("a", "i4")], [("a", "i4")], True),
    ],
    ids=str,
)
def test_types_without_a_cast_are_refused_before_any_value_is_read(
    source: Any, target: Any, allowed: bool
) -> None:
    types = [
        data_type(t) if isinstance(t, str) else DataType.from_numpy(np.dtype(t)) for t in (source, target)
    ]
    assert (cast_refusal(*types) is None) is allowed
