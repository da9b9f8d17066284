"""Nothing is written through links in place of directories; `links.py` tries it more often."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.support.bucket import serving
from tests.zarrlift.jobs.faults.links import CHOSEN, OTHERS, Links
from tests.zarrlift.jobs.faults.scenarios import BY_ID

pytestmark = [pytest.mark.needs_reader("once"), pytest.mark.needs_reader("system-calls")]

SEEDS = range(3)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Links]:
    with serving() as bucket:
        made = Links(tmp_path_factory.mktemp("links"), bucket)
        yield made
        made.close()


@pytest.mark.slow(one_in=25)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("id", [scenario.id for scenario in CHOSEN])
def test_nothing_is_written_through_links(id: str, seed: int, place: Links) -> None:
    told = place.game(BY_ID[id], random.Random(f"{seed} {id}"))
    assert not told.wrong, told


def test_what_is_written_through_a_link_is_found(place: Links) -> None:
    copy = BY_ID["copy"]
    place.calm(copy)
    place._ready(copy)
    before = place._outside(copy)
    assert not place._changed_outside(copy, before)
    written = f"{OTHERS}/out.zarr/zarr.json"
    (place.home / written).write_bytes(b"{}")
    assert place._changed_outside(copy, before) == [f"changed outside: {written}"]
