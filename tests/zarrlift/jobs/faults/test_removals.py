"""What others remove, empty or move in a result is repaired or named; `removals.py` does it more often."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.support.bucket import serving
from tests.zarrlift.jobs.faults.commands import Ended
from tests.zarrlift.jobs.faults.playground import Told
from tests.zarrlift.jobs.faults.removals import CHOSEN, Removals
from tests.zarrlift.jobs.faults.scenarios import BY_ID

pytestmark = [pytest.mark.needs_reader("once"), pytest.mark.needs_reader("system-calls")]

SEEDS = range(3)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Removals]:
    with serving() as bucket:
        made = Removals(tmp_path_factory.mktemp("removals"), bucket)
        yield made
        made.close()


@pytest.mark.slow(one_in=25)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("id", [scenario.id for scenario in CHOSEN])
def test_what_lacks_objects_is_repaired_or_named(id: str, seed: int, place: Removals) -> None:
    told = place.game(BY_ID[id], random.Random(f"{seed} {id}"))
    assert not told.wrong, told


def test_what_is_wrong_is_found(place: Removals) -> None:
    whole = {
        "out.zarr/temperature/zarr.json": b'{"node_type": "array"}',
        "out.zarr/temperature/c/0": b"A",
        "out.zarr/zarr.json": b'{"node_type": "group"}',
    }
    place.stage.clear()
    result = place.home / "results/out.zarr"
    (result / "temperature").mkdir(parents=True)
    for name in ("zarr.json", "temperature/zarr.json"):
        (result / name).write_bytes(whole[f"out.zarr/{name}"])
    copy = BY_ID["copy"]
    outside = place._outside(copy)

    def wrong(code: int, text: str) -> list[str]:
        told = Told(copy.id)
        place._judge(copy, whole, Ended(words=("resume",), code=code, out=text, err=""), told, outside)
        return told.wrong

    assert wrong(0, "done: /temperature")
    assert wrong(1, "something failed")
    assert not wrong(1, "failed: /temperature")
    (place.home / "elsewhere").mkdir()
    assert wrong(1, "failed: /temperature")
