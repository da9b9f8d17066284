"""What `go.py test` runs, with `--all`, `--rest` and `--random`, and what it says of the rest."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.choosing import Choice, one_in, quick

TASKS = Path(__file__).parents[2] / ".ci" / "tasks.py"
MARKED = {
    "quick": set(),
    "read elsewhere": {"needs_reader"},
    "wide": {"slow"},
    "drawn": {"hypothesis"},
    "drawn and wide": {"hypothesis", "slow"},
}


class Item:
    def __init__(self, name, nodeid="", **options):
        self.name, self.nodeid, self.options = name, nodeid, options

    def get_closest_marker(self, mark):
        return getattr(pytest.mark, mark)(**self.options).mark if mark in MARKED[self.name] else None

    def iter_markers(self, mark):
        return [pytest.mark.needs_reader("gdal").mark] if mark in MARKED[self.name] else []


def choose(every=False, rest=False, seed=None, args=("tests",), brought=(), count=1, items=None):
    """The names that are taken, the names that are not, and the last lines of the run."""
    lines, left = [], []

    def leave(items):
        left.extend(items)

    config = SimpleNamespace(
        args=args,
        getoption={"--all": every, "--rest": rest, "--random": seed, "--one-in": count}.__getitem__,
        hook=SimpleNamespace(pytest_deselected=leave),
    )
    choice, items = Choice(config, brought), items or [Item(name, name) for name in MARKED]
    choice.pytest_collection_modifyitems(config, items)
    choice.pytest_terminal_summary(SimpleNamespace(write_line=lines.append))
    return [item.name for item in items], [item.name for item in left], "\n".join(lines)


def test_slow_tests_are_left_out_which_is_said_with_the_command_that_runs_them():
    taken, left, said = choose()
    assert (taken, left) == (["quick", "read elsewhere", "drawn"], ["wide", "drawn and wide"])
    assert said.startswith("2 slow tests were not run")
    assert said.endswith("python3 go.py test --all")


def test_one_in_so_many_cases_of_a_slow_test_is_quick():
    items = [Item("wide", f"{test}[{case}]", one_in=3) for test in ("a", "b") for case in range(5)]
    assert [item.nodeid for item in quick(items)] == ["a[0]", "a[3]", "b[0]", "b[3]"]


def test_of_the_cases_that_are_not_quick_one_in_so_many_may_be_run():
    items = [Item("wide", f"{test}[{case}]", one_in=3) for test in ("a", "b") for case in range(6)]
    assert [item.nodeid for item in one_in(2, items) if item.nodeid < "b"] == ["a[0]", "a[1]", "a[3]", "a[4]"]
    assert one_in(1, items) == items
    assert choose(every=True, count=9)[0] == list(MARKED)  # a test without cases runs


@pytest.mark.parametrize("options", [{"every": True}, {"args": ["tests/test_a.py::test_b"]}], ids=str)
def test_with_all_and_by_name_they_run(options):
    assert choose(**options) == (list(MARKED), [], "")


def test_the_rest_is_what_a_run_without_options_leaves_out():
    assert choose(rest=True) == (["wide", "drawn and wide"], ["quick", "read elsewhere", "drawn"], "")


def test_of_the_rest_one_in_so_many_cases_of_each_test_may_be_enough():
    cases = [Item("wide", f"{test}[{case}]") for test in ("a", "b") for case in range(3)]
    chosen = cases.copy()
    assert choose(rest=True, count=2, items=chosen)[0] == ["wide"] * 4
    assert [item.nodeid for item in chosen] == ["a[0]", "a[2]", "b[0]", "b[2]"]


def test_the_rest_has_quick_tests_whose_reader_was_missing_before():
    taken, left, _ = choose(rest=True, brought={"gdal"})
    assert (taken, left) == (["read elsewhere", "wide", "drawn and wide"], ["quick", "drawn"])


def test_random_examples_are_drawn_for_what_draws_them_slow_or_not():
    taken, left, said = choose(seed="77")
    assert (taken, left) == (["drawn", "drawn and wide"], ["quick", "read elsewhere", "wide"])
    assert said.endswith("python3 go.py test --random 77")


MANY = ["-q", "-n", "auto", "--dist", "worksteal"]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ([], MANY),
        (["--all"], ["--all", *MANY]),
        (["--rest"], ["--rest", *MANY]),
        (["--random", "77"], ["--random", "77", *MANY]),
        (["-k", "foo", "--all"], ["--all", "-k", "foo"]),
        (["tests/zarrstack/core", "--random", "77", "-x"], ["--random", "77", "tests/zarrstack/core", "-x"]),
        (["--random", "-x"], ["--random", "5", "-x"]),
        (["--random"], ["--random", "5", *MANY]),
    ],
    ids=" ".join,
)
def test_other_arguments_go_to_pytest(arguments, given, monkeypatch):
    spec = importlib.util.spec_from_file_location("tasks", TASKS)
    tasks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tasks)
    monkeypatch.setattr(tasks.random, "randrange", lambda end: 5)
    assert tasks.for_pytest(arguments) == given
