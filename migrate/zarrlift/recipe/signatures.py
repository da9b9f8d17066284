"""Public functions take the options of several tables as keywords; `help` and editors show each of them.

For type checkers they are `Unpack` of a TypedDict, made of those in `keywords`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .options import TABLES, flag_of, rows

if TYPE_CHECKING:
    from .asked import RecipeForm

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
Function = TypeVar("Function", bound=Callable[..., Any])


def explicit(function: Function) -> Function:
    """A function whose last parameter is `**options: Unpack[Keywords]`, with a signature that names them."""
    own = list(signature(function).parameters.values())
    name = own.pop().annotation.removeprefix("Unpack[").removesuffix("]")
    rows = {each.name: each for table in TABLES for each in fields(table)}
    for word, kind in function.__globals__[name].__annotations__.items():
        text = getattr(kind, "__forward_arg__", kind)
        default = rows[word].default if word in rows else False if text == "bool" else None
        own.append(Parameter(word, Parameter.KEYWORD_ONLY, default=default, annotation=text))
    function.__signature__ = signature(function).replace(parameters=own)  # type: ignore[attr-defined]
    return function


def with_recipe(options: Mapping[str, Any], recipe: RecipeForm | None) -> dict[str, Any]:
    """The keywords of a function, with one recipe of its argument and of those that change it; UsageError."""
    from .asked import asked_recipe
    from .changes import ARRAY_OPTIONS, WHOLE_OPTIONS

    words = {*ARRAY_OPTIONS, *WHOLE_OPTIONS}
    changes = {name: value for name, value in options.items() if name in words and value is not None}
    others = {name: value for name, value in options.items() if name not in words}
    return {**others, "recipe": asked_recipe(recipe, changes)}


def _unknown(word: str, tables: Iterable[type]) -> TypeError:
    """The error for a keyword that a function does not have, with the one that was probably meant."""
    from zarrstack.core.similar_names import nearest

    from .changes import ARRAY_OPTIONS, WHOLE_OPTIONS
    from .other_words import OTHER_OPTIONS

    known = dict(rows(*tables))
    if any(each.name == "recipe" for table in tables for each in fields(table)):
        known |= {**ARRAY_OPTIONS, **WHOLE_OPTIONS}
    flag = OTHER_OPTIONS.get(word.replace("_", "-"))
    meant = next((name for name, row in known.items() if flag in flag_of(name, row).split()), None)
    near = meant or nearest(word, known)
    return TypeError(f"unexpected keyword argument {word!r}" + (f"; did you mean {near!r}?" if near else ""))


@overload
def given(options: Mapping[str, Any], a: type[A], /) -> A: ...
@overload
def given(options: Mapping[str, Any], a: type[A], b: type[B], /) -> tuple[A, B]: ...
@overload
def given(options: Mapping[str, Any], a: type[A], b: type[B], c: type[C], /) -> tuple[A, B, C]: ...
@overload
def given(
    options: Mapping[str, Any], a: type[A], b: type[B], c: type[C], d: type[D], /
) -> tuple[A, B, C, D]: ...
@overload
def given(
    options: Mapping[str, Any], a: type[A], b: type[B], c: type[C], d: type[D], e: type[E], /
) -> tuple[A, B, C, D, E]: ...
@overload
def given(
    options: Mapping[str, Any], a: type[A], b: type[B], c: type[C], d: type[D], e: type[E], f: type[F], /
) -> tuple[A, B, C, D, E, F]: ...
def given(options: Mapping[str, Any], *tables: type) -> Any:
    """The options of each table, from the keywords of a function; TypeError for one that no table has."""
    left = dict(options)
    groups = [
        table(**{each.name: left.pop(each.name) for each in fields(table) if each.name in left})
        for table in tables
    ]
    if left:
        raise _unknown(next(iter(left)), tables)
    return groups[0] if len(groups) == 1 else tuple(groups)
