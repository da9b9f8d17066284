"""docs/transformers/stored-format.md: its examples are test vectors, the schemas are those of its rules."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest

from zarrstack.base import registry

DOCS = Path(__file__).parents[2] / "docs" / "transformers"
EXTENSIONS = DOCS / "extensions"
PAGE = (DOCS / "stored-format.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- vector: (.*) \| (.*) \| (.*) -->\n\n```text\n((?:.+\n)+)```", PAGE)
SCHEMAS = {path.parent.name: json.loads(path.read_text()) for path in EXTENSIONS.glob("*/schema.json")}
DOCUMENTS = json.loads((EXTENSIONS / "documents.json").read_text())
VECTORS = {path.parent.name: json.loads(path.read_text()) for path in EXTENSIONS.glob("*/vectors.json")}


def fits(entry) -> bool:
    """Whether the schema of an entry's name accepts it; True for what has no schema."""
    name = entry.get("name") if isinstance(entry, dict) else entry
    names = {alias: schema for full, schema in SCHEMAS.items() for alias in (full, full.partition(".")[2])}
    return name not in names or jsonschema_rs.is_valid(names[name], entry)


def entries(document):
    found = document.get("storage_transformers")
    return found if isinstance(found, list) else []


def test_every_layer_that_metadata_may_name_is_on_the_page_and_no_other() -> None:
    layers = {row.name for row in registry.registered() if registry.find(row.name).in_metadata}
    assert set(re.findall(r"^## zarrstack\.(\w+)$", PAGE, re.MULTILINE)) == layers
    assert {name.removeprefix("zarrstack.") for name in SCHEMAS} == layers
    assert all((EXTENSIONS / name / "README.md").exists() for name in SCHEMAS)


@pytest.mark.parametrize(("extension", "name", "key", "shown"), SHOWN, ids=lambda text: text[:30])
def test_the_bytes_that_the_page_shows_are_those_of_the_vector(extension, name, key, shown) -> None:
    (vector,) = (each for each in VECTORS[f"zarrstack.{extension}"] if each["name"] == name)
    found = ""
    for line in shown.splitlines():
        offset, digits = re.match(r"([0-9a-f]{8})  ((?:[0-9a-f]{2}(?: |$))+)", line).groups()
        assert int(offset, 16) == len(found) // 2
        found += digits.replace(" ", "")
    assert found == vector["objects"][key]


def test_the_page_shows_bytes_of_each_layer_that_stores_some() -> None:
    assert {f"zarrstack.{extension}" for extension, *_ in SHOWN} == set(VECTORS)


@pytest.mark.parametrize("each", DOCUMENTS["cases"], ids=lambda each: each["name"])
def test_a_schema_finds_what_the_vectors_state_that_it_finds(each) -> None:
    assert all(map(fits, entries(each["change"]))) == ("schema" not in each)


def test_the_entries_of_vectors_and_examples_fit_their_schemas() -> None:
    documents = [each["document"] for vectors in VECTORS.values() for each in vectors]
    pages = [PAGE, *(path.read_text() for path in EXTENSIONS.glob("*/README.md"))]
    examples = [
        json.loads(text) for page in pages for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    ]
    assert len(examples) == 1 + len(SCHEMAS)
    assert all(fits(entry) for document in (*documents, *examples) for entry in entries(document))
    assert {name for name in SCHEMAS if any(name in json.dumps(entries(each)) for each in examples)} == {
        *SCHEMAS
    }
