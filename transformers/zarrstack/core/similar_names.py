"""Suggests the name that was meant, from those that are known."""

from __future__ import annotations

from collections.abc import Iterable


def meant(name: str, known: Iterable[str]) -> str | None:
    """`Did you mean 'zstd'?`, as the advice of an error; None if no known name is similar."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 1)
    return f"Did you mean {near[0]!r}?" if near and near[0] != name else None
