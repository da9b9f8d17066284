"""`zarrlift completion`: the script that completes commands, options and their values in a shell."""

from typing import Annotated, Any, Literal

import typer

from .session import COMPLETE, DONE, Answer, plain

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
    import os

    from typer.completion import completion_init, shell_complete  # type: ignore[attr-defined]

    completion_init()
    return shell_complete(command, {}, "zarrlift", COMPLETE, os.environ[COMPLETE])
