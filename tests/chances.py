"""How many random examples a test draws where they take seconds: half in CI, which repeats its own."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

IN_CI = "CI" in os.environ
"""A run in CI is repeatable and finds what it found before: half as many examples do."""


def fewer(examples: int) -> int:
    """So many examples at home, half of them in CI; a few are always tried."""
    return max(examples // 2, 3) if IN_CI else examples


def examples(count: int, **options: Any) -> settings:
    """hypothesis' settings for `fewer` examples."""
    return settings(max_examples=fewer(count), **options)
