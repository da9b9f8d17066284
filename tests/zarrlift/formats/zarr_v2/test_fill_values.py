"""Fill values that deviate from the specification of Zarr v2, one by one (fixtures have those of writers)."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from zarrlift.formats.zarr_v2.fill_values import (
    cut_text,
    is_float,
    is_number,
    is_number_text,
    is_object,
    is_plain_text,
    is_zero,
    read_as_value,
    specified_fill,
    zero_object,
)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (True, "?", True),
        (-3, "<i2", -3),
        (250, "|u1", 250),
        (7, "<M8[s]", 7),
        (-7, ">m8[ns]", -7),
        (0.5, "<f4", 0.5),
        (np.nan, "<f8", "NaN"),
        (np.inf, "<f8", "Infinity"),
        (-np.inf, ">f2", "-Infinity"),
        (complex(np.inf, -0.5), "<c16", ["Infinity", -0.5]),
        (complex(1, -np.inf), "<c8", [1.0, "-Infinity"]),
        ("ab", "<U3", "ab"),
        (b"ab", "|S4", base64.b64encode(b"ab\0\0").decode()),
        (b"\1\2", "|V2", base64.b64encode(b"\1\2").decode()),
    ],
)
def test_a_scalar_has_the_form_of_the_specification(value, dtype, expected) -> None:
    found = specified_fill(np.array(value, dtype=dtype)[()], np.dtype(dtype))
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("rule", "yes", "no"),
    [
        (is_zero, [0], [0.0, False, 1, -1, "", None]),
        (is_float, [0.0, 1.5], [0, True, "1.5"]),
        (is_number, [0, -1, 1.5], [True, False, "1", None]),
        (is_number_text, ["inf", "1", "NaT"], ["NaN", "Infinity", "-Infinity", 1, None]),
        (is_plain_text, ["a b", "é", "abc"], ["YWI=", "", 1, None]),
        (is_object, [{}, {"a": 1}], [[], "{}", None]),
    ],
)
def test_what_a_rule_is_about(rule, yes, no) -> None:
    dtype = np.dtype("<f8")
    assert [fill for fill in yes if not rule(fill, dtype)] == []
    assert [fill for fill in no if rule(fill, dtype)] == []


def test_of_a_date_only_nat_is_specified_as_text() -> None:
    dtype = np.dtype("<M8[s]")
    assert not is_number_text("NaT", dtype)
    assert is_number_text("NaN", dtype)
    assert is_number_text("5", dtype)


@pytest.mark.parametrize(
    ("document", "dtype", "expected"),
    [
        ({"fill_value": "1.5"}, "<f8", {"fill_value": 1.5}),
        ({"fill_value": "7"}, "<f4", {"fill_value": 7.0}),
        ({"fill_value": "NaN"}, "<f8", {}),  # not odd
        ({"fill_value": 1.5}, "<f8", {}),
        ({"fill_value": None}, "<f8", {}),
        ({"fill_value": "no number"}, "<f8", {}),
        ({}, "<f8", {}),
        ({"fill_value": "7"}, "<i4", {}),  # of another kind
        ({"fill_value": "7"}, None, {}),
    ],
)
def test_a_value_is_read_only_if_it_is_odd_and_can_be_read(document, dtype, expected) -> None:
    known = None if dtype is None else np.dtype(dtype)
    assert read_as_value("f", is_number_text)(document, known) == expected


TEXT = {"id": "vlen-utf8"}


@pytest.mark.parametrize(
    ("fill", "filters", "dtype", "replaced"),
    [
        (0, [TEXT], "O", True),
        (0, [{"id": "vlen-bytes"}], "O", True),
        (0, [{"id": "categorize"}, TEXT], "O", True),
        (1, [TEXT], "O", False),
        (-1, [TEXT], "O", False),
        (False, [TEXT], "O", False),
        (0.0, [TEXT], "O", False),
        ("0", [TEXT], "O", False),
        (0, [{"id": "pickle"}, TEXT], "O", False),
        (0, ["vlen-utf8"], "O", False),
        (0, [], "O", False),
        (0, None, "O", False),
        (0, TEXT, "O", False),
        (0, [TEXT], "<i4", False),
        (0, [TEXT], None, False),
    ],
)
def test_the_integer_zero_is_no_text(fill, filters, dtype, replaced) -> None:
    found = zero_object({"fill_value": fill, "filters": filters}, None if dtype is None else np.dtype(dtype))
    assert found == ({"fill_value": ""} if replaced else {})


@pytest.mark.parametrize(
    ("fill", "dtype", "expected"),
    [
        ("abcd", "<U3", {"fill_value": "abc"}),
        ("abc", "<U3", {}),
        ("abc\0\0", "<U3", {}),
        ("a", "<U0", {"fill_value": ""}),
        (5, "<U1", {}),
        ("abcd", "|S3", {}),
        ("abcd", None, {}),
    ],
)
def test_text_is_cut_to_the_length_of_its_type(fill, dtype, expected) -> None:
    assert cut_text({"fill_value": fill}, None if dtype is None else np.dtype(dtype)) == expected
