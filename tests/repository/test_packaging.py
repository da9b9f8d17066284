"""What the two distributions consist of, what they require, and what they leave alone."""

from __future__ import annotations

import ast
import configparser
import email
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import requires
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import zarrlift
from zarrlift.jobs.ledger import database
from zarrstack.layers.cache import folder_control

ROOT = Path(__file__).parents[2]


class Distribution(NamedTuple):
    """Where one of our two distributions is described, where its package lies, and what it registers."""

    project: Path
    root: Path
    registers: list[str]


DISTRIBUTIONS = {
    "zarrlift": Distribution(ROOT, ROOT / "migrate", ["console_scripts"]),
    "zarrstack": Distribution(
        ROOT / "transformers", ROOT / "transformers", ["zarr.codec_pipeline", "zarrstack.transformers"]
    ),
}
TEXTS = (
    *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "transformers" / "README.md",
    *(path for _, root, _ in DISTRIBUTIONS.values() for path in root.rglob("*.py")),
)  # fmt: skip
"""What tells somebody to install something."""


def run(*words: str, cwd: Path) -> str:
    """Standard output of a program that must succeed, without our environment's PYTHON* settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(source: Path, folder: Path, target: str) -> Path:
    """The sdist or wheel of a source tree."""
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder), cwd=source)
    (path,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return path


@pytest.fixture(scope="module", params=DISTRIBUTIONS)
def name(request: pytest.FixtureRequest) -> str:
    """The name of a distribution, and of the one package in it."""
    return request.param


@pytest.fixture(scope="module")
def wheel(name: str, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from the clone."""
    return zipfile.ZipFile(built(DISTRIBUTIONS[name].project, tmp_path_factory.mktemp("wheel"), "wheel"))


def about(wheel: zipfile.ZipFile, file: str) -> str:
    """A file of a wheel's metadata."""
    (name,) = [name for name in wheel.namelist() if name.endswith(f".dist-info/{file}")]
    return wheel.read(name).decode()


def test_an_installed_transformers_wins_even_from_our_root(tmp_path: Path) -> None:
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").write_text("whose = 'theirs'\n")
    code = f"import sys; sys.path.append({str(tmp_path)!r}); import transformers; print(transformers.whose)"
    assert run(sys.executable, "-c", code, cwd=ROOT).strip() == "theirs"


def test_a_wheel_holds_its_package_of_our_version_and_nothing_else(name: str, wheel: zipfile.ZipFile) -> None:
    assert email.message_from_string(about(wheel, "METADATA"))["Version"] == zarrlift.__version__
    root = DISTRIBUTIONS[name].root
    expected = {
        path.relative_to(root).as_posix()
        for path in (root / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert f"{name}/py.typed" in expected
    assert {path for path in wheel.namelist() if ".dist-info/" not in path} == expected


def test_both_wheels_together_install_less_than_4_mb(name: str, wheel: zipfile.ZipFile) -> None:
    most = {"zarrlift": 3_450_000, "zarrstack": 550_000}
    assert sum(file.file_size for file in wheel.infolist()) < most[name]


def test_a_bare_install_has_at_most_20_distributions() -> None:
    """What both wheels require without extras, in the environment of this suite, with what that requires."""
    left, found = ["zarrlift"], set()
    while left:
        name = canonicalize_name(left.pop())
        if name in found:
            continue
        found.add(name)
        for line in requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                left.append(requirement.name)
                assert not requirement.extras, f"{name} asks for {line}"
    assert found >= {"zarrlift", "zarrstack", "numpy", "zarr"}
    assert not found & {"typer", "click", "rich", "pydantic", "pydantic-core"}
    assert len(found) <= 20, sorted(found)


def test_the_design_lists_what_a_bare_install_has(name: str) -> None:
    page = (ROOT / "docs" / "design" / "0006-dependencies.md").read_text()
    table = page.partition("| distribution | MB |")[2].partition("\n\n")[0]
    listed = {name for row in table.splitlines()[2:] for name in re.findall(r"[a-z0-9-]+", row.split("|")[1])}
    project = tomllib.loads(DISTRIBUTIONS[name].project.joinpath("pyproject.toml").read_text())["project"]
    required = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    assert required <= listed
    assert not required & {"msgpack", "xxhash", "zarr-metadata"}


def test_a_wheel_carries_its_licence_and_what_it_registers(name: str, wheel: zipfile.ZipFile) -> None:
    assert about(wheel, "licenses/LICENSE").startswith("MIT License")
    entries = configparser.ConfigParser()
    entries.read_string(about(wheel, "entry_points.txt"))
    assert entries.sections() == DISTRIBUTIONS[name].registers


@pytest.mark.slow
def test_an_sdist_makes_the_same_wheel(name: str, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    with tarfile.open(built(DISTRIBUTIONS[name].project, tmp_path, "sdist")) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (source,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    again = zipfile.ZipFile(built(source, tmp_path, "wheel"))
    assert sorted(again.namelist()) == sorted(wheel.namelist())
    assert [again.read(name) for name in again.namelist()] == [wheel.read(name) for name in again.namelist()]


def test_zarrstack_requires_what_it_imports() -> None:
    imported = {
        word.split(".")[0]
        for path in (ROOT / "transformers" / "zarrstack").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0)
        for word in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module])
    }
    # For the suite that authors of layers run, and the extra codecs.
    optional = {"pytest", "hypothesis", "imagecodecs", "pcodec", "zfpy"}
    project = tomllib.loads((ROOT / "transformers" / "pyproject.toml").read_text())["project"]
    required = {re.match(r"[\w-]+", text)[0].replace("-", "_") for text in project["dependencies"]}
    assert required == imported - {*sys.stdlib_module_names, "zarrstack"} - optional


def test_no_command_fetches_another_package_of_our_name() -> None:
    """Before the first release, neither is on a registry; one command installs both of a clone."""
    released = re.search(r"^## \[\d", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE) is not None
    wrong = []
    for path in TEXTS:
        text = re.sub(r"<!--.*?-->", "", path.read_text(), flags=re.DOTALL)
        for given in re.findall(r"pip install\s+([^`\n]*)", text):
            words = re.sub("['\"]", "", given).split()
            ours = [word for word in words if re.match(r"(zarrlift|zarrstack)\b", word)]
            root = [word for word in words if word == "." or word.startswith(".[")]
            if (ours and not released) or (root and words[0] != "./transformers"):
                wrong.append(f"{path.relative_to(ROOT)}: pip install {given}")
    assert wrong == []


def test_the_packages_come_from_this_source() -> None:
    for name in ("zarrlift", "zarrstack"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        assert Path(spec.origin).is_relative_to(ROOT)


# What docs/reference/compatibility.md promises is what the code does.


PAGE = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
SOURCES = [path.read_text() for top in ("migrate", "transformers") for path in (ROOT / top).rglob("*.py")]


def row(first: str) -> list[str]:
    """The cells of the row that begins with this text."""
    [line] = [line for line in PAGE.splitlines() if line.startswith(f"| {first}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_versions_of_files_are_those_of_the_code() -> None:
    versions = {
        "job (": database.VERSION,
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
