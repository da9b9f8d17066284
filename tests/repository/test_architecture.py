"""ARCHITECTURE.md names each room that exists, in the order of imports, and each file it names exists."""

from __future__ import annotations

import re

import pytest
from tests.repository.test_layering import ROOMS, ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SOURCES = {"zarrstack": "transformers/zarrstack", "zarrlift.core": "core", "zarrlift": "migrate/zarrlift"}


def rooms_on_page(package: str) -> list[str]:
    """The first column of the table that follows the package's heading or sentence."""
    start = re.search(rf"^(### |Rooms of )`{SOURCES[package]}`", PAGE, re.MULTILINE)
    assert start is not None
    table = PAGE[start.end() :].split("| --- | --- |\n", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


@pytest.mark.parametrize("package", SOURCES)
def test_the_rooms_on_the_page_are_the_rooms_of_the_package_in_the_order_of_imports(package: str) -> None:
    source = "migrate" if package.startswith("zarrlift") else "transformers"
    folder = ROOT / source / package.replace(".", "/")
    there = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert rooms_on_page(package) == [room for room in ROOMS[package] if room in there]
    assert there <= {*ROOMS[package]}


def test_each_file_on_the_page_exists() -> None:
    named = re.findall(r"`([\w/]+(?:\.py|/\w+))`", PAGE)
    missing = [name for name in named if "/" in name and not (ROOT / name).exists()]
    unknown = [name for name in named if "/" not in name and not any(ROOT.glob(f"[mt]*/**/{name}"))]
    assert missing + unknown == []


def test_the_page_is_one_page() -> None:
    assert len(PAGE.splitlines()) < 130
