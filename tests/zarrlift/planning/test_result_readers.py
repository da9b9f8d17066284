"""`--for`: what is adapted for readers, what is refused, and what is only said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.reader_cases import LITTLE, NUMBERS, Case, all_cases, codec, sharded

import zarrlift
from zarrlift.recipe.toml_file import load_recipe
from zarrstack.core.errors import UsageError

CASES = all_cases()
CHECKED = Case(
    values=NUMBERS, codecs=[LITTLE, codec("gzip", level=1), codec("crc32c")], missing=True, names=None
)


def planned(case: Case, tmp_path: Path, **recipe: Any) -> Any:
    """The plan of one array, or its refusal."""
    case.write(tmp_path / "old.zarr")
    wanted = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**recipe))
    plan = zarrlift.plan(tmp_path / "old.zarr", tmp_path / "new.zarr", recipe=wanted)
    return plan.arrays[0] if plan.arrays else plan.refusals[0]


def told(planned: Any) -> list[tuple[str, str]]:
    return [(problem.severity, problem.message) for problem in planned.problems if problem.kind == "readers"]


def test_a_checksum_that_a_reader_does_not_know_is_left_out_and_the_compressor_stays(tmp_path: Path) -> None:
    array = planned(CHECKED, tmp_path, readers="gdal")
    assert str(array.destination.chain) == "bytes:little > gzip:1"
    assert told(array) == [("note", "adapted for gdal 3.12.2")]


def test_nothing_changes_for_readers_that_read_the_result_anyway(tmp_path: Path) -> None:
    array = planned(CHECKED, tmp_path, readers=["zarr-python", "zarrita", "neuroglancer"])
    assert array.route.name == "relink"
    assert told(array) == []


@pytest.mark.parametrize(
    ("case", "readers", "recipe", "advice"),
    [
        (CHECKED, "gdal", {"codecs": "keep"}, "other codecs"),
        (CHECKED, "gdal", {"codecs": "gzip:1+crc32c"}, "other codecs"),
        (sharded(), "gdal", {"shards": "2,2"}, "codecs"),
        (sharded(), "zarrita", {"shard_index_location": "start"}, "Omit --shards"),
        (CASES["data type float64"], "neuroglancer", {}, "--dtype"),
        (CHECKED, "xarray", {}, "Correct the names"),
        (CHECKED, "netcdf-c", {}, "--dtype"),
        (
            CASES["attributes: bare NaN or Infinity"],
            "zarrita",
            {"attributes": "keep"},
            "--set attributes=keep",
        ),
    ],
    ids=["kept", "requested", "shards", "index", "type", "names", "nothing of v3", "attributes"],
)
def test_what_is_not_free_to_choose_is_refused(
    case: Case, readers: str, recipe: dict[str, Any], advice: str, tmp_path: Path
) -> None:
    refusal = planned(case, tmp_path, readers=readers, **recipe)
    (problem,) = (problem for problem in refusal.problems if problem.severity == "refusal")
    assert problem.kind == "readers"
    assert problem.message.endswith("cannot read the result")
    assert advice in problem.advice
    assert not (tmp_path / "new.zarr").exists()


def test_the_refusal_says_what_the_reader_says(tmp_path: Path) -> None:
    refusal = planned(CASES["data type float64"], tmp_path, readers="gdal 3.10,neuroglancer")
    found = {problem.message: problem.found for problem in refusal.problems}
    assert 'Invalid enum value: "float64"' in found["neuroglancer 2.41.2 cannot read the result"]
    assert "Unsupported codec: bytes" in found["gdal 3.10.3 cannot read the result"]


def test_a_dtype_is_changed_only_on_request(tmp_path: Path) -> None:
    array = planned(CASES["data type float64"], tmp_path, readers="neuroglancer", dtype="float32")
    assert array.destination.data_type.name == "float32"


def test_what_is_not_known_is_a_warning(tmp_path: Path) -> None:
    array = planned(CASES["fill value: NaN"], tmp_path, readers="rarr")
    assert ("warning", "it is not known whether rarr can read the result") in told(array)


def test_a_reader_that_would_show_other_values_is_a_warning_without_being_asked(tmp_path: Path) -> None:
    array = planned(sharded(start=True), tmp_path)
    assert told(array) == [("warning", "zarrita 0.7.5 shows other values, without an error")]


def test_a_plan_as_json_has_the_readers_of_each_array(tmp_path: Path) -> None:
    from zarrlift.jobs.source_documents import source_documents
    from zarrlift.report.plan import plan_json

    CHECKED.write(tmp_path / "old.zarr")
    plan = zarrlift.plan(tmp_path / "old.zarr")
    (array,) = plan_json(plan, source_documents(plan, tmp_path / "old.zarr", None))["arrays"]
    assert "zarr-python 3.4.2" in array["readers"]["yes"]
    assert array["readers"]["no"]["gdal 3.12.2"] == ["codec crc32c"]
    assert "rarr" in array["readers"]["unknown"]


def test_an_unknown_reader_is_named_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match="Did you mean 'zarrita'"):
        zarrlift.ArrayRecipe(readers="zarita")


def test_a_recipe_file_and_a_job_hold_the_readers_as_written(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text('readers = ["gdal 3.12", "xarray"]\n[arrays."a"]\nreaders = "zarrs"\n')
    recipe = zarrlift.Recipe.from_json(load_recipe(file).to_json())
    assert recipe.base.readers == ("gdal 3.12", "xarray")
    assert recipe.for_array("a").readers == ("zarrs",)
