"""The docstrings of the public functions and classes: complete, with examples that run."""

from __future__ import annotations

import doctest
import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore

import zarrlift
import zarrlift.errors
import zarrlift.models
import zarrstack
import zarrstack.errors
from zarrlift.cli.demo_data import write_cells, write_ocean

PACKAGES = (zarrlift, zarrlift.models, zarrstack)
PUBLIC = {
    f"{package.__name__}.{name}": getattr(package, name) for package in PACKAGES for name in package.__all__
}
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}
NO_ERRORS = {"zarrlift.models.flatten", "zarrlift.models.from_instance"}
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


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `zarrlift demo` writes."""
    folder = tmp_path_factory.mktemp("demo")
    write_ocean(folder / "ocean.zarr")
    write_cells(folder / "cells.n5")
    return folder


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_do_what_they_show(
    name: str, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(demo, tmp_path / "demo")
    monkeypatch.chdir(tmp_path / "demo")
    found = doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name, globs=dict(KNOWN))
    assert [test for test in found if test.examples], "no example"
    report: list[str] = []
    for test in found:
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)
