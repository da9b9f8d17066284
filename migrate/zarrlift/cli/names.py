"""The names of the commands, and the help of zarrlift itself, which needs no other module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .exit_codes import DONE, INTERRUPTED, PARTLY, USAGE

DEBUG: Final = "ZARRLIFT_DEBUG"
SUMMARIES: Final[Mapping[str, str]] = {
    "inspect": "Show the content of an archive and its problems.",
    "migrate": "Migrate an archive, or show what would be done.",
    "resume": "Continue a migration or a batch.",
    "update": "Bring a result up to date with a source that has changed.",
    "status": "Show progress, and report what was done, also in HTML.",
    "verify": "Compare source and result, or any two archives.",
    "finish": "In place: delete the legacy metadata.",
    "undo": "Undo a migration, in place or a copy.",
    "batch": "Migrate many archives.",
    "batch list": "Print a list of the archives in folders.",
    "batch run": "Migrate every archive; again: resume, or do nothing.",
    "model": "Describe, compare, validate and create hierarchies by models.",
    "model show": "Print the structure of a hierarchy as JSON.",
    "model schema": "Write the JSON Schema of a format or of one hierarchy.",
    "model validate": "Check archives against a model.",
    "model diff": "Show where two hierarchies differ in structure.",
    "model create": "Create the hierarchy of a model, without chunks.",
    "demo": "Write small archives to play with.",
    "completion": "Print the completion script of a shell.",
}
"""Name -> what the list of commands says; the name of a command in a group begins with that of the group."""


def below(group: str) -> dict[str, str]:
    """The summaries of the commands in a group, or of all commands and groups for "", by their last words."""
    names = [name.rpartition(" ") for name in SUMMARIES]
    return {word: SUMMARIES[f"{of} {word}".strip()] for of, _, word in names if of == group}


_LINES: Final = "\n".join(f"  {word:11}{summary}" for word, summary in below("").items())
HELP: Final = f"""Usage: zarrlift [-h] [-V [-v]] COMMAND [ARGS]...
Lift legacy chunked-array archives to Zarr v3: zarrlift migrate old.zarr v3.zarr
Commands (zarrlift COMMAND -h: its options; zarrlift -V -v: library versions):
{_LINES}

Exit codes: {DONE} done, {PARTLY} in part or different, {USAGE} invalid request, {INTERRUPTED} interrupted.
{DEBUG}=1 shows tracebacks, NO_COLOR=1 no colours.
"""
