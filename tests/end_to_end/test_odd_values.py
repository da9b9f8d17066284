"""Values, codecs and trailing bytes that numpy, zarr-python or other writers handle in a way of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import google_crc32c
import numcodecs
import numpy as np
import pytest
import tensorstore
import zarr
from numcodecs import VLenBytes
from tests.support.damaged_archives import migrate, run
from tests.support.fixtures_index import archive
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
@pytest.mark.slow(one_in=19)
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


@pytest.mark.slow(one_in=5)
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


# Blosc chunks with bytes behind the end that their header states: z5py 2.0 left 16 zeros in each.
#
# That z5py is on no registry that we can access, so the zeros are added to what z5py 3.0 wrote. zarr-python
# 2.18 and 3 read the same values with them and without.

EXTRA = bytes(16)
Z5PY = "zarr_v2/z5py/dots"
EXPECTED = archive(Z5PY)["group/blosc"].values
READ = np.s_[:8]
"""The part that was written: z5py 3.0 fills the rest with its own fill value."""


def chunks(array: Path) -> list[Path]:
    return sorted(
        file for file in array.rglob("*") if file.is_file() and file.name[0] != "." and file.suffix != ".json"
    )


def left_by_z5py(folder: Path, name: str = Z5PY) -> Path:
    """z5py's archive with bytes behind every blosc chunk."""
    copy = folder / "source.zr"
    shutil.copytree(archive(name).path, copy)
    for chunk in chunks(copy / "group/blosc"):
        chunk.write_bytes(chunk.read_bytes() + EXTRA)
    return copy


def stated(payload: bytes) -> int:
    """The length in a blosc header."""
    return int.from_bytes(payload[12:16], "little")


def notes(source: Path, *words: str) -> list[dict[str, str]]:
    problems = json.loads(run("migrate", "--dry-run", source, *words, "--json").out)["result"]["arrays"]
    return [one for array in problems for one in array["problems"] if one["kind"] == "trailing-bytes"]


def by_tensorstore(array: Path) -> np.ndarray:
    where = {"driver": "file", "path": str(array)}
    return tensorstore.open({"driver": "zarr3", "kvstore": where}).result().read().result()


WAYS: dict[str, list[str]] = {
    "relinked": [],
    "linked": ["--link", "hard"],
    "into shards": ["--shards", "8,8"],
    "recoded": ["--codecs", "gzip:5"],
    "rewritten": ["--dtype", "int64"],
    "cut anew": ["--chunks", "5,3"],
}


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_a_copy_omits_them_and_every_reader_reads_it(options: list[str], tmp_path: Path) -> None:
    source, result = left_by_z5py(tmp_path), tmp_path / "out.zarr"
    before = {chunk: chunk.read_bytes() for chunk in chunks(source)}
    ran = migrate(source, result, "--include", "group/blosc", "--verify", "full", *options)
    assert ran.code == 0, ran.err
    array = result / "group/blosc"
    assert np.array_equal(zarr.open_array(array, mode="r")[READ], EXPECTED[READ])
    assert np.array_equal(by_tensorstore(array)[READ], EXPECTED[READ])
    assert {chunk: chunk.read_bytes() for chunk in chunks(source)} == before
    if not options or "--link" in options:
        assert all(len(data) == stated(data) for data in (chunk.read_bytes() for chunk in chunks(array)))


def test_the_plan_notes_them(tmp_path: Path) -> None:
    [note] = notes(left_by_z5py(tmp_path), str(tmp_path / "out.zarr"))
    assert (note["severity"], note["node"], note["found"]) == (
        "note",
        "group/blosc",
        "16 bytes in the first chunk",
    )
    assert "not copied" in note["message"]
    assert notes(archive(Z5PY).path, str(tmp_path / "out.zarr")) == []


def test_in_place_they_stay_and_the_note_names_who_refuses_them(tmp_path: Path) -> None:
    source = left_by_z5py(tmp_path)
    before = [chunk.read_bytes() for chunk in chunks(source / "group/blosc")]
    [note] = notes(source, "--in-place")
    assert (note["severity"], "tensorstore" in note["message"]) == ("note", True)
    assert migrate(source, "--in-place").code == 0
    assert [chunk.read_bytes() for chunk in chunks(source / "group/blosc")] == before
    array = source / "group/blosc"
    assert np.array_equal(zarr.open_array(array, mode="r", zarr_format=3)[READ], EXPECTED[READ])
    with pytest.raises(ValueError, match="blosc"):
        by_tensorstore(array)


def test_a_result_in_place_can_be_copied_again(tmp_path: Path) -> None:
    source = left_by_z5py(tmp_path)
    for other in (source / "group").iterdir():
        if other.is_dir() and other.name != "blosc":
            shutil.rmtree(other)
    assert migrate(source, "--in-place").code == 0
    assert migrate(source, tmp_path / "out.zarr", "--from", "zarr3").code == 0
    assert np.array_equal(by_tensorstore(tmp_path / "out.zarr/group/blosc")[READ], EXPECTED[READ])


def test_shards_are_packed_again_without_them(tmp_path: Path) -> None:
    values = np.arange(64, dtype="uint16").reshape(8, 8)
    source = zarr.create_array(
        tmp_path / "v3.zarr", shape=(8, 8), shards=(8, 8), chunks=(4, 4), dtype="uint16", fill_value=0
    )
    source[:] = values
    document = tmp_path / "v3.zarr/zarr.json"
    metadata = json.loads(document.read_text())
    [sharding] = metadata["codecs"]
    blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}
    sharding["configuration"]["codecs"][1:] = [{"name": "blosc", "configuration": blosc}]
    document.write_text(json.dumps(metadata))
    zarr.open_array(tmp_path / "v3.zarr", mode="r+")[:] = values
    [shard] = chunks(tmp_path / "v3.zarr")
    content, count = shard.read_bytes(), 4
    index = np.frombuffer(content[-16 * count - 4 : -4], "<u8").reshape(count, 2)
    payloads = [content[offset : offset + length] + EXTRA for offset, length in index.tolist()]
    lengths = np.array([len(payload) for payload in payloads], "<u8")
    again = np.stack([np.cumsum(lengths) - lengths, lengths], axis=1).astype("<u8").tobytes()
    shard.write_bytes(b"".join(payloads) + again + google_crc32c.value(again).to_bytes(4, "little"))
    assert np.array_equal(zarr.open_array(tmp_path / "v3.zarr", mode="r")[:], values)
    assert migrate(tmp_path / "v3.zarr", tmp_path / "out.zarr", "--set", "separator=.").code == 0
    assert np.array_equal(by_tensorstore(tmp_path / "out.zarr"), values)


def test_views_omit_them(tmp_path: Path) -> None:
    source = left_by_z5py(tmp_path)
    view = zarrlift.LegacyView(zarr.storage.LocalStore(source, read_only=True))
    values = zarr.open_group(view, mode="r")["group/blosc"][READ]
    assert np.array_equal(values, EXPECTED[READ])

    async def sizes() -> tuple[int, int]:
        from zarr.core.buffer import default_buffer_prototype

        [key, *_] = [key async for key in view.list_prefix("group/blosc/") if not key.endswith(".json")]
        data = await view.get(key, default_buffer_prototype())
        assert data is not None
        return await view.getsize(key), stated(data.to_bytes())

    from zarr.core.sync import sync

    size, length = sync(sizes())
    assert size == length


def test_behind_a_checksum_they_are_omitted_and_the_checksum_is_made_again(tmp_path: Path) -> None:
    source, values = tmp_path / "v2.zarr", np.arange(100, dtype="<i4")
    source.mkdir()
    blosc = numcodecs.Blosc("lz4", 5, 1)
    document = {
        "zarr_format": 2, "shape": [100], "chunks": [100], "dtype": "<i4", "fill_value": 0, "order": "C",
        "filters": [blosc.get_config()], "compressor": {"id": "crc32c", "location": "end"},
    }  # fmt: skip
    (source / ".zarray").write_text(json.dumps(document))
    payload = bytes(blosc.encode(values)) + EXTRA
    (source / "0").write_bytes(payload + google_crc32c.value(payload).to_bytes(4, "little"))
    assert migrate(source, tmp_path / "out.zarr").code == 0
    assert np.array_equal(zarr.open_array(tmp_path / "out.zarr", mode="r")[:], values)
    assert np.array_equal(by_tensorstore(tmp_path / "out.zarr"), values)


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("name", ["zlib", "gzip", "zstd", "bzip2"])
def test_behind_other_codecs_they_are_damage(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "source.zr"
    shutil.copytree(archive(Z5PY).path, copy)
    for chunk in chunks(copy / "group" / name):
        chunk.write_bytes(chunk.read_bytes() + EXTRA)
    ran = migrate(copy, tmp_path / "out.zarr", "--include", f"group/{name}")
    assert ran.code == 1
    assert not (tmp_path / "out.zarr/group" / name / "zarr.json").exists()
