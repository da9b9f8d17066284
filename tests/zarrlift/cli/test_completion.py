"""`zarrlift completion`: the scripts, and what the shells complete with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zarrlift.cli import main
from zarrlift.cli.session import COMPLETE

BIN = Path(sys.executable).parent
ASKED = {
    "a command": ("zarrlift mig", {"migrate"}),
    "a command of a command": ("zarrlift batch r", {"run"}),
    "an option": ("zarrlift migrate --dest", {"--dest-through"}),
    "a value": ("zarrlift migrate --axes ", {"reversed", "kept"}),
    "the name of a rare option": ("zarrlift migrate --set shard-", {"shard-index=", "shard-index-location="}),
    "its value": ("zarrlift migrate --set key-encoding=", {"key-encoding=default", "key-encoding=v2"}),
}
SCRIPTS = {
    "bash": """eval "$(zarrlift completion bash)"
        COMP_WORDS=($LINE); [[ "$LINE" == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _zarrlift_completion zarrlift; echo "${COMPREPLY[@]}" """,
    # Outside of its line editor, zsh completes nothing: what its own function is called with is printed.
    "zsh": """autoload -Uz compinit; compinit -D -u; eval "$(zarrlift completion zsh)"
        [[ $_comps[zarrlift] == _zarrlift_completion ]] || exit 1
        _arguments() { print -r -- "$@" }; words=(${=LINE}); CURRENT=$#words; _zarrlift_completion""",
    "fish": """zarrlift completion fish | source; complete -C "$LINE" """,
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_what_is_completed(asked):
    line, answers = asked
    environment = {**os.environ, COMPLETE: "complete_bash", "COMP_WORDS": line}
    environment["COMP_CWORD"] = str(len((line + "x").split()) - 1)
    command = [sys.executable, "-m", "zarrlift"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == answers


def test_a_script_for_each_shell(capsys):
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert COMPLETE in capsys.readouterr().out
    assert main(["completion", "tcsh"]) == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "shell", [pytest.param(name, marks=pytest.mark.needs_reader(name)) for name in SCRIPTS]
)
def test_a_shell_completes(shell):
    environment = {**os.environ, "LINE": "zarrlift batch r", "PATH": f"{BIN}:{os.environ['PATH']}"}
    plain = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
    command = [shell, plain, "-c", SCRIPTS[shell]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "run" in done.stdout
    assert "status" not in done.stdout
