"""What an installed zarrlift consists of, and what it leaves alone."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import zarrlift

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = (ROOT / "migrate", ROOT / "transformers")


def run(*words: str, cwd: Path) -> str:
    """Standard output of a program that must succeed, without our environment's PYTHON* settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.parametrize("folder", SOURCE_ROOTS, ids=lambda path: path.name)
def test_a_source_root_holds_one_package_and_no_loose_module(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()} - {"__pycache__"}
    assert names == {{"migrate": "zarrlift", "transformers": "zarrstack"}[folder.name]}


def test_a_top_folder_is_not_importable_as_a_package_of_ours() -> None:
    code = (
        "from importlib.util import find_spec\n"
        "print([(spec := find_spec(name)) and spec.origin for name in ('transformers', 'migrate')])"
    )
    # From the root both are at most namespace folders without an origin; an installed `transformers` wins.
    assert run(sys.executable, "-c", code, cwd=ROOT).strip() == "[None, None]"


def test_an_installed_transformers_wins_even_from_our_root(tmp_path: Path) -> None:
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").write_text("whose = 'theirs'\n")
    code = f"import sys; sys.path.append({str(tmp_path)!r}); import transformers; print(transformers.whose)"
    assert run(sys.executable, "-c", code, cwd=ROOT).strip() == "theirs"


def test_the_wheel_holds_every_module_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    expected = {
        path.relative_to(folder).as_posix()
        for folder in SOURCE_ROOTS
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == expected


@pytest.mark.parametrize("package", ["zarrlift", "zarrstack"])
def test_both_packages_say_that_they_are_typed(wheel: zipfile.ZipFile, package: str) -> None:
    assert f"{package}/py.typed" in wheel.namelist()


def test_the_wheel_carries_its_licence_and_command(wheel: zipfile.ZipFile) -> None:
    names = {name.split(".dist-info/")[1] for name in wheel.namelist() if ".dist-info/" in name}
    assert {"METADATA", "licenses/LICENSE", "entry_points.txt"} <= names


def test_the_version_stands_in_one_place(wheel: zipfile.ZipFile) -> None:
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
    assert Path(wheel.filename or "").name.startswith(f"zarrlift-{zarrlift.__version__}-")
    quoted = f'"{zarrlift.__version__}"'
    modules = [path for folder in SOURCE_ROOTS for path in folder.rglob("*.py")]
    code = [path.name for path in modules if quoted in path.read_text()]
    assert code == ["version.py"]


def test_the_changelog_knows_this_version() -> None:
    assert f"\n## {zarrlift.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_the_packages_come_from_this_source() -> None:
    for name in ("zarrlift", "zarrstack"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        assert Path(spec.origin).is_relative_to(ROOT)
