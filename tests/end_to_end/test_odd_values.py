"""Values and codecs that numpy or zarr-python handle in a way of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numcodecs import VLenBytes
from tests.support.readers import by_zarr_python
from tests.support.v2_trees import array, tree

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.core.data_types.compare import mismatch

# Values that numpy or zarr-python handle in a way of their own: times without a unit, bytes without axes.


ARRAY = {"zarr_format": 2, "order": "C", "compressor": None, "filters": None, "fill_value": None}
NUMBERS = [1, 2, -5, -(2**63), 2**56, 0]


def times(dtype: str, numbers: list[int]) -> np.ndarray[Any, Any]:
    """Times of these numbers of units, as they lie in memory."""
    return np.array(numbers, dtype[0] + "i8").view(dtype)


@pytest.mark.filterwarnings("ignore:The .generic. unit:DeprecationWarning")  # numpy 2.5
@pytest.mark.parametrize("dtype", ["<m8", ">m8", "<M8", ">M8", ">M8[s]"])
@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"codecs": "keep"},
        {"codecs": "zstd:1"},
        {"endian": "little"},
        {"endian": "big"},
        {"chunks": "3"},
        {"chunks": "3", "endian": "little", "shards": "2"},
    ],
    ids=str,
)
@pytest.mark.slow(one_in=6)
def test_times_without_a_unit_keep_their_values(dtype: str, wish: dict[str, str], tmp_path: Path) -> None:
    """numpy's `astype` between their two byte orders swaps no byte (1.26 to 2.5)."""
    document = {**ARRAY, "shape": [6], "chunks": [2], "dtype": dtype}
    source, out = tmp_path / "old", tmp_path / "new"
    source.mkdir()
    (source / ".zarray").write_text(json.dumps(document))
    for place in range(3):
        (source / str(place)).write_bytes(times(dtype, NUMBERS[2 * place : 2 * place + 2]).tobytes())
    outcome = zarrlift.migrate(source, out, recipe=Recipe(base=ArrayRecipe(**wish)))
    assert outcome.ok, outcome.problems
    found = np.asarray(zarr.open_array(out, mode="r")[...])
    assert found.view("i8").tolist() == NUMBERS
    assert zarrlift.verify(source, out, full=True).ok


@pytest.mark.filterwarnings("ignore:The .generic. unit:DeprecationWarning")
@pytest.mark.parametrize("kind", "mM")
def test_a_verification_sees_bytes_that_were_not_swapped(kind: str) -> None:
    stored = times(f">{kind}8", [1, 2])
    assert mismatch(stored, times(f"<{kind}8", [1, 2])) is None
    different = mismatch(stored, times(f"<{kind}8", [1, 2**57]))
    assert different is not None
    assert (different.index, different.found, different.expected) == ((1,), "2", str(2**57))
    struct = np.dtype([("t", f"{kind}8")])
    assert mismatch(
        stored.astype(struct) if kind == "m" else np.zeros(2, struct), np.ones(2, "i8").view(struct)
    )


@pytest.mark.parametrize("value", [b"", b"a", b"a\0", b"\0\0"])
def test_bytes_without_axes_are_compared_with_the_zeros_at_their_end(value: bytes, tmp_path: Path) -> None:
    document = {**ARRAY, "shape": [], "chunks": [], "dtype": "|O", "filters": [{"id": "vlen-bytes"}]}
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / ".zarray").write_text(json.dumps(document))
    (tmp_path / "old" / "0").write_bytes(VLenBytes().encode(np.array([value], object)))
    outcome = zarrlift.migrate(tmp_path / "old", tmp_path / "new")
    assert outcome.ok, outcome.problems
    assert zarrlift.verify(tmp_path / "old", tmp_path / "new", full=True).ok


# Codecs that cannot encode a chunk of the chunk shape.
#
# zarr-python 2 creates such arrays without a word, reads their fill value, and fails at the first write.
# So without chunks there is nothing wrong with the values; with chunks they are no writer's.


SHUFFLE = {"id": "shuffle", "elementsize": 3}
SHUFFLE4 = {"id": "shuffle", "elementsize": 4}
EIGHT_BYTES = array(shape=[12], chunks=[4], dtype="<u2", fill_value=3, filters=[SHUFFLE])
MISFITS = {
    "shuffle": EIGHT_BYTES,
    "shuffle after delta": EIGHT_BYTES | {"filters": [{"id": "delta", "dtype": "<u2"}, SHUFFLE]},
    "shuffle after one that halves": EIGHT_BYTES
    | {"chunks": [6], "filters": [{"id": "astype", "encode_dtype": "|u1", "decode_dtype": "<u2"}, SHUFFLE4]},
}


def v2_array(place: Path, document: dict[str, Any]) -> Path:
    tree(place, {".zarray": document})
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
