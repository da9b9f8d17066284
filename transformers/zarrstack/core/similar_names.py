"""Suggests the name that was meant, from those that are known."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The most similar of the known names, or None; names that share only an extension are not similar."""
    from difflib import get_close_matches

    names = list(candidates)
    stems = {_stem(each) for each in names}
    near = get_close_matches(_stem(name), stems, max(len(stems), 1))
    return next(iter(get_close_matches(name, [each for each in names if _stem(each) in near], 1)), None)


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """`Did you mean 'zstd'?`, as the advice of an error; None if no known name is similar."""
    near = nearest(name, candidates)
    return f"Did you mean {near!r}?" if near is not None and near != name else None


def _stem(name: str) -> str:
    return name.partition(".")[0] or name
