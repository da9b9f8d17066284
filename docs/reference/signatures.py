"""Shows the keywords of public functions on the page of Python: those that `help` shows, with their defaults.

The source has `**options: Unpack[Keywords]`, which `zarrlift.recipe.signatures` expands at run time.
"""

from __future__ import annotations

import ast
from importlib import import_module
from inspect import Parameter, signature
from operator import attrgetter
from typing import Any

import griffe

EXPLICIT = "zarrlift.recipe.signatures.explicit"
"""The decorator of such functions."""


class Explicit(griffe.Extension):
    """Replaces `**options` by the keywords."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Called for each function of a package."""
        if not any(decorator.callable_path == EXPLICIT for decorator in func.decorators):
            return
        inside = func.path.removeprefix(func.module.path + ".")
        found = attrgetter(inside)(import_module(func.module.path))
        del func.parameters[-1]
        named = {each.name for each in func.parameters}
        for each in signature(found).parameters.values():
            if each.name not in named:
                func.parameters.add(_shown(each, func))


def _shown(item: Parameter, func: griffe.Function) -> griffe.Parameter:
    annotation = griffe.safe_get_annotation(ast.parse(item.annotation, mode="eval").body, parent=func)
    return griffe.Parameter(
        item.name,
        annotation=annotation,
        kind=griffe.ParameterKind.keyword_only,
        default=repr(item.default),
    )
