"""An option as the command line and TOML files show it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, get_args, get_origin

Heading: TypeAlias = Literal["What to convert", "How", "Where", "Result", "Running", "Output"]
"""Where `--help` of a command with many options shows one."""


class Size(int):
    """Marks a number of bytes, which may be given as a text such as 512MB."""


class Option(NamedTuple):
    """An option as the command line and TOML files show it."""

    help: str
    type: Any = str
    """bool, int, `Size`, list[str], a Literal with the choices, or str, also for what is parsed later."""
    metavar: str | None = None
    flag: str | None = None
    """Option of the command line, if it is not the field's name with hyphens."""
    heading: Heading = "How"
    rare: bool = False
    """Whether the command line takes it by `--set` only."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The permitted values; empty unless the type is a Literal."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()


def flag_of(name: str, row: Option) -> str:
    """The words of an option on the command line."""
    return row.flag or ("--set " if row.rare else "--") + name.replace("_", "-")
