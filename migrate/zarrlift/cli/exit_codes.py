"""The exit codes of the command line; `docs/reference/errors.md` explains each."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
PARTLY: Final = 1
"""Something failed, was refused, or differs."""
USAGE: Final = 2
"""The request is invalid; nothing was done."""
INTERRUPTED: Final = 130
"""128 + SIGINT, as shells report a command that was interrupted."""
