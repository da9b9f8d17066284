"""A bar where somebody sees it, silence elsewhere, and never a failed migration."""

from __future__ import annotations

import io
import re

import pytest

from zarrlift.progress import Bar, Silent, progress_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Gone(Terminal):
    """A terminal that was closed under way."""

    def write(self, text):
        raise BrokenPipeError


def test_a_terminal_gets_a_bar_and_nothing_else_does():
    assert isinstance(progress_for(Terminal()), Bar)
    assert isinstance(progress_for(Terminal(), quiet=True), Silent)
    assert isinstance(progress_for(io.StringIO()), Silent)
    closed = io.StringIO()
    closed.close()
    assert isinstance(progress_for(closed), Silent)


def drawn(stream: Terminal) -> list[str]:
    return [part for part in re.split(r"[\r\n]", stream.getvalue()) if part.strip()]


def test_the_bar_counts_bytes_and_shows_chunks(monkeypatch):
    stream = Terminal()
    bar = Bar(stream)
    bar.start(2_000_000, 1200)
    bar.advance(1200, 2_000_000)
    bar._bar.refresh()
    bar.close()
    last = drawn(stream)[-1]
    assert "100%" in last
    assert "2.00M/2.00M" in last
    assert "1,200/1,200 chunks" in last


def test_the_bar_counts_chunks_where_bytes_are_not_known():
    stream = Terminal()
    bar = Bar(stream)
    bar.start(None, 10)
    bar.advance(10, 0)
    bar._bar.refresh()
    bar.close()
    assert "10/10" in drawn(stream)[-1]


def test_unknown_totals_are_fine():
    stream = Terminal()
    bar = Bar(stream)
    bar.start(None, None)
    bar.advance(1, 5)
    bar.close()


def test_a_note_stands_on_its_own_line():
    stream = Terminal()
    bar = Bar(stream)
    bar.note("before the start")
    bar.start(10, 1)
    bar.note("trying again: a/0.0")
    bar.close()
    assert "trying again: a/0.0" in drawn(stream)
    assert "before the start" in drawn(stream)


def test_closing_twice_or_before_the_start_is_fine():
    bar = Bar(Terminal())
    bar.close()
    bar.start(1, 1)
    bar.close()
    bar.close()
    bar.advance(1, 1)


def test_a_terminal_that_goes_away_silences_the_bar():
    bar = Bar(Gone())
    bar.start(10, 1)
    bar.advance(1, 10)
    bar.note("x")
    bar.close()


CALLS = [("start", 1, 1), ("advance", 1, 1), ("note", "x"), ("close",)]


@pytest.mark.parametrize("call", CALLS, ids=[name for name, *_ in CALLS])
def test_silence_takes_every_call(call):
    name, *arguments = call
    assert getattr(Silent(), name)(*arguments) is None


def test_the_bar_leaves_tqdm_as_it_was():
    from tqdm import tqdm

    lock, interval = getattr(tqdm, "_lock", None), tqdm.monitor_interval
    bar = Bar(Terminal())
    bar.start(1, 1)
    bar.close()
    assert getattr(tqdm, "_lock", None) is lock
    assert tqdm.monitor_interval == interval
    assert tqdm.monitor is None
