"""Codecs that cannot encode a chunk of the chunk shape.

zarr-python 2 creates such arrays without a word, reads their fill value, and fails at the first write.
So without chunks there is nothing wrong with the values; with chunks they are no writer's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.readers import by_zarr_python

import zarrlift

SHUFFLE = {"id": "shuffle", "elementsize": 3}
SHUFFLE4 = {"id": "shuffle", "elementsize": 4}
EIGHT_BYTES: dict[str, Any] = {
    "zarr_format": 2,
    "shape": [12],
    "chunks": [4],
    "dtype": "<u2",
    "compressor": None,
    "fill_value": 3,
    "filters": [SHUFFLE],
    "order": "C",
}
MISFITS = {
    "shuffle": EIGHT_BYTES,
    "shuffle after delta": EIGHT_BYTES | {"filters": [{"id": "delta", "dtype": "<u2"}, SHUFFLE]},
    "shuffle after one that halves": EIGHT_BYTES
    | {"chunks": [6], "filters": [{"id": "astype", "encode_dtype": "|u1", "decode_dtype": "<u2"}, SHUFFLE4]},
}


def v2_array(place: Path, document: dict[str, Any]) -> Path:
    place.mkdir()
    (place / ".zarray").write_text(json.dumps(document))
    return place


def _with(codecs: str) -> zarrlift.Recipe:
    return zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs=codecs))


@pytest.mark.parametrize("document", MISFITS.values(), ids=MISFITS)
@pytest.mark.parametrize("codecs", ["portable", "keep"])
def test_with_chunks_the_plan_refuses_it(codecs: str, document: dict[str, Any], tmp_path: Path) -> None:
    source = v2_array(tmp_path / "source.zarr", document)
    (source / "1").write_bytes(bytes(8))
    (refusal,) = zarrlift.plan(source, tmp_path / "out.zarr", recipe=_with(codecs)).refusals
    told = next(problem for problem in refusal.problems if problem.severity == "refusal")
    assert (told.kind, told.key) == ("metadata", ".zarray")
    assert "not a whole number of elements" in told.message


@pytest.mark.parametrize("document", MISFITS.values(), ids=MISFITS)
@pytest.mark.parametrize("codecs", ["portable", "keep"])
def test_without_chunks_it_is_its_fill_value_and_verifies(
    codecs: str, document: dict[str, Any], tmp_path: Path
) -> None:
    source = v2_array(tmp_path / "source.zarr", document)
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr", recipe=_with(codecs))
    assert outcome.ok
    assert zarrlift.verify(source, tmp_path / "out.zarr", full=True).ok
    assert by_zarr_python(tmp_path / "out.zarr", "").values.tolist() == [3] * 12


def test_where_a_chunk_is_a_whole_number_of_elements_all_is_well(tmp_path: Path) -> None:
    source = v2_array(tmp_path / "source.zarr", EIGHT_BYTES | {"chunks": [6]})
    (source / "1").write_bytes(bytes(12))
    assert zarrlift.migrate(source, tmp_path / "out.zarr").ok
    assert zarrlift.verify(source, tmp_path / "out.zarr", full=True).ok
