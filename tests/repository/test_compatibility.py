"""What docs/reference/compatibility.md promises is what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from zarrlift.jobs.batch import list_file
from zarrlift.jobs.ledger import database
from zarrlift.verification import digest_report
from zarrstack.layers.cache import folder_control

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
SOURCES = [path.read_text() for top in ("migrate", "transformers") for path in (ROOT / top).rglob("*.py")]


def row(first: str) -> list[str]:
    """The cells of the row that begins with this text."""
    [line] = [line for line in PAGE.splitlines() if line.startswith(f"| {first}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_versions_of_files_are_those_of_the_code() -> None:
    versions = {
        "job (": database.VERSION,
        "list of a batch": str(list_file.VERSION),
        "digests | 1": str(digest_report._VERSION),
        "disk tier": str(folder_control.VERSION),
    }
    assert {name: row(name)[1] for name in versions} == versions


def test_the_bounds_of_python_and_zarr_are_those_of_the_packages() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    oldest, newest = (re.search(rf"{name}:-([\d.]+)", ci)[1] for name in ("CI_PYTHON", "CI_NEWEST"))
    assert row("Python |")[2] == f"{oldest} and {newest}"
    pinned = re.search(r"^zarr==(.*)$", (ROOT / "tests" / "pins" / "oldest.txt").read_text(), re.MULTILINE)[1]
    assert row("zarr |")[2] == f"{pinned} and the newest release"
    for file in (ROOT / "pyproject.toml", ROOT / "transformers" / "pyproject.toml"):
        text = file.read_text()
        assert tomllib.loads(text)["project"]["requires-python"] == f">={oldest}"
        assert f'"zarr>={pinned},<4"' in text
    assert row("Python |")[1] == f"{oldest} and later"
    assert row("zarr |")[1] == f"{pinned} and later, below 4"


def test_every_group_of_entry_points_is_public() -> None:
    groups = {
        name
        for text in SOURCES
        for name in re.findall(r'^GROUP: Final = "(zarr\w+\.\w+)"$', text, re.MULTILINE)
    }
    assert groups == set(re.findall(r"`(zarr\w+\.\w+)`", " ".join(row("plug-ins"))))


def test_nothing_is_deprecated_in_silence() -> None:
    deprecated = [text for text in SOURCES if re.search(r"\bDeprecationWarning\b", text)]
    assert ("Nothing is deprecated now." in PAGE) == (not deprecated)
