"""What Zarr v3 has no type or codec for: refused by name, or adapted on request; what some readers refuse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.damaged_archives import read, run, write_archive, write_array
from tests.support.fixtures_index import ExpectedArray, arrays
from tests.support.optional_archives import optional, seen, seen_by_zarr2, tiff, values_of
from tests.support.v2_trees import array, tree

import zarrlift
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrstack.core.errors import UsageError, ZarrstackError


def _holds(dtype: np.dtype) -> bool:
    if dtype.subdtype is not None or dtype.char in "gG":
        return True
    return any(_holds(dtype.fields[name][0]) for name in dtype.names or ())


BEYOND = arrays(lambda array: _holds(array.dtype))


def said(value):
    """A value as the JSON text must say it, written down apart from the code."""
    if isinstance(value, np.ndarray):
        return [said(item) for item in value]
    if isinstance(value, np.void):
        return {name: said(value[name]) for name in value.dtype.names}
    if np.iscomplexobj(value):
        return [said(value.real), said(value.imag)]
    if isinstance(value, np.longdouble) or not np.isfinite(value):
        return str(value)
    return value.item()


def understood(text):
    """Long doubles back from their text, whose digits may be written in several ways."""
    if isinstance(text, list):
        return [understood(item) for item in text]
    if isinstance(text, dict):
        return {name: understood(item) for name, item in text.items()}
    return str(np.longdouble(text)) if isinstance(text, str) else text


def migrated(array: ExpectedArray, place: Path, **options: Any) -> zarrlift.Outcome:
    """A copy of one array of a fixture."""
    recipe = Recipe(base=ArrayRecipe(**options), include=(array.path,))
    return zarrlift.migrate(array.archive.path, place, recipe=recipe)


@pytest.mark.slow(one_in=29)
@pytest.mark.parametrize("array", BEYOND, ids=str)
def test_by_default_it_is_refused_by_name_with_the_way_out(array: ExpectedArray, tmp_path: Path) -> None:
    outcome = migrated(array, tmp_path / "out.zarr")
    (problem,) = (p for p in outcome.problems if p.node == array.path and p.severity == "refusal")
    assert (problem.kind, problem.key) == ("unsupported", f"{array.path}/.zarray")
    assert "--set objects=json" in problem.advice
    assert not (tmp_path / "out.zarr" / array.path / "zarr.json").exists()


@pytest.mark.slow(one_in=29)
@pytest.mark.parametrize("array", BEYOND, ids=str)
def test_on_request_each_value_is_its_json_text(array: ExpectedArray, tmp_path: Path) -> None:
    outcome = migrated(array, tmp_path / "out.zarr", objects="json")
    assert [str(p) for p in outcome.problems if p.node == array.path and p.severity == "refusal"] == []
    texts = read(tmp_path / "out.zarr" / array.path)
    assert texts.shape == array.shape
    mask = np.ones(array.shape, dtype=bool) if array.mask is None else array.mask
    found = [understood(json.loads(text)) for text in texts[mask].tolist()]
    values = array.values[mask]
    assert found == [said(values[index]) for index in range(len(values))]


def warnings_of(source: Path, tmp_path: Path) -> list[str]:
    document = json.loads(run("migrate", "--dry-run", source, tmp_path / "out.zarr", "--json").out)
    return [text for text in json.dumps(document).split('"') if "cannot read the result" in text]


def test_a_dimension_name_used_twice_is_a_warning(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    array = write_array(source / "twice", {}, shape=[2, 2], chunks=[2, 2])
    (array / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["x", "x"]}')
    assert warnings_of(source, tmp_path) == [
        "tensorstore cannot read the result: a dimension name is used twice"
    ]


@pytest.mark.parametrize("place", [".zattrs", "good/.zattrs"])
@pytest.mark.parametrize("attributes", [r'{"a": ["\ud83d"]}', r'{"\uDC00": 1}'], ids=["value", "name"])
def test_half_a_surrogate_pair_is_a_warning(place: str, attributes: str, tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    (source / place).write_text(attributes)
    assert warnings_of(source, tmp_path) == [
        "tensorstore and zarrs cannot read the result: an attribute has text with half of a surrogate pair"
    ]


def test_a_whole_pair_is_none(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    (source / ".zattrs").write_text(r'{"a": "\ud83d\ude00"}')
    assert warnings_of(source, tmp_path) == []


# A fill value of 0 in text: '0' in zarr-python 2.18, no text elsewhere, and rejected by zarr-python 3.


SOURCE = "zero_fill.zarr"


def recorded(prefix: str) -> dict[str, object]:
    """What zarr-python 2.18 reads of the arrays of a group."""
    values = values_of(seen_by_zarr2()[SOURCE])
    return {path: array for path, array in values.items() if path.startswith(prefix)}


def recipe(**options: object) -> Recipe:
    return Recipe(base=ArrayRecipe(**options))


def test_without_missing_chunks_the_values_are_those_of_zarr_2(tmp_path: Path) -> None:
    outcome = zarrlift.migrate(optional() / SOURCE / "whole", tmp_path / "new.zarr")
    assert outcome.ok, outcome.problems
    assert {f"whole/{path}": array for path, array in seen(tmp_path / "new.zarr").items()} == recorded(
        "whole"
    )
    assert zarr.open_array(tmp_path / "new.zarr/U4", mode="r").fill_value == ""
    notes = [str(problem) for problem in zarrlift.plan(optional() / SOURCE / "whole").all_problems()]
    assert sum("zero-for-text" in note for note in notes) == len(recorded("whole"))


def test_with_missing_chunks_it_is_refused_with_both_readings() -> None:
    plan = zarrlift.plan(optional() / SOURCE / "missing")
    assert not plan.arrays
    assert len(plan.refusals) == len(recorded("missing"))
    for refusal in plan.refusals:
        told = str(refusal.problems[-1])
        assert "the fill value 0 of text is ambiguous, and is the value of 2 missing chunks" in told
        assert "the text '0' (zarr-python 2.18), or no text" in told
        assert "--set zero-fill=text or --set zero-fill=empty" in told


def test_text_means_what_zarr_2_shows(tmp_path: Path) -> None:
    source, place = optional() / SOURCE / "missing", tmp_path / "new.zarr"
    assert zarrlift.migrate(source, place, recipe=recipe(zero_fill="text"), verify="full").ok
    assert {f"missing/{path}": array for path, array in seen(place).items()} == recorded("missing")
    assert zarrlift.verify(source, place, full=True).ok
    place.with_name("new.zarr.zarrlift.db").unlink()
    assert zarrlift.verify(source, place, full=True).ok  # without the job, either reading is right
    wrong = zarrlift.verify(source, place, recipe=recipe(zero_fill="empty"), full=True)
    assert not wrong.ok
    assert any("fill value" in str(problem) for problem in wrong.problems)


@pytest.mark.parametrize("options", [{}, {"chunks": "4"}, {"codecs": "keep"}, {"drop_empty": True}])
def test_empty_means_no_text(tmp_path: Path, options: dict[str, object]) -> None:
    source, place = optional() / SOURCE / "missing", tmp_path / "new.zarr"
    outcome = zarrlift.migrate(source, place, recipe=recipe(zero_fill="empty", **options), verify="full")
    assert outcome.ok, outcome.problems
    found = zarr.open_array(place / "U4", mode="r")
    assert found[...].tolist() == ["a", "", "0", "", "", "", ""]
    assert found.fill_value == ""


def test_in_place_it_is_decided_too(tmp_path: Path) -> None:
    place = tmp_path / "old.zarr"
    shutil.copytree(optional() / SOURCE / "missing/U4", place)
    assert zarrlift.migrate(place, in_place=True, recipe=recipe(zero_fill="text")).ok
    assert zarr.open_array(place, mode="r", zarr_format=3)[...].tolist() == ["a", "", "0", "", "0", "0", "0"]


def test_a_view_counts_missing_chunks_too() -> None:
    assert zarrlift.open(optional() / SOURCE)["whole/U4"][-1] == "0"
    with pytest.raises(ZarrstackError, match="is the value of 2 missing chunks"):
        zarrlift.open(optional() / SOURCE)["missing/U4"]
    shown = zarrlift.open(optional() / SOURCE, recipe=recipe(zero_fill="text"))
    assert shown["missing/U4"][-1] == "0"


# Archives with codecs of optional packages: zfpy, pcodec and those of imagecodecs, TIFF files among them.

CODECS = "codecs.zarr"
JPEGXR = "images/jpegxr_u2"
KEPT = ("zfpy/", "pcodec/")
BESIDE = {"pcodec/delta_before", "pcodec/time"}
"""Arrays whose codec zarr-python 3 does not read as stored: behind a filter, and of times."""


def recorded_of(*prefixes: str) -> dict[str, object]:
    """What zarr-python 2.18 reads of some arrays."""
    values = values_of(seen_by_zarr2()[CODECS])
    return {path: array for path, array in values.items() if path.startswith(prefixes or ("",))}


def recipe_of(*include: str, **options: object) -> Recipe:
    return Recipe(base=ArrayRecipe(**options), include=include)


@pytest.mark.slow
def test_a_copy_has_the_values_that_zarr_2_reads(tmp_path: Path) -> None:
    refusals = zarrlift.plan(optional() / CODECS).refusals
    assert [refusal.path for refusal in refusals] == [JPEGXR]
    assert "'imagecodecs_jpegxr' of imagecodecs is not supported" in str(refusals[0].problems[-1])
    zarrlift.migrate(optional() / CODECS, tmp_path / "new.zarr", verify="full")
    assert seen(tmp_path / "new.zarr") == {
        path: array for path, array in recorded_of().items() if path != JPEGXR
    }
    root = zarr.open_group(tmp_path / "new.zarr", mode="r")
    names = {codec["name"] for _, node in root.members(max_depth=None) if isinstance(node, zarr.Array)
             for codec in node.metadata.to_dict()["codecs"]}  # fmt: skip
    assert names <= {"bytes", "transpose", "blosc", "gzip", "zstd"}


def test_kept_codecs_are_read_by_zarr_python_with_their_packages(tmp_path: Path) -> None:
    wish = recipe_of(*(f"{prefix}*" for prefix in KEPT), codecs="keep")
    plan = zarrlift.plan(optional() / CODECS, recipe=wish)
    assert {refusal.path for refusal in plan.refusals} == BESIDE
    told = [str(problem) for problem in plan.all_problems() if problem.kind == "readers"]
    assert any("only zarr-python reads the result, with the package zfpy" in text for text in told)
    assert any("only zarr-python reads the result, with the package pcodec" in text for text in told)
    zarrlift.migrate(optional() / CODECS, tmp_path / "new.zarr", recipe=wish, verify="full")
    expected = {path: array for path, array in recorded_of(*KEPT).items() if path not in BESIDE}
    assert seen(tmp_path / "new.zarr") == expected


@pytest.mark.parametrize("options", [{"shards": "2x"}, {"separator": "."}])
def test_kept_payloads_move_into_shards(tmp_path: Path, options: dict[str, object]) -> None:
    place = tmp_path / "new.zarr"
    assert zarrlift.migrate(
        optional() / CODECS / "zfpy/f4_rate", place, recipe=recipe_of(codecs="keep", **options), verify="full"
    ).ok
    found = zarr.open_array(place, mode="r")[...]
    assert found.tobytes().hex() == recorded_of()["zfpy/f4_rate"]["values"]


@pytest.mark.parametrize("path", ["zfpy/f8_accuracy", "pcodec/i2"])
def test_in_place_only_metadata_is_added(tmp_path: Path, path: str) -> None:
    shutil.copytree(optional() / CODECS / path, tmp_path / "old.zarr")
    assert zarrlift.migrate(tmp_path / "old.zarr", in_place=True).ok
    found = zarr.open_array(tmp_path / "old.zarr", mode="r", zarr_format=3)[...]
    assert found.tobytes().hex() == recorded_of()[path]["values"]


def test_a_result_with_kept_codecs_can_be_migrated_on(tmp_path: Path) -> None:
    kept, plain = tmp_path / "kept.zarr", tmp_path / "plain.zarr"
    assert zarrlift.migrate(optional() / CODECS / "zfpy/axes2", kept, recipe=recipe_of(codecs="keep")).ok
    outcome = zarrlift.migrate(kept, plain, recipe=recipe_of(codecs="zstd:3"), verify="full")
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
        zarrlift.plan(optional() / CODECS / "zfpy/f4_rate", recipe=recipe_of(**options))


def test_a_chunk_that_is_cut_short_is_named_with_what_to_do(tmp_path: Path) -> None:
    for path, chunk in (("zfpy/f4_accuracy", "0.0.0"), ("pcodec/f8", "1.1"), ("images/jpeg2k_u2", "1.0")):
        source = tmp_path / path
        shutil.copytree(optional() / CODECS / path, source)
        (source / chunk).write_bytes((source / chunk).read_bytes()[:-16])
        (problem,) = zarrlift.migrate(source, tmp_path / "new" / path).problems
        assert (problem.key, "backup" in str(problem.advice)) == (chunk, True)


# Arrays of Zarr v2 whose chunks are TIFF files, as imagecodecs and tifffile write them.


def recorded_tiff(archive: str) -> dict[str, object]:
    """What zarr-python 2.18 reads of an archive."""
    return values_of(seen_by_zarr2(tiff)[archive])


@pytest.mark.slow
def test_a_copy_of_tiff_files_has_the_values_that_zarr_2_reads(tmp_path: Path) -> None:
    outcome = zarrlift.migrate(tiff() / CODECS, tmp_path / "new.zarr", verify="full")
    assert outcome.ok, outcome.problems
    assert seen(tmp_path / "new.zarr") == recorded_tiff(CODECS)


@pytest.mark.slow
def test_a_view_shows_the_same_values() -> None:
    for path, expected in recorded_tiff(CODECS).items():
        values = zarrlift.open_array(tiff() / CODECS, path=path)[...]
        assert values.astype(values.dtype.newbyteorder("<")).tobytes().hex() == expected["values"], path


def test_chunks_are_neither_kept_nor_left_in_place(tmp_path: Path) -> None:
    source = shutil.copytree(tiff() / CODECS, tmp_path / "old.zarr")
    arrays = set(recorded_tiff(CODECS))
    keep = Recipe(base=ArrayRecipe(codecs="keep"))
    assert {refusal.path for refusal in zarrlift.plan(source, recipe=keep).refusals} == arrays
    assert {refusal.path for refusal in zarrlift.plan(source, in_place=True).refusals} == arrays


NAN_TEXTS = {  # as text: zarr-python 2.18 for U and S, 3.1.6 and 3.4.2 for objects
    "U2": ({"dtype": "<U2"}, "na", ""),
    "U4": ({"dtype": "<U4"}, "nan", ""),
    "S4": ({"dtype": "|S4"}, b"nan", b""),
    "texts": ({"dtype": "|O", "filters": [{"id": "vlen-utf8"}]}, "nan", ""),
    "bytes": ({"dtype": "|O", "filters": [{"id": "vlen-bytes"}]}, b"nan", b""),
}


@pytest.mark.parametrize(("members", "text", "empty"), NAN_TEXTS.values(), ids=NAN_TEXTS)
def test_missing_chunks_of_text_whose_fill_value_is_nan_need_a_decision(
    members: dict[str, Any], text: Any, empty: Any, tmp_path: Path
) -> None:
    document = array(shape=[2], chunks=[1], fill_value=float("nan"), **members)
    source = tmp_path / "a.zarr"
    tree(source, {".zgroup": {"zarr_format": 2}, "x/.zarray": document})
    (refused,) = zarrlift.plan(source).refusals
    told = str(refused.problems[-1])
    assert "the fill value NaN of text is ambiguous, and is the value of 2 missing chunks" in told
    for choice, shown in (("text", text), ("empty", empty)):
        target, wish = tmp_path / f"{choice}.zarr", recipe(zero_fill=choice)
        assert zarrlift.migrate(source, target, recipe=wish, verify="full").ok
        assert zarrlift.verify(source, target, recipe=wish, full=True).ok
        assert zarr.open_group(target, mode="r")["x"][...].tolist() == [shown, shown]
