"""What the helpers of the tests do, and the oracle, of which a mistake would hide others."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.oracle import oracle
from tests.support import in_memory
from tests.support.chances import try_each
from tests.support.choosing import Choice, one_in, quick
from tests.support.unpacking import FIXTURES, packing

# What `go.py test` runs, with `--all`, `--rest` and `--random`, and what it says of the rest.


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
        return [pytest.mark.needs_reader("zarrita").mark] if mark in MARKED[self.name] else []


def choose(every=False, rest=False, needs="", seed=None, args=("tests",), brought=(), count=1, items=None):
    """The names that are taken, the names that are not, and the last lines of the run."""
    lines, left = [], []

    def leave(items):
        left.extend(items)

    config = SimpleNamespace(
        args=args,
        getoption={
            "--all": every,
            "--rest": rest,
            "--needs": needs,
            "--random": seed,
            "--one-in": count,
        }.__getitem__,
        hook=SimpleNamespace(pytest_deselected=leave),
    )
    choice, items = Choice(config, brought), items or [Item(name, name) for name in MARKED]
    choice.pytest_collection_modifyitems(config, items)
    choice.pytest_terminal_summary(SimpleNamespace(write_line=lines.append))
    return [item.name for item in items], [item.name for item in left], "\n".join(lines)


CHOICES = {
    "slow tests are left out": ({}, ["quick", "read elsewhere", "drawn"], "python3 go.py test --all"),
    "--all": ({"every": True}, [*MARKED], ""),
    "by name": ({"args": ["tests/test_a.py::test_b"]}, [*MARKED], ""),
    "--rest, what a run without options leaves out": ({"rest": True}, ["wide", "drawn and wide"], ""),
    "--rest, with quick tests whose reader was missing before": (
        {"rest": True, "brought": {"zarrita"}}, ["read elsewhere", "wide", "drawn and wide"], "",
    ),
    "--needs one of some readers": ({"needs": "moto,zarrita"}, ["read elsewhere"], ""),
    "--needs another": ({"needs": "moto"}, [], ""),
    "--random, slow or not": ({"seed": "77"}, ["drawn", "drawn and wide"], "python3 go.py test --random 77"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "expected", "command"), CHOICES.values(), ids=CHOICES)
def test_a_run_takes_what_its_options_say_and_says_what_runs_the_rest(options, expected, command):
    taken, left, said = choose(**options)
    assert (taken, left) == (expected, [name for name in MARKED if name not in expected])
    assert said.endswith(command)
    assert bool(said) == bool(command)
    assert said.startswith("2 slow tests were not run") or options


def test_one_in_so_many_cases_of_a_slow_test_is_quick():
    items = [Item("wide", f"{test}[{case}]", one_in=3) for test in ("a", "b") for case in range(5)]
    assert [item.nodeid for item in quick(items)] == ["a[0]", "a[3]", "b[0]", "b[3]"]


def test_of_the_cases_that_are_not_quick_one_in_so_many_may_be_run():
    items = [Item("wide", f"{test}[{case}]", one_in=3) for test in ("a", "b") for case in range(6)]
    assert [item.nodeid for item in one_in(2, items) if item.nodeid < "b"] == ["a[0]", "a[1]", "a[3]", "a[4]"]
    assert one_in(1, items) == items
    assert choose(every=True, count=9)[0] == list(MARKED)  # a test without cases runs


def test_of_the_rest_one_in_so_many_cases_of_each_test_may_be_enough():
    cases = [Item("wide", f"{test}[{case}]") for test in ("a", "b") for case in range(3)]
    chosen = cases.copy()
    assert choose(rest=True, count=2, items=chosen)[0] == ["wide"] * 4
    assert [item.nodeid for item in chosen] == ["a[0]", "a[2]", "b[0]", "b[2]"]


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


# A test of many cases fails as its cases would: each of them, by name.


def test_every_case_is_tried_and_each_that_fails_is_told_by_name() -> None:
    tried = []

    def check(number: int) -> None:
        tried.append(number)
        if number == 3:
            pytest.fail("three")
        if number == 4:
            with pytest.raises(ValueError, match="four"):
                pass
        assert number % 2

    with pytest.raises(BaseExceptionGroup, match="3 of 5 cases failed") as caught:
        try_each([1, 2, 3, 4, 5], check)
    assert tried == [1, 2, 3, 4, 5]
    assert [error.__notes__ for error in caught.value.exceptions] == [["Case: 2"], ["Case: 3"], ["Case: 4"]]


def test_no_case_is_no_test() -> None:
    with pytest.raises(AssertionError, match="no case"):
        try_each([], lambda _: None)


# Where temporary files of a run are.


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(in_memory, "MEMORY", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", "")  # so that it is set back
    monkeypatch.delenv("TMPDIR")
    return tmp_path


def configured(**config: object) -> list[object]:
    """The plug-ins that a run gets."""
    registered: list[object] = []
    manager = SimpleNamespace(register=registered.append)
    in_memory.pytest_configure(SimpleNamespace(pluginmanager=manager, **config))
    return registered


def test_temporary_files_are_in_a_folder_that_goes_with_the_run(memory: Path, monkeypatch) -> None:
    monkeypatch.setattr(in_memory, "ROOM", 0)
    (run,) = configured()
    (folder,) = memory.iterdir()
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(folder)
    run.pytest_terminal_summary(None, pytest.ExitCode.OK)
    assert not folder.exists()


def test_what_failed_tests_wrote_stays_and_is_named(memory: Path, monkeypatch) -> None:
    monkeypatch.setattr(in_memory, "ROOM", 0)
    (run,) = configured()
    lines: list[str] = []
    run.pytest_terminal_summary(SimpleNamespace(write_line=lines.append), pytest.ExitCode.TESTS_FAILED)
    assert str(next(memory.iterdir())) in lines[0]


def test_folders_of_ended_runs_are_removed_and_others_stay(memory: Path) -> None:
    ended = in_memory.PREFIX + "4194305-x"  # above the largest number of a process on Linux
    for name in (ended, in_memory.PREFIX + f"{os.getpid()}-x", "other"):
        (memory / name).mkdir()
    in_memory.remove_older()
    assert sorted(path.name for path in memory.iterdir()) == ["other", in_memory.PREFIX + f"{os.getpid()}-x"]


def test_without_room_and_where_the_user_chose_a_folder_nothing_changes(memory: Path, monkeypatch) -> None:
    monkeypatch.setattr(in_memory, "ROOM", 1 << 60)
    assert configured() == []
    monkeypatch.setattr(in_memory, "ROOM", 0)
    assert configured(workerinput={}) == []
    monkeypatch.setenv("TMPDIR", str(memory))
    assert configured() == []


# A run of the tests ends what they start, also where it is killed, and works where signals are ignored.


ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.support import processes
processes.GRACE = 0.0
pytest_plugins = ["tests.support.left_behind"]
"""
TEST = """
import os, signal, subprocess
def test_it():
    sleep = subprocess.Popen(["sleep", "600"])
    while not open(f"/proc/{sleep.pid}/environ").read():
        pass  # for a moment a process that begins another program has no environment
    BODY
"""


def run(folder, body, *before):
    """Run a test that starts a process; it has ended in the end, since its output is read to the end."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(TEST.replace("BODY", body))
    return subprocess.run(
        [*before, sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "test_it.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="not everywhere: only Linux shows it")
def test_a_test_that_leaves_a_process_fails_the_run(tmp_path):
    done = run(tmp_path, "pass")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "FAILED a test left process" in done.stdout
    assert "sleep 600" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="not everywhere: only Linux shows it")
def test_a_killed_run_leaves_no_process(tmp_path):
    done = run(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == -signal.SIGKILL, done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="not everywhere: only Linux shows it")
def test_children_hear_signals_that_the_run_ignores(tmp_path):
    body = "sleep.send_signal(signal.SIGINT); assert sleep.wait() == -signal.SIGINT"
    ignoring = ["sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh"]
    done = run(tmp_path, body, *ignoring)
    assert done.returncode == pytest.ExitCode.OK, done.stdout


# One process unpacks a fixture for all; a test that writes to the cache fails the run.


CASES = {path.name for path in packing.held(FIXTURES / "zarr_v2" / "bad" / "archives.zip")}
UNPACKING = """
import os, shutil
import pytest
from tests.support.unpacking import CACHE, packing, unpacked

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    path = unpacked("zarr_v2/bad/nothing.zarr")
    file = sorted(unpacked("zarr_v2/zarr-2.2/old.zarr").rglob(".zarray"))[0]
    BODY
"""


def run_unpacking(folder: Path, body: str = "pass", *options: str) -> subprocess.CompletedProcess[str]:
    """Run four tests that use fixtures and then `body`, with a cache of their own."""
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.support.unpacking"]')
    (folder / "test_it.py").write_text(UNPACKING.replace("BODY", body))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist.plugin", *options],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(FIXTURES.parent),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "ZARRLIFT_FIXTURES": str(folder / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
def test_processes_share_what_one_unpacks(tmp_path: Path) -> None:
    done = run_unpacking(tmp_path, "assert {p.name for p in path.parent.iterdir()} == " + repr(CASES), "-n4")
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert not list(tmp_path.glob("cache/**/*.part"))


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    "write",
    [
        "file.write_bytes(file.read_bytes())",
        "(file.parent / 'new').mkdir(exist_ok=True)",
        "shutil.copy2(file, file.with_name('copy'))",
    ],
)
def test_a_test_that_writes_there_fails_the_run_and_the_next_unpacks_anew(write: str, tmp_path: Path) -> None:
    done = run_unpacking(tmp_path, write, "-k", "0")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "FAILED a test wrote to" in done.stdout
    assert "zarr-2.2/old.zarr, which was removed" in done.stdout
    assert {path.name for path in tmp_path.glob("cache/*/zarr_v2/**/*.zarr")} == CASES  # old.zarr is gone


def test_what_a_killed_run_left_and_what_another_manifest_named_goes(tmp_path: Path) -> None:
    old = tmp_path / "cache" / ("0" * 16) / "zarr_v2"
    old.mkdir(parents=True)
    killed = "part = CACHE / 'zarr_v2/z5py/dots.zarr.part'; part.mkdir(parents=True, exist_ok=True); "
    done = run_unpacking(
        tmp_path, killed + "(part / 'half').touch(); unpacked('zarr_v2/z5py/dots.zarr')", "-k", "0"
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert not old.exists()
    assert not list(tmp_path.glob("cache/*/zarr_v2/z5py/dots.zarr*/half"))


# The oracle sees what differs between two installations, and nothing between two runs of one.

NAMES = ("zarr_v1/bad/meta_no_dtype.zarr", "zarr_v1/zarr-1.0/root.zarr")
NO_WORDS = oracle.Words((), (), ())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two records of this installation."""
    folder = tmp_path_factory.mktemp("oracle")
    chosen = [one for one in oracle.archives() if one["name"] in NAMES]
    files = folder / "one.jsonl", folder / "two.jsonl"
    for file in files:
        oracle.record(sys.executable, file, chosen)
    return files


@pytest.mark.slow
def test_two_runs_do_not_differ(recorded: tuple[Path, Path]) -> None:
    one, two = map(oracle.records, recorded)
    assert set(one) == set(NAMES)
    assert list(oracle.differences(one, two, NO_WORDS)) == []
    lives = one["zarr_v1/zarr-1.0/root.zarr"]
    codes = {life: [answer["code"] for answer in answers] for life, answers in lives.items()}
    assert codes["copy"] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0]
    assert codes["in place"] == [0] * 12
    trees = [answer["tree"] for answer in lives["copy"] if "tree" in answer]
    assert "new.zarr/zarr.json" in trees[0]
    assert "new.zarr/zarr.json" not in trees[-1]


CHANGES = {
    "exit code: 0 -> 1": lambda answer: answer.update(code=1),
    "out -  read by": lambda answer: answer.update(out=answer["out"].replace("read by", "readable by")),
    "err +more": lambda answer: answer.update(err="more\n"),
    "tree new.zarr/zarr.json": lambda answer: answer["tree"].update({"new.zarr/zarr.json": "0"}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.slow
def test_each_kind_of_difference_is_listed(change: str, recorded: tuple[Path, Path]) -> None:
    one, two = map(oracle.records, recorded)
    number = oracle.COPY.index(
        "migrate SRC DST" if change.startswith("tree") else "migrate SRC DST --dry-run"
    )
    CHANGES[change](two["zarr_v1/zarr-1.0/root.zarr"]["copy"][number])
    found = list(oracle.differences(one, two, NO_WORDS))
    assert found
    assert {(name, line) for name, line, _ in found} == {
        ("zarr_v1/zarr-1.0/root.zarr", f"copy: {oracle.COPY[number]}")
    }
    assert any(difference.startswith(change) for _, _, difference in found)


@pytest.mark.slow
def test_a_member_of_json_that_differs_is_listed_by_its_path() -> None:
    before, after = (
        {"code": 0, "out": json.dumps({"a": {"b": [1, n]}, "seconds": n}), "err": ""} for n in (2, 3)
    )
    assert list(oracle.of_answers(before, after, NO_WORDS)) == ["json .a.b[1]: 2 -> 3"]


@pytest.mark.slow
def test_renamed_words_are_no_difference(tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    file.write_text(
        '[[command]]\nold = "plan"\nnew = "migrate --dry-run"\n'
        '[[text]]\nold = "zarrlift plan"\nnew = "zarrlift migrate -n"\n'
        '[[expected]]\npattern = "^a: "\nwhy = "it is retired"\n'
    )
    table = oracle.words(file)
    assert oracle.translated("plan SRC --json", table) == ["migrate", "--dry-run", "SRC", "--json"]
    assert oracle.translated("planned SRC", table) == ["planned", "SRC"]
    before, after = (
        {"code": 2, "out": "", "err": f"Run: zarrlift {word} x"} for word in ("plan", "migrate -n")
    )
    assert list(oracle.of_answers(before, after, table)) == []
    assert table.expected[0][0].search("a: plan: exit code")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("68.0 kB written in 0.18 s (374 kB/s).", "68.0 kB written in 12 s (1.2 MB/s)."),
        ("copied and written in 0.18 s\n  (374 kB/s).\nmore", "copied and written in 0.2 s (1 kB/s).\nmore"),
        ("created   2026-11-25 18:45:44 +0000", "created   2026-12-01 00:00:00 +0000"),
        ("23.3 GB free", "5 GB free"),
    ],
)
@pytest.mark.slow
def test_what_varies_from_run_to_run_is_masked(one: str, two: str) -> None:
    assert oracle.masked(one) == oracle.masked(two)


@pytest.mark.slow
def test_the_table_of_words_can_be_read() -> None:
    assert isinstance(oracle.words(), oracle.Words)
