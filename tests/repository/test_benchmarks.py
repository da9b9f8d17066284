"""The benchmarks run, check what their contenders write, and the pages show what they print.

No figure is looked at: the suite runs on machines that do other work. What is held is that a table cannot be
written without its machine, versions and date, and that the chart shows the table.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import zarr

pytestmark = pytest.mark.needs_reader("once")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
SVG = "{http://www.w3.org/2000/svg}"
MACHINE = re.compile(
    r"\S+, \d+ cores, data in \S+, Python \d[\w.]+, zarrlift \d\S+, zarr \d\S+, numcodecs \d\S+, numpy \d\S+,"
)
VERSIONS = re.compile(r"tensorstore \d\S+, zarrs \d\S+, dask \d\S+, .*; \d+ rounds, \d{4}-\d\d-\d\d")
FIGURE = re.compile(r"\d+\.\d\d s \(\d+\.\d\d to \d+\.\d\d\), +\d+\.\d\d s of work, +\d+ MB")


class Scripts:
    """The modules of benchmarks/, which import each other as scripts do."""

    def __getattr__(self, name: str) -> ModuleType:
        return __import__(name)


@pytest.fixture(scope="module")
def scripts() -> Iterator[Scripts]:
    sys.path.append(str(FOLDER))  # at the end: one of them is called codecs
    yield Scripts()
    sys.path.remove(str(FOLDER))


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, FOLDER / "run.py", *words)
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def headings(table: str) -> list[str]:
    return re.findall(r"^(\w[\w ]*): ", table, re.MULTILINE)


def names(scripts: Scripts, group: str) -> list[str]:
    return [work.name for work in scripts.workloads.WORKLOADS if work.group == group]


# What runs


@pytest.mark.slow
def test_a_small_run_checks_and_measures_what_it_was_asked_for(tmp_path: Path) -> None:
    wanted = ["shards", "n5 edges", "metadata", "memory", "plan"]
    done = run("--small", "--directory", tmp_path, "--environments", tmp_path, *wanted, "into shards")
    assert done.returncode == 0, done.stderr
    table, updates = done.stdout.split("\nupdates\n")
    assert headings(table) == wanted
    assert headings(updates) == ["into shards"]
    first, second = table[table.index("```text\n") :].splitlines()[1:3]
    assert MACHINE.fullmatch(first)
    assert VERSIONS.fullmatch(second)
    for row in ("zarrlift", "tensorstore", "zarr-python", "zarr-python with zarrs", "dask", "as many files"):
        assert re.search(rf"^  {row} +{FIGURE.pattern}", table, re.MULTILINE), row
    assert "  z5py: left out, there is no environment" in table
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("copy",), ("--small",), ("updates", "copy")])
def test_only_whole_and_full_tables_are_written(words: tuple[str, ...]) -> None:
    done = run("--write", *words)
    assert done.returncode == 2
    assert "--write takes whole tables" in done.stderr


def test_a_workload_that_is_none_is_told(scripts: Scripts) -> None:
    done = run("copy", "cpoy")
    assert done.returncode == 1
    assert "nothing is called cpoy" in done.stderr
    everything = [*scripts.run.GROUPS, *(work.name for work in scripts.workloads.WORKLOADS)]
    assert [name for name in everything if name not in done.stderr] == []


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("change", ["", "value", "shape", "dtype", "negative zero"])
def test_a_contender_that_writes_other_values_ends_the_run(
    scripts: Scripts, tmp_path: Path, change: str
) -> None:
    values = np.arange(90, dtype="<f4").reshape(9, 10)
    zarr.create_array(tmp_path / "old", data=values, chunks=(4, 4), zarr_format=2)
    new = values.copy()
    if change == "value":
        new[8, 9] += 1
    elif change == "shape":
        new = new[:8]
    elif change == "dtype":
        new = new.astype("<f8")
    elif change == "negative zero":
        new[0, 0] = -0.0
    zarr.create_array(tmp_path / "new", data=new, chunks=(3, 3), zarr_format=3)
    expected = pytest.raises(SystemExit, match="new is not what was asked for") if change else nullcontext()
    with expected:
        scripts.contenders.same(tmp_path / "old", tmp_path / "new")


def test_every_workload_has_its_sources_its_table_and_its_contenders(scripts: Scripts) -> None:
    works = scripts.workloads.WORKLOADS
    assert len({work.name for work in works}) == len(works)
    for work in works:
        assert set(work.sources) <= set(scripts.sources.SOURCES)
        assert not scripts.run.GROUPS[work.group].script
        assert set(work.peers) <= {*scripts.programs.PROGRAMS, "zarrs_reencode"}
    assert {peer for work in works for peer in work.peers} >= set(scripts.contenders.APART)
    assert set(scripts.contenders.APART) == set(scripts.run.PROGRAMS)
    assert set(scripts.interpreter_lock.NAMES) <= set(names(scripts, "files"))


def test_every_file_is_in_the_readme_and_the_peers_apart_are_pinned() -> None:
    readme = (FOLDER / "README.md").read_text()
    assert [path.name for path in FOLDER.glob("*.py") if f"`{path.name}`" not in readme] == []
    assert re.search(r"zarrs_tools --version [\d.]+ --locked", readme)
    _, *pins = (FOLDER / "z5py.txt").read_text().splitlines()
    assert [line for line in pins if not re.fullmatch(r"(z5py|numpy)==[\d.]+", line)] == []


# What is measured


def test_the_processes_of_a_command_are_found_with_their_memory(scripts: Scripts) -> None:
    with subprocess.Popen(("sh", "-c", "cat; :"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdin is not None and shell.stdout is not None
        shell.stdin.write(b"ready\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == b"ready\n"  # cat has started
        pids = scripts.harness.family(shell.pid)
        assert [pids[0], len(pids)] == [shell.pid, 2]
        assert set(pids) < set(scripts.harness.family(os.getpid()))
        assert all(scripts.harness.held(pid) > 0 for pid in pids)
    assert scripts.harness.held(shell.pid) == 0


def test_figures_are_medians_and_the_most_memory_of_one_and_of_all_processes(scripts: Scripts) -> None:
    runs = [scripts.harness.Run(2.0, 1.5, 70.0), scripts.harness.Run(1.0, 0.5, 80.0)]
    figures = scripts.harness.Figures([*runs, scripts.harness.Run(4.0, 3.5, 60.0)])
    assert figures.median == 2.0
    assert str(figures) == "  2.00 s (1.00 to 4.00),  1.50 s of work,   80 MB"
    figures.processes, figures.together, figures.text = 2, 113.0, ", 9 requests"
    assert str(figures).endswith("   80 MB, 113 in 2 processes, 9 requests")


def test_a_command_that_fails_ends_the_run_with_what_it_said(scripts: Scripts) -> None:
    command = scripts.harness.Command(name="peer", argv=("sh", "-c", "echo why; exit 3"))
    with pytest.raises(SystemExit, match=r"peer failed with 3:\nwhy"):
        scripts.harness.measure([command], 0)


@pytest.mark.parametrize(
    ("rounds", "expected"), [(0, {"ours": 1, "near": 1, "far": 1}), (3, {"ours": 3, "near": 3, "far": 1})]
)
def test_a_far_slower_command_runs_in_one_round_and_with_no_rounds_the_first_run_counts(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch, rounds: int, expected: dict[str, int]
) -> None:
    seconds = {"ours": 1.0, "near": 4.9, "far": 5.1}
    checked = []

    def pretended(command: Any, figures: Any, *, watched: bool = False, counts: bool = True) -> None:
        if counts:
            figures.runs.append(scripts.harness.Run(seconds[command.name], 0.0, 0.0))

    monkeypatch.setattr(scripts.harness, "run_once", pretended)
    commands = [
        scripts.harness.Command(name=name, argv=("true",), check=lambda name=name: checked.append(name))
        for name in seconds
    ]
    found = scripts.harness.measure(commands, rounds)
    assert {name: len(figures.runs) for name, figures in found.items()} == expected
    assert checked == list(seconds)


@pytest.mark.parametrize(("rounds", "expected"), [(0, [1]), (2, [2, 3])])
def test_what_runs_in_this_process_takes_turns_and_warms_up(
    scripts: Scripts, rounds: int, expected: list[int]
) -> None:
    calls: list[str] = []

    def contender(name: str) -> Any:
        return lambda: calls.append(name) or calls.count(name)

    found = scripts.harness.interleaved({name: contender(name) for name in "ab"}, rounds)
    assert found == {"a": expected, "b": expected}
    assert calls == ["a", "b"] * (rounds + 1)


# The pages


def figures_of(scripts: Scripts, name: str) -> str:
    """What stands on a page between the marks of a table."""
    page = scripts.run.GROUPS[name].page.read_text()
    return page.partition(f"<!-- figures: {name} -->\n")[2].partition(scripts.run.END)[0].strip()


def test_every_table_is_on_its_page_with_its_date_and_without_pass_marks(scripts: Scripts) -> None:
    pages = {name: group.page for name, group in scripts.run.GROUPS.items() if group.page}
    assert len(pages) == 7
    for name, page in pages.items():
        assert re.search(r"\b2\d{3}-\d\d-\d\d\b", figures_of(scripts, name)), name
        assert not re.search(r"BROKEN|: holds|at (least|most) [\d.]+( s)?:", page.read_text()), name
    assert MACHINE.match(figures_of(scripts, "files").removeprefix("```text\n"))


def test_the_page_explains_every_workload_and_has_figures_or_says_that_there_are_none(
    scripts: Scripts,
) -> None:
    page, table = scripts.run.SPEED.read_text().partition("<details")[0], figures_of(scripts, "files")
    expected = names(scripts, "files")
    assert re.findall(r"^\| `([\w ]+)` \|", page, re.MULTILINE) == expected
    missing = re.findall(r"^Not measured yet: (.+)$", table, re.MULTILINE)
    shown = [name for name in headings(table) if name != "Not measured yet"]
    assert sorted([*shown, *(", ".join(missing).split(", ") if missing else [])]) == sorted(expected)


def test_the_chart_shows_figures_of_the_table(scripts: Scripts) -> None:
    page, table = scripts.run.SPEED.read_text(), figures_of(scripts, "files")
    assert f"]({scripts.run.CHART.name})" in page
    svg = ET.parse(scripts.run.CHART).getroot()
    assert svg.get("role") == "img"
    titles = {each.get("id"): each.text for each in svg if each.tag in (f"{SVG}title", f"{SVG}desc")}
    assert svg.get("aria-labelledby", "").split() == list(titles)
    texts = [each.text or "" for each in svg.iter(f"{SVG}text")]
    groups = [each.text for each in svg.iter(f"{SVG}text") if each.get("class") == "group"]
    assert groups == [name for name in names(scripts, "files") if name in groups] != []
    shown = [text for text in texts if re.fullmatch(r"\d+\.\d\d s", text)]
    assert len(shown) == len(list(svg.iter(f"{SVG}rect"))) - 1  # the background
    assert [text for text in shown if not re.search(rf" {re.escape(text)} \(", table)] == []


def test_a_table_is_written_between_its_marks_and_written_again(scripts: Scripts, tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text(scripts.run.SPEED.read_text())
    before, after = page.read_text().split(figures_of(scripts, "updates"))
    for text in ("first", "second"):
        scripts.run.write("updates", text, page)
        assert page.read_text() == f"{before}{text}{after}"


def test_a_page_without_a_place_for_figures_is_left_as_it_is(scripts: Scripts, tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text("# Speed\n")
    with pytest.raises(SystemExit, match="no place for the figures"):
        scripts.run.write("files", "text", page)
    assert page.read_text() == "# Speed\n"


def test_the_rows_of_a_workload_say_how_many_times_as_long_others_take(scripts: Scripts) -> None:
    work = next(each for each in scripts.workloads.WORKLOADS if each.name == "n5 gzip")
    commands, figures = [], {}
    for name, seconds, note in (("zarrlift", 2.0, ""), ("tensorstore", 25.0, "note")):
        commands.append(scripts.harness.Command(name=name, argv=(), note=note))
        figures[name] = scripts.harness.Figures([scripts.harness.Run(seconds, seconds, 10.0)])
    assert scripts.run.rows(work, commands, figures, ["z5py"]) == [
        "n5 gzip: container/blocks.n5",
        "  zarrlift                     2.00 s (2.00 to 2.00),  2.00 s of work,   10 MB",
        "  tensorstore                 25.00 s (25.00 to 25.00), 25.00 s of work,   10 MB, 12.5 x   note",
        "  z5py: left out, there is no environment",
        "",
    ]


def test_the_chart_is_readable_in_light_and_dark_and_escapes_names(scripts: Scripts) -> None:
    bar = scripts.chart.Bar(name="<peer> & co", seconds=0.0, kind="peer")
    group = scripts.chart.Group(name="a < b", bars=[bar])
    text = scripts.chart.draw([group], circumstances=["x & y"])
    svg = ET.fromstring(text)
    assert {"<peer> & co", "a < b", "x & y", "0.00 s"} <= {each.text for each in svg.iter(f"{SVG}text")}
    light, _, dark = text.partition("@media (prefers-color-scheme: dark)")
    for page in (light.partition("<style>")[2], dark.partition("</style>")[0]):
        for name in (".page", "text", ".own", ".peer"):
            assert re.search(rf"{re.escape(name)} {{ fill: #[0-9a-f]{{6}}", page), name
