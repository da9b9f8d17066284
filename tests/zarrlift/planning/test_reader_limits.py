"""Who can read a result, in plans as JSON, and warnings about readers that show other values."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
from tests.support.reader_cases import LITTLE, NUMBERS, Case, all_cases, codec, sharded
from tests.support.readers import by_tensorstore
from tests.support.v2_trees import array, tree

import zarrlift
from zarrlift.core.data_types.v3 import DataType, fill_from_json
from zarrlift.jobs.archive_run import source_documents
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
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


# `--codecs registered`: `struct` and `r*`, the registered names of `structured` and `raw_bytes`.


RECORD = np.dtype([("n", ">i2"), ("at", [("x", "<f4"), ("t", "<M8[s]")]), ("tag", "S3"), ("raw", "V2")])
RECORDS = np.array([(1, (np.nan, 5), b"ab", b"\0\x01"), (-2, (-0.0, -1), b"", b"zz")], RECORD)
FIELDS: list[Any] = [
    *(["n", ">i2"], ["at", [["x", "<f4"], ["t", "<M8[s]"]]], ["tag", "|S3"]),
    ["raw", "|V2"],
]
RAW = np.array([b"ab", b"\xff\0"], "V2")


def migrated(root: Path, dtype: Any, values: Any, codecs: str) -> zarrlift.Outcome:
    """Two stored values; a third is missing, and is the second one."""
    fill = base64.b64encode(values[1].tobytes()).decode()
    document = array(shape=[3], chunks=[2], dtype=dtype, fill_value=fill, compressor=None)
    tree(root / "a", {".zgroup": {"zarr_format": 2}, "x/.zarray": document, "x/0": values.tobytes()})
    recipe = Recipe(base=ArrayRecipe(codecs=codecs))
    return zarrlift.migrate(root / "a", root / "b", recipe=recipe, verify="full")


@pytest.mark.parametrize(
    ("codecs", "structs", "raw"),
    [
        ("portable", "structured", "raw_bytes"),
        ("registered", "struct", "r16"),
        ("keep", "structured", "raw_bytes"),
    ],
)
def test_names_that_few_readers_know_are_written_on_request(
    codecs: str, structs: str, raw: str, tmp_path: Path
) -> None:
    for name, dtype, values, expected in (
        ("struct", [[label, "<i4"] for label in "ab"], np.array([(1, 2), (3, 4)], "i4,i4"), structs),
        ("raw", "|V2", RAW, raw),
    ):
        outcome = migrated(tmp_path / name, dtype, values, codecs)
        assert outcome.ok, outcome.problems
        assert outcome.plan is not None
        assert outcome.plan.arrays[0].route.name == "relink"
        written = json.loads((tmp_path / name / "b/x/zarr.json").read_text())["data_type"]
        assert (written if isinstance(written, str) else written["name"]) == expected
        assert (tmp_path / name / "b/x/c/0").read_bytes() == values.tobytes()
        assert zarrlift.verify(tmp_path / name / "b", full=True).ok


def test_a_struct_has_its_fill_value_by_field_and_its_readers_in_the_plan(tmp_path: Path) -> None:
    outcome = migrated(tmp_path, FIELDS, RECORDS, "registered")
    assert outcome.ok, outcome.problems
    document = json.loads((tmp_path / "b/x/zarr.json").read_text())
    fill = {"n": -2, "at": {"x": -0.0, "t": -1}, "tag": "", "raw": "eno="}
    assert json.dumps(document["fill_value"]) == json.dumps(fill)
    fields = document["data_type"]["configuration"]["fields"]
    assert [field["name"] for field in fields] == ["n", "at", "tag", "raw"]
    value = fill_from_json(document["fill_value"], DataType.from_json(document["data_type"]))
    assert value == RECORDS[1].astype(value.dtype)
    (planned,) = outcome.plan.arrays if outcome.plan else ()
    (readers,) = (problem for problem in planned.problems if problem.kind == "readers")
    assert "zarr-python 3.4" in str(readers.expected)


def test_tensorstore_reads_raw_bits_and_fields_of_a_struct(tmp_path: Path) -> None:
    assert migrated(tmp_path / "raw", "|V2", RAW, "registered").ok
    assert by_tensorstore(tmp_path / "raw/b", "x").values.tobytes() == b"ab\xff\0\xff\0"
    values = np.array([(1, 2.5), (3, 4.5)], [("a", "<i2"), ("b", "<f4")])
    assert migrated(tmp_path / "struct", [["a", "<i2"], ["b", "<f4"]], values, "registered").ok
    store = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": f"{tmp_path}/struct/b/x/"},
        "field": "b",
    }
    assert tensorstore.open(store).result().read().result().tolist() == [2.5, 4.5, 4.5]
