"""Templates in references, substituted as plain text.

kerchunk's specification has templates of Jinja, a language that can be made to run code. What writers use of
it is a name, and a call of another template with named texts. Only these are evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from zarrstack.core.errors import MetadataError, short

_MARKED: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_CALL: Final = re.compile(r"([A-Za-z_]\w*)\((.*)\)", re.DOTALL)
_ARGUMENT: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*('[^']*'|\"[^\"]*\"|-?\d+|[A-Za-z_]\w*)\s*(?:,|$)")
_LONGEST: Final = 200
"""Maximum length in characters of an expression."""


class Templates:
    """The templates of a document by name."""

    def __init__(self, texts: Mapping[str, Any]) -> None:
        """MetadataError unless all are texts."""
        for name, text in texts.items():
            if not isinstance(text, str):
                raise MetadataError("a template is not a text", found=f"{name!r}: {type(text).__name__}")
        self._texts: Mapping[str, str] = texts

    def apply(self, text: str, values: Mapping[str, str] | None = None) -> str:
        """The text with each `{{...}}` replaced; `values` are the arguments of a call.

        Raises MetadataError for a name that is unknown, and for anything but names and calls.
        """
        return _MARKED.sub(lambda match: self._value(match[1].strip(), values or {}), text)

    def _value(self, expression: str, values: Mapping[str, str]) -> str:
        if len(expression) > _LONGEST:
            raise _unsupported(expression)
        if _NAME.fullmatch(expression):
            if expression in values:
                return values[expression]
            if expression in self._texts:
                return self._texts[expression]
            raise MetadataError("a template is unknown", found="{{" + short(expression, 60) + "}}")
        if (call := _CALL.fullmatch(expression)) and call[1] in self._texts:
            return self._called(call[1], call[2], expression)
        raise _unsupported(expression)

    def _called(self, name: str, arguments: str, expression: str) -> str:
        values: dict[str, str] = {}
        at = 0
        while at < len(arguments):
            match = _ARGUMENT.match(arguments, at)
            if match is None:
                raise _unsupported(expression)
            text = match[2]
            values[match[1]] = text[1:-1] if text[0] in "'\"" else text
            at = match.end()
        # A template sees its arguments only, so templates cannot call each other in a circle.
        return Templates({}).apply(self._texts[name], values)


def _unsupported(expression: str) -> MetadataError:
    return MetadataError(
        "a template is not plain text",
        found="{{" + short(expression, 60) + "}}",
        expected="a name, or a call such as f(c='text')",
        advice="Write the references without templates, with kerchunk or by hand.",
    )
