"""Ctrl-C, once or twice: the command ends, and `resume` completes; `interrupts.py` does it more often."""

from __future__ import annotations

import random
import sys

import pytest
from tests.support.bucket import serving
from tests.zarrlift.jobs.faults.interrupts import Site, Way

pytestmark = [
    pytest.mark.needs_reader("once"),
    pytest.mark.skipif(sys.platform == "win32", reason="which has no groups of processes to signal"),
]

LIMITED = [
    Way("large shards", "threads", "local", limited=True),
    Way("regrid", "processes", "bucket", limited=True),
    Way("copy", "threads", "bucket", limited=True, verb="verify"),
]


@pytest.mark.parametrize("way", LIMITED, ids=[way.id for way in LIMITED])
def test_what_is_interrupted_ends_and_is_resumed(way, tmp_path):
    with serving() as bucket:
        assert Site(tmp_path, bucket).wrong(way, random.Random(way.id)) == []
