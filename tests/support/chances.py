"""How many examples a test draws where they take seconds, and whether they are new ones.

The examples are the same in every run, at home and in CI, so that a change is judged by itself. `--random`
draws others, and more of them.
"""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest

_run = {"divisor": 4}


def load_profile(config: pytest.Config) -> None:
    """Settings of hypothesis; before the test modules are imported, which take them over."""
    seed = config.getoption("--random")
    drawn = seed is not None
    if drawn:
        config.option.hypothesis_seed = seed
    _run["divisor"] = 1 if drawn else 2 if config.getoption("--all") or config.getoption("--rest") else 4
    # Slow machines are no failure. Without a database, a failure depends on nothing but the seed.
    hypothesis.settings.register_profile(
        "zarrlift",
        deadline=None,
        database=None,
        derandomize=not drawn,
        max_examples=fewer(50),
        print_blob=drawn,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("zarrlift")


def fewer(examples: int) -> int:
    """So many examples where they are drawn at random, half with `--all`, else a quarter; never none."""
    return min(examples, max(examples // _run["divisor"], 3))


def examples(count: int, **options: Any) -> hypothesis.settings:
    """hypothesis' settings for `fewer` examples."""
    return hypothesis.settings(max_examples=fewer(count), **options)
