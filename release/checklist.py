"""Walk the checklist of a release: `make release-check`, or `python release/checklist.py STEP...`.

Each step states what it found; one that fails makes the exit code 1. What a script cannot check is listed at
the end. `write-urls` writes the repository's address, taken from `git remote get-url origin`, to every file
that should state it, `write-date` today's date to CHANGELOG.md and CITATION.cff, and `write-install` commands
that install a release, instead of a clone, to all pages. `rehearse STEP...` (`make release-rehearsal`) does
all of this, the tag included, in a clone that it deletes afterwards.

Runs in the environment of tests/environments/release.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import build
from build import PROJECTS, ROOT, run, version

OCEAN = ROOT / "fixtures" / "zarr_v2" / "zarr-2.18" / "people" / "ocean.zarr"
REHEARSED = "https://example.org/zarrlift/zarrlift"
"""Stands for the repository's address in a rehearsal, where git has no remote."""
BY_HAND = """\
By hand:
  - the workflow Tests is green for this commit, on every system that README and classifiers claim
  - both names are ours on the registry; before, write-install would name packages of others
  - the registry trusts the workflow Release with the environments zarrstack and zarrlift
  - conda-forge has every package that release/recipe.yaml names
  - Read the Docs has activated the version of the tag, and shows `stable` by default"""


class StepError(Exception):
    """A step failed; the text says what was found and what to do."""


def need(holds: object, text: str) -> None:
    """Fail with this text unless it holds."""
    if not holds:
        raise StepError(text)


def git(*words: str) -> str:
    """What git prints; nothing if it fails."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()


def check_version() -> str:
    need(
        re.fullmatch(r"\d+\.\d+\.\d+", version()),
        f"{version()} is not X.Y.Z; change transformers/zarrstack/version.py",
    )
    return version()


def check_changelog() -> str:
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(rf"^## \[{re.escape(version())}\] - (\d{{4}}-\d\d-\d\d)$", text, re.MULTILINE)
    if found is None:
        raise StepError(
            f"CHANGELOG.md has no `## [{version()}] - YYYY-MM-DD`; put it below `## [Unreleased]`"
        )
    left = text.partition("## [Unreleased]\n")[2].partition("\n## [")[0].strip()
    need(not left, "CHANGELOG.md still has lines below `## [Unreleased]`; move them to this version")
    cited = re.findall(
        r"^(?:version|date-released): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE
    )
    need(
        cited == [version(), found[1]],
        f"CITATION.cff has {cited}; write `version` and `date-released: {found[1]}`",
    )
    return found[1]


def check_tag() -> str:
    need(not git("status", "--porcelain"), "the tree has changes; commit them")
    tag = f"v{version()}"
    here, tagged = git("rev-parse", "HEAD"), git("rev-parse", "--verify", "--quiet", f"{tag}^{{commit}}")
    need(tagged in ("", here), f"{tag} is another commit, {tagged[:9]}; raise the version")
    pushed = os.environ.get("GITHUB_REF_NAME", tag)
    need(pushed == tag, f"the tag {pushed} was pushed for version {version()}; it should be {tag}")
    return f"{tag} is this commit" if tagged else f"next: git tag -s {tag} && git push origin {tag}"


def address() -> str:
    """The repository's https address, from git's remote `origin`."""
    found = git("remote", "get-url", "origin")
    need(found, "git has no remote `origin`; add it, then run: python release/checklist.py write-urls")
    # git@host:path is ssh://git@host/path.
    parts = urlsplit(found if "://" in found else "ssh://" + found.replace(":", "/", 1))
    return f"https://{parts.hostname}/{parts.path.removesuffix('.git').strip('/')}"


def stated() -> dict[str, str | None]:
    """The repository's address in each file that should state it."""
    found: dict[str, str | None] = {}
    for folder in PROJECTS.values():
        file = (ROOT / folder / "pyproject.toml").relative_to(ROOT)
        urls = tomllib.loads((ROOT / file).read_text())["project"].get("urls", {})
        found[str(file)] = urls.get("Repository")
    for name, word in (("CITATION.cff", "repository-code"), ("mkdocs.yml", "repo_url")):
        values = re.findall(rf"^{word}: (.+)$", (ROOT / name).read_text(), re.MULTILINE)
        found[name] = values[0] if values else None
    return found


def check_urls() -> str:
    wanted = address()
    wrong = [name for name, url in stated().items() if url != wanted]
    need(not wrong, f"{', '.join(wrong)} should state {wanted}; run: python release/checklist.py write-urls")
    return wanted


def write_urls() -> None:
    """State the repository's address where it is missing or another one."""
    url = address()
    for name in stated():
        path = ROOT / name
        text = path.read_text()
        if path.suffix == ".toml":
            text = re.sub(r"\[project\.urls\]\n(?:.+\n)*\n", "", text)
            below = {"Repository": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md"}
            table = "".join(f'{key} = "{url}{rest}"\n' for key, rest in below.items())
            text = text.replace(
                "[project.optional-dependencies]", f"[project.urls]\n{table}\n[project.optional-dependencies]"
            )
        else:
            lines = {"repository-code": url}
            if path.suffix == ".yml":
                lines = {"repo_url": url, "edit_uri": "edit/main/docs/"}
            for word, value in lines.items():
                text = re.sub(rf"^{word}: .*\n", "", text, flags=re.MULTILINE)
                text = text.rstrip("\n") + f"\n{word}: {value}\n"
        path.write_text(text)
        print(f"{name} states {url}")


def write_date() -> None:
    """Date the version: what is unreleased in the changelog becomes its section."""
    today = dt.datetime.now(tz=dt.UTC).date()
    changelog, citation = ROOT / "CHANGELOG.md", ROOT / "CITATION.cff"
    heading = f"## [Unreleased]\n\n## [{version()}] - {today}\n"
    changelog.write_text(changelog.read_text().replace("## [Unreleased]\n", heading, 1))
    text = re.sub(r"^(version|date-released): .*\n", "", citation.read_text(), flags=re.MULTILINE)
    citation.write_text(f"{text}version: {version()}\ndate-released: {today}\n")
    print(f"CHANGELOG.md and CITATION.cff: {version()} of {today}")


def pages_of_a_clone() -> list[Path]:
    """Pages for users that install from a clone."""
    pages = [ROOT / "README.md", ROOT / "transformers" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for_users = [page for page in pages if "design" not in page.parts]
    return [page for page in for_users if re.search(r"pip install\s+\./transformers", page.read_text())]


def check_install() -> str:
    wrong = ", ".join(str(page.relative_to(ROOT)) for page in pages_of_a_clone())
    need(not wrong, f"installed from a clone: {wrong}; run: python release/checklist.py write-install")
    return "pages install what is released"


def write_install() -> None:
    """Let every page install a release."""
    for page in pages_of_a_clone():
        text = re.sub(
            r"<!-- until the first release -->\n.*?<!-- from the first release on\n(.*?)-->\n",
            r"\1",
            page.read_text(),
            flags=re.DOTALL,
        )
        text = re.sub(
            r"pip install\s+\./transformers '\.(\[\w+\])'(`?)(?:\s+(?:# )?in\s+the\s+clone)?",
            r"pip install 'zarrlift\1'\2",
            text,
        )
        text = re.sub(r"(pip install) \./transformers` in a clone of the repository", r"\1 zarrstack`", text)
        page.write_text(text)
        print(f"{page.relative_to(ROOT)} installs a release")


def rehearse(wanted: list[str]) -> int:
    """Walk the steps in a clone of this commit in which the release is made; gives the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "zarrlift"
        run("git", "clone", "--quiet", ROOT, clone)
        origin = git("remote", "get-url", "origin")
        known = origin and not Path(origin).exists()
        run("git", "remote", "set-url", "origin", origin if known else REHEARSED, cwd=clone)
        for writes in WRITERS:
            run(sys.executable, "release/checklist.py", writes, cwd=clone)
        who = ("-c", "user.name=rehearsal", "-c", "user.email=rehearsal@example.org")
        run("git", *who, "commit", "--quiet", "--all", "--message", f"Release {version()}", cwd=clone)
        run("git", *who, "tag", "--annotate", f"v{version()}", "--message", "rehearsal", cwd=clone)
        return subprocess.run(
            [sys.executable, "release/checklist.py", *wanted], cwd=clone, check=False
        ).returncode


def check_wheels() -> str:
    build.main(ROOT / "dist")
    return "the same files twice; licences.txt and sbom.cdx.json are beside them"


def pythons() -> dict[str, str]:
    """Version and command of every Python on this machine that zarrlift supports."""
    root = Path.home() / ".pyenv" / "versions"
    found: dict[str, str] = {}
    for minor in range(11, 30):
        for word in (f"python3.{minor}", *map(str, sorted(root.glob(f"3.{minor}.*/bin/python")))):
            code = f"import sys; sys.exit(sys.version_info[:2] != (3, {minor}))"
            try:
                right = subprocess.run([word, "-c", code], capture_output=True, check=False).returncode == 0
            except OSError:
                continue
            if right:
                found.setdefault(f"3.{minor}", word)
    return found


def check_environments() -> str:
    built = sorted(path for name in PROJECTS for path in (ROOT / "dist" / name).glob("*.whl"))
    need(len(built) == 2, "dist has no wheels; run the step wheels first")
    found = pythons()
    for number, command in found.items():
        with tempfile.TemporaryDirectory() as folder:
            inside = build.install(built, Path(folder) / "plain", command)
            program, result = inside.parent / "zarrlift", Path(folder) / "new.zarr"
            run(program, "migrate", OCEAN, result, cwd=Path(folder))
            run(program, "verify", OCEAN, result, "--full", cwd=Path(folder))
            run(
                inside,
                "-c",
                f"import zarr, zarrlift, zarrstack; assert zarrlift.__version__ == {version()!r}",
            )
        print(f"  Python {number}: installed, migrated and verified", flush=True)
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    claimed = {text.rpartition(" ")[2] for text in classifiers if "Python :: 3." in text}
    missing = sorted(claimed - {*found})
    return f"Python {', '.join(found)}" + (f"; not on this machine: {', '.join(missing)}" if missing else "")


def check_part(*parts: str) -> Callable[[], str]:
    """A step that runs parts of .ci/run, which print as they go."""

    def step() -> str:
        code = subprocess.run([ROOT / ".ci" / "run", *parts], check=False).returncode
        need(code == 0, f"`.ci/run {' '.join(parts)}` fails; see above")
        return f".ci/run {' '.join(parts)}"

    return step


STEPS: dict[str, Callable[[], str]] = {
    "version": check_version,
    "changelog": check_changelog,
    "tag": check_tag,
    "urls": check_urls,
    "install": check_install,
    "wheels": check_wheels,
    "environments": check_environments,
    "docs": check_part("demo", "check"),
    "lowest": check_part("lowest"),
}


WRITERS = {"write-date": write_date, "write-urls": write_urls, "write-install": write_install}


def main(wanted: list[str]) -> int:
    """Walk the steps; gives the exit code."""
    failed = []
    for name in wanted or STEPS:
        try:
            line = f"ok      {name}: {STEPS[name]()}"
        except (StepError, RuntimeError) as error:
            failed.append(name)
            line = f"FAILED  {name}: {error}"
        print(line, flush=True)
    print(BY_HAND)
    print(f"Not ready: {', '.join(failed)}" if failed else "Ready")
    return 1 if failed else 0


if __name__ == "__main__":
    command, *steps = sys.argv[1:] or [""]
    if command != "rehearse":
        steps = sys.argv[1:]
    if command in WRITERS and len(steps) == 1:
        sys.exit(WRITERS[command]())
    if unknown := {*steps} - {*STEPS}:
        words = ", ".join((*STEPS, *WRITERS, "rehearse"))
        sys.exit(f"no step {', '.join(sorted(unknown))}; there are {words}")
    sys.exit(rehearse(steps) if command == "rehearse" else main(steps))
