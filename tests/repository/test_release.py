"""The files that other services read say what pyproject.toml, .ci/run and the changelog say."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from trove_classifiers import classifiers as known_classifiers

import zarrlift

ROOT = Path(__file__).parents[2]
PROJECTS = {"zarrstack": ROOT / "transformers" / "pyproject.toml", "zarrlift": ROOT / "pyproject.toml"}
WORKFLOWS = {path.stem: path for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
NAMES_AT_CONDA = {"isal": "python-isal"}
SCHEMAS = {
    "CITATION.cff": "citation-file-format",
    ".readthedocs.yaml": "readthedocs",
    ".github/workflows/*.yml": "github-workflows",
    ".github/ISSUE_TEMPLATE/*.yml": "github-issue-forms",
}
"""The schema of check-jsonschema for each file."""


def project(name: str) -> dict:
    return tomllib.loads(PROJECTS[name].read_text())["project"]


def requirements(name: str) -> list[Requirement]:
    """What a distribution requires without extras, apart from the other one."""
    return [Requirement(text) for text in project(name)["dependencies"] if not text.startswith("zarrstack")]


def steps() -> Iterator[tuple[str, dict]]:
    """Every step of every workflow, with the name of its workflow."""
    for name, path in WORKFLOWS.items():
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job["steps"]:
                yield name, step


def matrix() -> list[dict]:
    """The systems, versions of Python and parts of .ci/run that the workflow of tests combines."""
    return yaml.safe_load(WORKFLOWS["tests"].read_text())["jobs"]["parts"]["strategy"]["matrix"]["include"]


def parts() -> list[str]:
    """The parts that .ci/run has, in its own words."""
    said = subprocess.run([ROOT / ".ci" / "run", "?"], capture_output=True, text=True, check=False)
    assert said.returncode == 2
    return said.stderr.partition("it has: ")[2].split()


def test_the_changelog_keeps_the_form_that_it_names() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    released = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:]]
    assert headings[0] == "[Unreleased]"
    assert all(released), headings
    versions = [Version(found[1]) for found in released]
    assert versions == sorted(versions, reverse=True)
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert {*re.findall(r"^### (.+)$", text, re.MULTILINE)} <= kinds
    current = Version(zarrlift.__version__)
    assert versions[:1] == [current] or not versions or versions[0] < current


def test_citation_recipe_and_requirement_have_the_version() -> None:
    assert f"zarrstack=={zarrlift.__version__}" in project("zarrlift")["dependencies"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == zarrlift.__version__
    recipe = yaml.safe_load((ROOT / "release" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == zarrlift.__version__


@pytest.mark.parametrize("name", PROJECTS)
def test_the_recipe_requires_what_pyproject_does(name: str) -> None:
    recipe = yaml.safe_load((ROOT / "release" / "recipe.yaml").read_text())
    (output,) = [one for one in recipe["outputs"] if one["package"]["name"] == name]
    wanted = {NAMES_AT_CONDA.get(one.name, one.name): one.specifier for one in requirements(name)}
    if name == "zarrlift":
        wanted["zarrstack"] = SpecifierSet("==${{ version }}".replace("${{ version }}", zarrlift.__version__))
    found = {}
    for text in output["requirements"]["run"]:
        package, _, bounds = text.replace("${{ version }}", zarrlift.__version__).partition(" ")
        found[package] = bounds
    assert f">={recipe['context']['python_min']}" == project(name)["requires-python"]
    assert found.pop("python") == ">=${{ python_min }}"
    assert {package: SpecifierSet(bounds) for package, bounds in found.items()} == wanted
    scripts = project(name).get("scripts", {})
    entries = output["build"].get("python", {}).get("entry_points", [])
    assert entries == [f"{script} = {target}" for script, target in scripts.items()]


@pytest.mark.parametrize("name", PROJECTS)
def test_the_classifiers_exist_and_claim_what_ci_requires_to_pass(name: str) -> None:
    claimed = project(name)["classifiers"]
    assert {*claimed} <= known_classifiers
    tested = matrix()
    pythons = [text.rpartition(" ")[2] for text in claimed if re.search(r"Python :: 3\.\d+$", text)]
    assert pythons == sorted({row["python"] for row in tested}, key=Version)
    jobs = yaml.safe_load(WORKFLOWS["release"].read_text())["jobs"]
    assert jobs["install"]["strategy"]["matrix"]["python"] == pythons
    systems = [text for text in claimed if text.startswith("Operating System")]
    assert [text.rpartition(":: ")[2] for text in systems] == ["MacOS", "Windows", "Linux"]
    assert {row["os"] for row in tested} == {"macos-latest", "ubuntu-latest", "windows-latest"}
    assert f">={pythons[0]}" == project(name)["requires-python"]


def test_both_distributions_and_other_files_state_the_same_address_or_none() -> None:
    found = {project(name).get("urls", {}).get("Repository") for name in PROJECTS}
    found.add(yaml.safe_load((ROOT / "CITATION.cff").read_text()).get("repository-code"))
    found |= {*(re.findall(r"^repo_url: (.+)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE) or [None])}
    assert len(found) == 1


def test_the_workflows_run_every_part_of_ci_and_no_other_test() -> None:
    run = {" ".join(step["run"].split()) for _, step in steps() if "run" in step}
    assert {text for text in run if text.startswith(".ci/run")} == {
        ".ci/run ${{ matrix.parts }}",
        ".ci/run newest",
        ".ci/run readers rest",
        ".ci/run random",
        ".ci/run stores",
        ".ci/run windows",
        ".ci/run release",
        ".ci/run demo check lowest",
    }
    nightly = {"random", "stores", "release"}
    assert {word for row in matrix() for word in row["parts"].split()} | nightly == {*parts()}
    assert not [text for text in run if "pytest" in text]


def test_both_distributions_are_published_once_they_were_tried_the_required_one_first() -> None:
    publish = yaml.safe_load(WORKFLOWS["release"].read_text())["jobs"]["publish"]
    assert publish["strategy"]["matrix"]["distribution"] == list(PROJECTS)
    assert publish["strategy"]["max-parallel"] == 1
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["needs"] == "install"


def test_hooks_and_docs_use_the_pinned_tools() -> None:
    pins = dict(
        line.split("==")
        for line in (ROOT / "tests" / "pins" / "oldest.txt").read_text().split()
        if "==" in line
    )
    tools = (ROOT / "tests" / "environments" / "pins.txt").read_text().split("[release]")[1].split("\n\n")[0]
    pins |= dict(re.findall(r"^([\w-]+)==(\S+)", tools, re.MULTILINE))
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    revisions = {
        one["repo"].rpartition("/")[2].removesuffix("-pre-commit"): one.get("rev", "") for one in hooks
    }
    revisions.pop("local")
    assert {name: revision.removeprefix("v") for name, revision in revisions.items()} == {
        name: pins[name] for name in revisions
    }
    install = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())["build"]["jobs"]["install"]
    assert install == ["pip install --constraint tests/pins/oldest.txt ./transformers .[dev]"]


@pytest.fixture
def check() -> ModuleType:
    """release/check.py."""
    spec = importlib.util.spec_from_file_location("check", ROOT / "release" / "check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(check: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The files of a release about which nothing is wrong."""
    (tmp_path / "transformers").mkdir()
    (tmp_path / "docs").mkdir()
    for name, text in {
        "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-12-01\n\n### Added\n\n- x\n",
        "CITATION.cff": "title: x\nversion: 1.2.3\ndate-released: 2026-12-01\n",
        "README.md": "`pip install zarrlift`\n",
        "transformers/README.md": "",
        "pyproject.toml": '[project.urls]\nRepository = "https://example.org"\n',
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    return tmp_path


def test_nothing_is_wrong_about_files_that_state_the_release(check: ModuleType, tree: Path) -> None:
    assert list(check.wrong_in_files("1.2.3")) == []
    assert check.changelog("1.2.3") == "### Added\n\n- x"


@pytest.mark.parametrize(
    ("file", "text", "faults"),
    [
        ("CHANGELOG.md", "## [Unreleased]\n\n- x\n", ["has no", "still has lines"]),
        ("CHANGELOG.md", "## [Unreleased]\n\n- x\n\n## [1.2.3] - 2026-12-01\n", ["still has lines"]),
        ("CHANGELOG.md", "## [Unreleased]\n\n## [1.2.3] - 2026-12-02\n", ["date-released: 2026-12-02"]),
        ("CITATION.cff", "version: 1.2.2\ndate-released: 2026-12-01\n", ["CITATION.cff has"]),
        ("README.md", "[A page](docs/page.md)", [r"README\.md has relative links"]),
        ("docs/page.md", "Run `pip install\n./transformers .`\n", [r"docs/page\.md installs from a clone"]),
        ("pyproject.toml", "[project]\n", [r"no \[project\.urls\]"]),
    ],
)
def test_what_a_file_states_otherwise_is_listed(
    check: ModuleType, tree: Path, file: str, text: str, faults: list[str]
) -> None:
    (tree / file).write_text(text)
    found = list(check.wrong_in_files("1.2.3"))
    assert len(found) == len(faults)
    assert all(re.search(fault, each) for fault, each in zip(faults, found, strict=True)), found


def test_a_version_has_three_numbers(check: ModuleType, tree: Path) -> None:
    assert "1.2rc1 is not X.Y.Z; change transformers/zarrstack/version.py" in check.wrong_in_files("1.2rc1")


def test_the_tag_is_this_commit_and_that_of_the_version(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"status": "", "rev-parse": "a" * 40}
    monkeypatch.setattr(check, "git", lambda word, *_: answers[word])
    monkeypatch.delenv("GITHUB_REF_NAME", raising=False)
    assert list(check.wrong_in_git("1.2.3")) == []
    monkeypatch.setenv("GITHUB_REF_NAME", "v1.2.4")
    assert list(check.wrong_in_git("1.2.3")) == [
        "the tag v1.2.4 was pushed for version 1.2.3; it should be v1.2.3"
    ]
    monkeypatch.delenv("GITHUB_REF_NAME")
    answers["status"] = " M README.md"
    assert list(check.wrong_in_git("1.2.3")) == ["the tree has changes; commit them"]
    answers["status"] = ""
    monkeypatch.setattr(check, "git", lambda *words: {"rev-parse": words[-1] * 20}.get(words[0], ""))
    assert [each.partition(", ")[0] for each in check.wrong_in_git("1.2.3")] == ["v1.2.3 is another commit"]


@pytest.mark.needs_reader("release")
def test_the_files_for_other_services_are_valid() -> None:
    tools = Path(os.environ["ZARRLIFT_RELEASE"]) / "bin"
    for pattern, schema in SCHEMAS.items():
        files = sorted(ROOT.glob(pattern))
        assert files, pattern
        words = [tools / "check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run([tools / "actionlint"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


RENDER = """
import sys
from rattler_build import Stage0Recipe, VariantConfig

for variant in Stage0Recipe.from_yaml(sys.stdin.read()).render(VariantConfig()):
    print(variant.recipe.package.name, variant.recipe.package.version)
"""


@pytest.mark.needs_reader("release")
def test_rattler_build_accepts_the_recipe_of_conda() -> None:
    words = [Path(os.environ["ZARRLIFT_RELEASE"]) / "bin" / "python", "-c", RENDER]
    text = (ROOT / "release" / "recipe.yaml").read_text()
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{name} {zarrlift.__version__}" for name in PROJECTS]


@pytest.mark.needs_reader("release")
@pytest.mark.slow
def test_a_release_is_built_twice_with_its_parts_and_their_licences(tmp_path: Path) -> None:
    python = Path(os.environ["ZARRLIFT_RELEASE"]) / "bin" / "python"
    words = [python, ROOT / "release" / "check.py", tmp_path / "dist"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, ""), done.stdout + done.stderr
    assert "CHANGELOG.md has no" in done.stdout  # nothing is released yet
    assert "other bytes" not in done.stdout
    assert len(list(tmp_path.glob("dist/*/*.whl")) + list(tmp_path.glob("dist/*/*.tar.gz"))) == 4
    document = json.loads((tmp_path / "dist" / "sbom.cdx.json").read_text())
    assert document["bomFormat"] == "CycloneDX"
    parts = {one["name"].lower(): one for one in (*document["components"], document["metadata"]["component"])}
    assert {*parts} >= {one.name for name in PROJECTS for one in requirements(name)} | {*PROJECTS}
    assert [name for name, one in parts.items() if not one.get("licenses")] == []


# release/Containerfile: its steps are run, in a Debian of the same release.


FILE = ROOT / "release" / "Containerfile"


class Instruction(NamedTuple):
    """An instruction and what follows it."""

    word: str
    rest: str


def instructions() -> list[Instruction]:
    text = re.sub(r"(?m)^#.*\n", "", FILE.read_text()).replace("\\\n", "")
    return [Instruction(*line.split(" ", 1)) for line in text.splitlines() if line]


def test_what_is_copied_is_in_the_clone_and_what_an_image_starts_is_not_root() -> None:
    copied = [path for word, rest in instructions() if word == "COPY" for path in rest.split()[:-1]]
    assert [path for path in copied if path[0] not in "-/" and not (ROOT / path).exists()] == []
    user = [rest for word, rest in instructions() if word == "USER"]
    assert len(user) == 1
    assert int(user[0]) >= 1000  # a number: Kubernetes cannot look up a name for runAsNonRoot


def test_the_page_on_clusters_builds_the_image_that_it_starts() -> None:
    page = (ROOT / "docs" / "howto" / "cluster.md").read_text()
    [command] = re.findall(r"^podman build (.*)", page, re.MULTILINE)
    words = shlex.split(command)
    assert (ROOT / words[words.index("--file") + 1]) == FILE
    image = words[words.index("--tag") + 1]
    assert f"image: {image}\n" in page
    assert "EXTRAS" in {rest.partition("=")[0] for word, rest in instructions() if word == "ARG"}
