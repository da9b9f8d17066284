"""Converts the words of options to values, and tells what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable

import typer


def size(text: str | None, name: str) -> int | None:
    """Bytes for a text such as 512MB, 2GB or 1GiB; None if no text is given. UsageError."""
    from zarrstack.core.sizes import parse_size

    if text is None:
        return None
    number = parse_size(text)
    if number is None or number < 1:
        raise usage(f"{name} is not a size: {text}", expected="such as 512MB or 2GB")
    return int(number)


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """A parser of an option's value, whose error says in words which numbers the option takes."""

    def parsed(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            bounds = f"of at least {least}" + (f" and at most {most}" if most is not None else "")
            raise typer.BadParameter(f"found {text!r}, expected a whole number {bounds}.")
        return number

    return parsed


def usage(message: str, *, expected: str | None = None, advice: str | None = None) -> Exception:
    """An error of the command line; its class is loaded only here."""
    from zarrstack.core.errors import UsageError

    return UsageError(message, expected=expected, advice=advice)


def formats() -> list[str]:
    """The formats that `--from` may name, for completion."""
    from ..recipe.format_names import known_names

    return list(known_names())
