"""Formats numbers, names and words of commands for people: bytes, durations, shapes, node names.

Byte units are powers of 1000 (kB, MB, GB), as in the progress bars.
"""

from __future__ import annotations

import re
import shlex
import time
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from zarrstack.core.errors import short

from .node_paths import WINDOWS

UNITS: Final = ("kB", "MB", "GB", "TB", "PB", "EB")
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories that control a terminal or are invisible: controls, format characters (including those
that reverse text), lone surrogates, private use, line separators.
"""


def bytes_text(count: int, *, estimated: bool = False) -> str:
    """A number of bytes with three digits, such as `1.23 MB`; `~` marks an estimate."""
    mark = "~" if estimated else ""
    if count < 1000:
        return f"{mark}{count} B"
    value = float(count)
    for unit in UNITS:
        value /= 1000
        # The format below would round 999.5 to 1000; the next unit shows 1.00.
        if value < 999.5 or unit == UNITS[-1]:
            break
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{mark}{value:,.{digits}f} {unit}"


def count_text(count: int, one: str = "") -> str:
    """A number with thousands separators and an optional noun: `1,234 arrays`."""
    if not one:
        return f"{count:,}"
    return f"{count:,} {one if count == 1 else one + 's'}"


def duration_text(seconds: float) -> str:
    """A time span in its two largest units: `0.42 s`, `12.3 s`, `2 min 5 s`, `3 h 12 min`."""
    if seconds < 9.995:
        return f"{max(seconds, 0):.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, name, small, small_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // small} {small_name}"
    return f"{whole} s"


def rate_text(count: int, seconds: float) -> str:
    """Bytes per second, or "" if the time is too short."""
    return f"{bytes_text(round(count / seconds))}/s" if seconds >= 0.01 and count else ""


def share_text(done: int, total: int, *, estimated: bool = False) -> str:
    """Bytes done of all, such as `1.20 MB of ~3.40 MB (35 %)`."""
    share = 100 * done // max(total, 1)
    return f"{bytes_text(done)} of {bytes_text(total, estimated=estimated)} ({share} %)"


def pace_texts(rate: float | None, seconds_left: float | None) -> list[str]:
    """`2.23 MB/s` and `about 5 min 3 s left`, as far as they are known."""
    return [
        *([] if rate is None else [f"{bytes_text(round(rate))}/s"]),
        *([] if seconds_left is None else [f"about {duration_text(seconds_left)} left"]),
    ]


def change_text(before: str, after: str) -> str:
    """A property on both sides, once if it is the same."""
    return before if before == after else f"{before or 'none'} -> {after or 'none'}"


def amounts_text(objects: Sequence[str], sizes: Sequence[str]) -> str:
    """Stored objects and bytes, before and after if they change: `538 -> 64 objects, 135 MB -> ~57.8 MB`."""
    noun = "object" if set(objects) == {"1"} else "objects"
    return f"{' -> '.join(objects)} {noun}, {' -> '.join(sizes)}"


def shape_text(shape: Sequence[int]) -> str:
    """A shape such as `365x180x360`; `scalar` for zero dimensions."""
    return "x".join(map(str, shape)) or "scalar"


def node_text(path: str) -> str:
    """A node's path for display: `/` for the root, `/a/b` for a node below it."""
    return "/" + safe(path)


def safe(text: str) -> str:
    r"""Text from an archive, safe for a terminal: invisible characters are shown as `\x1b`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if unicodedata.category(char) not in _HIDDEN else char.encode("unicode_escape").decode()
        for char in text
    )


def brief(text: str) -> str:
    """Like `safe`, with the middle of a long text removed."""
    return safe(short(text))


def columns(text: str) -> int:
    """Number of terminal columns of a text: wide characters take two, combining accents none."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


_BARE: Final = re.compile(r"[\w+./\\:-]+")
"""Words that no shell of Windows changes."""
_ESCAPES: Final = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\", "'": r"\'"}


def quoted(word: str, *, windows: bool = WINDOWS) -> str:
    r"""A word as a shell takes it back: invisible characters as in `$'two\nlines'` (POSIX.1-2024, 2.2.4).

    On Windows as both cmd and PowerShell take it: in double quotes.
    """
    if windows:
        inside = re.sub(r'(\\*)("|$)', lambda end: end[1] * 2 + ('\\"' if end[2] else ""), safe(word))
        return word if _BARE.fullmatch(word) else f'"{inside}"'
    if safe(word) == word:
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if safe(char) == char:
        return char
    # A byte of a name that is not UTF-8, or half a character of Windows.
    errors = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return re.sub("(..)", r"\\x\1", char.encode(errors=errors).hex())


def moment_text(seconds: float) -> str:
    """A Unix time as text: local time with its UTC offset, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream shows what is written to a person; False for one that is closed."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


_NUMBERED: Final = re.compile("(.*?)([0-9]{1,18})", re.DOTALL)


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """(first, last) of each run of consecutive numbers, sorted."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        first = ranges.pop()[0] if ranges and ranges[-1][1] == number - 1 else number
        ranges.append((first, number))
    return ranges


def node_names(paths: Iterable[str], most: int | None, *, hint: str = "") -> str:
    """`/a/s0 to s7, /b and 3 more`: at most `most` names and ranges, if not None; the rest is counted.

    `hint` follows the number of the others, if there are any.
    """
    numbered: dict[tuple[str, bool], dict[int, str]] = {}
    for path in paths:
        match = _NUMBERED.fullmatch(path)
        prefix, number = (match[1], int(match[2])) if match else (path, 0)
        members = numbered.setdefault((prefix, match is not None), {})
        if number in members:  # `s1` and `s01`
            members = numbered.setdefault((path, False), {})
        members[number] = path
    names: list[str] = []
    counts: list[int] = []
    for members in numbered.values():
        for first, last in _ranges(members):
            until = f" to {safe(members[last].rpartition('/')[2])}" if first != last else ""
            names.append(node_text(members[first]) + until)
            counts.append(last - first + 1)
    rest = 0 if most is None else sum(counts[most:])
    return ", ".join(names[:most]) + (f" and {count_text(rest)} more{hint}" if rest else "")
