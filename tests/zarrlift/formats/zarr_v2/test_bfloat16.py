"""bfloat16, which tensorstore writes and zarr-python does not read: moved by its bytes, never as numbers."""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore

import zarrlift
from zarrlift.core.data_types.v3 import DataType, fill_from_json, fill_to_json
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrstack.core.errors import MetadataError

BFLOAT16 = DataType("bfloat16")
BITS = np.array([0x3F80, 0xC010, 0x7FC1, 0xFF80, 0x0001, 0x7F7F], "<u2")
CHANGES: list[dict[str, Any]] = [
    {},
    {"codecs": "zstd:3"},
    {"codecs": "keep"},
    {"chunks": "3,2"},
    {"shards": "auto"},
    {"order": "F"},
    {"drop_empty": True},
]
FILLS = (0.0, 1.5, 1.1015625, "NaN", "-Infinity")


def opened(driver: str, root: Path, **spec: Any) -> Any:
    place = {"driver": driver, "kvstore": {"driver": "file", "path": f"{root}/"}}
    return tensorstore.open({**place, **spec}).result()


def written(root: Path, driver: str, **metadata: Any) -> bytes:
    """The bytes of an array of 4 x 3, of which tensorstore has written the first two rows."""
    array = opened(driver, root, create=True, metadata={"shape": [4, 3], **metadata})
    array[:2].write(BITS.view(array.dtype.numpy_dtype).reshape(2, 3)).result()
    values: bytes = array.read().result().tobytes()
    return values


def in_v3(root: Path, **codec: Any) -> bytes:
    """Written in chunks of 2 x 2."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [2, 2]}}
    codecs = [{"name": "bytes", "configuration": codec}, {"name": "gzip", "configuration": {"level": 1}}]
    return written(root, "zarr3", data_type="bfloat16", chunk_grid=grid, codecs=codecs, fill_value=-1.5)


@pytest.mark.parametrize(("change", "fill"), [*zip(CHANGES, cycle(FILLS))], ids=str)
def test_tensorstore_reads_the_same_bits(fill: Any, change: dict[str, Any], tmp_path: Path) -> None:
    values = written(tmp_path / "a", "zarr", dtype="bfloat16", chunks=[2, 2], fill_value=fill)
    recipe = Recipe(base=ArrayRecipe(**change))
    outcome = zarrlift.migrate(tmp_path / "a", tmp_path / "b", recipe=recipe, verify="full")
    assert outcome.ok, outcome.problems
    assert "zarr-python cannot read the result" in str(outcome.plan and outcome.plan.arrays[0].problems)
    array = opened("zarr3", tmp_path / "b")
    assert str(array.dtype.name) == "bfloat16"
    assert array.read().result().tobytes() == values
    assert zarrlift.verify(tmp_path / "a", tmp_path / "b", full=True).ok


def test_that_of_zarr_v3_is_moved_too_in_little_endian_order(tmp_path: Path) -> None:
    recipe = Recipe(base=ArrayRecipe(codecs="zstd:3"))
    for endian, route in (("little", "recode"), ("big", "pass")):
        values = in_v3(tmp_path / endian, endian=endian)
        outcome = zarrlift.migrate(
            tmp_path / endian, tmp_path / f"{endian}.zarr", recipe=recipe, verify="full"
        )
        assert outcome.ok
        assert outcome.plan is not None
        assert outcome.plan.arrays[0].route.name == route
        assert opened("zarr3", tmp_path / f"{endian}.zarr").read().result().tobytes() == values


@pytest.mark.parametrize("change", [{"dtype": "float32"}, {"endian": "big"}], ids=str)
def test_what_needs_its_numbers_is_refused_in_the_plan(change: dict[str, Any], tmp_path: Path) -> None:
    in_v3(tmp_path / "a", endian="little")
    plan = zarrlift.plan(tmp_path / "a", recipe=Recipe(base=ArrayRecipe(**change)))
    assert not plan.arrays
    assert "bfloat16" in str(plan.all_problems())


def test_a_changed_chunk_is_found(tmp_path: Path) -> None:
    written(tmp_path / "a", "zarr", dtype="bfloat16", chunks=[2, 3], fill_value=0.0, compressor=None)
    assert zarrlift.migrate(tmp_path / "a", tmp_path / "b").ok
    chunk = tmp_path / "b/c/0/0"
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"\x01")
    assert not zarrlift.verify(tmp_path / "b", full=True).ok


@pytest.mark.parametrize(
    ("form", "bits", "canonical"),
    [
        (1, 0x3F80, 1.0),
        (1.1, 0x3F8D, 1.1015625),
        (1.00390625, 0x3F80, 1.0),  # half way: to even
        (-0.0, 0x8000, -0.0),
        ("Infinity", 0x7F80, "Infinity"),
        ("NaN", 0x7FC0, "NaN"),
        ("0x7fc1", 0x7FC1, "0x7fc1"),
        ("0xffff", 0xFFFF, "0xffff"),
        ("0x3f8d", 0x3F8D, 1.1015625),
    ],
)
def test_fill_values_are_rounded_as_by_tensorstore(form: Any, bits: int, canonical: Any) -> None:
    value = fill_from_json(form, BFLOAT16)
    assert int(np.frombuffer(value.tobytes(), "<u2")[0]) == bits
    assert json.dumps(fill_to_json(value, BFLOAT16)) == json.dumps(canonical)
    metadata = {"shape": [1], "data_type": "bfloat16", "fill_value": form}
    there = tensorstore.open(
        {"driver": "zarr3", "kvstore": {"driver": "memory"}, "metadata": metadata, "create": True}
    ).result()
    assert there.read().result().tobytes() == value.tobytes()


@pytest.mark.parametrize("form", ["0x3f8", "0x3f8d00", "one", True, None])
def test_other_forms_of_fill_values_are_refused(form: Any) -> None:
    with pytest.raises(MetadataError):
        fill_from_json(form, BFLOAT16)
