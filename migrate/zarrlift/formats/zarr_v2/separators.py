"""Which separator the chunk keys of a Zarr v2 array have, from what is said and what lies there.

`dimension_separator` came late (zarr-python 2.8): older nested archives do not have it, and
a reader that takes the default "." sees no chunk at all, that is, fill values only.
https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#metadata
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.grid.chunk_keys_v3 import Separator

from ...storage.base import Entry

_NUMBER: Final = re.compile(r"[0-9]+")
_DOTTED: Final = re.compile(r"[0-9]+(\.[0-9]+)+")


def separator(
    declared: Separator | None, ndim: int, entries: Iterable[Entry]
) -> tuple[Separator, Problem | None]:
    """The separator, and what is to say about it; `entries` are the array's directory.

    What is said holds as soon as one key confirms it, or none contradicts it. Where nothing is
    said, the keys decide. A refusal: keys only of the other kind than said, or, where nothing is
    said, of both kinds; no reader could be right for sure. Entries are looked at only as far
    as needed.
    """
    if ndim < 2:
        return declared or ".", None
    shown: dict[Separator, str] = {}
    for entry in entries:
        kind = _kind(entry, ndim)
        if kind is None or kind in shown:
            continue
        if kind == declared:
            return declared, None
        shown[kind] = entry.name + ("/" if kind == "/" else "")
        if len(shown) == 2:
            break
    if declared is not None:
        if not shown:
            return declared, None
        return declared, Problem(
            kind="separator",
            message="the chunk keys are not as dimension_separator says",
            found=f"keys such as {next(iter(shown.values()))!r}",
            expected=f"keys with {declared!r}",
            advice="Correct dimension_separator in .zarray, or remove the stray files.",
        )
    if len(shown) == 2:
        found = " and ".join(repr(name) for name in shown.values())
        return ".", Problem(
            kind="separator",
            message="no dimension_separator is given, and there are chunk keys of both kinds",
            found=found,
            expected="keys with '.' or with '/'",
            advice="Set dimension_separator in .zarray.",
        )
    if "/" not in shown:
        return ".", None
    return "/", Problem(
        kind="separator",
        severity="note",
        message="no dimension_separator is given; '/' is taken",
        found=f"keys such as {shown['/']!r}",
    )


def _kind(entry: Entry, ndim: int) -> Separator | None:
    if entry.is_dir:
        return "/" if _NUMBER.fullmatch(entry.name) else None
    return "." if _DOTTED.fullmatch(entry.name) and entry.name.count(".") == ndim - 1 else None
