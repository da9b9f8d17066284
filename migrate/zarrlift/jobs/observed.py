"""How a run is shown while it works: its progress, and a log of events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ..recipe.options import Watching
from .progress import Progress, ProgressChoice, Ticker
from .progress_display import LogProgress, chosen_progress


@contextmanager
def shown(progress: ProgressChoice) -> Iterator[Progress | None]:
    """The display that is asked for; one made here is closed."""
    display = chosen_progress(progress)
    try:
        yield display
    finally:
        if isinstance(display, LogProgress) and display is not progress:
            display.close()


@contextmanager
def ticking(progress: ProgressChoice) -> Iterator[Progress | None]:
    """The display that is asked for, refreshed every second, for what is not a job."""
    with shown(progress) as display, Ticker(display):
        yield display


@contextmanager
def observed(
    progress: ProgressChoice, source: str, destination: str, watching: Watching
) -> Iterator[Progress | None]:
    """The display that is asked for, and the log of `watching` if it has one.

    UsageError if the log cannot be written. Nothing is loaded for what is not requested.
    """
    with ExitStack() as stack:
        if watching.log is not None:
            from .log_messages import logged

            stack.enter_context(logged(watching.log, f"{source} -> {destination}"))
        yield stack.enter_context(shown(progress))
