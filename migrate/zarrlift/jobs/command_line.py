"""Commands that advice names, as a shell takes them back."""

from __future__ import annotations

import os
import re
import shlex
from typing import Final

from .units import safe

_ESCAPES: Final = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\", "'": r"\'"}


def command(*words: str) -> str:
    """A command line of zarrlift that can be pasted into a shell."""
    return " ".join(["zarrlift", *map(quoted, words)])


def quoted(word: str) -> str:
    r"""A word as a shell takes it back: invisible characters as in `$'two\nlines'` (POSIX.1-2024, 2.2.4)."""
    if safe(word) == word:
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if safe(char) == char:
        return char
    return re.sub("(..)", r"\\x\1", os.fsencode(char).hex())
