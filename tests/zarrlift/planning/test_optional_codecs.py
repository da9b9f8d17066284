"""Archives with codecs of optional packages: zfpy, pcodec and those of imagecodecs, TIFF files among them."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.optional_archives import optional, seen, seen_by_zarr2, tiff, values_of

import zarrlift
from zarrlift.core.codecs import optional as optional_module
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrstack.core.errors import UsageError

SOURCE = "codecs.zarr"
JPEGXR = "images/jpegxr_u2"
KEPT = ("zfpy/", "pcodec/")
BESIDE = {"pcodec/delta_before", "pcodec/time"}
"""Arrays whose codec zarr-python 3 does not read as stored: behind a filter, and of times."""


def recorded(*prefixes: str) -> dict[str, object]:
    """What zarr-python 2.18 reads of some arrays."""
    values = values_of(seen_by_zarr2()[SOURCE])
    return {path: array for path, array in values.items() if path.startswith(prefixes or ("",))}


def recipe(*include: str, **options: object) -> Recipe:
    return Recipe(base=ArrayRecipe(**options), include=include)


def test_a_copy_has_the_values_that_zarr_2_reads(tmp_path: Path) -> None:
    refusals = zarrlift.plan(optional() / SOURCE).refusals
    assert [refusal.path for refusal in refusals] == [JPEGXR]
    assert "'imagecodecs_jpegxr' of imagecodecs is not supported" in str(refusals[0].problems[-1])
    zarrlift.migrate(optional() / SOURCE, tmp_path / "new.zarr", verify="full")
    assert seen(tmp_path / "new.zarr") == {
        path: array for path, array in recorded().items() if path != JPEGXR
    }
    root = zarr.open_group(tmp_path / "new.zarr", mode="r")
    names = {codec["name"] for _, node in root.members(max_depth=None) if isinstance(node, zarr.Array)
             for codec in node.metadata.to_dict()["codecs"]}  # fmt: skip
    assert names <= {"bytes", "transpose", "blosc", "gzip", "zstd"}


def test_kept_codecs_are_read_by_zarr_python_with_their_packages(tmp_path: Path) -> None:
    wish = recipe(*(f"{prefix}*" for prefix in KEPT), codecs="keep")
    plan = zarrlift.plan(optional() / SOURCE, recipe=wish)
    assert {refusal.path for refusal in plan.refusals} == BESIDE
    told = [str(problem) for problem in plan.all_problems() if problem.kind == "readers"]
    assert any("only zarr-python reads the result, with the package zfpy" in text for text in told)
    assert any("only zarr-python reads the result, with the package pcodec" in text for text in told)
    zarrlift.migrate(optional() / SOURCE, tmp_path / "new.zarr", recipe=wish, verify="full")
    expected = {path: array for path, array in recorded(*KEPT).items() if path not in BESIDE}
    assert seen(tmp_path / "new.zarr") == expected


@pytest.mark.parametrize("options", [{"shards": "2x"}, {"separator": "."}])
def test_kept_payloads_move_into_shards(tmp_path: Path, options: dict[str, object]) -> None:
    place = tmp_path / "new.zarr"
    assert zarrlift.migrate(
        optional() / SOURCE / "zfpy/f4_rate", place, recipe=recipe(codecs="keep", **options), verify="full"
    ).ok
    found = zarr.open_array(place, mode="r")[...]
    assert found.tobytes().hex() == recorded()["zfpy/f4_rate"]["values"]


@pytest.mark.parametrize("path", ["zfpy/f8_accuracy", "pcodec/i2"])
def test_in_place_only_metadata_is_added(tmp_path: Path, path: str) -> None:
    shutil.copytree(optional() / SOURCE / path, tmp_path / "old.zarr")
    assert zarrlift.migrate(tmp_path / "old.zarr", in_place=True).ok
    found = zarr.open_array(tmp_path / "old.zarr", mode="r", zarr_format=3)[...]
    assert found.tobytes().hex() == recorded()[path]["values"]


def test_a_result_with_kept_codecs_can_be_migrated_on(tmp_path: Path) -> None:
    kept, plain = tmp_path / "kept.zarr", tmp_path / "plain.zarr"
    assert zarrlift.migrate(optional() / SOURCE / "zfpy/axes2", kept, recipe=recipe(codecs="keep")).ok
    outcome = zarrlift.migrate(kept, plain, recipe=recipe(codecs="zstd:3"), verify="full")
    assert outcome.ok, outcome.problems
    assert np.array_equal(zarr.open_array(plain, mode="r")[...], zarr.open_array(kept, mode="r")[...])


@pytest.mark.parametrize(
    "options",
    [
        {"codecs": "keep", "chunks": "4,4,4"},
        {"codecs": [{"name": "numcodecs.zfpy", "configuration": {"mode": 4}}]},
        {"codecs": "imagecodecs_png"},
    ],
)
def test_no_chunk_is_encoded_by_such_a_codec(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        zarrlift.plan(optional() / SOURCE / "zfpy/f4_rate", recipe=recipe(**options))


@pytest.mark.parametrize(
    ("package", "source", "group", "unsupported"),
    [
        ("zfpy", optional() / SOURCE, "zfpy/", {JPEGXR}),
        ("pcodec", optional() / SOURCE, "pcodec/", {JPEGXR}),
        ("imagecodecs", optional() / SOURCE, "images/", {JPEGXR}),
        ("imagecodecs", tiff() / SOURCE, "", set()),
    ],
    ids=["zfpy", "pcodec", "imagecodecs", "imagecodecs, TIFF files"],
)
def test_without_a_package_its_arrays_are_refused_by_its_name(
    package: str, source: Path, group: str, unsupported: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        optional_module, "find_spec", lambda wanted: None if wanted == package else find(wanted)
    )
    refusals = zarrlift.plan(source).refusals
    arrays = recorded() if unsupported else recorded_tiff(SOURCE)
    assert {refusal.path for refusal in refusals} == {p for p in arrays if p.startswith(group)} | unsupported
    for refusal in refusals:
        if refusal.path not in unsupported:
            assert f"Install it: pip install {package} (the extra codecs)" in str(refusal.problems[-1])


def test_a_chunk_that_is_cut_short_is_named(tmp_path: Path) -> None:
    for path, chunk in (("zfpy/f4_accuracy", "0.0.0"), ("pcodec/f8", "1.1"), ("images/jpeg2k_u2", "1.0")):
        source = tmp_path / path
        shutil.copytree(optional() / SOURCE / path, source)
        (source / chunk).write_bytes((source / chunk).read_bytes()[:-16])
        outcome = zarrlift.migrate(source, tmp_path / "new" / path)
        assert not outcome.ok
        assert any(problem.key == chunk for problem in outcome.problems), outcome.problems


# Arrays of Zarr v2 whose chunks are TIFF files, as imagecodecs and tifffile write them.


def recorded_tiff(archive: str) -> dict[str, object]:
    """What zarr-python 2.18 reads of an archive."""
    return values_of(seen_by_zarr2(tiff)[archive])


def test_a_copy_of_tiff_files_has_the_values_that_zarr_2_reads(tmp_path: Path) -> None:
    outcome = zarrlift.migrate(tiff() / SOURCE, tmp_path / "new.zarr", verify="full")
    assert outcome.ok, outcome.problems
    assert seen(tmp_path / "new.zarr") == recorded_tiff(SOURCE)


@pytest.mark.slow
def test_a_view_shows_the_same_values() -> None:
    for path, expected in recorded_tiff(SOURCE).items():
        values = zarrlift.open_array(tiff() / SOURCE, path=path)[...]
        assert values.astype(values.dtype.newbyteorder("<")).tobytes().hex() == expected["values"], path


def test_files_that_tifffile_refers_to_are_chunks(tmp_path: Path) -> None:
    folder = shutil.copytree(tiff() / "sequence", tmp_path / "sequence")
    options = {"storage_options": {"allow_references": [str(folder)]}}
    outcome = zarrlift.migrate(folder / "references.json", tmp_path / "new.zarr", verify="full", **options)
    assert outcome.ok, outcome.problems
    found = zarr.open_array(tmp_path / "new.zarr", mode="r")
    assert found.metadata.to_dict()["codecs"][-1]["name"] in ("blosc", "zstd", "gzip")
    assert found[...].astype("<u2").tobytes().hex() == recorded_tiff("sequence")[""]["values"]


def test_chunks_are_neither_kept_nor_left_in_place(tmp_path: Path) -> None:
    source = shutil.copytree(tiff() / SOURCE, tmp_path / "old.zarr")
    arrays = set(recorded_tiff(SOURCE))
    keep = Recipe(base=ArrayRecipe(codecs="keep"))
    assert {refusal.path for refusal in zarrlift.plan(source, recipe=keep).refusals} == arrays
    assert {refusal.path for refusal in zarrlift.plan(source, in_place=True).refusals} == arrays


def test_a_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    source = shutil.copytree(tiff() / SOURCE / "tiles", tmp_path / "old.zarr")
    whole = (source / "1.0").read_bytes()
    (source / "1.0").write_bytes(whole[: len(whole) // 2])
    outcome = zarrlift.migrate(source, tmp_path / "new.zarr")
    assert not outcome.ok
    assert [problem.key for problem in outcome.problems if problem.severity == "refusal"] == ["1.0"]
