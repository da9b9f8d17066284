"""An update compares what it has written: beside that may be what users have changed, which it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarrlift
from zarrlift.core.grid.overlap import touched
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.planning.plans import ArrayPlan
from zarrlift.transfer.tasks import rewritten, sources_moved
from zarrlift.verification.sampling import Sampler

RECIPES: dict[str, dict[str, Any]] = {
    "other codecs": {"codecs": "zstd:3"},
    "shards": {"shards": "2x"},
    "other chunks": {"chunks": "10,8"},
    "other chunks in shards": {"chunks": "5,5", "shards": "2x"},
}


def update_of(folder: Path, recipe: dict[str, Any]) -> ArrayPlan:
    """The plan of an update for two chunks of a hundred, one of which was deleted."""
    array = zarr.create_array(folder / "s", shape=(60, 50), chunks=(6, 5), dtype="<i4", zarr_format=2)
    array[...] = np.arange(3000).reshape(60, 50) + 1
    base = zarrlift.ArrayRecipe(**recipe)
    assert zarrlift.migrate(folder / "s", folder / "d", recipe=zarrlift.Recipe(base=base)).ok
    array[54:, 45:] = 7
    (folder / "s" / "9.8").unlink()
    assert zarrlift.update(folder / "d").ok
    with Job.open(folder / "d.zarrlift.db", write=False) as job:
        (plan,) = job.plan().arrays
    assert plan.changes is not None
    return plan


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_no_object_that_an_update_keeps_is_compared(recipe: dict[str, Any], tmp_path: Path) -> None:
    plan = update_of(tmp_path, recipe)
    present = np.delete(np.arange(100), 98)
    written, moved = set(rewritten(plan).tolist()), sources_moved(plan, present)
    seen: set[int] = set()
    for job in range(50):
        chosen = np.array(Sampler(str(job)).choose(plan, moved), dtype=np.int64)
        assert set(touched(chosen, plan.source.objects, plan.destination.objects).tolist()) <= written
        seen.update(chosen.tolist())
    assert {98, 99} <= seen, "what was written and deleted is compared"
