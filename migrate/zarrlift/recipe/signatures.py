"""Public functions take the options of several tables as keywords; `help` and editors show each of them.

For type checkers they are `Unpack` of a TypedDict, made of those in `keywords`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import Parameter, signature
from typing import Any, TypeVar, overload

from .options import TABLES

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
        raise TypeError(f"unexpected keyword argument {next(iter(left))!r}")
    return groups[0] if len(groups) == 1 else tuple(groups)
