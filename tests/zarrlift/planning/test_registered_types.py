"""`--codecs registered`: `struct` and `r*`, the registered names of `structured` and `raw_bytes`."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
from tests.support.readers import by_tensorstore
from tests.support.v2_trees import array, tree

import zarrlift
from zarrlift.core.data_types.v3 import DataType, fill_from_json
from zarrlift.recipe.recipe import ArrayRecipe, Recipe

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
