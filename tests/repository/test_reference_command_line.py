"""docs/reference/command-line.md is what the program has."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from zarrlift.jobs.parts import part_index
from zarrlift.storage.remote import aws_profile, obstore_s3, obstore_urls

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "command-line.md"
INTERNAL = {"_ZARRLIFT_COMPLETE", "COMPUTERNAME", "OPENBLAS_NUM_THREADS"}
"""Set by shells' completion and by Windows; set for workers rather than read."""

OF_PYTHON = {"TMPDIR"}
"""Read by the standard library."""


def test_the_page_is_the_one_that_its_script_writes() -> None:
    spec = importlib.util.spec_from_file_location("command_line", PAGE.with_name("command_line.py"))
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = PAGE.read_text().partition(script.MARK)[2]
    # Versions of typer differ in the brackets around arguments and choices.
    plain = str.maketrans("", "", "[]<>{}")
    assert text.translate(plain) == f"\n{script.generated()}".translate(plain), (
        "run: python docs/reference/command_line.py"
    )


def test_the_page_has_every_environment_variable_that_the_source_reads() -> None:
    read = {
        *part_index.VARIABLES,
        *part_index.LSF,
        *obstore_s3._ELSEWHERE,
        *obstore_urls._AZURE_VARIABLES.values(),
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
    section = PAGE.read_text().partition("## Environment variables")[2].partition("\n<!--")[0]
    assert {*re.findall(r"`([A-Z][A-Z_0-9]+)`", section)} == read - INTERNAL | OF_PYTHON
