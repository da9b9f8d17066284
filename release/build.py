"""Build what a release publishes: `python release/build.py [FOLDER]`, `dist` if none is given.

    dist/zarrstack/  dist/zarrlift/    an sdist and a wheel each, built twice, from two copies of the tree
    dist/licences.txt                  what a plain installation consists of, with the licence of each package
    dist/sbom.cdx.json                 the same for programs, as CycloneDX
    dist/notes.md                      this version's part of CHANGELOG.md

Runs in the environment of tests/environments/release. Its pins decide the bytes of a wheel, which names its
builder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {"zarrstack": "transformers", "zarrlift": "."}
"""The folder of each distribution; the order in which they are published."""
BIN = Path(sys.executable).parent
LICENCES = """
import importlib.metadata as metadata
for one in sorted(metadata.distributions(), key=lambda one: one.name.lower()):
    said = one.metadata
    classifiers = [text for text in said.get_all("Classifier", []) if text.startswith("License")]
    classified = ", ".join(text.rpartition(" :: ")[2] for text in classifiers)
    full = (said.get("License") or "").strip().partition(chr(10))[0]
    print(f"{one.name} {one.version}: {said.get('License-Expression') or classified or full or 'UNKNOWN'}")
"""
"""Run in an environment: prints a line for each of its packages."""


def run(*words: str | Path, cwd: Path = ROOT, extra: Mapping[str, str] | None = None) -> str:
    """Standard output of a program that must succeed.

    Raises RuntimeError with all that it printed otherwise.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd, env={**environment, **(extra or {})}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def version() -> str:
    """The version of both distributions, from the one file that states it."""
    text = (ROOT / "transformers" / "zarrstack" / "version.py").read_text()
    return text.partition('__version__ = "')[2].partition('"')[0]


def copy_of_the_tree(folder: Path) -> Path:
    """What git knows of the tree, as it is now, with new times and without its history."""
    for name in run("git", "ls-files", "-z").split("\0"):
        if name and (ROOT / name).is_file() and not name.startswith(("fixtures/", "tests/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def distributions(folder: Path) -> list[Path]:
    """An sdist and a wheel of each distribution, in a folder of its name, built from a copy of the tree."""
    with tempfile.TemporaryDirectory() as copied:
        tree = copy_of_the_tree(Path(copied))
        for name, project in PROJECTS.items():
            target = folder / name
            run(sys.executable, "-m", "hatchling", "build", "-d", target, cwd=tree / project)
    return sorted(path for name in PROJECTS for path in (folder / name).iterdir())


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_twice(folder: Path) -> list[Path]:
    """The distributions, after a second build in another place has given the same bytes.

    Raises RuntimeError with the names of files that differ.
    """
    first = distributions(folder)
    with tempfile.TemporaryDirectory() as again:
        second = distributions(Path(again))
        differing = [one.name for one, two in zip(first, second, strict=True) if digest(one) != digest(two)]
    if differing:
        raise RuntimeError("a second build gave other bytes: " + ", ".join(differing))
    return first


def install(built: list[Path], environment: Path, python: str = sys.executable) -> Path:
    """Install the wheels and what they require into a new environment without pip; gives its Python."""
    run(BIN / "uv", "venv", "--quiet", "--python", python, environment)
    inside = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wheels = [path for path in built if path.suffix == ".whl"]
    run(BIN / "uv", "pip", "install", "--quiet", "--python", inside, *wheels)
    return inside


def licences(python: Path) -> str:
    """A line for each package of an environment: name, version, licence.

    Raises RuntimeError with the packages that state none.
    """
    text = run(python, "-c", LICENCES)
    unknown = [line for line in text.splitlines() if line.endswith("UNKNOWN")]
    if unknown:
        raise RuntimeError("packages that state no licence: " + ", ".join(unknown))
    return text


def sbom(python: Path, path: Path) -> None:
    """Write the packages of an environment as CycloneDX, the same bytes for the same packages."""
    options = ("--pyproject", ROOT / "pyproject.toml", "--mc-type", "application", "--output-reproducible")
    run(BIN / "cyclonedx-py", "environment", *options, "--output-file", path, python)


def notes() -> str:
    """This version's part of CHANGELOG.md, or what is unreleased if it has none yet."""
    parts = re.split(r"^## \[(.+?)\].*$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    return sections.get(version(), sections["Unreleased"]).strip() + "\n"


def main(folder: Path) -> None:
    """Write everything into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    built = build_twice(folder)
    with tempfile.TemporaryDirectory() as environment:
        python = install(built, Path(environment) / "plain")
        (folder / "licences.txt").write_text(licences(python))
        sbom(python, folder / "sbom.cdx.json")
    (folder / "notes.md").write_text(notes())
    for path in built:
        print(digest(path), path.relative_to(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve())
