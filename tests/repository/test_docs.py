"""Every command and code block in README.md and docs/ does what the page says.

A page is run from top to bottom in an empty folder, with `zarrlift` and `python` on PATH. `cd FOLDER` holds
for what follows. Where a page says "In a clone of the repository", the folder in which it begins has
`fixtures`, as the root of a clone has. A page gets nothing else that its own blocks do not make.
What a fence means:

    ```console              `$ command` and what it prints; `...` stands for anything, dates, times, rates,
                            free space for any other, /home/you for the folder;
                            `$ command  # exits 1` where it is meant to fail; UPDATE=1 writes what it prints
    ```bash  ```python      a script that must succeed
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
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.zarrlift.jobs.faults.commands import Commands

from zarrlift.core.units import UNITS

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<options>[^\n]*)\n(?P<body>.*?)^(?P=indent)``` *$",
    re.DOTALL | re.MULTILINE,
)
INCLUDED = re.compile(r"^--8<--\n(.+)\n--8<--\n", re.MULTILINE)
"""The place of a file of the repository, for pymdownx.snippets. Its form of one line is Python to ruff."""
SETUP = re.compile(r"^python3 go\.py \w+( --\w+)*$|^\. \.venv/bin/activate$|^\.ci/run( \w+)*$")
"""Commands that set up an environment: .ci/run runs them, since a test runs inside one."""
PLAIN = re.compile(r"zarrlift [\w ./=:,+-]+")
"""A command that any shell starts alike."""
CHANGE = re.compile(r"^cd ([\w./-]+)$", re.MULTILINE)
IN_A_CLONE = "In a clone of the repository"
AMOUNT = rf"\d[\d.]*\s+(?:B|{'|'.join(UNITS)})"
VARIES = (
    (re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\b"), "WHEN"),
    (re.compile(r"(?<![\w.])\d[\d.]*\s+(?:ms|s|min(?:\s+\d+\s+s)?)\b"), "TIME"),
    # A run of less than 10 ms states no rate.
    (re.compile(rf"(?<=TIME)\s+\({AMOUNT}/s\)"), ""),
    (re.compile(rf"(?<![\w.]){AMOUNT}\s+free"), "SPACE free"),
)
"""What a page shows of one run, and another run prints differently, perhaps on two lines."""
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


UPDATE = bool(os.environ.get("UPDATE"))
"""Whether pages get the output that their commands print now."""


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
    span: tuple[int, int]
    """Where the body is in the text of the page."""
    indent: str

    @property
    def place(self) -> str:
        return f"{os.path.relpath(self.page, ROOT)}:{self.line}"


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
            span=match.span("body"),
            indent=indent,
        )
        end = match.end()


class Step(NamedTuple):
    """A command of a console block, with its lines as the page has them."""

    lines: str
    command: str
    code: int
    output: str


def steps(block: Block) -> Iterator[Step]:
    """Each `$ ` line of a console block, its expected exit code and output."""
    for part in re.split(r"^(?=\$ )", block.body, flags=re.MULTILINE)[1:]:
        first, _, output = part.partition("\n")
        while first.endswith("\\"):
            more, _, output = output.partition("\n")
            first += "\n" + more
        command, _, code = first.removeprefix("$ ").partition("  # exits ")
        yield Step(first + "\n", command, int(code or 0), output)


def masked(text: str) -> str:
    """Without what varies from run to run."""
    for pattern, name in VARIES:
        text = pattern.sub(name, text)
    return text


def matches(expected: str, found: str) -> bool:
    """Whether a page shows what was printed, with `...` for anything, white space taken as one kind."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(masked(expected), masked(found), flags)


def updated(expected: str, found: str) -> str:
    """What was printed, as a page should show it: lines that still match stay, and so do its `...`."""
    old, new = expected.splitlines(), found.rstrip().splitlines()
    _break_alike(old, new)
    same = [[line != "..." and matches(line, other) for other in new] for line in old]
    common = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, j in product(reversed(range(len(old))), reversed(range(len(new)))):
        longest = max(common[i + 1][j], common[i][j + 1])
        common[i][j] = max(longest, common[i + 1][j + 1] + 1) if same[i][j] else longest
    lines: list[str] = []
    gap: tuple[list[str], list[str]] = ([], [])
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and same[i][j] and common[i][j] == common[i + 1][j + 1] + 1:
            is_kept = "..." in old[i] or masked(old[i]) == masked(new[j])  # else, columns have moved
            lines += [*_between(*gap, lines), old[i] if is_kept else new[j]]
            gap = ([], [])
            i, j = i + 1, j + 1
        elif j == len(new) or (i < len(old) and common[i + 1][j] >= common[i][j + 1]):
            gap[0].append(old[i])
            i += 1
        else:
            gap[1].append(new[j])
            j += 1
    text = "\n".join([*lines, *_between(*gap, lines)])
    blank = expected[len(expected.rstrip("\n")) :]
    return (text if matches(text, found) else found.rstrip()) + (blank or "\n")


def _break_alike(old: list[str], new: list[str]) -> None:
    """Break printed lines as the page does where nothing else differs: the length of a path does."""
    for i, a, b in product(range(len(old)), (1, 2, 3), (1, 2, 3)):
        lines = old[i : i + a]
        for j in range(len(new)):
            mine, theirs = ([len(line.split()) for line in each] for each in (lines, new[j : j + b]))
            is_broken_elsewhere = mine != theirs and sum(mine) == sum(theirs) and min(mine + theirs) > 0
            text = "\n".join(lines)
            if is_broken_elsewhere and "..." not in text and matches(text, "\n".join(new[j : j + b])):
                new[j : j + b] = lines


def _last(old: list[str], new: list[str]) -> list[str]:
    """The printed lines that stand for the last ones of a page, of which some may be broken now."""
    words, first = "\n".join(old).split(), len(new) - len(old)
    tails = [new[start:] for start in range(first, max(first - 3, -1), -1)]
    return max(tails, key=lambda tail: SequenceMatcher(None, words, "\n".join(tail).split()).ratio())


def _between(old: list[str], new: list[str], above: list[str]) -> list[str]:
    """The lines of a place where those of the page match nothing that was printed."""
    if above and above[-1].endswith(" ..."):  # which stands for whole lines too
        after = old[::-1].index("...") if "..." in old else len(old)
        return _last(old[len(old) - after :], new) if after <= len(new) else new
    if "..." not in old:
        return new
    before, after = old.index("..."), old[::-1].index("...")
    while not masked("\n".join(new)).startswith(masked("\n".join(new[:before]))):
        before += 1  # what varies is not cut
    last = _last(old[len(old) - after :], new[before:])
    return [*new[:before], "...", *last] if before + after <= len(new) else new


class Runner:
    """Runs the blocks of one page in one folder, which has the fixtures if the page is for a clone."""

    def __init__(self, folder: Path, *, clone: bool, commands: Commands | None = None) -> None:
        self.home = self.folder = folder
        self.commands = commands
        if clone:
            (folder / "fixtures").symlink_to(ROOT / "fixtures", target_is_directory=True)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
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
        self.environment.pop("UPDATE", None)
        self.printed: str | None = None
        self.problems: list[str] = []
        self.has_failed = False
        """Whether something exited otherwise than the page says: what is printed later may be wrong."""
        self.bodies: dict[Block, str] = {}
        """What blocks should contain."""

    def call(self, words: list[str], place: str, code: int = 0) -> str | None:
        """What a program prints; None if it exits otherwise than it should."""
        if self.commands is not None and PLAIN.fullmatch(words[-1]):
            zarrlift = words[-1].split()[1:]
            ended = self.commands(*zarrlift, folder=self.folder, environment=self.environment)
            return self.checked(ended.code, ended.out, words[-1], place, code)
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
        return self.checked(done.returncode, done.stdout, words[-1], place, code)

    def checked(self, found: int | str, printed: str, command: str, place: str, code: int) -> str | None:
        """What was printed, if the exit code is that of the page."""
        if found != code:
            self.has_failed = True
            self.problems.append(f"{place} exits {found}, not {code}\n{command}\n{printed}")
            return None
        return printed.replace(str(self.home), "/home/you")

    def compared(self, found: str | None, expected: str, place: str) -> str:
        """The output that the page should show: what it has, or with UPDATE what was printed."""
        if found is None or matches(expected, found):
            return expected
        if UPDATE and not self.has_failed:
            return updated(expected, found)
        self.problems.append(f"{place} prints something else\n--- the page\n{expected}\n--- printed\n{found}")
        return expected

    def change(self, commands: str) -> None:
        """Go where the last `cd` of these commands led to."""
        for name in CHANGE.findall(commands):
            self.folder = Path(os.path.normpath(self.folder / name))

    def run(self, block: Block) -> None:
        printed, self.printed = self.printed, None
        match block.language:
            case "console":
                body = block.body.partition("$ ")[0]
                for step in steps(block):
                    output = step.output
                    if not SETUP.match(step.command):
                        found = self.call(["bash", "-c", step.command], block.place, step.code)
                        output = self.compared(found, output, f"{block.place} `{step.command}`")
                    self.change(step.command)
                    body += step.lines + output
                self.bodies[block] = body
            case "bash":
                lines = [line for line in block.body.splitlines() if not SETUP.match(line)]
                self.printed = self.call(["bash", "-euo", "pipefail", "-c", "\n".join(lines)], block.place)
                self.change(block.body)
            case "python":
                self.printed = self.call([sys.executable, "-c", block.body], block.place)
            case "text":
                if block.follows and printed is not None:
                    self.bodies[block] = self.compared(printed, block.body, block.place)
            case "toml":
                tomllib.loads(block.body)
            case "json":
                json.loads(block.body)
            case _:
                pytest.fail(f"{block.place}: a block of language {block.language!r} is not run by any test")
        if block.title:
            (self.folder / block.title).write_text(block.body)


def run_page(page: Path, commands: Commands | None = None) -> list[str]:
    """Run a page and give all that is wrong; with UPDATE, write what its commands print."""
    # Not pytest's folder, whose long name is broken into lines by what is printed.
    with tempfile.TemporaryDirectory(prefix="page") as folder:
        runner = Runner(Path(folder), clone=IN_A_CLONE in page.read_text(), commands=commands)
        for block in blocks(page):
            runner.run(block)
    old = text = page.read_text()
    for block, body in reversed(runner.bodies.items()):
        if body != block.body:
            start, end = block.span
            text = text[:start] + textwrap.indent(body, block.indent) + text[end:]
    if text != old:
        page.write_text(text)
    return runner.problems


QUICK_PAGES = ("README.md", "docs/tutorial.md")


def page_of(path: Path) -> Any:
    """A page, and whether it is slow."""
    name = path.relative_to(ROOT).as_posix()
    return pytest.param(path, id=name, marks=() if name in QUICK_PAGES else pytest.mark.slow)


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands | None]:
    """Starts `zarrlift` without loading it again, which takes most of the time of the quick pages."""
    made = Commands(None, {}) if sys.platform == "linux" else None
    yield made
    if made is not None:
        made.close()


@pytest.mark.golden
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("page", [page_of(path) for path in PAGES])
def test_a_page_does_what_it_says(page: Path, request: pytest.FixtureRequest) -> None:
    """The other pages start the installed command."""
    is_quick = page.relative_to(ROOT).as_posix() in QUICK_PAGES
    if problems := run_page(page, request.getfixturevalue("commands") if is_quick else None):
        pytest.fail("\n\n".join(problems))


PAGE = """
```console
$ printf 'kept\\nnew\\n1\\n2\\nlast\\n'
kept
old
...
last

$ echo 3
4
```

1. In a list:

   ```console
   $ false
   wrong
   $ echo 5
   6
   ```
"""


def test_what_a_page_shows_is_written_up_to_the_first_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    problems = run_page(page)
    assert page.read_text() == PAGE
    assert len(problems) == 4
    monkeypatch.setattr(sys.modules[__name__], "UPDATE", True)
    problems = run_page(page)
    assert page.read_text() == PAGE.replace("old\n", "new\n").replace("\n4\n", "\n3\n")
    assert [problem.partition("\n")[0].partition("page.md:")[2] for problem in problems] == [
        "15 exits 1, not 0",
        "15 `echo 5` prints something else",
    ]


@pytest.mark.parametrize(
    ("old", "printed", "new"),
    [
        ("a\n", "b\n", "b\n"),
        ("a\n...\n", "b\nc\nd\n", "b\n...\n"),
        ("...\na\n", "b\nc\nd\n", "...\nd\n"),
        ("a 1.5 s\nb\nc\n", "a 2.5 s\nd\nc\n", "a 1.5 s\nd\nc\n"),
        ("a\n...\nb\nc\n", "b\nc\nd\n", "b\nc\nd\n"),
        ("a ...\nb\n\n", "a and so on\nc\n", "a ...\nc\n\n"),
        ("a b\n1 c\n", "a  b\n10 c\n", "a  b\n10 c\n"),
        ("a 1 s (1 B/s)\n...\n", "b 1 s (1\n  B/s)\nc\n", "b 1 s (1\n  B/s)\n...\n"),
        ("a ...\nb\nc\n", "a 1\nd\ne\nb\nf\n", "a ...\nb\nf\n"),
        ("...\nan old line of 5\n", "b\nc\na new line\n  of 5\n", "...\na new line\n  of 5\n"),
        ("a b\n  c\nold\n", "a b c\nnew\n", "a b\n  c\nnew\n"),
    ],
)
def test_lines_and_gaps_that_still_match_stay(old: str, printed: str, new: str) -> None:
    assert updated(old, printed) == new


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


def test_links_of_pages_outside_the_site_lead_to_files() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in (*ROOT.glob("*.md"), ROOT / "transformers" / "README.md")
        for link in re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert missing == []


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
    assert [page for page in pages if page not in navigation and not page.startswith("design/")] == []


def test_every_design_record_that_is_cited_exists_and_has_its_parts() -> None:
    """Comments cite a record by its number alone, so that its title may change."""
    records = {path.name[:4]: path.read_text() for path in (ROOT / "docs" / "design").glob("[0-9]*.md")}
    folders = ("migrate", "transformers", "tests", "docs")
    files = [*ROOT.glob("*.toml"), *(path for each in folders for path in (ROOT / each).rglob("*.py"))]
    cited = {found for path in files for found in re.findall(r"docs/design/(\d{4})", path.read_text())}
    assert cited
    assert sorted(cited - records.keys()) == []
    for number, text in records.items():
        assert text.startswith(f"# {int(number)}. "), number
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences"], number


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


def test_every_format_is_on_its_pages() -> None:
    from zarrlift.core.format_table import FORMATS

    table = (ROOT / "docs" / "howto" / "formats.md").read_text()
    assert [name for name in FORMATS if f"| `{name}` |" not in table] == []
    front = (ROOT / "docs" / "index.md").read_text()
    assert [row.title for row in FORMATS.values() if f"| {row.title} |" not in front] == []


def test_every_dependency_has_its_reason_and_its_licence() -> None:
    files = (ROOT / "pyproject.toml", ROOT / "transformers" / "pyproject.toml")
    both = [tomllib.loads(file.read_text()) for file in files]
    extras = [extra for one in both for extra in one["project"]["optional-dependencies"].items()]
    wanted = [text for one in both for text in one["project"]["dependencies"]]
    wanted += [text for _, texts in extras for text in texts]
    names = {re.match(r"[\w-]+", text)[0] for text in wanted} | {name for name, _ in extras}
    page = (ROOT / "docs" / "design" / "0006-dependencies.md").read_text()
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", page)) == []
    tables = re.findall(r"^(\|.*\blicence\b.*)\n\|[ |-]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert len(tables) == 4
    for heading, rows in tables:
        column = [cell.strip() for cell in heading.split("|")].index("licence")
        assert [row for row in rows.splitlines() if not row.split("|")[column].strip()] == []


def test_every_tolerated_deviation_is_described() -> None:
    from zarrlift.formats.zarr_v2.deviations import DEVIATIONS, DTYPE_DEVIATIONS

    page = (ROOT / "docs" / "design" / "deviations.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (.*?) \| ", page, re.MULTILINE)
    assert rows == [(row.name, row.writer) for row in (*DTYPE_DEVIATIONS, *DEVIATIONS)]
