"""Every command and code block in README.md and docs/ does what the page says.

A page is run from top to bottom in an empty folder, with `zarrlift` and `python` on PATH. `cd FOLDER` holds
for what follows. Where a page says "In a clone of the repository", the folder in which it begins has
`fixtures`, as the root of a clone has. A page gets nothing else that its own blocks do not make.
What a fence means:

    ```console              `$ command` and what it prints; `...` stands for anything, dates, times, rates,
                            free space for any other, /home/you for the folder;
                            `$ command  # exits 1` where it is meant to fail
    ```bash  ```python      a script that must succeed; one in Python that imports an application runs in the
                            environment of the applications, and its page with it
    ```text                 right after a script: what it prints; elsewhere just text
    ```toml  ```json        must parse; with title="name" it is written to that file
"""

from __future__ import annotations

import ast
import doctest
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<options>[^\n]*)\n(?P<body>.*?)^(?P=indent)``` *$",
    re.DOTALL | re.MULTILINE,
)
INCLUDED = re.compile(r"^--8<--\n(.+)\n--8<--\n", re.MULTILINE)
"""The place of a file of the repository, for pymdownx.snippets. Its form of one line is Python to ruff."""
SETUP = re.compile(r"^python3 go\.py \w+( --\w+)*$|^\. \.venv/bin/activate$|^\.ci/run$|^make \w+$")
"""Commands that set up an environment: .ci/run runs them, since a test runs inside one."""
CHANGE = re.compile(r"^cd ([\w./-]+)$", re.MULTILINE)
IN_A_CLONE = "In a clone of the repository"
VARIES = (
    (re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\b"), "WHEN"),
    (re.compile(r"(?<![\w.])\d[\d.]* (?:ms|s|min(?: \d+ s)?)\b"), "TIME"),
    # A run of less than 10 ms states no rate.
    (re.compile(r"(?<=TIME) \(\d[\d.]* [kMGT]?B/s\)"), ""),
    (re.compile(r"(?<![\w.])\d[\d.]* [kMGT]?B free"), "SPACE free"),
)
"""What a page shows of one run, and another run prints differently."""
VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)|\b(?:environ|getenv)\b\W*?(?:get)?\W*[\"'](\w+)")
SET_ELSEWHERE = re.compile(r"HOME|PATH|PWD|TMPDIR|(SLURM|AWS|AZURE|GOOGLE)_\w+")
"""Environment variables that shells, schedulers and clouds set."""

CODECS = {"CodecFacts", "_from_numcodecs", "_filter", "_compressor"}
OTHER_KINDS = {"argsort", "sort", "Refusal", "NodeRow", "Requirement", *CODECS}
"""Calls whose `kind` is not that of a problem."""

OTHERS_OPTIONS = {
    "--help",
    "--random",
    "--rest",
    "--no-version",
    "--pid",
    "--user",
    "--file",
    "--build-arg",
    "--tag",
}
"""Not in the tables of commands: `--help`, options of benchmarks, tests, and other programs."""
SCHEDULERS_OPTIONS = {
    "--output",
    *("--array", "--cpus-per-task", "--dependency", "--job-name", "--ntasks", "--open-mode", "--parsable"),
    *("--requeue", "--time", "--wrap"),
}
"""Of Slurm, on the page of clusters."""


APPLICATIONS = re.compile(
    r"^(import (anndata|mudata|ome_zarr_models|rioxarray|spatialdata)|vcztools)\b", re.MULTILINE
)
"""What is installed in an environment of its own (tests/environments/applications)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    title: str | None
    body: str
    follows: bool
    """Nothing but blank lines between it and the block before."""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, from top to bottom."""
    text, end = page.read_text(), 0
    for match in FENCE.finditer(text):
        indent = match["indent"]
        title = re.search(r'title="([^"]+)"', match["options"])
        body = "".join(line.removeprefix(indent) for line in match["body"].splitlines(keepends=True))
        yield Block(
            page=page,
            line=text.count("\n", 0, match.start()) + 1,
            language=match["language"],
            title=title and title[1],
            body=INCLUDED.sub(lambda file: (ROOT / file[1]).read_text(), body),
            follows=end > 0 and not text[end : match.start()].strip(),
        )
        end = match.end()


def steps(block: Block) -> Iterator[tuple[str, int, str]]:
    """Command, expected exit code and expected output of each `$ ` line of a console block."""
    for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
        first, _, output = part.partition("\n")
        while first.endswith("\\"):
            more, _, output = output.partition("\n")
            first += "\n" + more
        command, _, code = first.partition("  # exits ")
        yield command, int(code or 0), output


def masked(text: str) -> str:
    """Without what varies from run to run."""
    for pattern, name in VARIES:
        text = pattern.sub(name, text)
    return text


def check_output(found: str, expected: str, place: str) -> None:
    """Compare, with `...` for anything, white space taken as one kind."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if not doctest.OutputChecker().check_output(masked(expected), masked(found), flags):
        pytest.fail(f"{place} prints something else\n--- the page says\n{expected}\n--- printed\n{found}")


def applications() -> Path:
    """Where the programs of the applications are."""
    return Path(os.environ.get("ZARRLIFT_APPLICATIONS", "/nonexistent")) / "bin"


class Runner:
    """Runs the blocks of one page in one folder, which has the fixtures if the page is for a clone."""

    def __init__(self, folder: Path, *, clone: bool) -> None:
        self.home = self.folder = folder
        if clone:
            (folder / "fixtures").symlink_to(ROOT / "fixtures", target_is_directory=True)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"], str(applications())))
        self.environment = {
            **os.environ,
            "PATH": path,
            "HOME": str(folder),
            "COLUMNS": "110",
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
            "PYTHONWARNINGS": "error::DeprecationWarning:__main__",
            # A page's own pytest would otherwise clear away what whole runs of this suite have left.
            "PYTEST_DEBUG_TEMPROOT": str(folder),
        }
        self.printed: str | None = None

    def call(self, words: list[str], place: str, code: int = 0) -> str:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != code:
            pytest.fail(f"{place} exits {done.returncode}, not {code}\n{words[-1]}\n{done.stdout}")
        return done.stdout.replace(str(self.home), "/home/you")

    def change(self, commands: str) -> None:
        """Go where the last `cd` of these commands led to."""
        for name in CHANGE.findall(commands):
            self.folder = Path(os.path.normpath(self.folder / name))

    def run(self, block: Block) -> None:
        printed, self.printed = self.printed, None
        match block.language:
            case "console":
                for command, code, expected in steps(block):
                    if not SETUP.match(command):
                        found = self.call(["bash", "-c", command], block.place, code)
                        check_output(found, expected, f"{block.place} `{command}`")
                    self.change(command)
            case "bash":
                lines = [line for line in block.body.splitlines() if not SETUP.match(line)]
                self.printed = self.call(["bash", "-euo", "pipefail", "-c", "\n".join(lines)], block.place)
                self.change(block.body)
            case "python":
                python = [sys.executable]
                if APPLICATIONS.search(block.body):
                    python = [str(applications() / "python"), "-W", "ignore"]
                self.printed = self.call([*python, "-c", block.body], block.place)
            case "text":
                if block.follows and printed is not None:
                    check_output(printed, block.body, block.place)
            case "toml":
                tomllib.loads(block.body)
            case "json":
                json.loads(block.body)
            case _:
                pytest.fail(f"{block.place}: a block of language {block.language!r} is not run by any test")
        if block.title:
            (self.folder / block.title).write_text(block.body)


def page_of(path: Path) -> Any:
    """A page, and the reader that it needs."""
    marks = [pytest.mark.needs_reader("applications")] if APPLICATIONS.search(path.read_text()) else []
    return pytest.param(path, id=path.relative_to(ROOT).as_posix(), marks=marks)


@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("page", [page_of(path) for path in PAGES])
@pytest.mark.slow
def test_a_page_does_what_it_says(page: Path) -> None:
    # Not pytest's folder, whose long name is broken into lines by what is printed.
    with tempfile.TemporaryDirectory(prefix="page") as folder:
        runner = Runner(Path(folder), clone=IN_A_CLONE in page.read_text())
        for block in blocks(page):
            runner.run(block)


def test_no_page_needs_a_variable_that_it_does_not_set() -> None:
    found = []
    for page in PAGES:
        bodies = "".join(block.body for block in blocks(page))
        for names in VARIABLE.findall(bodies):
            name = "".join(names)
            given = rf"\b{name}(: \w+ )?=|\b(for|read) {name}\b|environ\[\W{name}\W\] ="
            if not SET_ELSEWHERE.fullmatch(name) and not re.search(given, bodies):
                found.append(f"{page.relative_to(ROOT)}: {name}")
    assert found == []


def test_the_commands_that_set_up_are_run_by_ci() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    lines = [line for block in blocks(ROOT / "README.md") for line in block.body.splitlines()]
    commands = [line for line in lines if SETUP.match(line)]
    assert commands == ["python3 go.py demo", "python3 go.py test"]
    assert [command for command in commands if not re.search(rf"^ *try {command}$", ci, re.MULTILINE)] == []


def kinds() -> set[str]:
    """Every `kind` that the source can give a Problem or an error."""
    found = set()
    for path in (*(ROOT / "migrate").rglob("*.py"), *(ROOT / "transformers").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="refusal" | "warning" | "note"), args=[first, *_]):
                    values = [first]
                case ast.Call(func=f, keywords=words) if ast.unparse(f).split(".")[-1] not in OTHER_KINDS:
                    values = [word.value for word in words if word.arg == "kind"]
                case ast.FunctionDef(
                    name=function, args=ast.arguments(kwonlyargs=names, kw_defaults=defaults)
                ) if function not in OTHER_KINDS:
                    values = [
                        value for name, value in zip(names, defaults, strict=True) if name.arg == "kind"
                    ]
                case ast.ClassDef(body=body):
                    values = [
                        item.value
                        for item in body
                        if isinstance(item, ast.Assign | ast.AnnAssign)
                        and re.match(r"kind\b", ast.unparse(item))
                    ]
                case _:
                    continue
            found |= {value.value for value in values if isinstance(value, ast.Constant)}
    return found


@pytest.mark.slow
def test_every_kind_of_problem_is_in_the_catalogue() -> None:
    catalogue = set(re.findall(r"^### `([\w-]+)`", (REFERENCE / "errors.md").read_text(), re.MULTILINE))
    assert sorted(kinds()) == sorted(catalogue)


def test_the_exit_codes_of_the_docs_are_those_of_the_code() -> None:
    from zarrlift.cli import exit_codes

    rows = re.findall(r"^\| `(\d+)` \|", (REFERENCE / "errors.md").read_text(), re.MULTILINE)
    assert [int(row) for row in rows] == [code for name, code in vars(exit_codes).items() if name.isupper()]


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    pages = [page for page in pages if not page.endswith("/README.md")]  # for the registry of extensions
    assert [page for page in pages if page not in navigation] == []


def test_no_table_is_split() -> None:
    """What follows an empty line is another table, and needs a head."""
    for page in PAGES:
        text = FENCE.sub("", page.read_text())
        split = re.findall(r"^\n(\|.*)\n(?!\|[ :|-]+\n)", text, re.MULTILINE)
        assert not split, page


def test_every_option_that_a_page_names_is_one() -> None:
    from zarrlift.cli.commands import COMMANDS, TOP
    from zarrlift.cli.options import words_of

    known = {word for command in (TOP, *COMMANDS.values()) for word, _, _ in words_of(command)}
    wrong = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in PAGES
        for name in re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text())
        if name not in known | OTHERS_OPTIONS | SCHEDULERS_OPTIONS
    ]
    assert wrong == []


def test_every_dependency_has_its_reason() -> None:
    files = (ROOT / "pyproject.toml", ROOT / "transformers" / "pyproject.toml")
    both = [tomllib.loads(file.read_text()) for file in files]
    extras = [extra for one in both for extra in one["project"]["optional-dependencies"].items()]
    wanted = [text for one in both for text in one["project"].get("dependencies", ())]
    wanted += both[0]["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]
    wanted += [text for _, texts in extras for text in texts]
    names = {re.match(r"[\w-]+", text)[0] for text in wanted} | {name for name, _ in extras}
    page = (ROOT / "docs" / "design" / "decisions.md").read_text()
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", page)) == []


def test_every_tolerated_deviation_is_in_the_reference() -> None:
    from zarrlift.formats.zarr_v2.deviations import DEVIATIONS, DTYPE_DEVIATIONS

    page = (REFERENCE / "refused.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (.*?) \| ", page, re.MULTILINE)
    assert rows == [(row.name, row.writer) for row in (*DTYPE_DEVIATIONS, *DEVIATIONS)]
