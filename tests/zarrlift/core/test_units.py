"""Numbers and names as people read them."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.units import (
    bytes_text,
    columns,
    count_text,
    duration_text,
    node_names,
    quoted,
    rate_text,
    safe,
    shape_text,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (1234, "1.23 kB"),
        (9_994, "9.99 kB"),
        (9_996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (123_456_789, "123 MB"),
        (5 * 10**21, "5,000 EB"),
    ],
)
def test_bytes_have_three_digits(count, text):
    assert bytes_text(count) == text
    assert bytes_text(count, estimated=True) == "~" + text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 s"),
        (-1, "0.00 s"),
        (0.424, "0.42 s"),
        (9.996, "10.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (125, "2 min 5 s"),
        (3599.7, "1 h 0 min"),
        (11_520, "3 h 12 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_durations_have_two_units(seconds, text):
    assert duration_text(seconds) == text


def test_counts_have_separators_and_nouns():
    assert count_text(1234567) == "1,234,567"
    assert count_text(1, "array") == "1 array"
    assert count_text(0, "array") == "0 arrays"


def test_no_rate_is_given_for_an_instant():
    assert rate_text(10**6, 0.0) == ""
    assert rate_text(0, 5.0) == ""
    assert rate_text(10**6, 0.5) == "2.00 MB/s"


def test_shapes():
    assert shape_text((365, 180)) == "365x180"
    assert shape_text(()) == "scalar"


@given(st.text())
def test_safe_text_is_harmless_and_can_be_encoded(text):
    shown = safe(text)
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)
    shown.encode()


def test_safe_text_keeps_letters_of_every_script():
    assert safe("données 画像 ü") == "données 画像 ü"


def test_wide_letters_take_two_columns_and_accents_none():
    assert columns("画像") == 4
    assert columns("e\u0301") == 1


# Lists of nodes are short, and true.


@pytest.mark.parametrize(
    ("paths", "most", "text"),
    [
        pytest.param([""], 3, "/", id="root"),
        pytest.param([str(n) for n in range(8)], 3, "/0 to 7", id="levels"),
        pytest.param(["0", "1", "10", "11", "2"], 3, "/0 to 2, /10 to 11", id="sorted-as-text"),
        pytest.param([f"t/{n:04}" for n in range(1500)], 1, "/t/0000 to 1499", id="zeros-first"),
        pytest.param(["a/s0", "a/s1", "b/s0", "b/s1"], 3, "/a/s0 to s1, /b/s0 to s1", id="folders"),
        pytest.param(["t0/s", "t1/s"], 3, "/t0/s, /t1/s", id="numbers-inside"),
        pytest.param(["s0", "s2", "s3"], 3, "/s0, /s2 to s3", id="gap"),
        pytest.param(["s1", "s01", "s2"], 3, "/s1 to s2, /s01", id="same-number"),
        pytest.param(["s", "s0"], 3, "/s, /s0", id="without-number"),
        pytest.param(list("abcde"), 3, "/a, /b, /c and 2 more", id="rest"),
        pytest.param(["x", *map(str, range(1200))], 1, "/x and 1,200 more", id="rest-of-a-range"),
        pytest.param(list("abcde"), None, "/a, /b, /c, /d, /e", id="all"),
        pytest.param(["9" * 30, "1" + "0" * 30], 3, f"/{'9' * 30}, /1{'0' * 30}", id="long-numbers"),
        pytest.param(["\x1b0", "\x1b1"], 3, r"/\x1b0 to \x1b1", id="hostile"),
        pytest.param(["\u0661", "\u0662"], 3, "/\u0661, /\u0662", id="other-digits"),
    ],
)
def test_consecutive_numbers_are_a_range_and_the_rest_is_counted(paths, most, text):
    assert node_names(paths, most) == text


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (r"C:\data\a.zarr", r"C:\data\a.zarr"),
        (r"C:\my data\a.zarr", r'"C:\my data\a.zarr"'),
        ("C:\\my data\\", '"C:\\my data\\\\"'),
        ("it's", '"it\'s"'),
        ('a"b', r'"a\"b"'),
    ],
)
def test_words_are_quoted_as_cmd_and_powershell_take_them(word: str, text: str) -> None:
    assert quoted(word, windows=True) == text
    assert subprocess.list2cmdline([word]).strip('"') == text.strip('"')
