"""What zarr-python 3.0 wrote and no other program reads, in both formats, has the values that it reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.fixtures_index import unpack
from tests.support.unpacking import FIXTURES, unpacked

import zarrlift

CASES = [
    pytest.param(version, name, id=f"{version}-{name}")
    for version in ("3.0.0", "3.0.10")
    for name in ("v2.zarr", "v3.zarr")
]


def as_items(values: np.ndarray) -> list[object]:
    """Numbers of dates, other items as Python has them; NaN as a text, which equals itself."""
    flat = np.asarray(values).reshape(-1)
    flat = flat.view("i8") if flat.dtype.kind == "M" else flat
    return [str(item) if item != item else item for item in flat.tolist()]  # noqa: PLR0124


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(("version", "name"), CASES)
def test_every_array_has_the_values_that_its_writer_reads(version: str, name: str, tmp_path: Path) -> None:
    expected = json.loads((FIXTURES / f"zarr_v3/zarr-{version}/values.json").read_text())[name]
    source, target = unpacked(f"zarr_v3/zarr-{version}/{name}"), tmp_path / "new.zarr"
    outcome = zarrlift.migrate(source, target, verify="full")
    assert outcome.ok, outcome
    assert {array.route.name for array in outcome.plan.arrays} == {"relink"}
    result = zarr.open_group(target, mode="r")
    viewed = zarrlift.open(source)
    for path, entry in expected.items():
        wanted = as_items(unpack(entry["read"]))
        if "written" in entry:  # it cuts items of a type without a length, which it stores whole
            written = as_items(unpack(entry["written"]))
            wanted[: len(written)] = written
            wanted[len(written) :] = [b"long bytes" if path == "bytes_fill" else b""] * len(written)
        wanted = ["" if item == 0 and path == "texts" else item for item in wanted]  # 0 is no text
        assert as_items(result[path][...]) == wanted, path
        assert as_items(viewed[path][...]) == wanted, path


def test_bytes_that_zarr_3_0_writes_keep_their_type_and_codecs(tmp_path: Path) -> None:
    target = tmp_path / "new.zarr"
    assert zarrlift.migrate(unpacked("zarr_v3/zarr-3.0.10/v3.zarr"), target).ok
    document = json.loads((target / "bytes_fill/zarr.json").read_text())
    assert (document["data_type"], document["fill_value"]) == ("bytes", "bG9uZyBieXRlcw==")
    assert [codec["name"] for codec in document["codecs"]] == ["vlen-bytes", "zstd"]
