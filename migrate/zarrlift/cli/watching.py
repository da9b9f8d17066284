"""`status --watch`: the status of a job, or of a batch, again and again until it ends."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TextIO, TypeVar

from ..jobs.status import silence_of
from ..jobs.units import count_text, pace_texts, share_text
from .session import write

if TYPE_CHECKING:
    from ..jobs.batch.outcome import BatchOutcome
    from ..jobs.status import Status
    from ..report.blocks import Block

T = TypeVar("T")

_REFRESH: Final = 1.0
"""Seconds between two pictures on a terminal."""
_LINE: Final = 60.0
"""Seconds between two lines elsewhere."""
_PAGE: Final = 15.0
"""Seconds between two versions of a page."""
_SHARE: Final = 10
"""The status is read in at most this part of the time: that of 100,000 arrays takes half a second."""
_UP, _END_OF_LINE, _BELOW = "\x1b[{}F", "\x1b[K", "\x1b[J"
_CUT, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""Control sequences (ECMA-48; the last two of DEC): to the first column n lines above, delete to the end of
the line, delete everything below, cut long lines or wrap them.
"""


@dataclass(frozen=True, slots=True)
class Shown(Generic[T]):
    """How a status is shown."""

    has_ended: Callable[[T], bool]
    brief: Callable[[T], str]
    """In one line."""
    blocks: Callable[[T], Iterable[Block]]


def watch(
    ask: Callable[[], T],
    stream: TextIO,
    how: Shown[T],
    *,
    everything: bool = False,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> T:
    """Show the status until the job ends, and return the last one.

    A terminal shows a picture that is refreshed in place and removed at the end; other streams get one line
    per minute.
    """
    terminal = False
    with suppress(ValueError):  # closed
        terminal = stream.isatty()
    height, interval = 0, _REFRESH if terminal else _LINE
    try:
        while True:
            began = clock()
            status = ask()
            if how.has_ended(status):
                return status
            if terminal:
                height = _draw(status, how, stream, height, everything=everything)
            else:
                write(how.brief(status) + "\n", stream)
            wait(max(interval, (clock() - began) * _SHARE))
    finally:
        if height:
            write(_UP.format(height) + _BELOW, stream)


def with_page(
    ask: Callable[[], T], write_page: Callable[[T], object], *, clock: Callable[[], float] = time.monotonic
) -> Callable[[], T]:
    """A function that gives the status, and often enough writes it as a page."""
    due = -1.0

    def asked() -> T:
        nonlocal due
        status = ask()
        if clock() >= due:
            write_page(status)
            due = clock() + _PAGE
        return status

    return asked


def has_ended(status: Status) -> bool:
    """Whether nothing more will happen in a job by itself; parts that wait for a node are about to."""
    if status.state != "incomplete":
        return True
    if status.parts and status.activity != "running":
        return all(part.activity in ("stopped", "stale") for part in status.parts)
    return status.activity in ("stopped", "stale")


def brief(status: Status) -> str:
    """The progress of a job in one line."""
    arrays = [node for node in status.nodes if node.kind == "array"]
    done, failed = (sum(node.state == state for node in arrays) for state in ("done", "failed"))
    parts = [f"{time.strftime('%Y-%m-%d %H:%M:%S')} {status.activity or status.state}"]
    if status.bytes_total:
        parts.append(share_text(status.bytes_done, status.bytes_total))
    parts.append(f"{count_text(done)} of {count_text(len(arrays), 'array')}")
    if failed:
        parts.append(f"{count_text(failed)} failed")
    if status.retries:
        parts.append(f"{count_text(status.retries, 'request')} repeated")
    parts += pace_texts(status.rate, status.seconds_left, silence_of(status, time.time()))
    return ", ".join(parts)


def _draw(status: T, how: Shown[T], stream: TextIO, height: int, *, everything: bool) -> int:
    """Draw a picture over the one before, in one write; returns its number of lines."""
    from ..report.page import Page
    from ..report.text import lines as lines_of

    def lines() -> Iterator[str]:
        yield how.brief(status)
        yield ""
        yield from lines_of(how.blocks(status), Page.of(stream, everything=everything))

    rows = max(shutil.get_terminal_size().lines - 1, 1)
    drawn = list(islice(lines(), rows))
    above = _UP.format(height) if height else ""
    write(_CUT + above + "".join(f"{line}{_END_OF_LINE}\n" for line in drawn) + _BELOW + _WRAP, stream)
    return len(drawn)


def a_job() -> Shown[Status]:
    """How the status of a job is shown."""
    from ..report import status as report

    return Shown(has_ended, brief, report.blocks)


def a_batch() -> Shown[BatchOutcome]:
    """How the status of a batch is shown."""
    from ..report import batch as report

    return Shown(lambda status: not status.running, report.progress_line, report.blocks)
