"""Every code block of ZEP 6, run: `zep6.md` restates each with other names, without its mistakes."""

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
from zarrlift.models.text import lines
from zarrstack.core.errors import MetadataError

PAGE = Path(__file__).with_name("zep6.md").read_text()
BLOCKS = dict(re.findall(r"^## (\S+)\n.*?^```\w+\n(.*?^)```$", PAGE, re.MULTILINE | re.DOTALL))
MODELS = ("array-v2.json", "group-v2.json", "hierarchy-v3.json", "hierarchy-v2.json")


def raw(name):
    return json.loads(BLOCKS[name])


@pytest.fixture(scope="module")
def zep(tmp_path_factory):
    """A folder with a file for each block."""
    folder = tmp_path_factory.mktemp("zep")
    for name, text in BLOCKS.items():
        (folder / name).write_text(text)
    return folder


def test_the_page_has_all_eight():
    assert len(BLOCKS) == 8


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_zep_is_read_made_and_read_by_zarr(name, zep, tmp_path):
    shown = models.show(zep / name)
    models.create(zep / name, tmp_path / "made")
    again = models.show(tmp_path / "made")
    assert again.model == shown.model
    assert again.problems == ()
    opened = zarr.open(tmp_path / "made", mode="r")
    if isinstance(opened, zarr.Group):
        assert sorted(dict(opened.members())) == sorted(shown.model.get("members", {}))
        for _, array in opened.arrays():
            assert array[...].sum() == 0, "no chunk is there, so every value is the fill value"


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_of_it_is_strict(name, zep):
    shown = models.show(zep / name)
    assert models.validate(shown, models.schema(zarr_format=shown.model["zarr_format"])) == ()
    text = "\n".join(lines(shown.model))
    assert models.show(json.loads(text)) == models.show(raw(name))


def test_a_group_without_children_needs_no_members(zep):
    assert models.show(zep / "group-v2.json").model == {
        "zarr_format": 2, "attributes": {"vessel": "Thetis", "casts": 31}, "members": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"zarr_format": 2, "attributes": {}, "members": {},}', "JSON"),
        ('{"zarr_format": 2, "attributes": {}, "members": {}', "JSON"),
        ('{"salinity": {"zarr_format": 2, "attributes": {}}}', "zarr_format"),
        ('{"zarr_version": 2, "attributes": {}, "members": {}}', "zarr_format"),
    ],
    ids=["comma", "brace", "no-group", "zarr_version"],
)
def test_the_mistakes_of_the_draft_are_refused(text, words, tmp_path):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(MetadataError, match=words):
        models.show(tmp_path / "model.json")


def test_null_for_what_v3_lets_be_absent_is_read_as_absent():
    model = raw("hierarchy-v3.json")
    model["members"]["ice"] |= {"storage_transformers": None, "dimension_names": None}
    array = models.show(model).model["members"]["ice"]
    assert not {"storage_transformers", "dimension_names"} & array.keys()
    assert model["members"]["ice"]["dimension_names"] is None, "the input is not changed"


def test_the_schema_of_v3_accepts_the_example_beside_it_and_refuses_others():
    schema = models.load(raw("schema-v3.json"))
    example = raw("hierarchy-v3.json")
    assert schema.violations(example) == ()
    example["members"]["ice"]["shape"] = ["365"]
    example["members"]["ice"]["colour"] = "red"
    assert [problem.node for problem in schema.violations(example)] == ["ice", "ice"]
    example = raw("hierarchy-v3.json")
    del example["members"]["ice"]["codecs"][0]["configuration"]
    assert schema.violations(example)[0].message == ('codecs/0: "configuration" is a required property'), (
        "v3 lets a codec have none; the ZEP's schema does not"
    )


def test_the_schema_of_v2_accepts_the_example_beside_it(zep):
    schema = models.load(str(zep / "schema-v2.json"))
    model = models.show(zep / "hierarchy-v2.json").model
    assert schema.violations(model) == ()
    del model["members"]["temperature"]["attributes"]
    assert [problem.node for problem in schema.violations(model)] == ["temperature"]


# ----- Python

PYTHON = BLOCKS["xarray.py"]


def test_the_python_block_runs():
    made: dict[str, Any] = {}
    exec(compile(PYTHON, "zep", "exec", dont_inherit=True), made)
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
    assert models.validate(model, models.schema(zarr_format=2)) == ()


@pytest.mark.needs_reader("mypy")
@pytest.mark.slow
def test_mypy_refuses_what_the_python_block_says_it_refuses(tmp_path):
    (tmp_path / "zep.py").write_text(PYTHON)
    words = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", os.devnull, "zep.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (expected,) = re.findall("^# What mypy says: (.*)$", PYTHON, re.MULTILINE)
    assert expected in done.stdout
    assert "Found 1 error in 1 file" in done.stdout, done.stdout


# ----- TypeScript


@pytest.mark.needs_reader("typescript")
def test_typescript_refuses_what_the_typescript_block_says_it_refuses(tmp_path):
    text = BLOCKS["xarray.ts"]
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
