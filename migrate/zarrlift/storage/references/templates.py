"""Templates in references, substituted as plain text.

kerchunk's specification has templates of Jinja, a language that can be made to run code. What writers use of
it is a name, a call of another template with named texts, and, in generators, sums and products of whole
numbers. Only these are evaluated.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from zarrstack.core.errors import MetadataError, short

_MARKED: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_CALL: Final = re.compile(r"([A-Za-z_]\w*)\((.*)\)", re.DOTALL)
_ARGUMENT: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*('[^']*'|\"[^\"]*\"|-?\d+|[A-Za-z_]\w*)\s*(?:,|$)")
_LONGEST: Final = 200
"""Maximum length in characters of an expression."""
_LARGEST: Final = 1 << 62
_BOUNDS: Final = (("start", 0), ("stop", None), ("step", 1))
MAX_GENERATED: Final = 10_000_000
"""Maximum number of references that the generators of a document make."""
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

Values = Mapping[str, "int | str"]


class Templates:
    """The templates of a document by name."""

    def __init__(self, texts: Mapping[str, Any]) -> None:
        """MetadataError unless all are texts."""
        for name, text in texts.items():
            if not isinstance(text, str):
                raise MetadataError("a template is not a text", found=f"{name!r}: {type(text).__name__}")
        self._texts: Mapping[str, str] = texts

    def apply(self, text: str, values: Values | None = None) -> str:
        """The text with each `{{...}}` replaced; `values` are those of a generator's dimensions.

        Raises MetadataError for a name that is unknown, and for anything but names, calls and arithmetic.
        """
        return _MARKED.sub(lambda found: str(self._value(found[1].strip(), values or {})), text)

    def _value(self, expression: str, values: Values) -> int | str:
        if len(expression) > _LONGEST:
            raise _unsupported(expression)
        if _NAME.fullmatch(expression):
            if expression in values:
                return values[expression]
            if expression in self._texts:
                return self._texts[expression]
            raise MetadataError("a template is unknown", found="{{" + short(expression, 60) + "}}")
        if (call := _CALL.fullmatch(expression)) and call[1] in self._texts:
            return self._called(call[1], call[2], expression, values)
        return _calculated(expression, values)

    def _called(self, name: str, arguments: str, expression: str, values: Values) -> str:
        given: dict[str, int | str] = {}
        at = 0
        while at < len(arguments):
            found = _ARGUMENT.match(arguments, at)
            if found is None:
                raise _unsupported(expression)
            text = found[2]
            given[found[1]] = text[1:-1] if text[0] in "'\"" else values.get(text, text)
            at = found.end()
        # A template sees its arguments only, so templates cannot call each other in a circle.
        return Templates({}).apply(self._texts[name], given)


def _calculated(expression: str, values: Values) -> int:
    """The value of an expression of whole numbers, dimensions, + - * // % and parentheses."""
    try:
        return _number(ast.parse(expression, mode="eval").body, values)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        raise _unsupported(expression) from None


def _number(node: ast.expr, values: Values) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            result = number
        case ast.Name(id=name) if type(values.get(name)) is int:
            result = int(values[name])
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            result = _OPERATORS[type(sign)](_number(left, values), _number(right, values))
        case _:
            raise ValueError
    if abs(result) > _LARGEST:
        raise ValueError
    return result


def _unsupported(expression: str) -> MetadataError:
    return MetadataError(
        "a template is not plain text",
        found="{{" + short(expression, 60) + "}}",
        expected="a name, a call such as f(c='text'), or whole numbers with + - * // %",
        advice="Write the references without templates, with kerchunk or by hand.",
    )


def generated(generators: Any, templates: Templates) -> Iterator[tuple[str, list[str | int]]]:
    """The references of a document's `gen`, as (key, [url] or [url, offset, length]); MetadataError."""
    if not isinstance(generators, list):
        raise MetadataError("gen is not a list", found=type(generators).__name__)
    room = MAX_GENERATED
    for number, generator in enumerate(generators):
        try:
            dimensions = _dimensions(generator)
            room -= prod(map(len, dimensions.values()))
            if room < 0:
                raise _too_many()
            yield from _one(generator, dimensions, templates)
        except MetadataError as error:
            raise error.at(key=f"gen[{number}]") from None


def _one(
    generator: Mapping[str, Any], dimensions: Mapping[str, Sequence[int | str]], templates: Templates
) -> Iterator[tuple[str, list[str | int]]]:
    ranged = "offset" in generator
    names = ("key", "url", "offset", "length") if ranged else ("key", "url")
    if ranged != ("length" in generator) or not all(isinstance(generator.get(name), str) for name in names):
        raise MetadataError(
            "a generator is not complete",
            found=", ".join(sorted(map(str, generator))),
            expected="the texts key and url, and offset and length or neither",
        )
    for chosen in product(*dimensions.values()):
        values = dict(zip(dimensions, chosen, strict=True))
        key, url, *span = (templates.apply(generator[name], values) for name in names)
        try:
            yield key, [url, *map(int, span)]
        except ValueError:
            raise MetadataError(
                "an offset or a length is not a whole number", found=", ".join(map(repr, span))
            ) from None


def _dimensions(generator: Any) -> dict[str, Sequence[int | str]]:
    given = generator.get("dimensions") if isinstance(generator, dict) else None
    if not isinstance(given, dict):
        raise MetadataError("a generator has no dimensions", found=type(given).__name__)
    found: dict[str, Sequence[int | str]] = {}
    for name, value in given.items():
        if isinstance(value, list) and all(type(item) in (int, str) for item in value):
            found[name] = value
            continue
        bounds = value if isinstance(value, dict) else {}
        start, stop, step = (_bound(bounds.get(part, known)) for part, known in _BOUNDS)
        if start is None or stop is None or not step:
            raise MetadataError(
                f"the dimension {name!r} of a generator is invalid",
                expected="a list, or start, stop and step",
            )
        found[name] = range(start, stop, step)
    if prod(map(len, found.values())) > MAX_GENERATED:
        raise _too_many()
    return found


def _bound(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < _LARGEST else None


def _too_many() -> MetadataError:
    return MetadataError("generators make too many references", expected=f"at most {MAX_GENERATED}")
