"""The benchmarks run, check what their contenders write, and the pages show what they print.

No figure is looked at: the suite runs on machines that do other work. What is held is that a table cannot be
written without its machine, versions and date, and that the chart shows the table.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
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


@pytest.mark.slow(one_in=3)
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


@pytest.mark.slow(one_in=4)
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


def test_a_command_that_fails_ends_the_run_with_what_it_said(scripts: Scripts) -> None:
    command = scripts.harness.Command(name="peer", argv=("sh", "-c", "echo why; exit 3"))
    with pytest.raises(SystemExit, match=r"peer failed with 3:\nwhy"):
        scripts.harness.measure([command], 0)


# The pages


def figures_of(scripts: Scripts, name: str) -> str:
    """What stands on a page between the marks of a table."""
    page = scripts.run.GROUPS[name].page.read_text()
    return page.partition(f"<!-- figures: {name} -->\n")[2].partition(scripts.run.END)[0].strip()


def test_every_table_is_on_its_page_with_its_date_and_without_pass_marks(scripts: Scripts) -> None:
    pages = {name: group.page for name, group in scripts.run.GROUPS.items() if group.page}
    assert len(pages) == 8
    for name, page in pages.items():
        assert re.search(r"\b2\d{3}-\d\d-\d\d\b", figures_of(scripts, name)), name
        assert not re.search(r"BROKEN|: holds|at (least|most) [\d.]+( s)?:", page.read_text()), name
    assert MACHINE.match(figures_of(scripts, "files").removeprefix("```text\n"))


def test_the_page_explains_every_workload_and_has_figures_or_says_that_there_are_none(
    scripts: Scripts,
) -> None:
    page, table = scripts.run.SPEED.read_text().partition("## Updates")[0], figures_of(scripts, "files")
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
