"""Problems are told once each, with their places, the gravest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zarrlift.report import text
from zarrlift.report.blocks import Problems
from zarrlift.report.page import Page
from zarrlift.report.problems import summary
from zarrstack.core.errors import Problem

PAGE = Page(width=70)


def lines(problems: Iterable[Problem], page: Page, refusal: str = "refusal") -> Iterator[str]:
    return text.lines([Problems.of(problems, refusal)], page)


def test_one_problem_names_its_place_what_was_found_and_what_to_do():
    problem = Problem(
        kind="metadata",
        node="a",
        key="a/.zarray",
        message="the shape is negative",
        found="[-1]",
        expected="lengths of 0 or more",
        advice="Repair the document.",
    )
    assert list(lines([problem], PAGE)) == [
        "  refusal: /a, key 'a/.zarray': the shape is negative; found [-1];",
        "    expected lengths of 0 or more",
        "    Repair the document.",
    ]


def test_equal_problems_are_told_once_with_the_first_places():
    problems = [
        Problem(kind="chunk", node=f"n{i}", message="truncated", found=f"{i} bytes", advice="Copy it again.")
        for i in range(1200)
    ]
    assert list(lines(problems, PAGE)) == [
        "  refusal: truncated (1,200 times)",
        "    at /n0: found 0 bytes",
        "    at /n1: found 1 bytes",
        "    at /n2: found 2 bytes",
        "    and 1,197 more (--all shows them)",
        "    Copy it again.",
    ]
    everything = list(lines(problems, Page(width=70, everything=True)))
    assert "    at /n1199: found 1199 bytes" in everything


def test_what_is_found_is_told_once_where_it_is_the_same():
    problems = [Problem(kind="name", node=node, message="reserved", found="zarr.json") for node in "ab"]
    assert list(lines(problems, PAGE)) == [
        "  refusal: reserved; found zarr.json (2 times)",
        "    at /a",
        "    at /b",
    ]


def test_refusals_come_first_then_warnings_then_notes():
    severities = ("note", "warning", "refusal")
    problems = [Problem(kind="x", message="m", severity=severity) for severity in severities]
    assert [line.split(":")[0].strip() for line in lines(problems, PAGE)] == ["refusal", "warning", "note"]


def test_summary_counts_by_severity():
    assert summary([]) == ""
    severities = ("refusal", "refusal", "note")
    problems = [Problem(kind="x", message="m", severity=severity) for severity in severities]
    assert summary(problems) == "2 refusals, 1 note"


def test_a_problem_cannot_steer_the_terminal():
    problem = Problem(kind="x", message="m\x1b[31m", node="\x07", found="\x9b", expected="\r", advice="\x00")
    shown = "".join(lines([problem], PAGE))
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)


def test_messages_that_differ_by_a_number_do_not_flood_the_page():
    problems = [Problem(kind="fill", severity="note", message=f"{i} missing chunks") for i in range(99)]
    shown = list(lines(problems, PAGE))
    assert shown[2:] == ["  note: 2 missing chunks", "  and 96 more fill notes (--all shows them)"]
    assert len(list(lines(problems, Page(width=70, everything=True)))) == 99


def test_messages_that_differ_by_more_than_numbers_are_shown_up_to_eight():
    problems = [Problem(kind="fill", severity="note", message=f"about {c} chunks") for c in "abcdefghij"]
    shown = list(lines(problems, PAGE))
    assert shown[7:] == ["  note: about h chunks", "  and 2 more fill notes (--all shows them)"]


def test_a_unit_is_part_of_its_number():
    sizes = ("25 MB", "6 MB", "2 MB", "370 kB", "84 kB", "1.5 GB")
    problems = [Problem(kind="shards", severity="note", message=f"about {size} each") for size in sizes]
    assert list(lines(problems, PAGE))[3:] == ["  and 3 more shards notes (--all shows them)"]


def test_the_word_for_what_is_kept_back_fits_the_report():
    assert list(lines([Problem(kind="x", message="m")], PAGE, refusal="failed")) == ["  failed: m"]
