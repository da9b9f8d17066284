"""Tables that fit, and results in one line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import report_examples as examples

from zarrlift.core.units import (
    columns,
)
from zarrlift.report.blocks import Column
from zarrlift.report.tables import table, wrap


@given(st.text(alphabet="ab 画\u0301", max_size=80), st.integers(8, 40))
def test_wrapping_loses_nothing_and_keeps_the_width(text, width):
    lines = wrap(text, width, first="  ", rest="    ")
    assert all(columns(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


SHAPE = (Column(title="node"), Column(title="codecs", wraps=True), Column(title="bytes", right=True))
ROWS = [("/a/long/path", "bytes:little > blosc:lz4:5:shuffle", "1.23 MB"), ("/b", "", "7 B")]


def test_a_wrapping_column_gives_way_first():
    assert table(SHAPE, ROWS, 48) == [
        "  node          codecs                     bytes",
        "  /a/long/path  bytes:little >           1.23 MB",
        "                blosc:lz4:5:shuffle",
        "  /b                                         7 B",
    ]


def test_columns_that_matter_least_are_left_out_and_named():
    shape = (Column(title="node"), Column(title="kind", spare=1), Column(title="keys", spare=2))
    rows = [("/a/b", "array", "default '/'"), ("/", "group", "")]
    assert table(shape, rows, 30) == [
        "  node  kind   keys",
        "  /a/b  array  default '/'",
        "  /     group",
    ]
    assert table(shape, rows, 20) == [
        "  node  kind",
        "  /a/b  array",
        "  /     group",
        "  Not shown, for",
        "  lack of width:",
        "  keys.",
    ]


def test_names_are_cut_into_lines_where_nothing_else_gives_way():
    assert table(SHAPE, ROWS, 36) == [
        "  node         codecs          bytes",
        "  /a/long/pat  bytes:little  1.23 MB",
        "  h            >",
        "               blosc:lz4:5:",
        "               shuffle",
        "  /b                             7 B",
    ]


def test_the_names_of_a_tree_stay_indented_when_they_are_cut():
    lines = table((Column(title="node"), Column(title="bytes", right=True)), [("    " + "x" * 40, "1")], 40)
    assert [line[:8] for line in lines] == ["  node  ", "      xx", "      xx"]
    assert max(map(len, lines)) <= 40


@pytest.mark.parametrize(
    ("cells", "width", "lines"),
    [
        pytest.param("a" * 8, 40, [*"x01234567", "The same for all: y a."], id="eight-equal"),
        pytest.param("a" * 7, 40, ["x  y", *(f"{n}  a" for n in range(7))], id="seven-equal"),
        pytest.param(2 * ["a" * 39], 40, [*"x01", "The same for all: y", "a" * 39 + "."], id="too-wide"),
        pytest.param(["", *8 * "a"], 40, [*"x012345678", "The same for all: y a."], id="empty"),
        pytest.param("aaaaaaaab", 40, ["x  y", *(f"{n}  a" for n in range(8)), "8  b"], id="one-differs"),
        pytest.param(["a" * 39], 60, ["x  y", "0  " + "a" * 39], id="one-row"),
    ],
)
def test_what_is_equal_in_all_rows_stands_once(cells, width, lines):
    shape = (Column(title="x"), Column(title="y", once=True))
    rows = [(str(number), cell) for number, cell in enumerate(cells)]
    assert table(shape, rows, width, indent=0) == lines


def test_no_more_columns_than_necessary_stand_below_a_table():
    shape = (Column(title="x"), Column(title="y", once=True, spare=1), Column(title="z", once=True, spare=2))
    rows = [(str(number), "a" * 10, "b" * 10) for number in range(2)]
    assert table(shape, rows, 20, indent=0)[0].split() == ["x", "y"]
    assert table(shape, rows, 20, indent=0)[3:] == ["The same for all: z", "bbbbbbbbbb."]


def test_equal_cells_stay_in_their_rows_unless_they_may_stand_once():
    rows = [(str(number), "7") for number in range(9)]
    assert len(table((Column(title="x"), Column(title="y", right=True)), rows, 40)) == 10
    assert table((Column(title="x"), Column(title="y")), rows, 40)[-1].split() == ["8", "7"]


def test_a_column_without_text_is_left_out():
    assert table(SHAPE, [("/a", "", "7 B")], 80) == ["  node  bytes", "  /a      7 B"]


# What a Python prompt or a notebook shows of what the functions give: a line, never a thousand nodes.


def test_what_holds_many_nodes_is_shown_in_a_line() -> None:
    assert repr(examples.PLAN).startswith(f"<Plan {examples.PLAN.source!r} (zarr2) to ")
    assert repr(examples.ARCHIVE).startswith(f"<Archive {examples.ARCHIVE.url!r} (zarr2): ")
    many = replace(examples.DONE, problems=(examples.UNKNOWN,) * 1000)
    differing = examples.EQUAL.with_problems([examples.UNKNOWN] * 1000)
    results = (
        examples.PLAN,
        examples.MANY,
        examples.ARCHIVE,
        examples.STATUS,
        examples.DONE,
        many,
        differing,
    )
    for shown in results:
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 200


def test_what_was_done_is_shown_without_its_plan() -> None:
    assert repr(examples.PARTLY) == (
        "<Outcome done: 2 of 3 arrays, 2 groups, 538 chunks, 1 problems, job '/data/new.zarr.zarrlift.db'>"
    )
    assert repr(examples.STATUS) == (
        "<Status '/data/new.zarr.zarrlift.db' (incomplete, stopped): 1 of 3 arrays done, 1 failed, 1 refused>"
    )
