"""Who can read a result, in plans as JSON, and warnings about readers that show other values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.reader_cases import LITTLE, NUMBERS, Case, all_cases, codec, sharded

import zarrlift
from zarrlift.jobs.archive_run import source_documents
from zarrlift.report.plan import plan_json

CASES = all_cases()


def planned(case: Case, tmp_path: Path, **recipe: Any) -> zarrlift.Plan:
    case.write(tmp_path / "old.zarr")
    return zarrlift.plan(tmp_path / "old.zarr", recipe=zarrlift.Recipe(base=zarrlift.ArrayRecipe(**recipe)))


def reader_warnings(plan: zarrlift.Plan) -> list[tuple[str, str | None]]:
    return [(str(p.message), p.found) for p in plan.all_problems() if p.kind == "readers"]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (sharded(start=True), [("zarrita", "shards: index at the start")]),
        (CASES["fill value: bits"], [("zarrs", "fill value: bits"), ("zarrita", "fill value: bits")]),
        (
            CASES["fill value: beyond 2^53"],
            [("zarrita", "fill value: beyond 2^53"), ("neuroglancer", "fill value: beyond 2^53")],
        ),
        (sharded(), []),
        (
            CASES["data type numpy.datetime64"],
            [("tensorstore cannot read the result", "data type numpy.datetime64")],
        ),
    ],
    ids=["index at the start", "bits", "large integers", "nothing", "refused anyway"],
)
def test_a_reader_that_shows_other_values_is_a_warning(
    case: Case, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    assert reader_warnings(planned(case, tmp_path)) == [
        (message if " " in message else f"{message} shows other values, without an error", found)
        for message, found in expected
    ]


def test_what_the_warning_advises_avoids_it(tmp_path: Path) -> None:
    plan = planned(sharded(start=True), tmp_path)
    assert plan.arrays[0].problems[0].advice == "With --set shard-index-location=end, it reads the result."
    assert reader_warnings(planned(sharded(start=True), tmp_path, shard_index_location="end")) == []


def test_a_reader_of_every_copy_that_cannot_read_the_result_is_named(tmp_path: Path) -> None:
    assert reader_warnings(planned(CASES["data type string"], tmp_path)) == [
        ("tensorstore cannot read the result", "data type string, codec vlen-utf8")
    ]


def test_a_plan_as_json_has_the_readers_of_each_array(tmp_path: Path) -> None:
    case = Case(
        values=NUMBERS, codecs=[LITTLE, codec("gzip", level=1), codec("crc32c")], missing=True, names=None
    )
    plan = planned(case, tmp_path)
    (array,) = plan_json(plan, source_documents(plan, tmp_path / "old.zarr", None))["arrays"]
    assert array["readers"] == {
        "yes": ["zarr-python", "tensorstore", "zarrs", "zarrita", "neuroglancer"],
        "no": {"xarray": ["dimension names: none"], "gdal": ["codec crc32c"]},
    }
