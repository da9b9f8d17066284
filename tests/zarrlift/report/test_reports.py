"""Every report as text, narrow and wide, kept in golden.txt beside this file; problems are told once each."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import report_examples as examples

from zarrlift.core.problems import note
from zarrlift.core.units import columns
from zarrlift.jobs.status import ArrayStatus
from zarrlift.report import archive as report_archive
from zarrlift.report import outcome as report_outcome
from zarrlift.report import plan as report_plan
from zarrlift.report import status as report_status
from zarrlift.report import text
from zarrlift.report.blocks import Problems
from zarrlift.report.text import Page
from zarrlift.report.text import lines as printed
from zarrstack.core.errors import Problem

# Every report as text, on a narrow and a wide page, kept in golden.txt beside this file.
#
# UPDATE=1 rewrites the file, and the diff is read.


GOLDEN = Path(__file__).with_name("golden.txt")
REPORTS: dict[str, Callable[[Page], Iterable[str]]] = {
    "inspect": lambda page: printed(report_archive.blocks(examples.ARCHIVE), page),
    "plan": lambda page: printed(report_plan.blocks(examples.PLAN), page),
    "plan-of-other-chunks": lambda page: printed(report_plan.blocks(examples.CUT_ANEW), page),
    "plan-of-many": lambda page: printed(report_plan.blocks(examples.MANY), page),
    "plan-of-a-pyramid": lambda page: printed(report_plan.blocks(examples.PYRAMID), page),
    "plan-of-other-codecs": lambda page: printed(report_plan.blocks(examples.CODECS), page),
    "inspect-of-images": lambda page: printed(report_archive.blocks(examples.IMAGES), page),
    "done": lambda page: printed(report_outcome.blocks(examples.DONE), page),
    "resumed": lambda page: printed(report_outcome.blocks(examples.RESUMED), page),
    "some-refused": lambda page: printed(report_outcome.blocks(examples.PARTLY), page),
    "failed": lambda page: printed(report_outcome.blocks(examples.FAILED), page),
    "some-refused-problems": lambda page: printed(report_outcome.problem_blocks(examples.PARTLY), page),
    "failed-problems": lambda page: printed(report_outcome.problem_blocks(examples.FAILED), page),
    "failed-whole": lambda page: printed(report_outcome.blocks(examples.FAILED, whole=True), page),
    "in-place": lambda page: printed(report_outcome.blocks(examples.IN_PLACE), page),
    "nothing-to-do": lambda page: printed(report_outcome.blocks(examples.NOTHING), page),
    "finished": lambda page: printed(report_outcome.blocks(examples.FINISHED), page),
    "undone": lambda page: printed(report_outcome.blocks(examples.UNDONE), page),
    "status": lambda page: printed(report_status.blocks(examples.STATUS), page),
    "status-updated": lambda page: printed(report_status.blocks(examples.UPDATED), page),
    "status-running": lambda page: printed(report_status.blocks(examples.RUNNING), page),
    "status-of-many": lambda page: printed(report_status.blocks(examples.MANY_ARRAYS), page),
    "status-verbose": lambda page: printed(report_status.blocks(examples.STATUS, verbose=True), page),
    "equal": lambda page: printed(report_outcome.verification_blocks(examples.EQUAL), page),
    "different": lambda page: printed(report_outcome.verification_blocks(examples.DIFFERENT), page),
}


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    monkeypatch.setattr("time.localtime", __import__("time").gmtime)


def text_of(name):
    """A report on both pages."""
    text = ""
    for width in (60, 120):
        text += f"--- {width} columns\n"
        text += "".join(line + "\n" for line in REPORTS[name](Page(width=width)))
    return text


@pytest.fixture
def golden():
    """The kept texts, by name."""
    if os.environ.get("UPDATE"):
        part = GOLDEN.with_name(f"{os.getpid()}.part")
        part.write_text("".join(f"=== {name}\n{text_of(name)}" for name in REPORTS))
        part.replace(GOLDEN)
    _, *parts = re.split(r"^=== (.+)\n", GOLDEN.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.golden
@pytest.mark.parametrize("name", REPORTS)
def test_report_reads_as_its_golden_text(name, golden):
    assert text_of(name) == golden[name]
    assert list(golden) == list(REPORTS)


@pytest.mark.parametrize("name", REPORTS)
def test_no_line_is_wider_than_the_page_but_a_command_to_paste(name):
    for width in (40, 60, 80, 120):
        lines = REPORTS[name](Page(width=width))
        assert [line for line in lines if columns(line) > width and not line.startswith("  zarrlift ")] == []


@pytest.mark.parametrize("name", REPORTS)
def test_colours_change_nothing_but_colours(name):
    coloured = [re.sub(r"\x1b\[\d+m", "", line) for line in REPORTS[name](Page(width=90, colour=True))]
    assert coloured == list(REPORTS[name](Page(width=90)))


def test_all_shows_every_array_and_every_place():
    text = "\n".join(printed(report_plan.blocks(examples.MANY), Page(width=100, everything=True)))
    assert all(f"/t/{i:04} " in text for i in range(250))
    assert all(f"/bad/{i}," in text for i in range(40))
    assert "--all shows" not in text


def test_arrays_that_share_codecs_are_named_and_all_of_them_on_request():
    plain = [examples.ArrayNode(path=name, layout=examples.layout(tail=())) for name in "bcdefghijklm"]
    others = [examples.ArrayNode(path=name, layout=examples.layout()) for name in ("u0", "u1", "u2", "v")]
    archive = replace(examples.ARCHIVE, nodes=(examples.GroupNode(path=""), *plain, *others))
    text = "\n".join(printed(report_archive.blocks(archive), Page(width=80)))
    assert "  /b, /c, /d, /e, /f, /g, /h, /i and 4 more   bytes:little\n  (--all)\n" in text
    assert "  /u0 to u2, /v                               bytes:little > blosc:lz4:5:shuffle\n" in text
    text = "\n".join(printed(report_archive.blocks(archive), Page(width=80, everything=True)))
    assert all(f"/{name}" in text for name in "bcdefghijklmv")
    assert "--all" not in text


def test_codec_chains_beyond_the_most_frequent_are_counted():
    arrays = [
        examples.ArrayNode(
            path=f"{level:02}/{number}",
            layout=examples.layout(tail=(examples.CodecSpec("gzip", {"level": level}),)),
        )
        for level in range(16)
        for number in range(level + 2)
    ]
    archive = replace(examples.ARCHIVE, nodes=(examples.GroupNode(path=""), *arrays))
    lines = list(printed(report_archive.blocks(archive), Page(width=60)))
    chains = [line.split()[-1] for line in lines if " > gzip:" in line]
    assert chains == [f"gzip:{level}" for level in range(15, 3, -1)]
    assert "  and 4 more codec chains (--all shows them)" in lines


def test_failures_beyond_the_first_are_counted_though_their_arrays_share_a_row():
    arrays = [replace(FAILED[0], path=f"n{number:02}") for number in range(50)]
    ways = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
    problems = [
        Problem(kind="chunk", node=array.path, message=f"broken in way {way}")
        for array, way in zip(arrays, ways, strict=True)
    ]
    status = replace(examples.STATUS, arrays=tuple(arrays), problems=tuple(problems))
    lines = list(printed(report_status.blocks(status), Page(width=80)))
    assert [line.split()[:4] for line in lines if "failed  " in line] == [["/n00", "to", "n49", "failed"]]
    assert sum("broken in way" in line for line in lines) == 8
    assert "  and 42 more chunk refusals (--all shows them)" in lines
    everything = list(printed(report_status.blocks(status), Page(width=80, everything=True)))
    assert sum("broken in way" in line for line in everything) == 50


def test_a_total_that_is_an_estimate_is_marked_as_one():
    figures = {"bytes_done": 5, "bytes_total": 9, "bytes_known": False}
    going = ArrayStatus(path="a", route="relink", state="pending", **figures)
    status = replace(examples.STATUS, arrays=(going,), **figures)
    text = "\n".join(printed(report_status.blocks(status), Page(width=120)))
    assert text.count("5 B of ~9 B") == 2, "in the row and in the summary"


PENDING = (ArrayStatus(path="a", route="relink", state="pending"),)
FAILED = (ArrayStatus(path="a", route="relink", state="failed"),)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"activity": "stopped", "arrays": PENDING}, "Continue with: zarrlift resume", id="stopped"
        ),
        pytest.param({"activity": "stale", "arrays": PENDING}, "Continue with: zarrlift resume", id="killed"),
        pytest.param({"activity": "stopped", "arrays": FAILED}, "After the cause is fixed: ", id="failed"),
        pytest.param({"activity": "unknown"}, "If that process has ended: zarrlift resume", id="elsewhere"),
        pytest.param({"undoing": True}, "It is being undone. Continue", id="undone"),
        pytest.param({"activity": "running"}, "3 arrays: ", id="running"),
        pytest.param({"activity": None, "state": "done"}, "3 arrays: ", id="done"),
    ],
)
def test_a_status_advises_what_is_right(changes, expected):
    *_, last = printed(report_status.blocks(replace(examples.STATUS, **changes)), Page(width=120))
    assert last.startswith(expected)


def test_an_undone_job_is_not_said_to_be_there():
    status = replace(examples.STATUS, state="undone")
    *_, last = printed(report_status.blocks(status), Page(width=120))
    assert last == "Everything the job wrote was removed."


def test_a_hostile_name_cannot_steer_the_terminal():
    hostile = "x\x1b[2J\u202egnp\udcff\n"
    archive = examples.replace(
        examples.ARCHIVE, nodes=(examples.GroupNode(path=""), examples.GroupNode(path=hostile))
    )
    text = "\n".join(printed(report_archive.blocks(archive), Page(width=100)))
    assert r"x\x1b[2J\u202egnp\udcff\n" in text
    assert hostile not in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "coloured"),
    [
        pytest.param(Terminal(), {}, True, id="terminal"),
        pytest.param(Terminal(), {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param(Terminal(), {"NO_COLOR": ""}, True, id="NO_COLOR-empty-counts-as-unset"),
        pytest.param(Terminal(), {"TERM": "dumb"}, False, id="dumb"),
        pytest.param(io.StringIO(), {}, False, id="pipe"),
    ],
)
def test_colours_are_for_terminals_that_want_them(stream, environment, coloured, monkeypatch):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Page.of(stream).colour is coloured


def test_a_pipe_gets_120_columns_unless_COLUMNS_says_else(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert Page.of(io.StringIO()).width == 120
    monkeypatch.setenv("COLUMNS", "72")
    assert Page.of(io.StringIO()).width == 72


def test_a_closed_stream_still_has_a_page():
    stream = io.StringIO()
    stream.close()
    assert not Page.of(stream).colour


# Problems are told once each, with their places, the gravest first.


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


def test_problems_that_differ_by_numbers_are_one_group_if_they_are_many():
    texts = [f"shards of {i} x 5 chunks: about {i} MB in each of 2" for i in range(6)]
    problems = [note("grid", text, node=f"n{i}") for i, text in enumerate(texts)]
    assert list(lines(problems, PAGE)) == [
        "  note: shards of ... chunks: about ... in each of 2 (6 times)",
        "    at /n0: shards of 0 x 5 chunks: about 0 MB in each of 2",
        "    at /n1: shards of 1 x 5 chunks: about 1 MB in each of 2",
        "    at /n2: shards of 2 x 5 chunks: about 2 MB in each of 2",
        "    and 3 more (--all shows them)",
    ]
    assert [line.split(":")[1] for line in lines(problems[:2], PAGE)] == [" /n0", " /n1"]


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


def test_a_problem_cannot_steer_the_terminal():
    problem = Problem(kind="x", message="m\x1b[31m", node="\x07", found="\x9b", expected="\r", advice="\x00")
    shown = "".join(lines([problem], PAGE))
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)


def test_messages_that_differ_by_a_number_do_not_flood_the_page():
    problems = [Problem(kind="fill", severity="note", message=f"{i} missing chunks") for i in range(99)]
    shown = list(lines(problems, PAGE))
    assert shown == [
        "  note: ... missing chunks (99 times)",
        *(f"    at {i} missing chunks" for i in range(3)),
        "    and 96 more (--all shows them)",
    ]
    assert len(list(lines(problems, Page(width=70, everything=True)))) == 100


def test_messages_that_differ_by_more_than_numbers_are_shown_up_to_eight():
    problems = [Problem(kind="fill", severity="note", message=f"about {c} chunks") for c in "abcdefghij"]
    shown = list(lines(problems, PAGE))
    assert shown[7:] == ["  note: about h chunks", "  and 2 more fill notes (--all shows them)"]


def test_a_unit_is_part_of_its_number():
    sizes = ("25 MB", "6 MB", "2 MB", "370 kB", "84 kB", "1.5 GB")
    problems = [Problem(kind="shards", severity="note", message=f"about {size} each") for size in sizes]
    assert next(lines(problems, PAGE)) == "  note: about ... each (6 times)"


def test_the_word_for_what_is_kept_back_fits_the_report():
    assert list(lines([Problem(kind="x", message="m")], PAGE, refusal="failed")) == ["  failed: m"]
