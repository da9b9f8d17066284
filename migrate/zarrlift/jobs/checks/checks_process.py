"""The process that checks a result, forked before this one parses its command line.

Loading zarr-python takes as long as moving half a gigabyte, and longer than loading the rest of this project.
On a machine with two cores it is free if another process does it in the meantime. Without this process, 2,000
arrays in place take 1.26 times as long, and 1.25 times if it is forked only when the archive has been read
(docs/design/decisions.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ..processes import process_tuning
from ..processes.forked_process import ForkedProcess, may_fork

if TYPE_CHECKING:
    from .checks import Checks

_COMMANDS: Final = frozenset({"migrate", "resume", "run"})
_WITHOUT: Final = frozenset({"-h", "--help", "none", "--verify=none", "-n", "--dry-run"})
"""Arguments with which a command checks nothing."""

_begun: Final[list[ForkedProcess]] = []
"""At most one process."""


def wanted(words: Sequence[str]) -> bool:
    """Whether a command line will probably write and check files.

    A wrong guess is cheap: a process that is not needed is stopped, as in a batch of several archives.
    """
    named = words[1:] if words[:1] == ["batch"] else words
    return (
        bool(named) and named[0] in _COMMANDS and not any(word in _WITHOUT or "://" in word for word in words)
    )


def begin() -> None:
    """Fork the process if a fork is safe.

    The modules that both processes need, mainly numpy, are loaded once before the fork: neither process would
    have them sooner by loading them itself.
    """
    try:
        from . import checks  # noqa: F401
    except Exception:  # noqa: BLE001 - a broken package is named by the command that needs it
        return
    if not _begun and (begun := new()) is not None:
        _begun.append(begun)


def take() -> ForkedProcess | None:
    """The process that was begun, if any; the caller closes it."""
    return _begun.pop() if _begun else None


def drop() -> None:
    """Stop the process that was begun, because it is not needed."""
    begun = take()
    if begun is not None:
        begun.kill()


def new() -> ForkedProcess | None:
    """A copy of this process that answers `ForkedChecks`; None if it cannot be made."""
    if not may_fork():
        return None
    try:
        return ForkedProcess(_Answers(), initializer=_load)
    except OSError:  # the checks run in this process instead
        return None


def _load() -> None:
    import zarr  # noqa: F401

    # Load before the first question arrives.
    from ...verification import before_publishing, zarr_python_reader  # noqa: F401

    zarr_python_reader.warm_up()
    process_tuning.keep_objects()


class _Answers:
    """Answers questions in the separate process: two endpoints and what `Checks` are asked."""

    def __init__(self) -> None:
        self._checks: Checks | None = None

    def __call__(self, request: Any) -> Any:
        source, destination, question = request
        if self._checks is None:
            from .checks import Checks

            self._checks = Checks(source, destination)
        return self._checks(question)
