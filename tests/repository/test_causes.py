"""No error is its own cause: programs that walk the causes of an error would never end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import zarrlift
from zarrlift.errors import KINDS

ROOT = Path(__file__).parents[2]
SOURCES = [path for room in ("transformers", "migrate") for path in sorted((ROOT / room).rglob("*.py"))]


def functions_that_return_a_parameter(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
            returned = {
                each.value.id
                for each in ast.walk(node)
                if isinstance(each, ast.Return) and isinstance(each.value, ast.Name)
            }
            if returned & names:
                yield node.name


def own_causes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines that raise an error from itself, or what a function makes of it, with the function's name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise) or not isinstance(node.cause, ast.Name):
            continue
        if isinstance(node.exc, ast.Name) and node.exc.id == node.cause.id:
            yield node.lineno, ""
        if not isinstance(node.exc, ast.Call):
            continue
        function = node.exc.func
        values = [
            *node.exc.args,
            *(each.value for each in node.exc.keywords),
            getattr(function, "value", None),
        ]
        if node.cause.id in {each.id for each in values if isinstance(each, ast.Name)}:
            yield node.lineno, getattr(function, "attr", getattr(function, "id", ""))


def test_no_error_is_raised_from_itself() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES}
    raising = [path for path, text in texts.items() if re.search(r"\bfrom \w+$", text, re.MULTILINE)]
    found = [(path, *each) for path in raising for each in own_causes(ast.parse(texts[path]))]
    defined = re.compile(rf"\bdef ({'|'.join({name for *_, name in found if name})})\b")
    trees = (ast.parse(text) for text in texts.values() if defined.search(text))
    returning = {"", "at"} | {name for tree in trees for name in functions_that_return_a_parameter(tree)}
    assert "with_position" in returning
    assert [each for each in found if each[-1] in returning] == []


def walk(error: BaseException) -> None:
    """Walk causes and contexts as reporters do; AssertionError for a circle."""
    for name in ("__cause__", "__context__"):
        seen: list[BaseException] = []
        each: BaseException | None = error
        while each is not None:
            assert not any(each is other for other in seen), f"a circle of {name}: {each!r}"
            seen.append(each)
            each = getattr(each, name)


def raise_as(kind: Any) -> None:
    """Raise an error of a kind that another one of the same kind caused."""
    first = kind("first")
    raise kind.of(first.problem) from first


@pytest.mark.parametrize("kind", KINDS.values())
def test_errors_of_every_kind(kind: Any) -> None:
    with pytest.raises(kind) as caught:
        raise_as(kind)
    walk(caught.value)


def test_errors_of_public_functions(tmp_path: Path) -> None:
    missing, present = tmp_path / "missing.zarr", tmp_path / "present"
    present.mkdir()
    file = tmp_path / "file.zip"
    file.write_bytes(b"text")
    calls: list[tuple[Any, ...]] = [
        (zarrlift.migrate, missing, tmp_path / "new.zarr"),
        (zarrlift.migrate, missing, present),
        (zarrlift.migrate, present, tmp_path / "new.zarr"),
        (zarrlift.migrate, file, tmp_path / "new.zarr"),
        (zarrlift.verify, missing, present),
        (zarrlift.inspect, missing),
        (zarrlift.plan, missing, present),
        (zarrlift.resume, missing),
        (zarrlift.status, missing),
        (zarrlift.undo, missing),
    ]
    for call, *places in calls:
        with pytest.raises(zarrlift.Error) as caught:
            call(*places)
        walk(caught.value)
