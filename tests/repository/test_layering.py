"""Rooms import downwards only, no modules import each other in a circle, and ARCHITECTURE.md shows the rooms.

The order of the rooms is in pyproject.toml, as contracts of import-linter.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {"zarrstack": ROOT / "transformers", "zarrlift": ROOT / "migrate"}
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
ROOMS = {contract["containers"][0]: contract["layers"] for contract in CONTRACTS if "containers" in contract}
"""Folders and modules of each package, from the highest to the lowest."""
WITH_NAMES = {
    "zarrlift", "zarrlift.cli", "zarrlift.conventions", "zarrlift.models",
    "zarrstack", "zarrstack.layers.rekey", "zarrstack.testing",
}  # fmt: skip
"""Packages whose names are imported from themselves: they load them when asked for; rekey is one layer."""


def test_rooms_import_downwards_only() -> None:
    words = (Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph(*SOURCES, cache_dir=None)
    try:
        TopologicalSorter(
            {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
        ).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_a_room_loads_nothing() -> None:
    rooms = {
        ".".join(path.relative_to(source).parent.parts): ast.parse(path.read_text())
        for source in SOURCES.values()
        for path in source.rglob("__init__.py")
    }
    assert {name for name, tree in rooms.items() if not ast.get_docstring(tree)} == set()
    assert {name for name, tree in rooms.items() if len(tree.body) > 1} == WITH_NAMES


def test_the_tests_of_zarrstack_know_nothing_of_zarrlift() -> None:
    files = (ROOT / "tests" / "zarrstack").rglob("*.py")
    found = [
        path for path in files if re.search(r"^\s*(from|import) zarrlift\b", path.read_text(), re.MULTILINE)
    ]
    assert found == []


def test_no_module_grows_past_450_lines() -> None:
    lengths = {
        path: len(path.read_text().splitlines()) for root in SOURCES.values() for path in root.rglob("*.py")
    }
    assert {path: length for path, length in lengths.items() if length > 450} == {}


# ARCHITECTURE.md names each room that exists, in the order of imports, and each file it names exists.


PAGE = (ROOT / "ARCHITECTURE.md").read_text()
HEADINGS = {"zarrstack": "transformers/zarrstack", "zarrlift.core": "core", "zarrlift": "migrate/zarrlift"}


@pytest.mark.parametrize("package", HEADINGS)
def test_the_rooms_on_the_page_are_those_of_the_package_in_the_order_of_imports(package: str) -> None:
    table = re.split(rf"^(?:### |Rooms of )`{HEADINGS[package]}`", PAGE, flags=re.MULTILINE)[1]
    shown = re.findall(
        r"^\| `(\w+)` \|", table.split("| --- | --- |\n", 1)[1].split("\n\n", 1)[0], re.MULTILINE
    )
    folder = SOURCES[package.partition(".")[0]] / package.replace(".", "/")
    assert shown == [room for room in reversed(ROOMS[package]) if (folder / room).is_dir()]


def test_each_file_and_table_that_the_pages_for_developers_name_exists() -> None:
    pages = PAGE + (ROOT / "CONTRIBUTING.md").read_text()
    named = [
        name
        for name in re.findall(r"`([\w/]+(?:\.(?:py|md|toml)|/\w+))`", pages)
        if not (ROOT / name).exists()
    ]
    assert [name for name in named if "/" in name or not any(ROOT.glob(f"[mt]*/**/{name}"))] == []
    code = "".join(path.read_text() for path in ROOT.glob("[mt]*/**/*.py"))
    tables = re.findall(r"`([A-Z_]{4,})`", pages.replace("`ZARRLIFT_VENV`", ""))
    assert [name for name in tables if not re.search(rf"^{name}\b.* = ", code, re.MULTILINE)] == []


def test_the_page_is_one_page() -> None:
    assert len(PAGE.splitlines()) < 130
