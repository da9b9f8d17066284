"""Which names a file system can hold, found by trying those that some cannot."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from .partial_files import trial_folder

_PLAIN: Final = re.compile(
    r"[A-Za-z0-9_\-+=@~,;()\[\]{}!#$%&'^`]+([ .][A-Za-z0-9_\-+=@~,;()\[\]{}!#$%&'^`]+)*"
)
"""Names that every file system holds, if no other differs from them by case alone and they are short."""
_SHORT: Final = 100
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
"""Reserved on Windows (https://learn.microsoft.com/windows/win32/fileio/naming-a-file)."""


def not_held(directory: Path, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Paths that cannot exist in a directory, with the reason; tried in a temporary directory in it.

    Only names that some file system cannot hold are tried, so mostly nothing is. OSError if nothing can be
    created there.
    """
    siblings: dict[str, list[tuple[str, str]]] = {}
    for path in filter(None, paths):
        above, _, name = path.rpartition("/")
        siblings.setdefault(above, []).append((name, path))
    for names in siblings.values():
        if doubtful := _doubtful(names):
            yield from _tried(directory, doubtful)


def _doubtful(names: list[tuple[str, str]]) -> list[tuple[str, str]]:
    folded = Counter(_folded(name) for name, _ in names)
    return [
        (name, path)
        for name, path in names
        if folded[_folded(name)] > 1
        or len(name) > _SHORT
        or not _PLAIN.fullmatch(name)
        or _DEVICES.fullmatch(name)
    ]


def _tried(directory: Path, names: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    created: dict[str, tuple[str, str]] = {}
    with trial_folder(directory) as folder:
        for name, path in names:
            try:
                os.mkdir(os.path.join(folder, name))
            except FileExistsError:
                other, _ = created.get(_folded(name), ("another one", ""))
                yield path, f"the same name as {other!r} there"
            except (OSError, ValueError) as error:
                yield path, getattr(error, "strerror", None) or str(error)
            else:
                created[_folded(name)] = name, path
        listed = set(map(_folded, os.listdir(folder)))
    for folded, (_, path) in created.items():
        if folded not in listed:
            yield path, "it gets another name there"  # Windows drops dots and spaces at the end


def _folded(name: str) -> str:
    """The same text for names that some file system takes for one."""
    return unicodedata.normalize("NFC", name).casefold()
