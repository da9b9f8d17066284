"""Games of batches and of jobs in parts: as `test_lives.py` for one job.

`games.py` draws as many games as are wanted, and prints each that goes wrong as the text that is used here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.zarrlift.jobs.faults.batch_game import BATCHES
from tests.zarrlift.jobs.faults.games import drawn, played
from tests.zarrlift.jobs.faults.life_steps import PARTS, parsed
from tests.zarrlift.jobs.faults.stage import Stage

pytestmark = [pytest.mark.needs_reader("once"), pytest.mark.needs_reader("system-calls")]

ONCE_WRONG = {
    "a copy of the job file of parts is undone": (
        "parts; 0 migrate ~3721; 0 copy-job ~22309; 1 undo ~8 @change 20"
    ),
    "the result of parts is moved with its job, then undone": (
        "parts; 0 migrate ~1; 0 part ~1; 0 move-result ~1; 0 undo ~1"
    ),
    "the folder of a batch is copied, and the copy undone": "batch; 0 run ~1; 0 copy ~1; 1 undo ~2",
    "the folder of a batch in place is copied, and the copy finished": (
        "batch in place; 0 run ~1; 0 verify --full ~1; 0 copy ~1; 1 finish --yes ~2"
    ),
    "an array of parts becomes smaller, and larger again": (
        "parts; 0 migrate ~28689; 0 part ~1; 0 part ~92411; 0 part ~308; 0 shrink ~39625; 0 gather ~1;"
        " 0 resume ~1; 0 grow ~9; 0 update ~1"
    ),
    "an undo of a batch is killed before it gives an archive back": (
        "batch in place; 0 run ~1; 0 undo ~1 @change 34"
    ),
}
"""Games that found faults."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("games"))
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("what", ONCE_WRONG)
def test_what_was_once_wrong_is_right(what: str, stage: Stage) -> None:
    told = played(stage, *parsed(ONCE_WRONG[what]))
    assert not told.wrong, told


@pytest.mark.slow
@pytest.mark.parametrize("variant", BATCHES)
def test_a_batch_with_changes_and_kills_ends_with_nothing_left(variant: str, stage: Stage) -> None:
    begin = "0 run ~1 @change 200; 0 resume ~1"
    source = "0 rewrite ~2; 0 grow ~3; 0 add ~4"
    told = played(
        stage, *parsed(f"{variant}; {begin}; {source}; 0 update ~5; 0 update ~6; 0 undo ~7 @change 40")
    )
    assert told.counts["kills"]
    assert not told.wrong, told


@pytest.mark.slow
@pytest.mark.parametrize("variant", PARTS)
def test_a_job_in_parts_with_changes_and_kills_ends_with_nothing_left(variant: str, stage: Stage) -> None:
    parts = "0 part ~1 @change 30; 0 part ~1; 0 part ~2; 0 part ~3; 0 part ~4"
    told = played(
        stage, *parsed(f"{variant}; 0 migrate ~1; {parts}; 0 rewrite ~2; 0 gather ~1; 0 undo ~7 @change 20")
    )
    assert told.counts["kills"]
    assert not told.wrong, told


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(15))
def test_other_games_too(seed: int, stage: Stage) -> None:
    told = played(stage, *drawn(random.Random(seed), ""))
    assert not told.wrong, told
