"""Groups of options: a command takes a group as one parameter, typer sees each option of it.

`--help` of a command with many options shows them under headings. The words of options become values here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache, update_wrapper
from inspect import Parameter, Signature, get_annotations, signature
from typing import Annotated, Any, ClassVar, Final

import typer
from typer.core import TyperCommand

from ..recipe.options import FORMATS, Heading, Option, Size, flag_of
from .session import Answer, Session


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


_HEADINGS: Final = ("What to convert", "How", "Where", "Result", "Running", "Output", "Options")
_MANY: Final = 16
"""Options from which on they are shown under headings."""


def option(
    *names: str, help: str, metavar: str | None = None, heading: Heading | None = None, **more: Any
) -> Any:
    """The description of an option, for its annotation; `heading` is where `--help` shows it."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=heading, **more)


class Command(TyperCommand):
    """A command whose `--help` shows many options under headings."""

    def sections(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """(names, help) of the arguments and the options by heading; without empty headings."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{name: [] for name in _HEADINGS}}
        items = [(item, record) for item in self.get_params(ctx) if (record := item.get_help_record(ctx))]
        many = len(items) >= _MANY
        for item, record in items:
            name = (many and getattr(item, "rich_help_panel", None)) or "Options"
            if item.param_type_name == "argument":
                # Since typer 0.29, a type in brackets follows the name.
                sections["Arguments"].append((record[0].partition(" <")[0], record[1]))
            else:
                sections[name].append(record)
        return {name: records for name, records in sections.items() if records}

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage; typer 0.29 adds dots to metavars, which have them where they belong."""
        names = {item.metavar for item in self.get_params(ctx) if item.param_type_name == "argument"}
        pieces = super().collect_usage_pieces(ctx)
        return [
            piece.removesuffix("...") if piece.removesuffix("...").strip("[]{}") in names else piece
            for piece in pieces
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options."""
        for name, records in self.sections(ctx).items():
            with formatter.section(name):
                formatter.write_dl(records)


class Group:
    """Options that several commands share: annotated attributes with their defaults.

    A command that names a subclass as the type of a parameter receives an instance with the given values.
    """

    heading: Heading | None = None
    """Where `--help` shows those options that name no heading."""

    session: Session
    """Of the command."""

    def __init__(self, session: Session | None = None, **values: Any) -> None:
        vars(self).update(values)
        self.session = session or Session(command="")

    @classmethod
    def narrowed(cls, *facts: Any) -> type[Group]:
        """The group that a command names as `Annotated[Group, facts]`, with these class attributes."""
        return type("Options", (cls,), *facts)

    def given(self) -> set[str]:
        """Names of the options that do not have their defaults."""
        return {item.name for item in self.parameters() if vars(self)[item.name] != item.default}

    @classmethod
    @cache
    def parameters(cls) -> tuple[Parameter, ...]:
        """The options as typer reads them; those of the class itself first."""
        parameters: dict[str, Parameter] = {}
        for level in cls.__mro__:
            for name, annotation in get_annotations(level, eval_str=True).items():
                if level is Group or name in parameters:
                    continue
                parameters[name] = parameter(name, annotation, getattr(cls, name))
                words = annotation.__metadata__[0]
                words.rich_help_panel = words.rich_help_panel or getattr(level, "heading", None)
        return tuple(parameters.values())


def parameter(name: str, annotation: Any, default: Any) -> Parameter:
    """An option of a command."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


class Tables(Group):
    """The options of tables in `recipe.options`; a command names them as `Annotated[Tables, A, B]`."""

    tables: ClassVar[tuple[type, ...]] = ()

    @classmethod
    def narrowed(cls, *facts: Any) -> type[Group]:
        """The group of these tables."""
        return super().narrowed({"tables": facts})

    @classmethod
    @cache
    def parameters(cls) -> tuple[Parameter, ...]:
        """The options as typer reads them, in the order of the tables."""
        options = {each.name: each for table in cls.tables for each in fields(table) if each.metadata}
        rows = ((name, each.metadata["option"], each.default) for name, each in options.items())
        return tuple(described(*row) for row in rows if not row[1].rare)

    def arguments(self) -> dict[str, Any]:
        """What is given, as arguments of the public functions; UsageError."""
        arguments = {name: vars(self)[name] for name in self.given()}
        if str(arguments.get("job", "")).isdigit():
            raise usage(
                f"--job names a job file, found {arguments['job']}",
                expected=f"-j {arguments['job']} for workers",
            )
        return arguments

    def of(self, *tables: type) -> dict[str, Any]:
        """`arguments` without the options of other tables."""
        names = {each.name for table in tables for each in fields(table)}
        return {name: value for name, value in self.arguments().items() if name in names}


def described(name: str, row: Option, default: Any) -> Parameter:
    """An option of a table as typer reads it."""
    more: dict[str, Any] = {"autocompletion": lambda: list(FORMATS)} if name == "format" else {}
    kind: Any = row.type
    if kind is Size:
        kind, default = str, None
    if kind is int:
        more["parser"] = whole_number(1)
    words = option(
        *flag_of(name, row).split(" "),
        help=row.help,
        metavar=row.metavar,
        heading=row.heading,
        **more,
    )
    return parameter(name, Annotated[kind if default is not None else kind | None, words], default)


def added(
    app: typer.Typer, name: str, short_help: str
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Decorates a command of an app; `name` is that of its session, the last word of it how it is called."""

    def add(command: Callable[..., Answer]) -> Callable[..., Answer]:
        word = name.rpartition(" ")[2]
        app.command(name=word, cls=Command, short_help=short_help)(expanded(name, command))
        return command

    return add


def expanded(name: str, command: Callable[..., Answer]) -> Callable[..., int]:
    """The command with each group replaced by its options; it runs in a session of this name."""
    parameters: list[Parameter] = []
    groups: dict[str, type[Group]] = {}
    for word, original in signature(command, eval_str=True).parameters.items():
        kind = original.annotation
        group = getattr(kind, "__origin__", None)
        if isinstance(group, type) and issubclass(group, Group):
            kind = group.narrowed(*kind.__metadata__)
        if isinstance(kind, type) and issubclass(kind, Group):
            groups[word] = kind
            parameters += kind.parameters()
        else:
            parameters.append(original.replace(kind=Parameter.KEYWORD_ONLY))

    def run(**arguments: Any) -> int:
        session = Session(command=name)
        for word, group in groups.items():
            given = {item.name: arguments.pop(item.name) for item in group.parameters()}
            arguments[word] = group(session, **given)
        return session.run(lambda: command(**arguments))

    update_wrapper(run, command)
    del run.__wrapped__  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run
