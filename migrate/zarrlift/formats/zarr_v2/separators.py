"""Determines the separator in the chunk keys of a Zarr v2 array, from its document and its keys.

`dimension_separator` was added late (zarr-python 2.8): older nested archives lack it, and a reader that
assumes the default "." finds no chunks, that is, only fill values.
https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#metadata
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from zarrstack.core.chunk_keys_v3 import Separator
from zarrstack.core.errors import Problem

from ...core.problems import note, refusal
from ...storage.base import DirectoryEntry

_NUMBER: Final = re.compile(r"[0-9]+")
_DOTTED: Final = re.compile(r"[0-9]+(\.[0-9]+)+")


def separator(
    declared: Separator | None, ndim: int, entries: Iterable[DirectoryEntry]
) -> tuple[Separator, Problem | None]:
    """The separator, and a problem if any; `entries` are those of the array's directory.

    A declared separator is accepted if one key confirms it, or none contradicts it. Without a declaration,
    the keys decide. Refused are arrays that have only keys of the other kind than declared or, without a
    declaration, keys of both kinds, since no reading is certain. Entries are read only as far as needed.
    """
    if ndim < 2:
        return declared or ".", None
    names: dict[Separator, str] = {}
    for entry in entries:
        kind = _kind(entry, ndim)
        if kind is None or kind in names:
            continue
        if kind == declared:
            return declared, None
        names[kind] = entry.name + ("/" if kind == "/" else "")
        if len(names) == 2:
            break
    if declared is not None:
        if not names:
            return declared, None
        return declared, refusal(
            "separator",
            "the chunk keys do not match dimension_separator",
            found=f"keys such as {next(iter(names.values()))!r}",
            expected=f"keys with {declared!r}",
            advice="Correct dimension_separator in .zarray, or remove the stray files.",
        )
    if len(names) == 2:
        found = " and ".join(repr(name) for name in names.values())
        return ".", refusal(
            "separator",
            "dimension_separator is missing, and there are chunk keys of both kinds",
            found=found,
            expected="keys with '.' or with '/'",
            advice="Set dimension_separator in .zarray.",
        )
    if "/" not in names:
        return ".", None
    return "/", note(
        "separator", "dimension_separator is missing; '/' is used", found=f"keys such as {names['/']!r}"
    )


def _kind(entry: DirectoryEntry, ndim: int) -> Separator | None:
    if entry.is_dir:
        return "/" if _NUMBER.fullmatch(entry.name) else None
    return "." if _DOTTED.fullmatch(entry.name) and entry.name.count(".") == ndim - 1 else None
