"""A user's `mypy --strict` accepts every Python block of README.md and docs/."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.repository.test_docs import PAGES, ROOT, blocks

WITHOUT_TYPES = {
    # installed apart (tests/environments/applications), so mypy cannot find them
    "anndata": "ignore_missing_imports = true",
    "mudata": "ignore_missing_imports = true",
    "ome_zarr_models": "ignore_missing_imports = true",
    "rasterio": "ignore_missing_imports = true",
    "rioxarray": "ignore_missing_imports = true",
    "spatialdata": "ignore_missing_imports = true",
    # says that it has types, and annotates few of its functions
    "distributed": "untyped_calls_exclude = distributed",
}
"""Packages of others that a strict check cannot follow, and the setting that a user of them needs."""


def settings() -> str:
    """A configuration with these settings alone."""
    excluded = [line for line in WITHOUT_TYPES.values() if line.startswith("untyped")]
    sections = ["[mypy]", *excluded]
    for package, line in WITHOUT_TYPES.items():
        if line not in excluded:
            sections += [f"[mypy-{package}.*]", line]
    return "\n".join(sections)


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
    assert len(places) > 80
    (tmp_path / "mypy.ini").write_text(settings())
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


def test_the_packages_without_types_are_those_of_examples() -> None:
    text = "".join(block.body for page in PAGES for block in blocks(page))
    imported = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))
    assert set(WITHOUT_TYPES) <= imported
