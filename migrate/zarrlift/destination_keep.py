"""What may keep its stored bytes under v3 names, asked of a layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.kept import keep_problems as _keep_problems

from .archive import Layout

_ADVICE: Final = "A copy without --codecs keep re-encodes it."


def keep_problems(layout: Layout, advice: str = _ADVICE) -> Iterator[Problem]:
    """A refusal for each reason why v3 readers would not read the stored bytes as they are."""
    return _keep_problems(layout.chain, layout.data_type, advice)
