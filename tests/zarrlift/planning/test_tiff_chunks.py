"""Arrays of Zarr v2 whose chunks are TIFF files, as imagecodecs and tifffile write them."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest
import zarr
from tests.support.optional_archives import seen, tiff, tiff_seen_by_zarr2, values_of

import zarrlift
from zarrlift.core.codecs import optional as optional_module
from zarrlift.recipe.recipe import ArrayRecipe, Recipe


def recorded(archive: str) -> dict[str, object]:
    """What zarr-python 2.18 reads of an archive."""
    return values_of(tiff_seen_by_zarr2()[archive])


def test_a_copy_has_the_values_that_zarr_2_reads(tmp_path: Path) -> None:
    outcome = zarrlift.migrate(tiff() / "codecs.zarr", tmp_path / "new.zarr", verify="full")
    assert outcome.ok, outcome.problems
    assert seen(tmp_path / "new.zarr") == recorded("codecs.zarr")


@pytest.mark.slow
def test_a_view_shows_the_same_values() -> None:
    for path, expected in recorded("codecs.zarr").items():
        values = zarrlift.open_array(tiff() / "codecs.zarr", path=path)[...]
        assert values.astype(values.dtype.newbyteorder("<")).tobytes().hex() == expected["values"], path


def test_files_that_tifffile_refers_to_are_chunks(tmp_path: Path) -> None:
    folder = shutil.copytree(tiff() / "sequence", tmp_path / "sequence")
    options = {"storage_options": {"allow_references": [str(folder)]}}
    outcome = zarrlift.migrate(folder / "references.json", tmp_path / "new.zarr", verify="full", **options)
    assert outcome.ok, outcome.problems
    found = zarr.open_array(tmp_path / "new.zarr", mode="r")
    assert found.metadata.to_dict()["codecs"][-1]["name"] in ("blosc", "zstd", "gzip")
    assert found[...].astype("<u2").tobytes().hex() == recorded("sequence")[""]["values"]


def test_chunks_are_neither_kept_nor_left_in_place(tmp_path: Path) -> None:
    source = shutil.copytree(tiff() / "codecs.zarr", tmp_path / "old.zarr")
    arrays = set(recorded("codecs.zarr"))
    keep = Recipe(base=ArrayRecipe(codecs="keep"))
    assert {refusal.path for refusal in zarrlift.plan(source, recipe=keep).refusals} == arrays
    assert {refusal.path for refusal in zarrlift.plan(source, in_place=True).refusals} == arrays


def test_without_imagecodecs_the_arrays_are_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        optional_module, "find_spec", lambda wanted: None if wanted == "imagecodecs" else find(wanted)
    )
    refusals = zarrlift.plan(tiff() / "codecs.zarr").refusals
    assert {refusal.path for refusal in refusals} == set(recorded("codecs.zarr"))
    for refusal in refusals:
        assert "Install it: pip install imagecodecs (the extra codecs)" in str(refusal.problems[-1])


def test_a_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    source = shutil.copytree(tiff() / "codecs.zarr" / "tiles", tmp_path / "old.zarr")
    whole = (source / "1.0").read_bytes()
    (source / "1.0").write_bytes(whole[: len(whole) // 2])
    outcome = zarrlift.migrate(source, tmp_path / "new.zarr")
    assert not outcome.ok
    assert [problem.key for problem in outcome.problems if problem.severity == "refusal"] == ["1.0"]
