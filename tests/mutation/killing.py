"""Run tests on mutants.

    python killing.py TREE COVERAGE MUTANTS OUTPUT [--module NAME] [--earlier OUTPUT] [--most N]

TREE is a copy of the repository, in which each mutant is written in turn; COVERAGE is what `probes.py`
writes, and MUTANTS what `mutants.py` writes. One process collects the tests, and is copied for each mutant,
whose functions are put into the copy; a mutant of a module's own code is imported by a copy of a process that
has imported everything but our packages. A mutant is killed if one of its tests fails, or needs many times
its usual processor time. A test that fails without a mutant, alone, kills nothing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from patching import is_inside_functions, is_loaded, patch
from targets import statements

MOST = 40
"""Tests of a mutant."""
SECONDS = 6.0
"""All of them, as long as one is left."""
TIMEOUT = "timeout"
OPTIONS = (
    *("-x", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


class Chooser:
    """Chooses the tests of a mutant, which execute its statement.

    Those of the file that is named after the module come first, then one case of each test before the second
    of any, tests of the module's room before others, and the fastest first.
    """

    def __init__(self, tree: Path, coverage: dict[str, Any], most: int, longest: float) -> None:
        self._tree = tree
        self._tests: list[tuple[str, float]] = [(name, seconds) for name, seconds in coverage["tests"]]
        self.seconds = dict(self._tests)
        self._places: dict[str, list[int]] = coverage["places"]
        self._most = most
        self._longest = longest
        self._spans: dict[str, list[tuple[int, int]]] = {}

    def __call__(self, file: str, line: int) -> list[str]:
        """Names of tests, in the order in which they are tried."""
        executing = self._executing(file, line)
        by_test: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for number in executing:
            name, seconds = self._tests[number]
            by_test[name.partition("[")[0]].append((seconds, name))
        room = _room(file)
        named = f"/test_{Path(file).stem}.py::"
        ranked = [
            (named not in name, rank, not name.startswith(room), seconds, name)
            for cases in by_test.values()
            for rank, (seconds, name) in enumerate(sorted(cases))
        ]
        chosen: list[str] = []
        total = 0.0
        for *_, seconds, name in sorted(ranked):
            if len(chosen) == self._most or (chosen and total + seconds > self._longest):
                break
            chosen.append(name)
            total += seconds
        return chosen

    def _executing(self, file: str, line: int) -> list[int]:
        """Tests that execute the innermost statement of a function around a line."""
        if file not in self._spans:
            tree = ast.parse((self._tree / file).read_text())
            self._spans[file] = [(each.lineno, each.end_lineno or each.lineno) for each in statements(tree)]
        around = [span for span in self._spans[file] if span[0] <= line <= span[1]]
        if around:
            return self._places.get(f"{file}:{max(around)[0]}", [])
        # Code of the module and of classes, which an import runs: what uses any function of the file.
        of_file = (tests for place, tests in self._places.items() if place.startswith(f"{file}:"))
        return sorted(set().union(*of_file))


def _room(file: str) -> str:
    """The folder of tests that mirrors that of a module."""
    _, *folders, _ = file.split("/")
    depth = 2 if folders[1] in ("jobs", "layers") else 3
    return "/".join(("tests", *folders[:depth]))


class Killed:
    """A plug-in of pytest: the first test that fails."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Each phase of each test."""
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        """A module that cannot be imported."""
        if report.failed and not self.name:
            self.name = report.nodeid or "collection"


def load() -> None:
    """Import what the tests need, but nothing of ours."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        import pkgutil

        import tests.support

        import zarrlift
        import zarrstack

        for package in (zarrlift, zarrstack, tests.support):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                if not module.name.endswith("__main__"):
                    with contextlib.suppress(Exception, SystemExit):
                        __import__(module.name)
        names = [
            name for name in sys.modules if name.partition(".")[0] not in ("zarrlift", "zarrstack", "tests")
        ]
        with os.fdopen(writing, "w") as file:
            json.dump(names, file)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        names = json.load(file)
    os.waitpid(child, 0)
    for name in names:
        if name not in sys.modules and not name.startswith(("distributed", "dask")):
            with contextlib.suppress(BaseException):
                __import__(name)
    import pytest  # noqa: F401

    assert not [name for name in sys.modules if name.partition(".")[0] in ("zarrlift", "zarrstack", "tests")]
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, "a process with threads cannot be copied"
    gc.collect()
    gc.freeze()


def run(names: list[str], seconds: float) -> tuple[bool, str]:
    """Run tests by a pytest of their own, in a copy of this process: whether one failed, and its name."""

    def body(told: Killed) -> bool:
        import pytest

        return pytest.main([*OPTIONS, *names], plugins=[told]) != 0

    return forked(body, seconds)


def forked(body: Callable[[Killed], bool], seconds: float) -> tuple[bool, str]:
    """Run tests in a copy of this process: whether one failed, and its name."""
    reading, writing = os.pipe()
    limit = int(10 + 5 * seconds)
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        quiet = os.open(os.environ.get("MUTATION_OUTPUT", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        failed, killed = True, Killed()
        try:
            failed = body(killed)
        except BaseException:  # noqa: BLE001 - told, and a failure
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os.write(writing, f"{int(failed)} {killed.name}".encode())
            os._exit(0)
    os.close(writing)
    ends = time.monotonic() + 8 * limit
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > ends:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.005)
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb") as file:
        told = (file.read() or b"").decode()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if not told:
        return True, TIMEOUT
    code, _, name = told.partition(" ")
    return code != "0", name


class Collected:
    """A plug-in of pytest, in a process that has collected tests: runs some of them in copies of itself."""

    def __init__(self, then: Callable[[Collected], None]) -> None:
        self._then = then
        self._items: dict[str, Any] = {}
        self._patch: tuple[str, str] | None = None

    def pytest_runtestloop(self, session: Any) -> bool:
        """In place of pytest's own loop."""
        self._items = {item.nodeid: item for item in session.items}
        gc.collect()
        gc.freeze()
        threads = os.listdir("/proc/self/task")
        print(f"{len(self._items)} tests are collected, {len(threads)} threads", flush=True)
        self._then(self)
        return True

    def mutated(self, path: Path, source: str | None) -> None:
        """What the next copies get."""
        self._patch = None if source is None else (str(path), source)

    def __call__(self, names: list[str], seconds: float) -> tuple[bool, str]:
        """Run tests: whether one failed, and its name."""
        items = [self._items[name] for name in names if name in self._items]
        if not items:
            return False, ""

        def body(told: Killed) -> bool:
            # A module that is imported when it is needed is imported as it is on disk.
            if self._patch is not None and is_loaded(self._patch[0]) and not patch(*self._patch):
                raise RuntimeError(f"nothing is patched in {self._patch[0]}")
            items[0].config.pluginmanager.register(told)
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if told.name:
                    return True
            return False

        return forked(body, seconds)


class Run:
    """Mutant after mutant."""

    def __init__(self, tree: Path, chooser: Chooser, killers: dict[str, str], runs: Collected | None) -> None:
        self._tree = tree
        self._runs = runs or run
        self._patches = runs
        self._chooser = chooser
        self._known = killers
        self._passes: dict[str, bool] = {}
        self._ticks = int(time.time()) - 10_000_000
        self._often = Counter[str]()

    def __call__(self, mutant: dict[str, Any]) -> dict[str, Any]:
        """The verdict on a mutant."""
        file = mutant["file"]
        names = self._chooser(file, mutant["line"])
        names.sort(key=lambda name: -self._often[name])  # stable: what has killed before is tried first
        known = self._known.get(mutant["id"], "")
        if known in self._chooser.seconds:
            names = [known, *(name for name in names if name != known)]
        began = time.monotonic()
        spent_before = resource.getrusage(resource.RUSAGE_CHILDREN)
        verdict = {"killed": False, "by": "", "tests": len(names)}
        while names:
            killed, by = self._mutated(mutant, names)
            verdict |= {"killed": killed, "by": by}
            if not killed or by not in names or self._passes_alone(by):
                break
            names = [name for name in names if name != by]
            verdict |= {"killed": False, "by": ""}
        if verdict["killed"]:
            self._often[verdict["by"]] += 1
        keep = {name: mutant[name] for name in ("id", "module", "file", "line", "operator")}
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = spent.ru_utime + spent.ru_stime - spent_before.ru_utime - spent_before.ru_stime
        return {
            **keep,
            **verdict,
            "seconds": round(time.monotonic() - began, 2),
            "processor": round(processor, 2),
        }

    def _mutated(self, mutant: dict[str, Any], names: list[str]) -> tuple[bool, str]:
        path = self._tree / mutant["file"]
        original = path.read_text()
        try:
            self._write(path, mutant["source"])
            if self._patches is not None:
                self._patches.mutated(path, mutant["source"])
            return self._runs(names, sum(self._chooser.seconds[name] for name in names))
        finally:
            if self._patches is not None:
                self._patches.mutated(path, None)
            self._write(path, original)

    def _write(self, path: Path, source: str) -> None:
        """Write a module with a time that no compiled one has."""
        path.write_text(source)
        self._ticks += 2
        os.utime(path, (self._ticks, self._ticks))

    def _passes_alone(self, name: str) -> bool:
        if name not in self._passes:
            self._passes[name] = not self._runs([name], self._chooser.seconds[name])[0]
        return self._passes[name]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", type=Path)
    parser.add_argument("coverage", type=Path)
    parser.add_argument("mutants", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--module", action="append", help="only this one")
    parser.add_argument("--only", help="a file with the ids of mutants")
    parser.add_argument("--earlier", type=Path, help="the output of another run, whose tests are tried first")
    parser.add_argument("--most", type=int, default=MOST, help="tests of a mutant")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="all of them")
    parser.add_argument("--again", action="store_true", help="try those again that survived in OUTPUT")
    asked = parser.parse_args()
    tree = asked.tree.resolve()
    output = asked.output.resolve()
    chooser = Chooser(tree, json.loads(asked.coverage.read_text()), asked.most, asked.seconds)
    killers = {}
    if asked.earlier:
        killers = {each["id"]: each["by"] for each in json.loads(asked.earlier.read_text())}
    mutants = json.loads(asked.mutants.read_text())
    if asked.module:
        mutants = [each for each in mutants if each["module"] in asked.module]
    if asked.only:
        wanted = set(Path(asked.only).read_text().split())
        mutants = [each for each in mutants if each["id"] in wanted]
    os.chdir(tree)
    sys.path[:0] = [str(tree / "migrate"), str(tree / "transformers"), str(tree)]
    load()
    done = json.loads(output.read_text()) if output.exists() else []
    if asked.again:
        done = [each for each in done if each["killed"]]
    known = {each["id"] for each in done}
    todo = [each for each in mutants if each["id"] not in known]

    def each_of(some: list[dict[str, Any]], runs: Collected | None) -> None:
        judge = Run(tree, chooser, killers, runs)
        for mutant in some:
            done.append(judge(mutant))
            print(json.dumps(done[-1]), flush=True)
            output.write_text(json.dumps(done, indent=0))

    inside = [each for each in todo if is_inside_functions((tree / each["file"]).read_text(), each["source"])]
    if inside:
        names = {name for each in inside for name in chooser(each["file"], each["line"])}
        names.update(each for each in killers.values() if each in chooser.seconds)
        files = sorted({name.partition("::")[0] for name in names})
        if (child := os.fork()) == 0:
            import pytest

            pytest.main([*OPTIONS, *files], plugins=[Collected(lambda runs: each_of(inside, runs))])
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
        done = json.loads(output.read_text())
    each_of([each for each in todo if each not in inside], None)
    table(done)


def table(done: list[dict[str, Any]]) -> None:
    """Print the share killed of each module."""
    count: dict[str, Counter[bool]] = defaultdict(Counter)
    for each in done:
        count[each["module"]][each["killed"]] += 1
    for module, verdicts in count.items():
        print(f"{module:20} {verdicts[True]:4} of {verdicts.total():4}")


if __name__ == "__main__":
    main()
