"""Check a release and build it into dist/: `.ci/run release`.

What disagrees about the version is listed, with what to do. uv builds both distributions twice, in two
places, which must give the same bytes; the pins of `release` in tests/environments/pins.txt decide them,
since a wheel names its builder. CycloneDX's tool writes what a plain installation consists of, with all
licences.
The workflow Release does this for a tag, tries the wheels on every Python, and publishes them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {"zarrstack": "transformers", "zarrlift": "."}
"""The folder of each distribution; the order in which they are published."""
BIN = Path(sys.executable).parent


def git(*words: str) -> str:
    """What git prints; nothing if it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def version() -> str:
    """The version of both distributions, from the one file that states it."""
    text = (ROOT / "transformers" / "zarrstack" / "version.py").read_text()
    return text.partition('__version__ = "')[2].partition('"')[0]


def changelog(name: str) -> str:
    """The part of CHANGELOG.md below a heading of its second level."""
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(rf"(?ms)^## \[{re.escape(name)}\][^\n]*\n(.*?)(?=^## \[|\Z)", text)
    return found[1].strip() if found else ""


def wrong_in_files(release: str) -> Iterator[str]:
    """What the files of the tree do not state as the release has it."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", release):
        yield f"{release} is not X.Y.Z; change transformers/zarrstack/version.py"
    log, citation = (ROOT / "CHANGELOG.md").read_text(), (ROOT / "CITATION.cff").read_text()
    dated = re.search(rf"(?m)^## \[{re.escape(release)}\] - (\d{{4}}-\d\d-\d\d)$", log)
    if dated is None:
        yield f"CHANGELOG.md has no `## [{release}] - YYYY-MM-DD`; put it below `## [Unreleased]`"
    if changelog("Unreleased"):
        yield "CHANGELOG.md still has lines below `## [Unreleased]`; move them to this version"
    cited = re.findall(r"(?m)^(?:version|date-released): (.+)$", citation)
    if dated and cited != [release, dated[1]]:
        yield f"CITATION.cff has {cited}; write `version` and `date-released: {dated[1]}`"
    for page in (ROOT / "README.md", ROOT / "transformers" / "README.md", *(ROOT / "docs").rglob("*.md")):
        if "design" not in page.parts and re.search(r"pip install\s+\./transformers", page.read_text()):
            yield f"{page.relative_to(ROOT)} installs from a clone; let it install the release"
    if re.search(r"\]\((?![a-z]+:|#)", (ROOT / "README.md").read_text()):
        yield "README.md has relative links, which a registry does not follow; let them lead to the tag"
    if "urls" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]:
        yield "pyproject.toml has no [project.urls]; state the address there, and where a test wants it"


def wrong_in_git(release: str) -> Iterator[str]:
    """What keeps this commit from being the tagged one."""
    if git("status", "--porcelain"):
        yield "the tree has changes; commit them"
    tag, here = f"v{release}", git("rev-parse", "HEAD")
    tagged = git("rev-parse", "--verify", "--quiet", f"{tag}^{{commit}}")
    if tagged not in ("", here):
        yield f"{tag} is another commit, {tagged[:9]}; raise the version"
    if (pushed := os.environ.get("GITHUB_REF_NAME", tag)) != tag:
        yield f"the tag {pushed} was pushed for version {release}; it should be {tag}"


def run(*words: str | Path, **options: Path) -> None:
    """A program that must succeed."""
    subprocess.run([str(word) for word in words], check=True, **options)


def build(folder: Path) -> None:
    """An sdist and a wheel of each distribution of the last commit, in a folder of its name."""
    with tempfile.TemporaryDirectory() as copied:
        run("git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--no-tags", ROOT, copied)
        for name, project in PROJECTS.items():
            options = (
                "--quiet",
                "--no-build-isolation",
                "--python",
                sys.executable,
                "--out-dir",
                folder / name,
            )
            run(BIN / "uv", "build", *options, Path(copied, project))


def main(folder: Path) -> list[str]:
    """Build into a new folder; gives what is wrong about the release."""
    release = version()
    wrong = [*wrong_in_files(release), *wrong_in_git(release)]
    shutil.rmtree(folder, ignore_errors=True)
    build(folder)
    with tempfile.TemporaryDirectory() as work:
        again, plain = Path(work, "again"), Path(work, "plain")
        build(again)
        if subprocess.run(["diff", "-r", folder, again], check=False).returncode:
            wrong.append("a second build gave other bytes")
        run(BIN / "uv", "venv", "--quiet", "--python", sys.executable, plain)
        python = plain / "bin" / "python"
        run(BIN / "uv", "pip", "install", "--quiet", "--python", python, *folder.glob("*/*.whl"))
        options = (
            "--pyproject",
            ROOT / "pyproject.toml",
            "--mc-type",
            "application",
            "--output-reproducible",
        )
        run(BIN / "cyclonedx-py", "environment", *options, "--output-file", folder / "sbom.cdx.json", python)
    (folder / "notes.md").write_text((changelog(release) or changelog("Unreleased")) + "\n")
    return wrong


if __name__ == "__main__":
    problems = main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve())
    print("\n".join(problems) or f"Ready: git tag -s v{version()} && git push origin v{version()}")
    sys.exit(1 if problems else 0)
