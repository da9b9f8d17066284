"""What a run writes for those who watch it: a log of events, a file of metrics, a notification."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from ..recipe.options import Watching
from .outcome import Outcome
from .progress import Progress, ProgressChoice, Ticker
from .progress_display import LogProgress, chosen_progress

if TYPE_CHECKING:
    from .batch.rows import BatchOutcome

Ended = TypeVar("Ended", bound="Outcome | BatchOutcome")


class Observed:
    """A run that is observed."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        """To be given to what does the work."""
        self.outcome: Outcome | BatchOutcome | None = None
        """None until it has ended without an error."""

    def end(self, outcome: Ended) -> Ended:
        """The outcome, which is the last figure."""
        self.outcome = outcome
        return outcome


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
    progress: ProgressChoice, source: str, destination: str, watching: Watching, verb: str = "migrate"
) -> Iterator[Observed]:
    """Write events and figures to files, and notify of the end, each if `watching` has it.

    UsageError if a file cannot be written, or nothing can be notified. Nothing is loaded for what is not
    requested.
    """
    with ExitStack() as stack:
        if watching.log is not None:
            from .log_messages import logged

            stack.enter_context(logged(watching.log, f"{source} -> {destination}"))
        display = stack.enter_context(shown(progress))
        run = Observed(display)
        if watching.notify is not None:
            from .notify import notifying

            stack.enter_context(notifying(watching.notify, lambda: run.outcome, verb))
        if watching.metrics is not None:
            from .metrics_file import MetricsFile

            file = MetricsFile(watching.metrics, display, name=destination)
            run.progress = file
            stack.callback(lambda: file.end(ok=run.outcome is not None and run.outcome.ok))
        yield run
