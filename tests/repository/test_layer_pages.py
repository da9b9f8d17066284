"""The pages on layers name the options that the code has, and no other; the package that they show installs.

What the pages run is held by test_docs.py.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from zarrstack.base.registry import find, names

PAGES = Path(__file__).parents[2] / "docs" / "transformers"
WITHOUT = {"per-array"}
"""Layers that the page on all of them describes."""
LAYERS = sorted({*names()} - WITHOUT)
ROW = re.compile(r"^\|(?P<options>[^|]+)\|(?P<rest>.*)$", re.MULTILINE)


FILES = {"cache": "cache", "write-back": "write-back", "sharding": "write-back"}


def page(name):
    """What the docs say of a layer: its section, or the beginning of its page."""
    text = (PAGES / f"{FILES.get(name, 'index')}.md").read_text()
    first, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    own = [each for each in sections if each.partition("\n")[0].lower() == name]
    if own:
        return own[0] + "".join(each for each in sections if each.startswith("In tests"))
    ends = [number for number, each in enumerate(sections) if each.startswith(("Sharding", "Data loaders"))]
    return first + "".join(sections[: ends[0]]) if ends else ""


def table(name):
    """The rows below `| option |` of a page, as pairs of cells."""
    rows, inside = [], False
    for line in page(name).splitlines():
        match = ROW.match(line)
        inside = match is not None and (inside or match["options"].strip() == "option")
        if inside and match is not None:
            rows.append((match["options"], match["rest"]))
    return rows


def named(cell):
    """The options in the first cell of a row: `a`, `b="text"`."""
    return [text.partition("=")[0] for text in re.findall(r"`([^`]+)`", cell)]


def test_every_layer_has_a_page_or_a_section_by_its_name_and_a_row_in_the_table():
    assert [name for name in LAYERS if not page(name)] == []
    rows = re.findall(r"^\| \[?`(\w+)`", (PAGES / "index.md").read_text(), re.MULTILINE)
    assert [name for name in (*LAYERS, *WITHOUT) if find(name).__name__ not in rows] == []
    assert all(not find(name).option_names() for name in WITHOUT)


@pytest.mark.parametrize("name", LAYERS)
def test_a_page_names_every_option(name):
    code = " ".join(re.findall(r"`([^`\n]+)`", page(name)))
    assert [each for each in find(name).option_names() if not re.search(rf"\b{each}\b", code)] == []


@pytest.mark.parametrize("name", LAYERS)
def test_a_table_of_options_has_those_of_the_code(name):
    known = find(name).option_names()
    assert [each for cell, _ in table(name) for each in named(cell) if each not in known] == []


def test_defaults_are_those_of_the_code():
    parameters = inspect.signature(find("retry").__init__).parameters
    found = {}
    for cell, rest in table("retry")[2:]:
        values = rest.split("|")[0].split(",")
        if values[0].strip():
            found |= dict(zip(named(cell), map(float, values), strict=True))
    numbers = {
        name: each.default for name, each in parameters.items() if isinstance(each.default, int | float)
    }
    assert found == numbers


# The package of "Write a transformer in 40 lines" installs, registers itself and passes the suite.


ROOT = PAGES.parents[1]
EXAMPLE = PAGES / "example"
PAGE = PAGES / "write-your-own.md"

USE = """
import zarr
from zarr.storage import MemoryStore
from zarrstack import stack
from zarrstack.base.stack import layers_from_json
bottom = MemoryStore()
array = zarr.create_array(stack(bottom, *layers_from_json(["encrypt"])), shape=(4,), dtype="i4")
array[:] = 5
assert not [key for key, value in bottom._store_dict.items() if b"zarr_format" in value.to_bytes()]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the package installed."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", folder, EXAMPLE]
    subprocess.run(command, check=True)
    return folder


def run(site, *arguments):
    environment = os.environ | {"PYTHONPATH": str(site), "ZARR_KEY": 32 * "5a"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=site, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", sorted(path.name for path in EXAMPLE.iterdir() if path.is_file()))
def test_the_page_shows_the_files_of_the_package(file):
    assert f"\n--8<--\n{(EXAMPLE / file).relative_to(ROOT)}\n--8<--\n```\n" in PAGE.read_text()


def test_the_layer_fits_the_title():
    assert len((EXAMPLE / "zarrstack_encrypt.py").read_text().splitlines()) <= 45


@pytest.mark.slow
def test_the_installed_package_is_found_by_its_name(site):
    run(site, "-c", USE)
