"""The generated parts of the reference are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zarrlift.jobs.parts import part_index
from zarrlift.recipe.changes import ARRAY_OPTIONS
from zarrlift.recipe.recipe import Recipe
from zarrlift.recipe.toml_file import _TOP, parse_recipe
from zarrlift.storage.remote import aws_profile, obstore_s3, store_at

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
INTERNAL = {"_ZARRLIFT_COMPLETE", "COMPUTERNAME", "OPENBLAS_NUM_THREADS"}
"""Set by shells' completion and by Windows; set for workers rather than read."""

OF_PYTHON = {"TMPDIR"}
"""Read by the standard library."""


@pytest.mark.parametrize("page", ["command-line", "json", "recipe", "job-file"])
def test_a_page_is_the_one_that_the_script_writes(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import generate

    text = (FOLDER / f"{page}.md").read_text()
    assert f"{page}.md" in generate.PAGES
    assert generate.PART.search(text)
    # Versions of typer differ in the brackets around arguments and choices.
    plain = str.maketrans("", "", "[]<>{}")
    assert text.translate(plain) == generate.written(text).translate(plain), (
        "run: python docs/reference/generate.py"
    )


def test_the_page_has_every_key_of_a_recipe() -> None:
    keys = re.findall(r"^- `(\w+)` \(", (FOLDER / "recipe.md").read_text(), re.MULTILINE)
    assert keys == [*_TOP, *ARRAY_OPTIONS]


def test_the_defaults_of_a_recipe_are_those_of_an_empty_file() -> None:
    assert parse_recipe({}) == Recipe()


def test_sections_have_priority_over_options_and_these_over_the_file() -> None:
    from zarrlift.cli.recipe_options import RecipeOptions

    file = parse_recipe({"order": "C", "endian": "big", "arrays": {"a": {"order": "F"}}})
    given = {item.name: item.default for item in RecipeOptions.parameters()} | {"order": "keep"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zarrlift.cli.recipe_options.load_recipe", lambda _: file)
        recipe = RecipeOptions(**given | {"recipe_file": "file.toml"}).recipe()
    assert [recipe.for_array(path).order for path in ("a", "b")] == ["F", "keep"]
    assert recipe.for_array("b").endian == "big"


def test_the_page_has_every_environment_variable_that_the_source_reads() -> None:
    read = {
        *part_index.VARIABLES,
        *part_index.LSF,
        *obstore_s3._ELSEWHERE,
        *store_at._AZURE_VARIABLES.values(),
    }
    read |= {"AWS_PROFILE", *aws_profile._FILES}
    read |= {name for names in (obstore_s3._PLACE | obstore_s3._WHO).values() for name in names}
    constants: dict[str, str] = {}
    for folder in ("migrate", "transformers"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            constants |= re.findall(r'^(\w+): Final = "(\w+)"$', text, re.MULTILINE)
            read |= {
                constants.get(found, found)
                for quote, found in re.findall(r'os\.environ(?:\.get\(|\[)("?)(\w+)\1', text)
                if quote or found in constants
            }
    page = (FOLDER / "command-line.md").read_text()
    section = page.partition("## Environment variables")[2].partition("\n<!--")[0]
    assert {*re.findall(r"`([A-Z][A-Z_0-9]+)`", section)} == read - INTERNAL | OF_PYTHON
