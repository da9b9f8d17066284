"""The JSON document in which a command ends, for programs: what `--json` prints.

`{"zarrlift": version, "command", "exit_code", "result" | "error"}`: `result` is the object that the Python
function of the same name returns, `error` is one problem. Names of members are stable.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem
    from zarrstack.core.json_text import JSONObject

DONE: Final = 0
PARTLY: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
"""128 + SIGINT, as shells report a command that was interrupted."""

DEBUG: Final = "ZARRLIFT_DEBUG"


def document(command: str | None, code: int, content: JSONObject) -> JSONObject:
    """The document of a command that ends with an exit code."""
    from zarrstack.version import __version__

    from ..core.json_document import finite

    head = {"zarrlift": __version__, "command": command, "exit_code": code}
    # Bare NaN, which attributes may contain, is invalid JSON and would fail in other programs.
    result = finite({**head, **content})
    assert isinstance(result, dict)
    return result


def problem_of(error: Exception) -> Problem:
    """Any error as a problem; of one that is not zarrlift's, without secrets."""
    from zarrstack.core.errors import Problem, ZarrstackError

    from ..storage.redact import redact_foreign
    from ..transfer.unexpected_errors import broken_package

    if isinstance(error, ZarrstackError):
        return error.problem
    if isinstance(error, OSError):
        return Problem(
            kind="storage",
            message="reading or writing failed",
            key=None if error.filename is None else os.fsdecode(error.filename),
            found=error.strerror or str(error),
            advice="Fix the cause, then run the command again.",
        )
    if isinstance(error, MemoryError):
        return Problem(kind="memory", message="there is not enough memory")
    if (broken := broken_package(error)) is not None:
        return broken
    text = " ".join(redact_foreign(f"{type(error).__name__}: {error}").split())
    advice = f"This is a bug in zarrlift; {DEBUG}=1 shows the traceback to report."
    return Problem(kind="internal", message=f"unexpected {text}", advice=advice)
