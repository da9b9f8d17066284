"""The docstrings of the public functions and classes: complete, with examples that run."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import zarr
from tests.repository.test_docs import PAGES, ROOT, blocks
from tests.support.job_archives import cells, ocean
from zarr.storage import MemoryStore

import zarrlift
import zarrlift.errors
import zarrlift.models
import zarrstack
import zarrstack.errors

PACKAGES = (zarrlift, zarrlift.models, zarrstack)
PUBLIC = {
    f"{package.__name__}.{name}": getattr(package, name) for package in PACKAGES for name in package.__all__
}
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}
NO_ERRORS = {"zarrlift.models.flatten"}
"""They take what other functions return, and raise nothing of their own."""

KNOWN = {
    "np": np,
    "zarr": zarr,
    "zarrlift": zarrlift,
    "zarrstack": zarrstack,
    "MemoryStore": MemoryStore,
}
"""What the reference says is imported in every example."""


REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PACKAGES = (zarrlift, zarrlift.errors, zarrlift.models, zarrstack, zarrstack.errors)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_is_in_the_reference(package: ModuleType) -> None:
    text = (REFERENCE / "python.md").read_text()
    lines = re.findall(r"^(?:::: [\w.]+\.|      members: )(.*)$", text, re.MULTILINE)
    shown = " ".join(lines)
    assert [name for name in package.__all__ if not re.search(rf"\b{name}\b", shown)] == []


def documented(name: str) -> Iterator[str]:
    """The docstring of a function, and those of the functions to which it refers for its other parameters."""
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    yield text
    package = name.rpartition(".")[0]
    for other in re.findall(
        r"(?:are|is) (?:those of|as for) `(\w+)`|like `(?:\w+\.)?(\w+)`", text.replace("\n", " ")
    ):
        target = f"{package}.{''.join(other)}"
        if target in FUNCTIONS and target != name:
            yield from documented(target)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_described(name: str) -> None:
    text = "\n".join(documented(name))
    described = set(re.findall(r"`(\w+)(?:=[^`]*)?`", text)) | set(
        re.findall(r"^(\w+)\n    ", text, re.MULTILINE)
    )
    if "the fields of `ArrayRecipe`" in text:
        described |= {each.name for each in fields(zarrlift.ArrayRecipe)}
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    missing = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in described]
    assert missing == []


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - NO_ERRORS))
def test_every_function_states_its_errors(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    section = re.search(r"^Raises\n------\n((?:.+\n?)+)", text, re.MULTILINE)
    assert section is not None
    errors = re.findall(r"^(\w.*)$", section[1], re.MULTILINE)
    names = {error for line in errors for error in line.split(", ")}
    assert names and names <= set(dir(zarrlift.errors))


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_do_what_they_show(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place, write in (("ocean.zarr", ocean), ("cells.n5", cells)):
        if re.search(rf"{place}|[Bb]atch", inspect.getdoc(PUBLIC[name]) or ""):
            write(Path(place))
    found = doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name, globs=dict(KNOWN))
    assert [test for test in found if test.examples], "no example"
    report: list[str] = []
    for test in found:
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)


# A user's `mypy --strict` accepts every Python block of README.md and docs/.


SETTINGS = """
[mypy]
# says that it has types, and annotates few of its functions
untyped_calls_exclude = distributed
"""
"""What a user of these packages needs, and nothing else."""


@pytest.mark.slow
def test_strict_types_accept_every_example(tmp_path: Path) -> None:
    places = {}
    for page in PAGES:
        for block in blocks(page):
            if block.language == "python":
                # A block with a title is a file that others import.
                name = block.title or re.sub(r"\W", "_", block.place) + ".py"
                (tmp_path / name).write_text(block.body)
                places[name] = block.place
    assert len(places) > 40
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    # What users have: the packages as installed, none of the settings of this repository.
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    words = (sys.executable, "-m", "mypy", "--strict", "--config-file", "mypy.ini", "--no-color-output")
    cache = ("--cache-dir", str(ROOT / ".mypy_cache" / "examples"))
    done = subprocess.run(
        (*words, *cache, "."), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    place = re.compile(r"^([\w.]+):(\d+): ", re.MULTILINE)
    found = place.sub(lambda match: f"{places[match[1]]}, line {match[2]}: ", done.stdout)
    assert done.returncode == 0, found + done.stderr
