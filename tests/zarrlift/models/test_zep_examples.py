"""Every code block of ZEP 6, run: what it shows is read leniently, what is written is strict.

`zep6/` restates each block with our own names and values, and with its slips, which docs/models.md lists.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zarr

from zarrlift import models
from zarrlift.models.hierarchy import parse_json
from zarrlift.models.json_schema import Schema
from zarrlift.models.text import lines

ZEP = Path(__file__).parent / "zep6"
MODELS = ("array-v2.json", "group-v2.json", "hierarchy-v3.json", "hierarchy-v2.json")


def raw(name):
    return json.loads((ZEP / name).read_text())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_zep_is_read_made_and_read_by_zarr(name, tmp_path):
    shown = models.show(ZEP / name)
    models.create(ZEP / name, tmp_path / "made")
    again = models.show(tmp_path / "made")
    assert again.model == shown.model
    assert again.problems == ()
    opened = zarr.open(tmp_path / "made", mode="r")
    if isinstance(opened, zarr.Group):
        assert sorted(dict(opened.members())) == sorted(shown.model.get("members", {}))
        for _, array in opened.arrays():
            assert array[...].sum() == 0, "no chunk is there, so every value is the fill value"


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_of_it_is_strict(name):
    shown = models.show(ZEP / name)
    assert models.validate(shown, models.schema(format=shown.model["zarr_format"])) == ()
    text = "\n".join(lines(shown.model))
    assert models.show(json.loads(text)).problems == (), "nothing to be lenient about"


def test_the_array_lacks_a_closing_brace_and_is_the_members_of_a_group():
    with pytest.raises(json.JSONDecodeError):
        raw("array-v2.json")
    shown = models.show(ZEP / "array-v2.json")
    assert [problem.message for problem in shown.problems] == [
        "read as ZEP 6 means it: the members of a group"
    ]
    assert shown.model["members"]["salinity"] == {
        "attributes": {"units": "g kg-1", "long_name": "absolute salinity"}, "dtype": "<i2",
        "fill_value": 0, "filters": None, "compressor": None, "shape": [24, 17, 36],
        "chunks": [6, 17, 12], "order": "C", "zarr_format": 2,
    }  # fmt: skip


def test_a_group_without_children_needs_no_members():
    assert models.show(ZEP / "group-v2.json").model == {
        "zarr_format": 2, "attributes": {"vessel": "Thetis", "casts": 31}, "members": {},
    }  # fmt: skip


def test_the_v3_hierarchy_says_four_things_that_v3_does_not():
    shown = models.show(ZEP / "hierarchy-v3.json")
    said = {
        problem.message.removeprefix("read as ZEP 6 means it: "): problem.found for problem in shown.problems
    }
    assert said == {
        "no storage_transformers": "null",
        "data_type 'uint8'": '"|u1"',
        "codec 'gzip'": '"GZip"',
        "codec 'bytes' before the others": '["gzip"]',
    }
    array = shown.model["members"]["ice"]
    assert "storage_transformers" not in array
    assert (array["data_type"], array["codecs"]) == (
        "uint8", [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 6}}],
    )  # fmt: skip
    assert array["dimension_names"] == ["day", "station"]


def test_the_v2_hierarchy_has_an_object_for_no_filters():
    assert raw("hierarchy-v2.json")["members"]["temperature"]["filters"] == {}
    shown = models.show(ZEP / "hierarchy-v2.json")
    assert shown.model["members"]["temperature"]["filters"] is None
    assert [problem.node for problem in shown.problems] == ["temperature"]


def test_trailing_commas_are_read():
    content = b'{"zarr_format": 2, "attributes": {"a": "x,}", "b": [1, 2,],}, "members": {},}'
    assert parse_json(content, "x") == {
        "zarr_format": 2, "attributes": {"a": "x,}", "b": [1, 2]}, "members": {},
    }  # fmt: skip


def test_the_schema_of_v3_accepts_the_example_beside_it_and_refuses_others():
    schema = models.load(raw("schema-v3.json"))
    example = raw("hierarchy-v3.json")
    assert schema.violations(example) == ()
    example["members"]["ice"]["shape"] = ["365"]
    example["members"]["ice"]["colour"] = "red"
    assert [problem.node for problem in schema.violations(example)] == ["ice", "ice"]
    assert schema.violations(models.show(ZEP / "hierarchy-v3.json").model)[0].message == (
        'codecs/0: "configuration" is a required property'
    ), "v3 lets a codec have none; the ZEP's schema does not"


def test_the_schema_of_v2_accepts_no_array_at_all_as_it_stands():
    as_it_stands = Schema(raw("schema-v2.json"), name="schema-v2.json")
    array = models.show(ZEP / "hierarchy-v2.json").model["members"]["temperature"]
    for attributes in ("attributes", "attributess"):
        model = {"attributes": {}, "members": {"temperature": {**array, attributes: {}}}}
        assert list(as_it_stands.violations(model))


def test_the_schema_of_v2_accepts_what_it_means():
    schema = models.load(str(ZEP / "schema-v2.json"))
    (note,) = schema.notes
    assert note.found == "attributess"
    model = models.show(ZEP / "hierarchy-v2.json").model
    assert schema.violations(model) == ()
    del model["members"]["temperature"]["attributes"]
    assert [problem.node for problem in schema.violations(model)] == ["temperature"]


def test_other_schemas_are_not_touched():
    schema = models.schema(format=2)
    assert models.load(schema).content == schema
    assert models.load(schema).notes == ()


# ----- Python

# As the block stands, `Literal` and `NamedArray` are names that nobody defined.
PYTHON = (ZEP / "xarray.py.txt").read_text()
SLIPS = (("Generic, TypeVar,", "Generic, Literal, TypeVar,"), ("NamedArray]", "NamedGrid]"))


def corrected():
    text = PYTHON
    for wrong, right in SLIPS:
        assert wrong in text
        text = text.replace(wrong, right)
    return text


def test_the_python_block_runs_once_its_names_are_defined():
    with pytest.raises(NameError):
        exec(compile(PYTHON, "zep", "exec", dont_inherit=True), {})
    made: dict[str, Any] = {}
    exec(compile(corrected(), "zep", "exec", dont_inherit=True), made)
    model = models.from_instance(made["accepted"])
    assert model == {
        "zarr_format": 2,
        "attributes": {},
        "members": {
            "salinity": {
                "zarr_format": 2, "attributes": {"_ARRAY_DIMENSIONS": ["time", "depth"]},
                "shape": [720, 17], "chunks": [72, 17], "dtype": "<i2", "dimension_separator": ".",
                "compressor": None, "fill_value": None, "order": "C", "filters": None,
            }
        },
    }  # fmt: skip
    assert models.validate(model, models.schema(format=2)) == ()


@pytest.mark.needs_reader("mypy")
def test_mypy_refuses_what_the_python_block_says_it_refuses(tmp_path):
    (tmp_path / "zep.py").write_text(corrected())
    words = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", os.devnull, "zep.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (expected,) = re.findall("^# What mypy says: (.*)$", PYTHON, re.MULTILINE)
    assert expected in done.stdout
    assert "Found 1 error in 1 file" in done.stdout, done.stdout


# ----- TypeScript


@pytest.mark.needs_reader("typescript")
def test_typescript_refuses_what_the_typescript_block_says_it_refuses(tmp_path):
    text = (ZEP / "xarray.ts.txt").read_text()
    (tmp_path / "zep.ts").write_text(text)
    compiler = Path(os.environ["ZARRLIFT_TYPESCRIPT"]) / "node_modules" / ".bin" / "tsc"
    words = [str(compiler), "--noEmit", "--strict", "--pretty", "false", "zep.ts"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if line.startswith("zep.ts")]
    (line,) = errors
    refused = text.index("const refused")
    assert int(re.match(r"zep\.ts\((\d+),", line)[1]) > text.count("\n", 0, refused)
    (expected,) = re.findall("^// What tsc says: (.*)$", text, re.MULTILINE)
    assert expected in line


def test_the_value_of_the_typescript_block_is_a_model():
    """As JSON.stringify would give it: what is undefined is left out."""
    model = {
        "zarr_version": 2,
        "attributes": {},
        "members": {
            "salinity": {
                "dtype": "int16", "shape": [720, 17], "chunks": [72, 17], "dimension_separator": ".",
                "attributes": {"_ARRAY_DIMENSIONS": ["time", "depth"]}, "zarr_version": 2,
            }
        },
    }  # fmt: skip
    shown = models.show(model)
    assert models.validate(shown, models.schema(format=2)) == ()
    assert shown.model["members"]["salinity"]["dtype"] == "<i2"
    assert {problem.severity for problem in shown.problems} == {"note"}
