"""N5 archives where they lie: `zarr.json` names the registered codec `n5_default`, and no block is touched.

zarr-python reads the result with the package zarr-n5, whose decoder is none of ours (`test_fixtures.py` does
so for every fixture). Block headers are looked at, since zarr-n5 looks at no mode.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.end_to_end.test_fixtures import assert_seen
from tests.support.damaged_archives import copied, migrate, run
from tests.support.fixtures_index import archive, bad_cases
from tests.support.job_archives import tree
from tests.support.readers import by_zarr_python

import zarrlift
from zarrlift.planning import n5_checks
from zarrstack.core.errors import UsageError


def test_in_place_documents_name_the_codec_and_the_blocks_stay_readable_after_finish(tmp_path: Path) -> None:
    expected = archive("n5/java-3.5.1/types")
    place = copied(expected.path, tmp_path / "types")
    assert zarrlift.migrate(place, in_place=True).ok
    assert zarrlift.verify(place, full=True).ok
    zarrlift.finish(place)
    assert not [name for name in tree(place) if name.endswith("attributes.json")]
    for array in expected.arrays.values():
        document = json.loads((place / array.path / "zarr.json").read_text())
        assert document["chunk_key_encoding"] == {"name": "v2", "configuration": {"separator": "/"}}
        (codec,) = document["codecs"]
        assert codec["name"] == "n5_default"
        transpose, packing = codec["configuration"]["codecs"][:2]
        assert transpose["configuration"]["order"] == list(reversed(range(len(array.shape))))
        assert packing == {"name": "bytes", "configuration": {"endian": "big"}}
        assert_seen(array, by_zarr_python(place, array.path), exactly=True, axes="kept")


def test_the_plan_says_what_the_reader_needs(tmp_path: Path) -> None:
    place = copied(archive("n5/java-3.5.1/types").path, tmp_path / "types")
    ran = run("migrate", "--dry-run", place, "--in-place")
    assert ran.code == 0
    assert "n5_default" in ran.out
    assert "pip install zarr-n5" in " ".join(ran.out.split())


def test_without_the_codec_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = copied(archive("n5/java-3.5.1/types").path, tmp_path / "types")
    monkeypatch.setattr(n5_checks, "CODEC", "a_codec_that_nobody_has")
    with pytest.raises(UsageError, match="is not installed"):
        zarrlift.migrate(place, in_place=True)
    assert not list(place.rglob("zarr.json"))


def test_blocks_whose_compression_the_codec_lacks_do_not_stay_in_place(tmp_path: Path) -> None:
    place = copied(archive("n5/java-3.5.1/compressions").path, tmp_path / "source.n5")
    compressions = set()
    for refusal in zarrlift.plan(place, in_place=True).refusals:
        if "does not support this compression" in refusal.problems[0].message:
            compression = json.loads((place / refusal.path / "attributes.json").read_text())["compression"]
            compressions.add((compression["type"], compression.get("useZlib")))
    assert compressions == {("bzip2", None), ("lz4", None), ("xz", None), ("gzip", True)}


BLOCKS = [case for case in bad_cases("n5") if case.name.startswith("block_")]


@pytest.mark.slow(one_in=17)
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


def test_a_dataset_inside_another_migrates_by_its_own_path(tmp_path) -> None:
    inner = archive("n5/java-3.5.1/tree")["parent/child"]
    assert zarrlift.migrate(inner.archive.path / "parent/child", tmp_path / "out").ok
    assert_seen(inner, by_zarr_python(tmp_path / "out", ""), exactly=True)
