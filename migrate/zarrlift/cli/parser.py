"""The commands and their parser. Heavy modules are imported inside the commands; `--help` needs none."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

from .session import (
    COMPLETE,
    DEBUG,
    DONE,
    INTERRUPTED,
    PARTLY,
    USAGE,
    Answer,
    Session,
    plain,
    say,
    unprinted,
    write,
    write_json,
)

_HELP: Final = f"""Usage: zarrlift [-h] [-V [-v]] COMMAND [ARGS]...
Lift legacy chunked-array archives to Zarr v3: zarrlift migrate old.zarr v3.zarr
Commands (zarrlift COMMAND -h: its options; zarrlift -V -v: library versions):
{{commands}}

Exit codes: {DONE} done, {PARTLY} in part or different, {USAGE} invalid request, {INTERRUPTED} interrupted.
{DEBUG}=1 shows tracebacks, NO_COLOR=1 no colours.
"""

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "inspect": ("inspect_commands", "Show the content of an archive and its problems."),
    "migrate": ("migrate_commands", "Migrate an archive, or show what would be done."),
    "resume": ("migrate_commands", "Continue a migration or a batch."),
    "update": ("migrate_commands", "Bring a result up to date with a source that has changed."),
    "status": ("status_command", "Show progress, and report what was done, also in HTML."),
    "verify": ("inspect_commands", "Compare source and result, or any two archives."),
    "finish": ("migrate_commands", "In place: delete the legacy metadata."),
    "undo": ("migrate_commands", "Undo a migration, in place or a copy."),
    "batch": ("", "Migrate many archives."),
    "model": ("", "Describe, compare, validate and create hierarchies by models."),
    "demo": ("demo_command", "Write small archives to play with."),
    "completion": ("parser", "Print the completion script of a shell."),
}
"""Name -> the module with the command ("" for a group of commands, in a module of its name), and its line."""


class _Top(TyperGroup):
    """The command line, whose `--help` fits on a small terminal."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of the help."""
        return [name for name in COMMANDS if name in self.commands]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of all commands, whichever are loaded."""
        commands = "\n".join(f"  {name:11}{summary}" for name, (_, summary) in COMMANDS.items())
        formatter.write(_HELP.format(commands=commands))


_CLICK_ERROR: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
"""Typer's error for an invalid command line: click's class, or since typer 0.26 its own copy of it."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names of nodes may contain any character
    words = sys.argv[1:] if arguments is None else arguments
    try:
        return _run(words, arguments)
    except OSError as error:  # of --help, --version and completions; commands end with an exit code
        say(f"zarrlift: the output {unprinted(error)}")
        return PARTLY
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # click's, if the reader of --help has closed it
            return DONE
        raise


def _run(words: list[str], arguments: list[str] | None) -> int:
    if arguments is None and COMPLETE in os.environ:
        return complete(typer.main.get_command(app(*COMMANDS)))
    command = typer.main.get_command(app(*_possible_commands(words)))
    try:
        code = command.main(args=list(words), prog_name="zarrlift", standalone_mode=False)
    except _CLICK_ERROR as error:
        message = _one_line(error)
        if "--json" in words:
            problem = {"kind": "usage", "severity": "refusal", "message": message}
            with suppress(OSError):
                write_json(None, USAGE, {"error": problem})
            say(f"zarrlift: {message}")
        else:
            error.format_message = lambda: message
            with suppress(OSError):
                error.show()
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        say("zarrlift: interrupted. Nothing was changed.")
        return INTERRUPTED
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - of options that a command looks at before its work begins
        return Session(command=next(iter(words), ""), json="--json" in words).failed(error)
    return int(code or DONE)


def _one_line(error: Any) -> str:
    """What is wrong with a command line, and what would be right."""
    error.message = error.message.removeprefix("Value error, ")  # pydantic's words, of typer since 0.29
    text, context = " ".join(error.format_message().split()), getattr(error, "ctx", None)
    if context is None or "Did you mean" in text:
        return text
    if text.startswith("No such command"):
        return f"{text} Choose from {', '.join(context.command.list_commands(context))}."
    if text.startswith("No such option") and "(" not in text:
        return f"{text}. Choose from those that '{context.command_path} -h' shows."
    if text.startswith("Got unexpected extra"):
        return f"{text}; expected {' '.join(context.command.collect_usage_pieces(context)[1:])}."
    return text


def _print_version(context: typer.Context, wanted: bool) -> None:
    if not wanted:
        return
    from .. import __version__

    lines = [f"zarrlift {__version__}"]
    if context.params.get("verbose"):
        from ..core.codecs.libraries import libraries

        lines += [f"{codecs:12}{library}" for codecs, library in libraries().items()]
    write("\n".join(lines) + "\n", sys.stdout)
    raise typer.Exit


def _top(
    version: Annotated[  # noqa: ARG001 - its callback prints and ends
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version)
    ] = False,
    # Eager, so that it is set before --version is processed, in any order.
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="With --version: the library of each codec.", is_eager=True),
    ] = False,
) -> None:
    if verbose:
        raise typer.BadParameter("goes with --version", param_hint="--verbose")


def app(*names: str) -> typer.Typer:
    """The command line with the named commands; without names, only `--help` and `--version`."""
    application = typer.Typer(
        cls=_Top,
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    application.callback()(_top)
    if names:
        from .option_groups import added
    for name in names:
        module, summary = COMMANDS[name]
        if module:
            commands = import_module(f".{module}", __package__)
            added(application, name, summary)(getattr(commands, name))
        else:
            application.add_typer(import_module(f".{name}_commands", __package__).app, name=name)
    return application


def _possible_commands(words: list[str]) -> tuple[str, ...]:
    """The commands that a command line may need, since a parser for all of them takes long to build."""
    if words and words[0] in COMMANDS:
        return (words[0],)
    return () if words in (["--version"], ["-V"], ["--help"], ["-h"]) else tuple(COMMANDS)


Shell = Literal["bash", "zsh", "fish"]


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell.", metavar="bash|zsh|fish")],
) -> Answer:
    """Print a script that completes zarrlift's commands, options and their values.

    \b
    bash  eval "$(zarrlift completion bash)"  in ~/.bashrc
    zsh   eval "$(zarrlift completion zsh)"   in ~/.zshrc, after compinit
    fish  zarrlift completion fish > ~/.config/fish/completions/zarrlift.fish
    """  # noqa: D301 - \b is the character that keeps the lines of a paragraph apart
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(prog_name="zarrlift", complete_var=COMPLETE, shell=shell)
    return Answer(code=DONE, text=lambda: plain([script]), data=dict)


def complete(command: Any) -> int:
    """Print what may follow the command line that a script has put into the environment."""
    from typer.completion import completion_init, shell_complete  # type: ignore[attr-defined]

    completion_init()
    return shell_complete(command, {}, "zarrlift", COMPLETE, os.environ[COMPLETE])
