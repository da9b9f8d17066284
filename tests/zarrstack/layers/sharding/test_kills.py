"""A killed writer leaves no torn shard, and loses nothing that was flushed."""

from __future__ import annotations

import os

import pytest
from tests.zarrstack.layers.sharding.kills import one_life

FEW = (1, 5, 6, 7, 9)
"""Seeds that cover each budget, over checksums and without; `kills.py --runs 200` draws others."""
SLOW = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 40)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not everywhere: it forks")
@pytest.mark.parametrize("seed", [*FEW, *SLOW])
def test_a_killed_writer_leaves_what_was_flushed_and_no_torn_shard(seed):
    assert one_life(seed) == []
