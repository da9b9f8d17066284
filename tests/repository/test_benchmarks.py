"""The benchmarks run, check what their contenders write, and the page shows what they print.

No figure is looked at: the suite runs on machines that do other work. What is held is that a table cannot be
written without its machine and versions, that the chart shows the table, and that a broken promise is told.
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
    r"\S+, \d+ cores, Python \d[\w.]+, zarrlift \d\S+, zarr \d\S+, numcodecs \d\S+, numpy \d\S+,"
)
VERSIONS = re.compile(r"tensorstore \d\S+, zarrs \d\S+, dask \d\S+, .*; [1-9]\d* rounds")
FIGURE = re.compile(r"\d+\.\d\d s \(\d+\.\d\d to \d+\.\d\d\), +(?:\d+\.\d\d s of work, +)?\d+ MB")


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
    return subprocess.run(
        (sys.executable, FOLDER / "peers.py", *words), capture_output=True, text=True, check=False
    )


def names(scripts: Scripts) -> list[str]:
    return [each.name for each in (*scripts.workloads.WORKLOADS, *scripts.sections.SECTIONS)]


def headings(table: str) -> list[str]:
    return re.findall(r"^(\w[\w ]*): ", table, re.MULTILINE)


# What runs


@pytest.mark.slow
def test_a_small_run_checks_and_measures_what_it_was_asked_for(tmp_path: Path) -> None:
    only = ["shards", "n5 zstd", "metadata", "memory", "plan"]
    done = run("--small", "--only", ",".join(only), "--directory", tmp_path)
    assert done.returncode == 0, done.stderr
    assert headings(done.stdout) == only
    assert MACHINE.match(done.stdout)
    assert "neither figures nor verdicts mean anything" in done.stdout
    for row in ("zarrlift", "tensorstore", "zarr-python", "zarr-python with zarrs", "dask", "as many files"):
        assert re.search(rf"^  {row} +{FIGURE.pattern}", done.stdout, re.MULTILINE), row
    assert "  z5py: left out, no environment was given" in done.stdout
    assert re.search(r"byte for byte: holds$", done.stdout, re.MULTILINE)
    assert len(re.findall(rf"{FIGURE.pattern}.*   (?:holds|BROKEN)$", done.stdout, re.MULTILINE)) >= 6
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("--only", "copy"), ("--small",)])
def test_only_a_whole_and_full_run_is_written(words: tuple[str, ...]) -> None:
    done = run("--write", *words)
    assert done.returncode == 2
    assert "--write takes the whole table" in done.stderr


def test_a_workload_that_is_none_is_told(scripts: Scripts) -> None:
    done = run("--only", "copy,cpoy")
    assert done.returncode == 1
    assert "no workload is called cpoy" in done.stderr
    assert all(name in done.stderr for name in names(scripts))


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
        scripts.same.same(tmp_path / "old", tmp_path / "new")


def test_every_script_is_in_the_readme() -> None:
    readme = (FOLDER / "README.md").read_text()
    run_by_hand = [
        path.name for path in FOLDER.glob("*.py") if f"python benchmarks/{path.name}" in path.read_text()
    ]
    assert {"peers.py", "main_job.py"} <= set(run_by_hand)
    assert [name for name in run_by_hand if f"{name}`" not in readme and f"/{name} " not in readme] == []


def test_peers_with_environments_of_their_own_are_pinned(scripts: Scripts) -> None:
    own = {peer.name for peer in scripts.workloads.PEERS.values() if peer.environment}
    assert own == {*scripts.everything.ENVIRONMENTS, "zarrs_reencode"}
    assert re.fullmatch(r"[\d.]+", scripts.everything.ZARRS_TOOLS[2])
    for name in scripts.everything.ENVIRONMENTS:
        _, *lines = (FOLDER / f"{name}.txt").read_text().splitlines()
        assert re.fullmatch(rf"{name}==[\d.]+", lines[0])
        assert [line for line in lines if not re.fullmatch(r"[\w\[\]]+==[\d.]+", line)] == []


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
        for pid in pids:
            own, shared = scripts.harness.held(pid)
            assert own > 0 and shared > 0
    assert scripts.harness.held(shell.pid) is None


def test_memory_is_that_of_all_processes_and_never_less_than_the_largest(scripts: Scripts) -> None:
    figures = scripts.harness.Figures(seconds=[2.0, 1.0, 4.0], megabytes=[70.0, 80.0])
    assert [figures.median, figures.peak, figures.memory] == [2.0, 80.0, 80.0]
    assert str(figures) == "  2.00 s (1.00 to 4.00),   80 MB"
    figures.processes, figures.together = 2, 113.0
    assert figures.memory == 113.0
    assert str(figures) == "  2.00 s (1.00 to 4.00),   80 MB, 113 in 2 processes"


def test_a_command_that_fails_ends_the_run_with_what_it_said(scripts: Scripts) -> None:
    command = scripts.harness.Command(name="peer", argv=("sh", "-c", "echo why; exit 3"))
    with pytest.raises(SystemExit, match=r"peer failed with 3:\nwhy"):
        scripts.harness.run_once(command)


@pytest.mark.parametrize(
    ("rounds", "expected"), [(0, {"ours": 1, "near": 1, "far": 1}), (3, {"ours": 3, "near": 3, "far": 1})]
)
def test_a_far_slower_command_runs_in_one_round_and_with_no_rounds_the_first_run_counts(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch, rounds: int, expected: dict[str, int]
) -> None:
    seconds = {"ours": 1.0, "near": 4.9, "far": 5.1}

    def pretended(command: Any, *, watched: bool = False) -> Any:
        return scripts.harness.Run(seconds[command.name], 0.0, 0.0, 1, 0.0)

    monkeypatch.setattr(scripts.harness, "run_once", pretended)
    commands = [scripts.harness.Command(name=name, argv=("true",)) for name in seconds]
    found = scripts.harness.measure(commands, rounds)
    assert {name: len(figures.seconds) for name, figures in found.items()} == expected


# What is said


def figures(scripts: Scripts, **seconds: float) -> dict[str, Any]:
    """Made up: as many tens of megabytes as seconds."""
    return {
        name.replace("_", " "): scripts.harness.Figures(seconds=[value], megabytes=[10 * value])
        for name, value in seconds.items()
    }


@pytest.mark.parametrize(
    ("zarrlift", "time", "memory"),
    [(2.0, "holds", "holds"), (2.1, "holds", "BROKEN"), (5.0, "BROKEN", "BROKEN")],
)
def test_a_promise_is_held_or_broken(scripts: Scripts, zarrlift: float, time: str, memory: str) -> None:
    work = next(each for each in scripts.workloads.WORKLOADS if each.name == "float")
    found = {
        **figures(scripts, zarrlift=zarrlift, tensorstore=4.0, dask=6.0, codecs_alone=2.0),
        "zarr-python": scripts.harness.Figures(seconds=[5.0], megabytes=[90.0]),
    }
    lines = scripts.peers.told(work, found, {}).lines
    assert f"at most 2.70 s (1.1 x codecs + 0.5 s): {time}" in lines[1]
    assert f"{zarrlift * 10:.0f} MB, at most 20 MB (half of tensorstore's): {memory}" in lines[-3]
    said = "holds" if zarrlift <= 4.2 else "BROKEN by tensorstore"
    assert lines[-2] == f"  no peer is faster by more than 3 %: {said}"


def test_every_promise_can_be_judged_without_the_peers_that_have_environments(scripts: Scripts) -> None:
    for work in scripts.workloads.WORKLOADS:
        there = ["zarrlift", *work.present({}), work.limit]
        alone = {name: float(place + 1) for place, name in enumerate(there)}
        everyone = {**alone, **dict.fromkeys(work.peers, 0.5)}
        assert work.promise(alone) >= work.promise(everyone) > 0


def test_every_workload_has_its_result_described_and_its_contenders(scripts: Scripts) -> None:
    for work in scripts.workloads.WORKLOADS:
        assert work.name in scripts.contenders.WORK
        assert work.source in scripts.peers_sources.SOURCES
        assert set(work.peers) <= set(scripts.workloads.PEERS)
        assert set(work.peers) <= {*scripts.contenders.CONTENDERS, "zarrs_reencode"}
        assert work.limit in scripts.workloads.LIMITS
    for section in scripts.sections.SECTIONS:
        assert set(section.sources) <= set(scripts.peers_sources.SOURCES)


# The page


def measured(scripts: Scripts) -> tuple[str, list[Any], list[str]]:
    """A table, its groups and its circumstances, of figures that differ everywhere."""
    about = scripts.peers.circumstances(3, {})
    lines, groups, value = [*about, ""], [], 0.1
    for work in scripts.workloads.WORKLOADS:
        found = {}
        for name in ("zarrlift", *work.present({}), work.limit):
            value += 0.37
            found[name] = scripts.harness.Figures(seconds=[value], megabytes=[value * 100])
        told = scripts.peers.told(work, found, {})
        lines += told.lines
        groups.append(told.group)
    lines += [f"{section.name}: of one's own\n" for section in scripts.sections.SECTIONS]
    return "\n".join(lines).rstrip(), groups, about


def looks_measured(scripts: Scripts, page: Path) -> None:
    """Machine, versions and every workload in the table; the chart beside it, with the same figures."""
    table, chart = scripts.page.table_of(page), page.with_name("speed-peers.svg")
    first, second = table.splitlines()[:2]
    assert MACHINE.fullmatch(first)
    assert VERSIONS.fullmatch(second)
    assert headings(table) == names(scripts)
    svg = ET.parse(chart).getroot()
    assert svg.get("role") == "img"
    titles = {each.get("id"): each.text for each in svg if each.tag in (f"{SVG}title", f"{SVG}desc")}
    assert svg.get("aria-labelledby", "").split() == list(titles)
    texts = [each.text or "" for each in svg.iter(f"{SVG}text")]
    groups = [each.text for each in svg.iter(f"{SVG}text") if each.get("class") == "group"]
    assert groups == [name for name in names(scripts) if name in groups]
    assert set(groups) >= {work.name for work in scripts.workloads.WORKLOADS}
    shown = [text for text in texts if re.fullmatch(r"\d+\.\d\d s", text)]
    assert len(shown) == len(list(svg.iter(f"{SVG}rect"))) - 1  # the background
    assert [text for text in shown if not re.search(rf" {re.escape(text)} \(", table)] == []
    assert {first, second} < set(texts)
    assert f"]({chart.name})" in page.read_text()


def test_the_page_says_that_nothing_was_measured_or_shows_all_of_it(scripts: Scripts) -> None:
    page = scripts.main_job.PAGE
    if scripts.page.table_of() == scripts.page.NOT_YET:
        assert not page.with_name("speed-peers.svg").exists()
        assert "speed-peers.svg" not in page.read_text()
    else:
        looks_measured(scripts, page)


def test_the_page_has_figures_without_what_they_are_held_to(scripts: Scripts, tmp_path: Path) -> None:
    assert not re.search(r"BROKEN|: holds|at most [\d.]+ s", scripts.main_job.PAGE.read_text())
    page = tmp_path / "speed.md"
    page.write_text(scripts.main_job.PAGE.read_text())
    text, groups, about = measured(scripts)
    assert "holds" in text and "at most" in text
    scripts.page.write(text, groups, about, page)
    assert not re.search("BROKEN|holds|at (least|most)", scripts.page.table_of(page))


def test_the_page_explains_every_workload(scripts: Scripts) -> None:
    text = scripts.main_job.PAGE.read_text()
    part = text[text.index("## Beside every peer") : text.index(scripts.page.MARK)]
    assert re.findall(r"^\| `([\w ]+)` \|", part, re.MULTILINE) == names(scripts)


def test_table_and_chart_are_written_together_and_written_again(scripts: Scripts, tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text(scripts.main_job.PAGE.read_text())
    text, groups, about = measured(scripts)
    scripts.page.write(text, groups, about, page)
    looks_measured(scripts, page)
    once = page.read_text()
    scripts.page.write(text, groups, about, page)
    assert page.read_text() == once
    assert once.count("```") == scripts.main_job.PAGE.read_text().count("```")


def test_a_page_without_a_place_for_figures_is_left_as_it_is(scripts: Scripts, tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    page.write_text("# Speed\n")
    with pytest.raises(SystemExit, match="no place for the figures"):
        scripts.page.write("text", [], [], page)
    assert [path.name for path in tmp_path.iterdir()] == ["speed.md"]
    assert page.read_text() == "# Speed\n"


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
