"""The process that checks a result, begun before this one reads its command line.

Loading zarr-python takes as long as moving half a gigabyte, and longer than all that this project
loads. On a machine with two cores it costs nothing where another process does it meanwhile.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ..processes.forked_process import Twin, may_fork

if TYPE_CHECKING:
    from .checks import ChecksHere

_COMMANDS: Final = frozenset({"migrate", "resume"})
_WITHOUT: Final = frozenset({"-h", "--help", "none", "--verify=none"})
"""Words by which a command checks nothing."""

_begun: Final[list[Twin]] = []
"""At most one."""


def wanted(words: Sequence[str]) -> bool:
    """Whether a command line looks as if files will be written and checked.

    A guess that costs little: what is begun and not needed is stopped.
    """
    return (
        bool(words) and words[0] in _COMMANDS and not any(word in _WITHOUT or "://" in word for word in words)
    )


def begin() -> None:
    """Begin, where a fork is safe.

    What both processes need, numpy first of all, is loaded before, once: neither has it sooner by itself.
    """
    try:
        from . import checks  # noqa: F401
    except Exception:  # noqa: BLE001 - a broken package is named by the command that needs it
        return
    if not _begun and (begun := new()) is not None:
        _begun.append(begun)


def take() -> Twin | None:
    """What was begun, if anything was; whoever takes it closes it."""
    return _begun.pop() if _begun else None


def drop() -> None:
    """Stop what was begun: nobody will ask it."""
    begun = take()
    if begun is not None:
        begun.kill()


def new() -> Twin | None:
    """A copy of this process that answers `ChecksApart`; None where there can be none."""
    if not may_fork():
        return None
    try:
        return Twin(_Answers(), first=_load)
    except OSError:  # the same is done in this process then
        return None


def _load() -> None:
    # Most of what modules are made of stays for good: looking for garbage among it, once while it is
    # loaded and once in the first read, took a tenth of the time that loading takes.
    gc.disable()
    import zarr  # noqa: F401

    # Loaded while nothing is asked for yet.
    from ...verification import sampled_chunks, zarr_python_reader  # noqa: F401

    zarr_python_reader.warm_up()
    gc.freeze()
    gc.enable()


class _Answers:
    """What the process apart does with a question: both ends, and what `Checks` is called with."""

    def __init__(self) -> None:
        self._checks: ChecksHere | None = None

    def __call__(self, asked: Any) -> Any:
        source, destination, *question = asked
        if self._checks is None:
            from .checks import ChecksHere

            self._checks = ChecksHere(source, destination)
        return self._checks(*question)
