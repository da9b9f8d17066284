"""Who receives the events of a run (`zarrlift.transfer.events`), and those that a thread sends every second.

What shows progress never fails a migration: if its terminal disappears, the output stops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Self, TypeAlias

from ..transfer import events
from ..transfer.events import Ended, Event, Listed, Waiting

_REFRESH_SECONDS: Final = 1.0

Progress: TypeAlias = events.Progress
ProgressChoice: TypeAlias = Progress | bool | None
"""A function that gets each event; True for the usual display, False for none. None is True in a notebook and
False elsewhere."""


class Unticked:
    """A function that needs no events between those of the work, and therefore no thread."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __call__(self, event: Event) -> None:
        """Pass an event on."""
        self._progress(event)


class Ticker:
    """Sends an event every second, from a thread that ends with `stop`.

    A process with threads cannot be forked safely, so create this after the forks.
    """

    def __init__(self, progress: Progress | None, present: Callable[[], Event] = Waiting) -> None:
        """`present` is called in the thread."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if progress is not None and not isinstance(progress, Unticked):
            self._thread = threading.Thread(
                target=self._run, args=(progress, present), name="zarrlift-progress", daemon=True
            )
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the thread; may be called twice."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, progress: Progress, present: Callable[[], Event]) -> None:
        while not self._ended.wait(_REFRESH_SECONDS):
            progress(with_silence(present()))


def with_silence(event: Event) -> Event:
    """The same with the silence of a server, if any; the time left is unknown then."""
    from ..storage.silence import longest

    silence = longest()
    if silence is not None and isinstance(event, Waiting):
        return replace(event, silence=silence, seconds_left=None)
    return replace(event, silence=silence) if silence is not None and isinstance(event, Listed) else event


def send_end(progress: Progress | None) -> None:
    """Say that the listing or the work has ended."""
    if progress is not None:
        progress(Ended())


@contextmanager
def listing_shown(progress: Progress | None, listed: Callable[[], int]) -> Iterator[None]:
    """Show how many objects are listed."""
    with Ticker(progress, lambda: Listed(objects=listed())):
        yield
    send_end(progress)
