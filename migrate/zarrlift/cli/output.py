"""Text on the standard streams, whose reader may have gone."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import Any


class OutputError(OSError):
    """Standard output is closed or cannot be written."""


def say(text: str) -> None:
    """Print one line to standard error."""
    write(text + "\n", sys.stderr)


def unprinted(error: OSError) -> str:
    """What happened to output that cannot be written, as the end of a sentence."""
    return f"cannot be printed: standard output: {error.strerror or error}."


def write(text: str, stream: Any) -> None:
    """Write and flush; a closed reader (`| head`) is not an error.

    Raises OutputError if standard output cannot be written. Standard error is the last resort: what cannot be
    written there is dropped.
    """
    try:
        if stream is None or stream.closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))  # noqa: TRY301 - as for a closed descriptor
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # The interpreter flushes again at exit; discard that output.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        if stream is not sys.stderr:
            raise OutputError(error.errno, error.strerror or str(error)) from error
