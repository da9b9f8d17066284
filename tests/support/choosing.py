"""Which tests a run takes: the quick ones, all, or those that draw random examples.

`python3 go.py test` runs what is not marked `slow`, with examples that are the same every time; `--all`
runs the rest too, `--rest` only the rest (with `--one-in 4` a quarter of its cases); `--needs moto,azurite`
runs what needs one of these readers, slow or not; `--random` runs what draws examples, slow or not, with
others each time. A test that is named (`tests/file.py::test_name`) runs in
any case.

`slow` stands on a test, on one of its cases, or on a module. `slow(one_in=10)` leaves in every tenth case: of
a test with several parameters, a number that none of their lengths divides, or a value is never tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import pytest

LEFT_OUT = "zarrlift_left_out"
"""What a worker of xdist tells under this name: how many tests it left out as slow."""


def add_options(parser: pytest.Parser) -> None:
    """`--all`, `--rest`, `--needs`, `--one-in` and `--random`."""
    group = parser.getgroup("zarrlift")
    group.addoption("--all", action="store_true", help="run slow tests too")
    group.addoption("--rest", action="store_true", help="run what a run without these options leaves out")
    group.addoption("--needs", metavar="READER,...", default="", help="run what needs one of these readers")
    group.addoption("--one-in", metavar="N", type=int, default=1, help="of slow cases, run one in N")
    group.addoption("--random", metavar="SEED", help="run what draws examples, and draw them with this seed")


def needs_one_of(item: pytest.Item, readers: Collection[str]) -> bool:
    """Whether a test is marked with one of these readers."""
    return any(mark.args[0] in readers for mark in item.iter_markers("needs_reader"))


def quick(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """What is not slow, and of the cases of a test one in so many."""
    seen = Counter[str]()
    taken = []
    for item in items:
        mark = item.get_closest_marker("slow")
        if mark is not None:
            test = item.nodeid.partition("[")[0]
            left_in = mark.kwargs and seen[test] % mark.kwargs["one_in"] == 0
            seen[test] += 1
            if not left_in:
                continue
        taken.append(item)
    return taken


def one_in(count: int, items: list[pytest.Item]) -> list[pytest.Item]:
    """What is quick, and of the other cases of each test one in so many."""
    seen = Counter[str]()
    taken, always = [], set(quick(items))
    for item in items:
        if item not in always:
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if (seen[test] - 1) % count:
                continue
        taken.append(item)
    return taken


class Choice:
    """Leaves out what this run does not take, and says so at the end.

    `brought` names the readers that are here by an environment variable, which a newcomer's run is
    without: the quick tests that need one are part of the rest.
    """

    def __init__(self, config: pytest.Config, brought: Collection[str]) -> None:
        self.all: bool = config.getoption("--all")
        self.rest: bool = config.getoption("--rest")
        self.needs: str = config.getoption("--needs")
        self.one_in: int = config.getoption("--one-in")
        self.brought = brought
        self.seed: str | None = config.getoption("--random")
        self.left_out = 0

    @pytest.hookimpl(trylast=True)  # after hypothesis' plug-in has marked its tests
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Take what is wanted."""
        if self.seed:
            taken = [item for item in items if item.get_closest_marker("hypothesis")]
        elif self.needs:
            taken = [item for item in items if needs_one_of(item, self.needs.split(","))]
        elif any("::" in each for each in config.args):
            return
        elif self.all:
            taken = one_in(self.one_in, items)
        elif self.rest:
            before = set(quick(items))
            cases = one_in(self.one_in, items)
            taken = [item for item in cases if item not in before or needs_one_of(item, self.brought)]
        else:
            taken = quick(items)
            self.left_out = len(items) - len(taken)
        chosen = set(taken)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = taken

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """In a worker of xdist: tell the process that prints."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[LEFT_OUT] = self.left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Every worker collects, and leaves out, the same."""
        self.left_out = max(self.left_out, getattr(node, "workeroutput", {}).get(LEFT_OUT, 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was not run, and how to run it."""
        if self.left_out:
            terminalreporter.write_line(
                f"{self.left_out:,} slow tests were not run: wide combinations, every fixture, every reader, "
                "damage of every kind. To run them too: python3 go.py test --all"
            )
        if self.seed:
            terminalreporter.write_line(
                f"Examples were drawn with seed {self.seed}. To draw the same: "
                f"python3 go.py test --random {self.seed}"
            )
