"""The layers that leave every value as it is keep the contract, over memory and over a folder."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from tests.support.chances import fewer
from tests.support.stores import InAFolder

from zarrstack.base.registry import find, registered
from zarrstack.layers.log.layer import Log
from zarrstack.layers.retry import Retry
from zarrstack.layers.throttle import Throttle
from zarrstack.testing import LayerTests


class OverMemory(LayerTests):
    """The steps of the suite's default."""

    examples = fewer(20)


class OverFolder(InAFolder, LayerTests):
    examples = fewer(6)
    steps = 10


class TestLogOverMemory(OverMemory):
    def layers(self):
        return [Log(label="outer"), Log()]


class TestLogOverFolder(OverFolder):
    def layers(self):
        return [Log(logger="somewhere", level="INFO")]


class TestRetryOverMemory(OverMemory):
    def layers(self):
        return [Retry(attempts=3, budget=5)]


class TestThrottleOverMemory(OverMemory):
    def layers(self):
        return [Throttle(bytes_per_second="1TB/s", requests_per_second=1e9, in_flight=2)]


@pytest.mark.slow
class TestThrottleOverFolder(OverFolder):
    def layers(self):
        return [Throttle(in_flight=1)]


@pytest.mark.parametrize("kind", [Log, Retry, Throttle])
def test_options_that_are_the_defaults_are_no_difference(kind):
    assert kind() == kind(clock=None)
    assert kind().configuration == {}


# The page or section of each layer names the options that the code has, and no other.
#
# What the pages run is held by tests/repository/test_docs.py.


PAGES = Path(__file__).parents[3] / "docs" / "transformers"
WITHOUT = {"per-array"}
"""Layers that the page on all of them describes."""
LAYERS = sorted({layer.name for layer in registered()} - WITHOUT)
ROW = re.compile(r"^\|(?P<options>[^|]+)\|(?P<rest>.*)$", re.MULTILINE)


def page(name):
    """The page of a layer, or its section: from its heading to the next one."""
    if (PAGES / f"{name}.md").exists():
        return (PAGES / f"{name}.md").read_text()
    sections = re.split(r"^## ", (PAGES / "operations.md").read_text(), flags=re.MULTILINE)
    *_, of_several = sections
    return next(text for text in sections if text.partition("\n")[0].lower() == name) + of_several


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


def test_every_layer_has_a_page():
    assert [name for name in LAYERS if not page(name)] == []
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
