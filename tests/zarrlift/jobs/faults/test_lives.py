"""Lives of jobs: what each visible array shows is one version of its source, and nothing of others is lost.

`lives.py` draws as many as are wanted, and prints each that goes wrong as the text that is used here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.zarrlift.jobs.faults.judging import Expected, judged
from tests.zarrlift.jobs.faults.life import LIVES, Life, Step, drawn, parsed
from tests.zarrlift.jobs.faults.living_archive import Archive, Version
from tests.zarrlift.jobs.faults.site import Site
from tests.zarrlift.jobs.faults.stage import Stage

pytestmark = pytest.mark.needs_reader("once")
shimmed = pytest.mark.needs_reader("system-calls")

ONCE_WRONG = {
    "an update of a longer array is killed, then undone": (
        "recoded; 0 migrate ~82703; 0 grow ~24066; 0 update ~12915 @change 95; 0 undo ~98406"
    ),
    "an update of a shorter array in shards is killed": (
        "N5 in shards; 0 migrate ~9420; 0 shrink ~73453; 0 update ~59157 @change 82"
    ),
    "an update of a shorter array is killed": (
        "hard links; 0 migrate ~54439; 0 shrink ~23811; 0 update ~78671 @call 560"
    ),
    "a user sets an attribute, then undo": "copy; 0 migrate ~1; 0 touch-attribute ~94727; 0 undo ~1",
    "the source rewrites a linked chunk in place": (
        "hard links to files that are rewritten; 0 migrate ~3589; 0 damage ~79282; 0 undo ~68932"
    ),
    "only the job file is copied": (
        "in place; 0 migrate ~30813; 0 rewrite ~17266; 0 copy-job ~61022; 1 update --delete ~78419"
    ),
    "a copy of the job file takes its place": (
        "copy; 0 migrate ~1; 0 copy-job ~2; 0 grow ~5; 0 update ~4 @change 50; 1 adopt ~6; 1 update ~6;"
        " 1 undo ~7"
    ),
    "the folder is copied while the job is interrupted": (
        "in place; 0 migrate ~80917; 0 copy-folder ~57117; 0 update ~79509 @call 438; 1 resume ~4038"
    ),
    "a user writes to a block that an update makes again": (
        "rechunked; 0 migrate ~79500; 0 write ~19831; 0 grow ~20799; 0 update ~36152"
    ),
    "a user writes a chunk before an update of others, then undo": (
        "copy; 0 migrate ~1; 0 write ~26608; 0 grow ~27401; 0 update ~1; 0 undo ~1"
    ),
    "an array becomes smaller before a resume": (
        "copy; 0 migrate ~1 @change 244; 0 shrink ~39625; 0 resume ~1; 0 undo ~1"
    ),
    "a document is written and not recorded, then its array grows": (
        "in place; 0 migrate ~1 @change 165; 0 grow ~2; 0 resume ~1; 0 resume ~2; 0 undo ~1"
    ),
    "a user changes a document that is written and not recorded": (
        "auto shards; 0 migrate ~41452 @call 756; 1 update ~28986 @call 379; 0 touch-attribute ~30061;"
        " 0 update ~7900 @change 95"
    ),
    "a user changes a document that is not recorded, then its array becomes smaller": (
        "copy of files that are rewritten; 0 migrate ~44465 @change 266; 2 touch-attribute ~17561;"
        " 1 shrink ~11333; 1 update ~98247"
    ),
    "an array becomes shorter, then longer without values, while updates are killed": (
        "recoded; 0 migrate ~1; 0 shrink ~5; 0 update ~3 @change 75; 0 stretch ~5; 0 update ~5"
    ),
    "a copy of the job file is undone": "copy; 0 migrate ~3721; 0 copy-job ~22309; 1 undo ~8 @change 20",
    "an array becomes smaller before a resume, and larger again": (
        "copy; 0 migrate ~28689 @change 220; 0 shrink ~39625; 0 resume ~1; 0 grow ~9; 0 update ~1"
    ),
    "a killed update has written beyond the shape of the next one": (
        "N5; 2 migrate ~72514; 1 verify ~94099; 0 grow ~56241; 1 update --delete ~21105 @change 88;"
        " 0 damage ~72648; 0 resume ~70326; 0 rewrite ~16344; 1 adopt ~17330; 1 damage ~22662;"
        " 1 update --force ~36653 @change 113; 0 rewrite ~95559; 0 shrink ~4017; 1 add ~82789;"
        " 2 finish ~98693 @call 152; 0 add-array ~22052; 0 update ~23107 @change 146"
    ),
    "only the job file is copied, and goes on beside it": (
        "hard links; 2 migrate ~84309 @call 702; 0 rewrite ~87058; 0 copy-job ~87471; 1 resume ~30538;"
        " 0 adopt ~74505; 1 update ~35100 @change 36"
    ),
}
"""Lives that found faults."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("lives"))
    yield made
    made.close()


@shimmed
@pytest.mark.parametrize("what", ONCE_WRONG)
@pytest.mark.slow(one_in=5)
def test_what_was_once_wrong_is_right(what: str, stage: Stage) -> None:
    told = Life(stage, *parsed(ONCE_WRONG[what])).run()
    assert not told.wrong, told


@shimmed
@pytest.mark.slow(one_in=7)
@pytest.mark.parametrize("variant", LIVES)
def test_a_life_with_changes_and_kills_ends_with_nothing_left(variant: str, stage: Stage) -> None:
    begin = "0 migrate ~1 @change 150; 0 migrate ~2"
    source = "0 rewrite ~2; 0 grow ~3; 0 add ~4"
    end = "0 update ~5 @change 60; 0 update ~6; 0 undo ~7"
    told = Life(stage, *parsed(f"{variant}; {begin}; {source}; {end}")).run()
    assert told.counts["kills"] == 2
    assert not told.wrong, told


@shimmed
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_other_lives_too(seed: int, stage: Stage) -> None:
    told = Life(stage, *drawn(random.Random(seed), "")).run()
    assert not told.wrong, told


FAILING = {
    "copy": "seed=3 share=42949672 stats=1",
    "two passes": "seed=8 share=8589934",
    "N5 in shards": "seed=5 share=42949672 stats=1",
    "auto shards": "seed=4 full_from=500",
    "in place": "seed=2 full_from=300",
    "hard links": "seed=3 share=85899345",
}
"""Calls that fail, as fields of the control block (`system_calls.c`)."""


@shimmed
@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("variant", FAILING)
def test_a_command_with_calls_that_fail_says_so_or_does_right(variant: str, stage: Stage) -> None:
    fail = f"@fail {FAILING[variant]}"
    steps = f"0 migrate ~1 {fail}; 0 resume ~2; 0 grow ~3; 0 update ~4 {fail}"
    told = Life(stage, *parsed(f"{variant}; {steps}")).run()
    assert told.counts["failed calls"]
    assert not told.wrong, told


OF_USERS = {
    "parts are removed": (
        "0 lose ~{0}; 0 resume ~1; 0 lose ~{1}; 0 grow ~2; 0 update ~3 @change 40; 0 lose ~{2}; 0 resume ~4"
    ),
    "directories become links": (
        "0 link ~{0}; 0 grow ~2; 0 update ~3; 0 unlink ~1; 0 link ~{1}; 0 resume ~2; 0 undo ~3"
    ),
}


@shimmed
@pytest.mark.slow(one_in=11)
@pytest.mark.parametrize("variant", [name for name, variant in LIVES.items() if not variant.in_place])
@pytest.mark.parametrize("what", OF_USERS)
def test_what_users_take_away_is_repaired_or_named(what: str, variant: str, stage: Stage) -> None:
    rng = random.Random(f"{what} {variant}")
    steps = OF_USERS[what].format(*(rng.randrange(1000) for _ in range(3)))
    told = Life(stage, *parsed(f"{variant}; 0 migrate ~1; {steps}")).run()
    assert not told.wrong, told


# The judge


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An archive of which every array is in the result, by zarr-python."""
    archive = Archive(tmp_path / "s.zarr", "zarr2", random.Random(1))
    result = tmp_path / "r.zarr"
    made = Site(archive=archive, result=result, job=tmp_path / "r.zarr.zarrlift.db", in_place=False)
    made.job.write_bytes(b"")
    for name, version in archive.now.items():
        made.expect(name).only(version)
        write(result / name, version, archive.arrays[name].chunks)
    return made


def write(folder: Path, version: Version, chunks: tuple[int, ...]) -> None:
    """A version as an array of a result."""
    values = version.values
    array = zarr.create_array(
        folder, shape=values.shape, chunks=chunks, dtype=values.dtype, attributes={"mark": version.mark}
    )
    array[...] = values


def test_the_archive_is_what_a_reader_sees(tmp_path: Path) -> None:
    rng = random.Random(3)
    archive = Archive(tmp_path / "s.zarr", "zarr2", rng)
    for _ in range(5):
        archive.rewrite("a", rng)
        rows, columns = archive.arrays["a"].shape
        archive.resize("a", (rows + rng.choice((-5, 7)), columns), rng, longer=True)
        found = zarr.open_array(archive.root / "a", mode="r", zarr_format=2)[...]
        np.testing.assert_array_equal(found, archive.now["a"].values)


def test_a_right_result_is_right(site: Site) -> None:
    assert not site.wrong_arrays()
    assert site.visible == {"a", "g/b"}


def test_a_missing_object_is_found(site: Site) -> None:
    (site.result / "a" / "c" / "0" / "0").unlink()
    assert site.wrong_arrays()


def test_objects_of_two_versions_are_found_unless_an_update_replaces_them(site: Site) -> None:
    old = site.archive.now["a"]
    new = Version(9, old.mark, old.values + 1, ())
    zarr.open_array(site.result / "a", mode="r+")[:6, :5] = new.values[:6, :5]
    assert judged(site.result / "a", Expected([old, new]))
    assert judged(site.result / "a", Expected([old, new], mixed=True)) is None


def test_an_array_that_a_shorter_version_covers_in_part_is_of_neither(site: Site) -> None:
    old = site.archive.now["a"]
    shorter = Version(9, 9, old.values[:20] + 1, ())
    mixed = old.values.copy()
    mixed[18:20] = shorter.values[18:20]
    zarr.open_array(site.result / "a", mode="r+")[...] = mixed
    assert judged(site.result / "a", Expected([old, shorter], mixed=True))


def test_what_a_user_has_written_stays_where_an_array_grows_around_it(site: Site) -> None:
    old = site.archive.now["a"]
    assert old.values.shape == (24, 20)
    array = zarr.open_array(site.result / "a", mode="r+")
    array[18:24, :5] = written = np.full((6, 5), 7, old.values.dtype)
    grown = np.concatenate([old.values, np.zeros((2, 20), old.values.dtype)])
    array.resize(grown.shape)
    version = Version(9, old.mark, grown, ())
    assert judged(site.result / "a", Expected([version]))
    assert judged(site.result / "a", Expected([version], overlays={(3, 0): written})) is None
    grown[23, 0] += 1
    array[22, 7] += 1
    assert judged(site.result / "a", Expected([version], overlays={(3, 0): written}))


def test_attributes_of_another_version_are_found(site: Site) -> None:
    document = site.result / "a" / "zarr.json"
    content = json.loads(document.read_bytes())
    content["attributes"]["mark"] = 77
    document.write_text(json.dumps(content))
    assert site.wrong_arrays()


def test_what_undo_leaves_is_found(site: Site) -> None:
    (left,) = site.left_after_undo()
    assert "files" in left
    for name in ("a", "g/b"):
        for path in sorted((site.result / name).rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    (site.result / "g" / "theirs.txt").write_text("notes")
    site.others[site.result / "g" / "theirs.txt"] = b"notes"
    assert not site.left_after_undo()
    assert not site.missing_others()
    (site.result / "g" / "theirs.txt").unlink()
    assert site.missing_others()


def test_steps_are_text() -> None:
    variant, steps = drawn(random.Random(5), "")
    assert parsed("; ".join((variant, *map(str, steps)))) == (variant, steps)
    assert Step.parse("1 update --force ~7 @change 40") == Step(1, ("update", "--force"), 7, "change 40")
