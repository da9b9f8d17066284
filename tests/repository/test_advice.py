"""Every command and option that a message, a report, a help text or a page advises exists, and parses."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from zarrlift.cli.commands import COMMANDS, TOP
from zarrlift.cli.options import SETTABLE, words_of
from zarrlift.cli.parser import command_of, parsed
from zarrstack.core.errors import UsageError

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("migrate/**/*.py"), *ROOT.glob("transformers/**/*.py")])
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("transformers/*.md")])
VERBS = set("and as decodes did does follows itself knows leaves made may raises reads that".split())
"""What follows the word zarrlift in sentences that name no command."""
FOREIGN = {"--option", "--dimension-order", "--profile", "--x-s", "--force-reinstall"}
"""Options of other programs, and words that look like some."""
EVERY = {word for command in (TOP, *COMMANDS.values()) for word, _, _ in words_of(command)}


def wrong(words: list[str]) -> str | None:
    """Why a command line does not parse, or None."""
    try:
        name, rest = command_of(words)
        parsed(name, rest) if name and COMMANDS[name].module else None
    except UsageError as error:
        return str(error)
    return None


@cache
def strings(path: Path) -> list[str]:
    """The texts of a module that names a command or an option, with X for what is put into them."""
    source = path.read_text(encoding="utf-8")
    if not re.search(r"--[a-z]|zarrlift ", source):
        return []
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            made = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            texts.append("".join(made))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            texts.append(node.value)
    return texts


def built(path: Path) -> Iterator[list[str]]:
    """The command lines that a module builds with `command(...)`, with X for what varies.

    A variable that is only ever one of some options is each of them.
    """
    text = path.read_text(encoding="utf-8")
    if not re.search(r"import.*\bcommand\b|^ +command,$", text, re.MULTILINE):
        return
    tree = ast.parse(text)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == "command"
    }
    values: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found = {each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)}
            values.setdefault(node.targets[0].id, set()).update(
                each for each in found if isinstance(each, str) and each.startswith("--")
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            choices = [
                [word.value]
                if isinstance(word, ast.Constant)
                else sorted(values.get(word.id, ())) or ["X"]
                if isinstance(word, ast.Name)
                else ["X"]
                for word in node.args
                if not isinstance(word, ast.Starred)
            ]
            if isinstance(node.args[0], ast.Constant):
                yield from map(list, product(*choices))


def mentioned(text: str) -> Iterator[str]:
    """The command lines within a text, up to the end of each."""
    for found in re.findall(r"\bzarrlift ([a-z][a-z-]*(?: [^`\n\"|>()]*)?)", text):
        line = re.split(r"[.:;,?]?(?: {2}|[.:;,?] | \.\.\.|$)", found)[0].rstrip(".:;,?'")
        if line.split()[0] not in VERBS:
            yield line


def unknown(line: str) -> str | None:
    """What is wrong with a command line in a sentence, which need not have its arguments."""
    words = re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*|[^\s=]+", line)
    name = next((name for size in (2, 1) if (name := " ".join(words[:size])) in COMMANDS), None)
    if name is None:
        return f"{words[0]} is not a command"
    has = {word for word, _, _ in words_of(COMMANDS[name])}
    lacking = [word for word in words if word.startswith("-") and len(word) > 1 and word not in has]
    return f"{name} has no {lacking[0]}" if lacking else None


def test_every_command_that_is_built_parses() -> None:
    lines = [(path.name, line) for path in SOURCES for line in built(path)]
    assert len(lines) > 8, "the calls of `command` are found"
    assert {words[0] for _, words in lines} > {"resume", "verify", "undo", "status"}
    lines = [each for each in lines if each[0] != "suggestions.py"]  # it adds what the user typed
    assert [(name, line, why) for name, line in lines if (why := wrong(line))] == []


def test_every_command_that_a_text_of_the_source_names_exists() -> None:
    lines = [(path.name, line) for path in SOURCES for text in strings(path) for line in mentioned(text)]
    assert len(lines) > 30
    assert [(name, line, why) for name, line in lines if (why := unknown(line))] == []


def test_every_option_that_a_text_of_the_source_names_exists() -> None:
    named = {
        (path.name, word)
        for path in SOURCES
        for text in strings(path)
        for word in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)
    }
    assert len(named) > 60
    assert sorted(each for each in named if each[1] not in EVERY | FOREIGN) == []


def test_every_setting_that_a_text_names_exists() -> None:
    texts = [(path, text) for path in SOURCES for text in strings(path)]
    texts += [(path, path.read_text(encoding="utf-8")) for path in PAGES]
    named = {(path.name, word) for path, text in texts for word in re.findall(r"--set[ =]([a-z-]+)=", text)}
    settable = {name.replace("_", "-") for name in SETTABLE}
    assert len(named) > 5
    assert sorted(each for each in named if each[1] not in settable) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_of_a_page_parses(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```(?:bash|sh|console|text)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    for line in "\n".join(blocks).replace("\\\n", "").splitlines():
        if (start := re.match(r"\s*(?:\$ )?zarrlift (?=[a-z-])", line)) and "[OPTIONS]" not in line:
            command = re.split(r" {2,}(?!-)| [|&;]| \d?[<>]", line[start.end() :])[0]
            assert wrong(shlex.split(command, comments=True)) is None, line
    for line in re.findall(r"(?<!`)`zarrlift ([a-z][^`]*)`(?!`)", text):
        assert unknown(re.split(r" \.\.\.|;", line)[0]) is None, line
