"""What every test shares: which cases of slow tests are quick, what is left out, and the rule about skips.

A test that needs a reader that does not install at one end is marked with
`needs_reader("name")`. Where `not_everywhere.toml` lists the name for this end, the test is
skipped; where it does not, the test runs, and fails if the reader is missing. The same file lists
the tests that need what a system may lack. Any other skip makes the whole run fail, so that a test
never goes silent unnoticed.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import os
import re
import shutil
import signal
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.support import chances, unpacking
from zarrstack.system.this import system

HERE = Path(__file__).parent
END = "3.11" if sys.version_info[:2] == (3, 11) else "3.13"
LISTED = "not everywhere: "
chances.register_profiles()


def rows(table: str = "reader") -> list[dict[str, Any]]:
    """The list of readers, or of what systems have (`need`)."""
    with (HERE / "not_everywhere.toml").open("rb") as file:
        return tomllib.load(file).get(table, [])


def has(name: str) -> bool:
    """Whether this system has a module, an attribute, an id of the boot, all names of files, or links."""
    if name == "boot":
        return bool(system.boot())
    if name == "names":
        return not HERE.with_name("TESTS").exists()
    if name == "symlinks":
        with tempfile.TemporaryDirectory() as folder, suppress(OSError):
            os.symlink("target", Path(folder, "link"))
            return Path(folder, "link").is_symlink()  # Wine 8 makes none, without an error
        return False
    module, _, attribute = name.partition(".")
    with suppress(ImportError):
        return hasattr(importlib.import_module(module), attribute or "__name__")
    return False


LACKING = [row for row in rows("need") if not has(row["has"])]
"""What this system does not have, and what in a test shows that it needs it."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out modules that cannot be imported without what they need."""
    name = collection_path.relative_to(HERE).as_posix() if collection_path.is_relative_to(HERE) else ""
    return any(name in row.get("modules", ()) for row in LACKING) or None


def names_in(code: CodeType) -> set[str]:
    """The names that a function uses, and those within it."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return {*code.co_names}.union(*map(names_in, inner))


def source_of(function: Any, seen: set[Any]) -> str:
    """The source of a test or fixture, of the tests' functions that it names, and texts such as scripts."""
    text = ""
    with suppress(OSError):  # of a function that a test compiles
        text = inspect.getsource(function)
    for name in names_in(function.__code__) & function.__globals__.keys():
        thing = function.__globals__[name]
        if isinstance(thing, str):
            text += thing
        elif inspect.isfunction(thing) and thing.__module__.startswith("tests") and thing not in seen:
            seen.add(thing)
            text += source_of(thing, seen)
    return text


@cache
def text_of(*functions: Any) -> str:
    """The sources of a test and its fixtures, the same for all of its cases."""
    seen: set[Any] = set()
    return "".join(source_of(each, seen) for each in functions if each.__module__.startswith("tests"))


def needs_of(item: pytest.Item) -> list[str]:
    """What a test needs that this system lacks."""
    lacking = [row for row in LACKING if "uses" in row]
    if not lacking or not isinstance(item, pytest.Function):
        return []
    fixtures = item._fixtureinfo.name2fixturedefs
    text = item.nodeid + text_of(item.function, *(fixtures[name][-1].func for name in fixtures))
    return [row["name"] for row in lacking if re.search(row["uses"], text)]


def missing_readers() -> dict[str, str]:
    """Each reader that this end does without, and what brings it or why it is missing."""
    return {row["name"]: remedy(row) for row in rows() if row["end"] in (END, "both") and not is_here(row)}


def brought_readers() -> set[str]:
    """The readers that an environment variable brings, such as those that .ci/run sets."""
    return {row["name"] for row in rows() if os.environ.get(row.get("unless", ""))}


def remedy(row: dict[str, str]) -> str:
    """The command that makes the environment of a reader; where there is none, the list's reason."""
    made = f"\ninstall_{row['name']}() {{" in (HERE / "environments" / "install").read_text()
    return f"made by tests/environments/install {row['name']}" if made else row["reason"]


def is_here(row: dict[str, str]) -> bool:
    """Whether this machine has what a row of the list is about."""
    program = row.get("program")
    found = program is not None and sys.platform == "linux" and shutil.which(program) is not None
    return found or bool(os.environ.get(row.get("unless", "")))


@pytest.hookimpl(tryfirst=True)  # before `-m` leaves out tests by what they are marked with
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what the list says, and nothing else; let some cases of slow tests be quick."""
    missing, brought = missing_readers(), brought_readers()
    for item in items:
        for need in needs_of(item):
            item.add_marker(pytest.mark.skip(reason=f"{LISTED}{need}"))
        for mark in [*item.iter_markers("needs_reader")]:
            if mark.args[0] in missing:
                item.add_marker(pytest.mark.skip(reason=f"{LISTED}{mark.args[0]}; {missing[mark.args[0]]}"))
            if mark.args[0] in brought:
                item.add_marker("brought")
    sample_slow(items, int(os.environ.get("ZARRLIFT_ONE_IN", "1")))


def sample_slow(items: list[pytest.Item], one_in: int) -> None:
    """Take the mark from every n-th case of a `slow(one_in=n)`; mark others `left_out`, but one in so many.

    Of a test with several parameters, `n` is a number that none of their lengths divides, or a value is never
    tried.
    """
    seen = Counter[tuple[str, bool]]()
    for item in items:
        mark = item.get_closest_marker("slow")
        if mark is None:
            continue
        test = item.nodeid.partition("[")[0]
        is_quick = bool(mark.kwargs) and seen[test, True] % mark.kwargs["one_in"] == 0
        seen[test, True] += 1
        if is_quick:
            item.own_markers[:] = [other for other in item.own_markers if other.name != "slow"]
            continue
        if seen[test, False] % one_in:
            item.add_marker("left_out")
        seen[test, False] += 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests are many, and none is garbage: not looked through while they are made, nor while they run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` means: one process more than there are cores, since tests wait for files and processes.

    On two cores, the quick tests take 0.87 of the time with three processes that they take with two. A fourth
    brings nothing.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


class NotRun:
    """Names what a run without slow tests leaves out; a worker of xdist tells the process that collects."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.left_out: list[str] = []
        self.count = 0
        self.rules: list[str] = []

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Called for what `-m` and `-k` leave out."""
        self.left_out += [item.nodeid.partition("[")[0] for item in items if item.get_closest_marker("slow")]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the rules of the repository of which no case is run."""
        run = {item.nodeid.partition("[")[0] for item in session.items}
        rules = {test for test in self.left_out if test.startswith("tests/repository/")} - run
        self.count, self.rules = len(self.left_out), sorted(test.rpartition("::")[2] for test in rules)
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["not_run"] = self.count, self.rules

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Called when a worker of xdist has ended."""
        self.count, self.rules = getattr(node, "workeroutput", {}).get("not_run", (self.count, self.rules))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was left out, and how to run it."""
        if self.count and self.config.option.markexpr == "not slow":
            rules = f", among them all of {', '.join(self.rules)}" if self.rules else ""
            line = f"not run: {self.count} slow cases (`python3 go.py test --rest` runs them){rules}"
            terminalreporter.write_line(line)


class SkipGuard:
    """Counts what was skipped, and makes the run fail where the list does not name it."""

    def __init__(self) -> None:
        self.listed = Counter[str]()
        self.unlisted: list[str] = []

    def _look_at(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        # An expected failure is reported as skipped too; xfail_strict keeps those honest.
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            reason = reason.removeprefix("Skipped: ")
            if reason.startswith(LISTED):
                self.listed[reason.removeprefix(LISTED)] += 1
            else:
                self.unlisted.append(f"{report.nodeid}: {reason}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each phase of each test; under xdist in the process that collects the results."""
        self._look_at(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that skips itself as a whole."""
        self._look_at(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a green run red."""
        if self.unlisted and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what is missing, and why the run failed."""
        for reason, count in sorted(self.listed.items()):
            name, semicolon, why = reason.partition("; ")
            tests = "1 test" if count == 1 else f"{count} tests"
            terminalreporter.write_line(f"{name}: {tests} skipped{semicolon}{why}")
        for line in dict.fromkeys(self.unlisted):
            text = f"FAILED skipped, but not listed in not_everywhere.toml: {line}"
            terminalreporter.write_line(text, red=True)


ROOM = 4 << 30
"""Bytes that a folder in memory must have for what tests write."""


def work_in_memory() -> None:
    """Let temporary folders be in memory, where system calls cost half, if it has room and runs programs."""
    with suppress(OSError, AttributeError):  # Windows and macOS have none
        facts = os.statvfs(folder := "/dev/shm")
        if facts.f_bavail * facts.f_frsize >= ROOM and not facts.f_flag & os.ST_NOEXEC:
            tempfile.tempdir = os.environ.setdefault("TMPDIR", folder)


def pytest_configure(config: pytest.Config) -> None:
    """Run what is named, slow or not; watch skips where the results come together: not in xdist's workers."""
    work_in_memory()
    if any("::" in each for each in config.args):
        config.option.markexpr = ""
    elif os.environ.get("UPDATE") and config.option.markexpr == "not slow":
        config.option.markexpr = "golden"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(unpacking, "unpacking")
    config.pluginmanager.register(NotRun(config), "not-run")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipGuard(), "skip-guard")
