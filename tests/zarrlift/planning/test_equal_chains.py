"""Filters that do nothing are left out, and packed values get registered names only where all bits stay."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import examples
from tests.support.documents import layout, write_one_chunk
from tests.support.readers import by_zarr_python

import zarrlift
from zarrlift.archive.nodes import Layout
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codec_table import REGISTERED_FILTERS
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.data_types.v3 import DataType, fill_to_json
from zarrlift.planning.equal_chains import equal_layout, numcodecs_form
from zarrlift.planning.zarr_json import array_document
from zarrlift.recipe.recipe import ArrayRecipe

Array = np.ndarray[Any, Any]
REGISTERED = ArrayRecipe(codecs="registered")
TYPES = ("<f4", "<f8", ">f8", "<i4", ">i2")
STORED = ("|i1", "|u1", "<i2", ">u2", "<i4", ">i8", "<u8", "<f2", "<f4", ">f8")
NUMBERS = st.sampled_from([0.01, -5, 1000, 0.1, 64, -0.5, 10, 1e-30, 3, 2**60 + 1]) | st.floats(-1e6, 1e6)


def of(codec: Any, dtype: str, fill: Any = 0, count: int = 6) -> Layout:
    """The layout of an array of one chunk with one filter."""
    configuration = dict(codec.get_config())
    spec = CodecSpec(f"numcodecs.{configuration.pop('id')}", configuration)
    native = np.dtype(dtype)
    endian = {"endian": "big" if dtype[0] == ">" else "little"} if native.itemsize > 1 else {}
    data_type = DataType.from_numpy(native)
    with np.errstate(all="ignore"):
        fill = fill_to_json(np.asarray(fill).astype(native.newbyteorder("="))[()], data_type)
    packing = CodecSpec("bytes", endian)
    return layout(packing, spec, shape=(count,), chunks=(count,), data_type=data_type, fill=fill)


def stored_values(stored: str) -> bytes:
    """Every value of a small type; of a large one extremes, NaNs of all kinds, and values drawn."""
    size = np.dtype(stored).itemsize
    if size <= 2:
        return np.arange(256**size, dtype=f"u{size}").tobytes()
    top = 1 << 8 * size
    edges = [0, 1, top - 1, top // 2, top // 2 - 1, top // 2 + 1]
    if stored[1] == "f":
        one = np.ones((), f"<f{size}").view(f"<u{size}").item()
        infinity = np.full((), np.inf, f"<f{size}").view(f"<u{size}").item()
        edges += [one, infinity, infinity + 1, infinity + one // 7, top // 2 + infinity + 1]
    drawn = np.random.default_rng(1).integers(0, top, 2000, dtype=f"u{size}", endpoint=False)
    return np.array([*edges, *drawn.tolist()], f"u{size}").astype(stored.replace(stored[1], "u")).tobytes()


def native(values: Array) -> bytes:
    return values.astype(values.dtype.newbyteorder("=")).tobytes()


@st.composite
def filters(draw: st.DrawFn) -> tuple[Any, str, str]:
    """(codec of numcodecs, type of the array, stored type)."""
    dtype, stored = draw(st.sampled_from(TYPES)), draw(st.sampled_from(STORED))
    kind = draw(st.sampled_from(["fixedscaleoffset", "astype", "quantize", "bitround", "delta"]))
    if kind == "fixedscaleoffset":
        return numcodecs.FixedScaleOffset(draw(NUMBERS), draw(NUMBERS), dtype, stored), dtype, stored
    if kind == "astype":
        return numcodecs.AsType(stored, dtype), dtype, stored
    if kind == "quantize":
        dtype, stored = draw(st.sampled_from(["<f4", ">f8"])), draw(st.sampled_from(["<f4", ">f8"]))
        return numcodecs.Quantize(3, dtype, stored), dtype, stored
    if kind == "bitround":
        return numcodecs.BitRound(5), "<f4", "<f4"
    return numcodecs.Delta(dtype), dtype, dtype


def renamed(codec: Any, dtype: str, stored: str, fill: Any) -> tuple[Layout, bytes, bytes] | None:
    """The layout, the payload and the values that numcodecs decodes; None if the filter keeps its name."""
    payload = stored_values(stored)
    source = of(codec, dtype, fill, len(payload) // np.dtype(stored).itemsize)
    result, notes = equal_layout(source, REGISTERED)
    kept = result.chain != source.chain
    assert kept or [note.kind for note in notes] == ["codec"]
    if not kept:
        return None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decoded = np.asarray(codec.decode(np.frombuffer(payload, stored))).view(dtype)
    return result, payload, native(decoded)


@examples(400)
@given(filters(), st.sampled_from([0, 1, -9999, np.nan, np.inf, -1e300]))
def test_what_gets_other_names_decodes_to_the_same_bits(case: tuple[Any, str, str], fill: float) -> None:
    if (result := renamed(*case, fill)) is not None:
        layout, payload, expected = result
        pipeline = Pipeline(layout.chain, layout.chunk_shape, layout.data_type)
        assert native(pipeline.decode(payload)) == expected
        document = array_document(layout, {})
        if any(name in json.dumps(document["codecs"]) for name in REGISTERED_FILTERS):
            known = numcodecs_form(document["codecs"], layout.data_type, layout.fill_value)
            assert "numcodecs" in json.dumps(known), "zarr-python 3.1 can check it, too"


@pytest.mark.filterwarnings(
    "ignore:(overflow|invalid value) encountered:RuntimeWarning"
)  # of zarr, by infinities
@pytest.mark.needs_reader("cast-value-rs")
@examples(100)
@given(filters(), st.sampled_from([0, 1, -9999, np.nan, np.inf, -1e300]))
def test_zarr_python_reads_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Any, str, str], fill: float
) -> None:
    if (result := renamed(*case, fill)) is not None:
        layout, payload, expected = result
        place = tmp_path_factory.mktemp("array")
        write_one_chunk(place, array_document(layout, {}), payload)
        assert native(np.asarray(by_zarr_python(place, "").values)) == expected


PACKED = numcodecs.FixedScaleOffset
CASES = [
    (PACKED(0, 10000, "<f8", "<u2"), "<f8", ["scale_offset", "cast_value", "bytes"]),
    (PACKED(0.5, 100, ">f8", ">i4"), ">f8", ["scale_offset", "cast_value", "bytes"]),
    (PACKED(1, 100, "<f8", "<f8"), "<f8", ["scale_offset", "bytes"]),
    (PACKED(0, 64, "<f4", "<i2"), "<f4", ["scale_offset", "cast_value", "bytes"]),
    (PACKED(-5, 1000, "<f4", "<i2"), "<f4", None),
    (PACKED(0, 100, "<f4", "<i4"), "<f4", None),
    (PACKED(0, 100, "<f8", "<f4"), "<f8", None),
    (PACKED(0, 2**60 + 1, "<f8", "<i4"), "<f8", None),
    (PACKED(3, 1, "<i4", "|u1"), "<i4", ["scale_offset", "cast_value", "bytes"]),
    (PACKED(0, 3, "<i4", "|u1"), "<i4", None),
    (numcodecs.AsType("<f4", "<f8"), "<f8", ["cast_value", "bytes"]),
    (numcodecs.AsType("<i2", "<i8"), "<i8", ["cast_value", "bytes"]),
    (numcodecs.AsType("<f2", "<f4"), "<f4", None),  # zarr-python makes NaNs quiet
    (numcodecs.AsType("<f8", "<f4"), "<f4", None),
    (numcodecs.Quantize(2, "<f8", "<f4"), "<f8", ["cast_value", "bytes"]),
    (numcodecs.Quantize(2, ">f4"), ">f4", ["bytes"]),
    (numcodecs.BitRound(9), "<f4", ["bytes"]),
    (numcodecs.AsType("<i4", "<i4"), "<i4", ["bytes"]),
    (numcodecs.AsType(">i4", "<i4"), "<i4", ["bytes"]),
    (numcodecs.Delta("<i4"), "<i4", None),
]


@pytest.mark.parametrize(("codec", "dtype", "names"), CASES, ids=str)
def test_which_filters_are_proven_equal(codec: Any, dtype: str, names: list[str] | None) -> None:
    source = of(codec, dtype)
    result, (message,) = equal_layout(source, REGISTERED)
    if names is None:
        assert result.chain == source.chain
        assert "packed values are decoded" in message.message
    else:
        assert [item["name"] for item in result.chain.to_json()] == names


@pytest.mark.parametrize("option", [{}, {"codecs": "registered", "order": "F"}, {"codecs": "zstd:1"}])
def test_packed_values_keep_their_names_without_the_option(option: dict[str, Any]) -> None:
    source = of(PACKED(0, 10000, "<f8", "<u2"), "<f8")
    assert equal_layout(source, ArrayRecipe(**option)) == (source, ())


# ----- archives


def packed_archive(root: Path) -> dict[str, bytes]:
    """An archive of Zarr v2 with a packed array, a rounded one and one that has no proof; its chunks."""
    values = np.round(np.linspace(-9, 9, 24), 1)
    arrays = {
        "packed": ("<f8", [PACKED(0, 10, "<f8", "<i2")], numcodecs.Zstd(3)),
        "rounded": ("<f4", [numcodecs.BitRound(9)], numcodecs.Zstd(3)),
        "unproven": ("<f4", [PACKED(-5, 1000, "<f4", "<i2")], numcodecs.Zstd(3)),
    }
    chunks = {}
    root.mkdir(parents=True)
    (root / ".zgroup").write_text('{"zarr_format": 2}')
    for name, (dtype, codecs, compressor) in arrays.items():
        data: Any = values.astype(dtype)
        for codec in (*codecs, compressor):
            data = codec.encode(data)
        (root / name).mkdir()
        document = {
            "zarr_format": 2, "shape": [24], "chunks": [24], "dtype": dtype, "fill_value": float("nan"),
            "order": "C", "filters": [codec.get_config() for codec in codecs],
            "compressor": compressor.get_config(),
        }  # fmt: skip
        (root / name / ".zarray").write_text(json.dumps(document))
        (root / name / "0").write_bytes(bytes(data))
        chunks[name] = bytes(data)
    return chunks


def names(place: Path) -> list[str]:
    """The codecs of an array's `zarr.json`."""
    return [codec["name"] for codec in json.loads((place / "zarr.json").read_text())["codecs"]]


def test_registered_names_leave_chunks_as_they_are(tmp_path: Path) -> None:
    chunks = packed_archive(tmp_path / "old")
    recipe = zarrlift.Recipe(base=REGISTERED)
    plan = zarrlift.plan(tmp_path / "old", tmp_path / "new", recipe=recipe)
    assert {array.path: array.route.name for array in plan.arrays} == {
        "packed": "relink", "rounded": "relink", "unproven": "recode",
    }  # fmt: skip
    (readers,) = [p for p in plan.all_problems() if p.kind == "readers" and p.node == "packed"]
    assert "cast-value-rs" in (readers.expected or "")
    zarrlift.migrate(tmp_path / "old", tmp_path / "new", recipe=recipe).raise_for_problems()
    for name in ("packed", "rounded"):
        assert (tmp_path / "new" / name / "c" / "0").read_bytes() == chunks[name]
    zarrlift.verify(tmp_path / "old", tmp_path / "new", recipe=recipe, full=True).raise_for_problems()


def test_by_default_only_a_filter_that_does_nothing_is_left_out(tmp_path: Path) -> None:
    chunks = packed_archive(tmp_path / "old")
    zarrlift.migrate(tmp_path / "old", tmp_path / "new").raise_for_problems()
    assert (tmp_path / "new" / "rounded" / "c" / "0").read_bytes() == chunks["rounded"]
    names = {
        name: [
            codec["name"]
            for codec in json.loads((tmp_path / "new" / name / "zarr.json").read_text())["codecs"]
        ]
        for name in chunks
    }
    assert names["rounded"] == ["bytes", "zstd"]
    assert names["packed"] == ["bytes", "blosc"]


def test_a_plan_says_what_grows_and_how_to_keep_it_packed(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 60_000, 40_000)
    packing = PACKED(0, 10_000, "<f8", "<u2")
    group = tmp_path / "old"
    packed_archive(group)
    document = json.loads((group / "packed" / ".zarray").read_text())
    document |= {"shape": [40_000], "chunks": [40_000], "filters": [packing.get_config()]}
    (group / "packed" / ".zarray").write_text(json.dumps(document))
    (group / "packed" / "0").write_bytes(numcodecs.Zstd(3).encode(packing.encode(values / 10_000)))
    plan = zarrlift.plan(group, tmp_path / "new")
    (grown,) = [problem for problem in plan.problems if problem.kind == "size"]
    assert "1 array is foreseen to become" in grown.message
    assert (grown.found or "").endswith("kB stored")
    assert "about" in (grown.expected or "")
    assert "--codecs registered or --codecs keep" in (grown.advice or "")
    for way in ("registered", "keep"):
        kept = zarrlift.plan(
            group,
            tmp_path / "new",
            recipe=zarrlift.Recipe(base=ArrayRecipe(codecs=way), exclude=("unproven",)),
        )
        assert not [problem for problem in kept.problems if problem.kind == "size"]
        assert sum(array.bytes_out for array in kept.arrays) < 100_000


def test_in_place_a_filter_that_does_nothing_is_left_out(tmp_path: Path) -> None:
    packed_archive(tmp_path / "old")
    zarrlift.migrate(tmp_path / "old", in_place=True, recipe=zarrlift.Recipe(include=("rounded",)))
    assert names(tmp_path / "old" / "rounded") == ["bytes", "zstd"]
