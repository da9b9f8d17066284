"""Puts a mutant into modules that are loaded already: functions get the code of the mutant."""

from __future__ import annotations

import ast
import gc
import sys
from collections import defaultdict
from types import CodeType, FunctionType

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_inside_functions(original: str, mutated: str) -> bool:
    """Whether two sources differ only in the bodies of functions, which are run when they are called."""
    return _outside(original) == _outside(mutated)


def _outside(source: str) -> str:
    class Emptied(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            node.body = [ast.Pass()]
            return node

        visit_AsyncFunctionDef = visit_FunctionDef

    return ast.dump(Emptied().visit(ast.parse(source)))


def is_loaded(path: str) -> bool:
    """Whether the module of a file is imported."""
    return any(getattr(module, "__file__", None) == path for module in list(sys.modules.values()))


def functions(path: str) -> dict[str, list[FunctionType]]:
    """The functions of a file that exist in this process, by qualified name, without inner ones."""
    found: dict[str, list[FunctionType]] = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == path:
            name = each.__code__.co_qualname
            if "<locals>" not in name:
                found[name].append(each)
    return found


def patch(path: str, mutated: str) -> int:
    """Give the functions of a file the code of another source; the number of those that changed."""
    new: dict[str, list[CodeType]] = defaultdict(list)
    todo = [compile(mutated, path, "exec")]
    while todo:
        for each in todo.pop().co_consts:
            if isinstance(each, CodeType) and "<locals>" not in each.co_qualname:
                new[each.co_qualname].append(each)
                todo.append(each)
    changed = 0
    gc.unfreeze()  # frozen objects are not listed
    for name, live in functions(path).items():
        by_line: dict[int, list[FunctionType]] = defaultdict(list)
        for each in live:
            by_line[each.__code__.co_firstlineno].append(each)
        for (_, same), code in zip(sorted(by_line.items()), new[name], strict=False):
            for each in same:
                if each.__code__ != code and len(each.__code__.co_freevars) == len(code.co_freevars):
                    each.__code__ = code
                    changed += 1
    return changed
