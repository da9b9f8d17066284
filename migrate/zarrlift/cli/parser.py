"""The command line: argparse's parser of the command that is called, made of the table of commands.

Modules of commands are imported when they run; `--help` needs none.
"""

from __future__ import annotations

import os
import sys
from argparse import (
    SUPPRESS,
    ArgumentParser,
    ArgumentTypeError,
    BooleanOptionalAction,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NoReturn

from ..core.problems import command as command_line
from ..recipe.options import Option
from ..storage.redact import redact
from .commands import COMMANDS, TOP, usage_of
from .exit_codes import DONE, USAGE
from .names import HELP, below
from .options import (
    Argument,
    Command,
    Given,
    default_of,
    flags,
    help_text,
    is_pair,
    metavar_of,
    names_text,
    sections,
    usage,
    value_of,
    words_of,
)
from .session import Session, say, write, write_json

_WIDEST: Final = 100
"""Columns of the help."""


def run(words: list[str]) -> int:
    """Run the command that some words call, and return its exit code."""
    from zarrstack.core.errors import UsageError

    try:
        name, rest = command_of(words)
        if not name or COMMANDS[name].module is None:
            return _without_command(name, rest)
        given = parsed(name, rest)
    except UsageError as error:
        if "--json" in words:
            with suppress(OSError):
                write_json(None, USAGE, {"error": error.problem.to_json()})
        say(f"zarrlift: {error}")
        return USAGE
    if isinstance(given, str):
        write(given, sys.stdout)
        return DONE
    function = getattr(import_module(f".{given.command.module}", __package__), name.split()[-1])
    return given.session.run(lambda: function(given))


def command_of(words: list[str]) -> tuple[str, list[str]]:
    """The name of the called command, or of a group of commands, and the words after it; UsageError."""
    name, rest = "", list(words)
    while rest and not rest[0].startswith("-") and (not name or COMMANDS[name].module is None):
        called = f"{name} {rest[0]}".strip()
        if called not in COMMANDS:
            from .suggestions import unknown_command

            raise unknown_command(name, rest)
        name, rest = called, rest[1:]
    return name, rest


def _without_command(name: str, words: list[str]) -> int:
    """Answer a command line that names no command: with the help, or with the version."""
    options, _ = split(COMMANDS[name] if name else TOP, name, words)
    if not options or "--help" in options:
        write(help_of(name), sys.stdout)
        return DONE
    if "--version" not in options:
        raise usage("--verbose goes with --version", expected="zarrlift --version --verbose")
    from .. import __version__

    lines = [f"zarrlift {__version__}"]
    if "--verbose" in options:
        lines += [f"{codecs:12}{library}" for codecs, library in _libraries().items()]
    write("\n".join(lines) + "\n", sys.stdout)
    return DONE


def _libraries() -> dict[str, str]:
    """Codecs -> library and package with their versions; the packages are loaded."""
    import zlib
    from importlib.metadata import version

    import numcodecs.blosc
    import zstandard

    from ..core.codecs.deflate import isal, libdeflate

    deflate = f"zlib {zlib.ZLIB_RUNTIME_VERSION}; the package deflate, which is faster, is not installed"
    if libdeflate is not None:
        deflate = f"libdeflate (deflate {libdeflate.__version__})"
        deflate += "" if isal is None else f", isal {version('isal')}"
    zstd = ".".join(map(str, zstandard.ZSTD_VERSION))
    return {
        "gzip, zlib": deflate,
        "zstd": f"libzstd {zstd} (zstandard {zstandard.__version__})",
        "blosc": f"c-blosc {numcodecs.blosc.VERSION_STRING} (numcodecs {numcodecs.__version__})",
        "crc32c": f"google-crc32c {version('google-crc32c')}",
        "all else": f"numcodecs {numcodecs.__version__}, numpy {version('numpy')}",
    }


def help_of(name: str) -> str:
    """The help of the command line, of a group of commands or of a command."""
    return parser_of(name).format_help() if name else HELP


def parsed(name: str, words: list[str]) -> Given | str:
    """What a command line says after the name of its command, or the help; UsageError."""
    command = COMMANDS[name]
    if {"-h", "--help"} & {*words[: words.index("--") if "--" in words else None]}:
        return help_of(name)
    options, others = split(command, name, words)
    given = Given(**{each: default_of(row) for each, row in command.all_options().items()})
    vars(given).update({each: argument.default for each, argument in command.arguments.items()})
    if name == "migrate" and others[:1] == ["v3"] and not os.path.exists("v3"):  # as of `zarr migrate v3`
        line = command_line(name, *map(redact, others[1:]))
        raise usage(f"migrate needs no 'v3', which it always writes; did you mean: {line}?")
    needed = [each.metavar for each in command.arguments.values() if each.number in (None, "+")]
    if len(others) < len(needed):
        raise usage(f"{name} needs {' and '.join(needed[len(others) :])}", expected=usage_of(name))
    many = any(each.number in ("*", "+") for each in command.arguments.values())
    if not many and len(others) > len(command.arguments):
        extra = redact(others[len(command.arguments)]).partition("=")[0]  # what follows may be a secret
        raise usage(f"unexpected word {extra!r}", expected=usage_of(name))
    parser_of(name).parse_args([*options, *(["--"] if others else []), *others], given)
    given.command = command
    given.session = Session(
        command=name,
        json=getattr(given, "as_json", False),
        quiet=getattr(given, "quiet", False),
        everything=getattr(given, "show_all", False),
    )
    return given


def split(command: Command, name: str, words: list[str]) -> tuple[list[str], list[str]]:
    """The options among the words of a command, each with its value as `--option=value`, and the others.

    So they may stand in any order, and a value may begin with a hyphen. UsageError for a wrong option.
    """
    known = {word: (each, row) for word, each, row in words_of(command)}
    options: list[str] = []
    others: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return options, others + left
        if word == "-" or not word.startswith("-"):
            others.append(word)
            continue
        long = word.startswith("--")
        flag, equals, value = word.partition("=")
        if not long and f"-{flag}" not in known:
            flag, equals, value = word[:2], word[2:], word[2:].removeprefix("=")
        if flag not in known:
            from .suggestions import unknown_option

            raise unknown_option(name, flag)
        each, row = known[flag]
        if row.type is bool:
            if equals and long:
                raise usage(f"{flag} takes no value", expected=flag)
            options.append(flag if long else flags(each, row)[0])
            if equals:
                left.insert(0, f"-{equals}")  # the other letters of a group
            continue
        if not equals:
            if not left or left[0] in known:
                raise usage(f"{flag} needs a value", expected=f"{flag} {metavar_of(each, row)}")
            value = left.pop(0)
        options.append(f"{flags(each, row)[0]}={value}")
    return options, others


def parser_of(name: str) -> ArgumentParser:
    """The parser of a command; that of a group only shows its help."""
    command = COMMANDS[name]
    parser = _Parser(
        usage=usage_of(name),
        description=command.description,
        formatter_class=_Help,
        add_help=False,
        allow_abbrev=False,
        argument_default=SUPPRESS,
    )
    for heading, items in sections(command).items():
        group = parser.add_argument_group(heading)
        for each, item in items.items():
            if isinstance(item, Argument):
                text = item.help.replace("%", "%%")
                group.add_argument(each, metavar=item.metavar, help=text, nargs=item.number)
                continue
            how: dict[str, Any] = {"dest": each, "help": help_text(each, item).replace("%", "%%")}
            if item.type is bool:
                how |= {"action": BooleanOptionalAction if is_pair(item) else "store_true"}
            else:
                how |= {"metavar": metavar_of(each, item), "choices": item.choices or None}
                how |= {"type": _type(item), "action": "append" if item.type == list[str] else "store"}
            group.add_argument(*flags(each, item), **how)
    if command.module is None:
        group = parser.add_argument_group("Commands")
        for word, summary in below(name).items():
            group.add_argument(word, metavar=word, help=summary)
    return parser


def _type(row: Option) -> Callable[[str], Any]:
    """What makes a value of a word; its error says what the option takes."""

    def parse(text: str) -> Any:
        try:
            return value_of(row, text)
        except ValueError as error:
            raise ArgumentTypeError(f"found {text!r}; expected {error}") from None

    return parse


class _Parser(ArgumentParser):
    """Errors are those of this project."""

    def error(self, message: str) -> NoReturn:
        raise usage(message.removeprefix("argument "))


class _Help(RawDescriptionHelpFormatter):
    """The help of a command: as wide as the terminal, up to a limit, the short form of an option first."""

    def __init__(self, prog: str, **options: Any) -> None:
        from shutil import get_terminal_size

        columns = min(get_terminal_size().columns, _WIDEST)
        super().__init__(prog, **options | {"width": columns, "max_help_position": columns // 3})

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, "Usage: ")

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from textwrap import TextWrapper

        fill = TextWrapper(width, break_long_words=False, break_on_hyphens=False).fill
        fill_kept = TextWrapper(width, subsequent_indent=" " * 6, break_on_hyphens=False).fill
        return "\n\n".join(
            "\n".join(map(fill_kept, paragraph.splitlines()))
            if paragraph.startswith("  ")
            else fill(" ".join(paragraph.split()))
            for paragraph in text.split("\n\n")
        )

    def _split_lines(self, text: str, width: int) -> list[str]:
        from textwrap import wrap

        return wrap(text, width, break_on_hyphens=False)

    def _format_action_invocation(self, action: Any) -> str:
        return names_text(action.option_strings, action.metavar).strip()
