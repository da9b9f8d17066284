"""zfpy, pcodec and the codecs of imagecodecs, against what zarr-python 2.18 wrote and read."""

from __future__ import annotations

import importlib.util
import json
import random
from pathlib import Path
from typing import Any
from unittest import mock

import imagecodecs
import numcodecs
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.support.optional_archives import optional, seen_by_zarr2

from zarrlift.core.chain.chain import Chain
from zarrlift.core.chain.optional_codecs import PACKAGES
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs import optional as optional_module
from zarrlift.core.codecs import zstd
from zarrlift.core.codecs.base import Size
from zarrlift.core.codecs.image_headers import LEAST_BYTES
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.codecs.registry import BYTES_CODECS, compile_bytes_codec
from zarrlift.core.codecs.zstd import Zstd
from zarrlift.core.zarr_v2.chain import read_chain
from zarrstack.core.errors import ChunkError, MetadataError, UnsupportedError

REFUSED = {"images/jpegxr_u2"}
ARRAYS = sorted(seen_by_zarr2()["codecs.zarr"].keys() - REFUSED)


def opened(path: str) -> tuple[Pipeline, dict[str, Any], Path]:
    """The compiled chain, the document and the folder of an array."""
    folder = optional() / "codecs.zarr" / path
    document = json.loads((folder / ".zarray").read_text())
    chain, data_type, problems = read_chain(document, np.dtype(document["dtype"]))
    assert not problems
    return Pipeline(chain, tuple(document["chunks"]), data_type), document, folder


def first(path: str) -> tuple[Pipeline, bytes]:
    pipeline, _, folder = opened(path)
    return pipeline, next(file for file in sorted(folder.iterdir()) if file.name[0] != ".").read_bytes()


@pytest.mark.parametrize("path", ARRAYS)
def test_every_array_decodes_to_what_zarr_2_reads(path: str) -> None:
    pipeline, document, folder = opened(path)
    expected = np.dtype(document["dtype"])
    chunks, shape = document["chunks"], document["shape"]
    found = np.full(shape, document["fill_value"] or 0, expected.newbyteorder("="))
    for file in folder.iterdir():
        if file.name[0] == ".":
            continue
        starts = [int(n) * length for n, length in zip(file.name.split("."), chunks, strict=True)]
        place = tuple(slice(start, start + length) for start, length in zip(starts, chunks, strict=True))
        part = tuple(slice(0, max(0, end - start)) for start, end in zip(starts, shape, strict=True))
        found[place] = pipeline.decode(file.read_bytes())[part][tuple(map(slice, found[place].shape))]
    assert found.tobytes().hex() == seen_by_zarr2()["codecs.zarr"][path]["values"]


@pytest.mark.parametrize("path", ARRAYS)
def test_no_part_of_a_payload_is_taken_for_another_chunk(path: str) -> None:
    pipeline, data = first(path)
    whole = pipeline.decode(data)
    for cut in range(0, len(data), max(1, len(data) // 40)):
        try:
            found = pipeline.decode(data[:cut])
        except ChunkError:
            continue
        assert np.array_equal(found, whole), cut  # what is missing holds no values


@pytest.mark.parametrize("path", ARRAYS)
def test_a_damaged_payload_is_an_error_or_a_chunk(path: str) -> None:
    pipeline, data = first(path)
    rng = random.Random(path)
    for _ in range(40):
        damaged = bytearray(data)
        damaged[rng.randrange(min(len(data), 64))] = rng.randrange(256)
        try:
            assert pipeline.decode(bytes(damaged)).shape == pipeline.decode(data).shape
        except ChunkError:
            continue


@pytest.mark.parametrize(
    "path", [path for path in ARRAYS if path.startswith(("zfpy/axes", "images/j", "images/png"))]
)
def test_a_header_of_a_larger_chunk_is_never_decoded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, data = first(path)
    smaller = Size(pipeline.decode(data).nbytes // 8, exact=True)
    codec = pipeline._bytes_codecs[0]
    for name in ("jpeg", "jpeg2k", "jpegls", "jpegxl", "png"):
        monkeypatch.setattr(imagecodecs, f"{name}_decode", lambda *_, **__: pytest.fail("decoded"))
    monkeypatch.setattr("zfpy.decompress_numpy", lambda *_: pytest.fail("decoded"))
    with pytest.raises(ChunkError, match=r"larger than its chunk|does not hold this chunk"):
        codec.decode(data, smaller)


def encoded(name: str, image: np.ndarray[Any, Any]) -> bytes:
    options: dict[str, Any] = {"jpegxl": {"lossless": True}, "webp": {"lossless": True}}.get(name, {})
    return bytes(getattr(imagecodecs, f"{name}_encode")(image, **options))


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (9, 17), (64, 100), (256, 1000), (1100, 3)])
@pytest.mark.parametrize("name", LEAST_BYTES)
def test_the_size_in_a_header_is_that_of_the_image(name: str, shape: tuple[int, int]) -> None:
    image = np.arange(shape[0] * shape[1] * 3, dtype="u1").reshape(*shape, 3)
    least = LEAST_BYTES[name](encoded(name, image))
    pixels = shape[0] * shape[1]
    assert least in (pixels, 3 * pixels)
    assert LEAST_BYTES[name](b"") is None
    assert LEAST_BYTES[name](encoded(name, image)[:6]) is None


def test_every_name_has_a_codec() -> None:
    assert PACKAGES.keys() <= BYTES_CODECS.keys()
    for name in PACKAGES:
        spec = CodecSpec(name, {"header": True} if name in ("imagecodecs_zfp", "imagecodecs_lz4") else {})
        codec = compile_bytes_codec(spec, np.dtype("<f4"))
        with pytest.raises(UnsupportedError, match="is read, but not written"):
            codec.encode(b"")


@pytest.mark.parametrize(("name", "package"), PACKAGES.items())
def test_without_its_package_a_codec_is_refused_by_the_package(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        optional_module, "find_spec", lambda wanted: None if wanted == package else find(wanted)
    )
    document = {
        "shape": [4], "dtype": "<f4", "order": "C", "filters": None,
        "compressor": {"id": name.removeprefix("numcodecs."), "header": True} if "image" in name
        else {"id": name.removeprefix("numcodecs.")},
    }  # fmt: skip
    _, _, problems = read_chain(document, np.dtype("<f4"))
    assert f"expected {package}. Install it: pip install {package} (the extra codecs)" in str(problems[0])


@pytest.mark.parametrize(
    ("compressor", "dtype", "told"),
    [
        ({"id": "zfpy", "mode": 4}, ">f4", "does not encode these items"),
        ({"id": "zfpy", "mode": 4}, "<f2", "does not encode these items"),
        ({"id": "pcodec"}, "|u1", "does not encode these items"),
        ({"id": "pcodec", "surprise": 1}, "<f4", "unknown members"),
        ({"id": "imagecodecs_zfp", "header": False}, "<f4", "without a header is not supported"),
        ({"id": "imagecodecs_jpegxr"}, "<u2", "'imagecodecs_jpegxr' of imagecodecs is not supported"),
        ({"id": "imagecodecs_jpeg", "tables": "AAAA"}, "|u1", "separate tables"),
    ],
)
def test_what_cannot_be_decoded_is_refused_before_a_chunk_is_read(
    compressor: dict[str, Any], dtype: str, told: str
) -> None:
    document = {"shape": [4], "dtype": dtype, "order": "C", "filters": None, "compressor": compressor}
    _, _, problems = read_chain(document, np.dtype(dtype))
    assert isinstance(problems[0], MetadataError | UnsupportedError)
    assert told in str(problems[0])


@pytest.mark.parametrize("name", ["numcodecs.zfpy", "numcodecs.pcodec"])
def test_in_v3_the_codec_takes_the_place_of_bytes(name: str) -> None:
    document = [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": name, "configuration": {"level": 8}},
        {"name": "numcodecs.zlib", "configuration": {"level": 1}},
    ]
    chain = Chain.from_json(document)
    assert [codec.name for codec in chain.codecs] == ["transpose", "bytes", name, "numcodecs.zlib"]
    assert chain.to_json() == document
    behind = Chain(
        (CodecSpec("bytes", {"endian": "little"}), CodecSpec("gzip", {"level": 1}), CodecSpec(name))
    )
    with pytest.raises(UnsupportedError, match="has no form in v3"):
        behind.to_json()


# zstd: what is encoded is as small as zstd's own level makes it, and every reader takes it.


RNG = np.random.default_rng(5)
CAMERA = (RNG.poisson(300, 200_000) + 100).astype("<u2").tobytes()
FIELD = RNG.normal(280, 5, 100_000).astype("<f4").tobytes()
LABELS = np.repeat(RNG.integers(0, 1 << 40, 500), 100).astype("<u8").tobytes()
TEXT = " ".join(str(number) for number in range(60_000)).encode()


def codec(level: int = 3, *, checksum: bool = False) -> Zstd:
    """The codec as an array names it."""
    return Zstd.from_spec(CodecSpec("zstd", {"level": level, "checksum": checksum}))


def levels_own(data: bytes, level: int = 3) -> bytes:
    """What zstd makes of it by itself."""
    return zstandard.ZstdCompressor(level=level).compress(data)


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("data", [CAMERA, FIELD, CAMERA + FIELD], ids=["camera", "field", "both"])
def test_noise_takes_no_more_room_without_a_table_of_long_matches(
    data: bytes, level: int, checksum: bool
) -> None:
    frame = codec(level, checksum=checksum).encode(data)
    assert bytes(numcodecs.Zstd().decode(frame)) == zstandard.decompress(frame) == data
    assert len(frame) <= len(levels_own(data, level)) * 1.002
    parameters = zstandard.get_frame_parameters(frame)
    assert (parameters.content_size, parameters.has_checksum) == (len(data), checksum)


@pytest.mark.parametrize(
    "data",
    {
        "labels": LABELS,
        "text": TEXT,
        "zeros": bytes(400_000),
        "noise that comes again": CAMERA * 3,
        "noise in the middle of zeros": bytes(300_000) + CAMERA[:100_000] + bytes(300_000),
        "little": CAMERA[: zstd._TABLED_FROM],
    }.items(),
    ids=lambda item: item[0],
)
def test_all_else_is_encoded_as_zstd_does_by_itself(data: tuple[str, bytes]) -> None:
    _, plain = data
    assert codec().encode(plain) == levels_own(plain)


@pytest.mark.parametrize("level", [-1, 1, 2, 4, 19])
def test_other_levels_are_zstd_s_own(level: int) -> None:
    assert codec(level).encode(CAMERA) == levels_own(CAMERA, level)


@given(parts=st.lists(st.sampled_from([CAMERA[:700], FIELD[:500], LABELS[:900], TEXT[:300], bytes(800)])))
def test_whatever_a_chunk_is_made_of_it_comes_back(parts: list[bytes]) -> None:
    data = b"".join(parts)
    with mock.patch.object(zstd, "_TABLED_FROM", 512), mock.patch.object(zstd, "_SAMPLE", 256):
        frame = codec().encode(data)
    assert codec().decode(frame, Size(len(data), exact=True)) == data
    assert len(frame) <= 1.1 * len(levels_own(data)) + 64
