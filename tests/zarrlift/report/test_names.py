"""Lists of nodes are short, and true."""

from __future__ import annotations

import pytest

from zarrlift.report.names import index_ranges, node_names


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


def test_indexes_are_written_as_for_job_arrays():
    assert index_ranges([7, 0, 2, 1]) == "0-2,7"
    assert index_ranges([]) == ""
