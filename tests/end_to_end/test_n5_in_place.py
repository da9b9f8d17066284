"""N5 archives where they lie: `zarr.json` names the registered codec `n5_default`, and no block is touched.

zarr-python reads the result with the package zarr-n5, whose decoder is none of ours. What the codec
has no name for is refused by name; block headers are looked at, since zarr-n5 looks at no mode.
"""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from tests.end_to_end.test_fixtures import (
    LIMITS,
    REFUSED,
    UNREADABLE,
    assert_seen,
    listed,
    may_be_refused,
    refused,
)
from tests.support.chances import try_each
from tests.support.damaged_archives import copied, migrate, run, tree
from tests.support.fixtures_index import ExpectedArchive, ExpectedArray, archive, archives, bad_cases
from tests.support.readers import OF_ALL_FEATURES, READERS, CannotRead, by_zarr_python, parametrize_readers

import zarrlift
from zarrlift.planning import n5_checks
from zarrlift.planning.plans import Plan
from zarrstack.core.errors import UsageError

NO_NAME = "n5_default does not support this compression"
KEPT_BACK: tuple[tuple[str, str], ...] = (
    (r"[/:](bzip2|bz2)\w*$", f"{NO_NAME}: .* found bzip2"),
    (r"[/:](xz|lzma)\w*$", f"{NO_NAME}: .* found xz"),
    (r"[/:]lz4\w*$", f"{NO_NAME}: .* found lz4"),
    (r"[/:]zlib\w*(-1)?$", f"{NO_NAME}: .* found gzip with useZlib"),
    (r"[/:]blosc_snappy", "cname is 'snappy'"),
    (r"[/:]bool$", "do not support this data type"),
    (r"edges:too_large$", "larger than its dataset's block size"),
    (r"tree:parent/child$", "is inside an array"),
    (r"modes:(object|string)/", "are not supported: their blocks have variable length"),
    (r"[/:]varlength", r"variable length \(mode 1\)"),
    (r"multiscale:paintera/labels", "label multisets"),
    (r"java-4\.0\.2/shards:(?!plain$)", "shards are stored in the place of N5 blocks"),
)
"""Arrays (by a pattern in their id) that cannot stay in place, and what is said of them."""


@cache
def _in_place(root: Path, name: str) -> tuple[Path, zarrlift.Outcome]:
    place = root / name.replace("/", "_")
    shutil.copytree(archive(name).path, place)
    return place, zarrlift.migrate(place, in_place=True)


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("n5_in_place")
    return lambda name: _in_place(root, name)


@pytest.mark.slow(one_in=20)
@pytest.mark.parametrize("one", [one for one in archives("n5") if one.arrays], ids=str)
def test_arrays_in_place_read_as_their_writer_read_them(one: ExpectedArchive, results) -> None:
    place, outcome = results(one.name)

    def check(array: ExpectedArray) -> None:
        document = place / array.path / "zarr.json"
        expected = next((words for pattern, words in KEPT_BACK if re.search(pattern, array.id)), None)
        reason = refused(outcome, array.path)
        assert (reason is None) == (expected is None), reason
        if expected is not None:
            assert re.search(expected, reason), reason
            assert not document.exists()
            return
        found = json.loads(document.read_text())
        assert found["chunk_key_encoding"] == {"name": "v2", "configuration": {"separator": "/"}}
        (codec,) = found["codecs"]
        assert codec["name"] == "n5_default"
        transpose, packing = codec["configuration"]["codecs"][:2]
        assert transpose["configuration"]["order"] == list(reversed(range(len(array.shape))))
        assert packing == {"name": "bytes", "configuration": {"endian": "big"}}
        assert_seen(array, by_zarr_python(place, array.path), exactly=True, axes="kept")

    try_each(one.arrays.values(), check)


def test_finish_takes_the_old_documents_away_and_the_blocks_stay_readable(tmp_path: Path) -> None:
    expected = archive("n5/java-3.5.1/types")
    place = copied(expected.path, tmp_path / "types")
    assert zarrlift.migrate(place, in_place=True).ok
    assert zarrlift.verify(place, full=True).ok
    zarrlift.finish(place)
    assert not [name for name in tree(place) if name.endswith("attributes.json")]
    for array in expected.arrays.values():
        assert_seen(array, by_zarr_python(place, array.path), exactly=True, axes="kept")


def test_the_plan_says_what_the_reader_needs(tmp_path: Path) -> None:
    place = copied(archive("n5/java-3.5.1/types").path, tmp_path / "types")
    ran = run("migrate", "--dry-run", place, "--in-place")
    assert ran.code == 0
    assert "n5_default" in ran.out
    assert "pip install zarr-n5" in " ".join(ran.out.split())


def test_axes_cannot_be_reversed_in_place(tmp_path: Path) -> None:
    place = copied(archive("n5/java-3.5.1/types").path, tmp_path / "types")
    before = tree(place)
    ran = migrate(place, "--in-place", "--axes", "reversed")
    assert ran.code == 2
    assert tree(place) == before
    assert migrate(place, "--in-place", "--axes", "kept").code == 0


def test_without_the_codec_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = copied(archive("n5/java-3.5.1/types").path, tmp_path / "types")
    monkeypatch.setattr(n5_checks, "CODEC", "a_codec_that_nobody_has")
    with pytest.raises(UsageError, match="is not installed"):
        zarrlift.migrate(place, in_place=True)
    assert not list(place.rglob("zarr.json"))


def test_a_plan_in_place_is_saved_and_read_without_loss(tmp_path: Path) -> None:
    place = copied(archive("n5/java-3.5.1/edges").path, tmp_path / "edges")
    plan = zarrlift.plan(place, in_place=True)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


BLOCKS = [case for case in bad_cases("n5") if case.name.startswith("block_")]


@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("case", BLOCKS, ids=str)
def test_a_header_that_lies_keeps_its_array_back_in_place_too(case, tmp_path: Path) -> None:
    place = copied(case.path, tmp_path / "source.n5")
    ran = migrate(place, "--in-place")
    assert (place / "good/zarr.json").exists()
    if case.readable and not ran.refusals:
        return
    assert not (place / "bad/zarr.json").exists()
    assert {problem["key"] for problem in ran.refusals} & set(case.keys)
    assert ran.code == 1


# N5 arrays with their axes kept, as Java and tensorstore show them, read by readers that are not ours.
#
# `test_fixtures.py` does so for axes reversed, the default.


@cache
def _migrated(root: Path, name: str) -> tuple[Path, zarrlift.Outcome]:
    destination = root / name.replace("/", "_")
    return destination, zarrlift.migrate(archive(name).path, destination, axes="kept")


@pytest.fixture(scope="session")
def kept_axes(tmp_path_factory):
    root = tmp_path_factory.mktemp("kept_axes")
    return lambda name: _migrated(root, name)


@pytest.mark.parametrize("one", [one for one in archives("n5") if one.arrays], ids=str)
@parametrize_readers(OF_ALL_FEATURES)
@pytest.mark.slow(one_in=30)
def test_with_axes_kept_arrays_read_as_written(one: ExpectedArchive, reader, kept_axes) -> None:
    destination, outcome = kept_axes(one.name)
    read = READERS[reader]

    def check(array: ExpectedArray) -> None:
        document = destination / array.path / "zarr.json"
        if reason := refused(outcome, array.path):
            assert not document.exists()
            words = listed(REFUSED, array)
            assert may_be_refused(array) is not None if words is None else words in reason, reason
            return
        found = json.loads(document.read_text())
        several = len(array.shape) > 1
        assert (found["codecs"][0]["name"] == "transpose") == several
        name = found["data_type"] if isinstance(found["data_type"], str) else found["data_type"]["name"]
        if name in UNREADABLE[reader] or listed(LIMITS[reader], array):
            with pytest.raises((CannotRead, AssertionError)):
                assert_seen(array, read(destination, array.path), exactly=False, axes="kept")
            return
        seen = read(destination, array.path)
        assert_seen(array, seen, exactly=reader == "zarr-python", axes="kept")

    try_each(one.arrays.values(), check)


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("name", ["n5/java-3.5.1/types", "n5/z5py/all", "n5/zarr-2.18/store"])
def test_verification_reads_the_source_in_the_same_axes(name: str, kept_axes) -> None:
    destination, outcome = kept_axes(name)
    report = zarrlift.verify(archive(name).path, destination, full=True)
    kept_back = {p.node for p in outcome.problems if p.severity == "refusal"}
    assert [str(p) for p in report.problems if p.node not in kept_back] == []


def test_a_dataset_inside_another_migrates_by_its_own_path(tmp_path) -> None:
    inner = archive("n5/java-3.5.1/tree")["parent/child"]
    assert zarrlift.migrate(inner.archive.path / "parent/child", tmp_path / "out").ok
    assert_seen(inner, by_zarr_python(tmp_path / "out", ""), exactly=True)
