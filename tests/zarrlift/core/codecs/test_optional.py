"""zfpy, pcodec and the codecs of imagecodecs, TIFF files too, against what zarr-python 2.18 wrote."""

from __future__ import annotations

import json
import pickle
import random
import struct
import subprocess
import sys
from functools import partial
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
from tests.support.chances import try_each
from tests.support.optional_archives import optional, seen_by_zarr2, tiff

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codec_table import TABLE
from zarrlift.core.codecs import tiff_directories, zstd
from zarrlift.core.codecs.base import Size
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.codecs.registry import compile_bytes_codec
from zarrlift.core.codecs.tiff_directories import DEPTHS, TILE_LENGTH, TILE_WIDTH, tiff_bytes
from zarrlift.core.codecs.zstd import Zstd
from zarrlift.core.zarr_v2.chain import read_chain
from zarrstack.core.errors import ChunkError, MetadataError, UnsupportedError

PACKAGES = {
    name: row.package for name, row in TABLE.items() if row.extra == "codecs" and row.role == "compressor"
}
IMAGECODECS = {name for name, package in PACKAGES.items() if package == "imagecodecs"}
REFUSED = {"images/jpegxr_u2"}
TIFF = sorted(f"tiff/{path}" for path in seen_by_zarr2(tiff)["codecs.zarr"])
ARRAYS = sorted(seen_by_zarr2()["codecs.zarr"].keys() - REFUSED)


def opened(path: str) -> tuple[Pipeline, dict[str, Any], Path]:
    """The compiled chain, the document and the folder of an array."""
    name = path.removeprefix("tiff/")
    folder = (optional() if name == path else tiff()) / "codecs.zarr" / name
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


def test_no_part_of_a_payload_is_taken_for_another_chunk() -> None:
    try_each((*ARRAYS, *TIFF), assert_no_part_is_another_chunk)


def assert_no_part_is_another_chunk(path: str) -> None:
    pipeline, data = first(path)
    whole = pipeline.decode(data)
    for cut in range(0, len(data), max(1, len(data) // 40)):
        try:
            found = pipeline.decode(data[:cut])
        except ChunkError:
            continue
        assert found.tobytes() == whole.tobytes(), cut  # what is missing holds no values


def test_a_damaged_payload_is_an_error_or_a_chunk() -> None:
    try_each(ARRAYS, assert_damage_is_an_error_or_a_chunk)


def assert_damage_is_an_error_or_a_chunk(path: str) -> None:
    pipeline, data = first(path)
    rng = random.Random(path)
    for _ in range(40):
        damaged = bytearray(data)
        damaged[rng.randrange(min(len(data), 64))] = rng.randrange(256)
        try:
            assert pipeline.decode(bytes(damaged)).shape == pipeline.decode(data).shape
        except ChunkError:
            continue


@pytest.mark.parametrize("path", [path for path in ARRAYS if path.startswith(("zfpy/axes", "images/zfp"))])
def test_a_header_of_a_larger_chunk_is_never_decoded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, data = first(path)
    smaller = Size(pipeline.decode(data).nbytes // 8, exact=True)
    codec = pipeline._bytes_codecs[0]
    monkeypatch.setattr("zfpy.decompress_numpy", lambda *_: pytest.fail("decoded"))
    monkeypatch.setattr(imagecodecs, "zfp_decode", lambda *_: pytest.fail("decoded"))
    with pytest.raises(ChunkError, match="does not hold this chunk"):
        codec.decode(data, smaller)


IMAGES = ("jpeg", "jpeg2k", "jpegls", "jpegxl", "lerc", "png", "tiff", "webp")
LOSSLESS: dict[str, dict[str, Any]] = {
    "jpegxl": {"lossless": True, "effort": 1},
    "webp": {"lossless": True, "level": 0},
    "tiff": {"compression": "deflate"},
}


def image_pipeline(name: str, shape: tuple[int, ...], dtype: str = "|u1", order: str = "C") -> Pipeline:
    """The compiled chain of an array whose chunks are images."""
    compressor = {"id": f"imagecodecs_{name}"}
    document = {"shape": shape, "dtype": dtype, "order": order, "filters": None, "compressor": compressor}
    chain, data_type, problems = read_chain(document, np.dtype(dtype))
    assert not problems
    return Pipeline(chain, shape, data_type)


def encoded(name: str, image: np.ndarray[Any, Any]) -> bytes:
    return bytes(getattr(imagecodecs, f"{name}_encode")(image, **LOSSLESS.get(name, {})))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(9, 17, 3), (1, 9, 17, 3), (9, 17, 3, 1)])
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_decoded_into_the_shape_of_its_chunk(
    name: str, shape: tuple[int, ...], order: str
) -> None:
    """As zarr-python 2 stores chunks: without axes of length 1, and in order F with the axes as they are."""
    image = np.arange(9 * 17 * 3, dtype="u1").reshape(9, 17, 3)
    data = encoded(name, image)
    values = getattr(imagecodecs, f"{name}_decode")(data).reshape(shape)
    expected = (
        values.reshape(shape, order="C") if order == "C" else values.reshape(-1).reshape(shape, order="F")
    )
    assert np.array_equal(image_pipeline(name, shape, order=order).decode(data), expected)


@pytest.mark.parametrize("name", sorted({*IMAGES} - {"tiff"}))
@pytest.mark.parametrize(
    ("shape", "dtype"), [((8, 16, 3), "|u1"), ((9, 17), "|u1"), ((459,), "|u1"), ((9, 17, 3), "<u2")], ids=str
)
def test_an_image_of_another_shape_or_type_is_refused(name: str, shape: tuple[int, ...], dtype: str) -> None:
    data = encoded(name, np.zeros((9, 17, 3), "u1"))
    with pytest.raises(ChunkError, match="does not have the shape and the type of its chunk"):
        image_pipeline(name, shape, dtype).decode(data)


BOMBS = """
import pickle, resource, sys
from zarrstack.core.errors import ChunkError

from zarrlift.core.codecs.pipeline import Pipeline

for name, chain, shape, data_type, (small, bomb) in pickle.load(sys.stdin.buffer):
    pipeline = Pipeline(chain, shape, data_type)
    pipeline.decode(small)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        pipeline.decode(bomb)
    except ChunkError:
        print(name, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
SIDE = 1600
QUICKER: dict[str, Any] = {
    "brotli": lambda data: imagecodecs.brotli_encode(data, level=1),
    "packbits": lambda data: b"\xc1\0" * (len(data) // 64),
    "zopfli": imagecodecs.zlib_encode,
}
"""Other encoders of the same streams, where imagecodecs takes minutes for zeros."""


@pytest.mark.needs_reader("once")
def test_a_payload_larger_than_its_chunk_takes_no_memory_for_it() -> None:
    """Each codec of imagecodecs, in a process of its own: C libraries take memory that Python does not see.

    The first decoding of a small payload loads the library.
    """
    cases = []
    for name in sorted(each.removeprefix("imagecodecs_") for each in IMAGECODECS - {"imagecodecs_delta"}):
        options: dict[str, Any] = {**LOSSLESS.get(name, {}), **({"header": True} if name == "lz4" else {})}
        kind, channels = ("f4", ()) if name == "zfp" else ("u1", (3,))
        plain: list[Any] = [np.zeros((side, side, *channels), kind) for side in (8, SIDE)]
        if name not in (*IMAGES, "zfp"):
            plain = [each.tobytes() for each in plain]
        try:
            encode = QUICKER.get(name) or partial(getattr(imagecodecs, f"{name}_encode"), **options)
            payloads = [bytes(encode(each)) for each in plain]
        except imagecodecs.DelayedImportError:
            continue
        compressor = {"id": f"imagecodecs_{name}", **({"header": True} if name in ("lz4", "zfp") else {})}
        document = {"shape": [8, 8, *channels], "dtype": f"<{kind}", "order": "C", "filters": None}
        chain, data_type, problems = read_chain({**document, "compressor": compressor}, np.dtype(kind))
        assert not problems
        cases.append((name, chain, (8, 8, *channels), data_type, payloads))
    assert {*IMAGES, "zfp"} <= {name for name, *_ in cases}
    done = subprocess.run(
        [sys.executable, "-c", BOMBS], input=pickle.dumps(cases), capture_output=True, check=True
    )
    grown = dict(line.split() for line in done.stdout.decode().splitlines())
    assert grown.keys() == {name for name, *_ in cases}, "each is refused"
    assert {name: kib for name, kib in grown.items() if int(kib) > SIDE * SIDE // 2048} == {}


def test_every_name_has_a_codec() -> None:
    for name in PACKAGES:
        spec = CodecSpec(name, {"header": True} if name in ("imagecodecs_zfp", "imagecodecs_lz4") else {})
        codec = compile_bytes_codec(spec, np.dtype("<f4"))
        with pytest.raises(UnsupportedError, match="is read, but not written"):
            codec.encode(b"")


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
        ({"id": "imagecodecs_tiff", "asrgb": True}, "<u2", "with asrgb is not supported"),
        *(
            ({"id": "imagecodecs_tiff", "index": index}, "<u2", "needs the number of an image")
            for index in (-1, True, [0, 1], "0")
        ),
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


# `imagecodecs_tiff`: chunks that are TIFF files, against what zarr-python 2.18 wrote and read.

PIXELS = bytes(range(240))
"""An image of 10 rows of 12 pixels of 2 bytes."""
EXACT = Size(240, exact=True)


def file_of(
    *pages: dict[int, int], order: str = "<", big: bool = False, cycle: bool = False, pixels: bytes = PIXELS
) -> bytes:
    """A TIFF file of uncompressed pages of 10 x 12 uint16 with the same pixels; each page changes tags."""
    header = 16 if big else 8
    offset, count, entry = ("Q", "Q", 20) if big else ("I", "H", 12)
    start = b"II" if order == "<" else b"MM"
    start += struct.pack(order + "HHHQ", 43, 8, 0, header) if big else struct.pack(order + "HI", 42, header)
    plain = {256: 12, 257: 10, 258: 16, 259: 1, 262: 1, 273: 0, 277: 1, 278: 10, 279: len(pixels)}
    all_tags = [{**plain, **page} for page in pages]
    sizes = [struct.calcsize(order + count) + entry * len(t) + struct.calcsize(offset) for t in all_tags]
    data_at = header + sum(sizes)
    out = start
    for number, tags in enumerate(all_tags):
        tags[273] = data_at
        out += struct.pack(order + count, len(tags))
        for tag in sorted(tags):
            # A long, as which every number of these tags is allowed.
            value = struct.pack(order + "I", tags[tag]).ljust(struct.calcsize(offset), b"\0")
            out += struct.pack(f"{order}HH{offset}", tag, 4, 1) + value
        following = len(out) + struct.calcsize(offset) if number + 1 < len(pages) else header if cycle else 0
        out += struct.pack(order + offset, following)
    return out + pixels


def tiff_codec(**configuration: Any) -> Any:
    """The compiled codec."""
    return compile_bytes_codec(CodecSpec("imagecodecs_tiff", configuration), np.dtype("<u2"))


def values(data: bytes, size: Size = EXACT, **configuration: Any) -> bytes:
    """The decoded bytes of a payload."""
    images = () if size == EXACT else (size.at_most // EXACT.at_most,)
    codec = tiff_codec(**configuration).for_chunk((*images, 10, 12))
    return bytes(memoryview(codec.decode(data, size)).cast("B"))


@pytest.mark.parametrize("path", TIFF)
def test_a_damaged_tiff_file_is_an_error_or_a_chunk(path: str) -> None:
    pipeline, data = first(path)
    shape = pipeline.decode(data).shape
    rng = random.Random(path)
    for _ in range(60):
        damaged = bytearray(data)
        at = rng.randrange(len(damaged))
        damaged[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\1\0", rng.randbytes(1)))
        try:
            assert pipeline.decode(bytes(damaged)).shape == shape
        except ChunkError:
            continue


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
def test_directories_of_every_form_are_read(order: str, big: bool) -> None:
    data = file_of({}, order=order, big=big)
    assert tiff_bytes(data, None) == 240
    assert tiff_bytes(file_of({}, {}, {}, order=order, big=big), None) == 720
    assert tiff_bytes(file_of({}, {}, {}, order=order, big=big), 1) == 240
    expected = np.frombuffer(PIXELS, order + "u2").astype("<u2").tobytes()
    assert values(data) == expected
    assert all(tiff_bytes(data[:cut], None) is None for cut in range(len(data) - len(PIXELS)))


def test_all_images_are_one_chunk_unless_one_is_named() -> None:
    data = file_of({}, {})
    assert values(data, Size(480, exact=True)) == 2 * PIXELS
    assert values(data, index=1) == PIXELS
    for size, index in ((EXACT, None), (Size(480, exact=True), 0), (EXACT, 2)):
        with pytest.raises(ChunkError):
            values(data, size, index=index)


def test_a_smaller_image_beside_the_first_is_not_part_of_the_chunk() -> None:
    thumbnail = {256: 6, 257: 5, 278: 5, 279: 60}
    assert values(file_of({}, thumbnail)) == PIXELS


def test_a_cycle_of_directories_ends() -> None:
    assert tiff_bytes(file_of({}, cycle=True), None) == 240
    assert values(file_of({}, cycle=True)) == PIXELS


HOSTILE = {
    "an image": file_of({256: 100_000, 257: 100_000, 278: 100_000}),
    "samples": file_of({277: 60_000}),
    "images": file_of(*[{}] * 50),
    "a tile": file_of({TILE_WIDTH: 65_536, TILE_LENGTH: 65_536, 324: 100, 325: 240}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_would_be_larger_than_its_chunk_is_never_decoded(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imagecodecs, "tiff_decode", lambda *_, **__: pytest.fail("decoded"))
    with pytest.raises(ChunkError, match="larger than its chunk"):
        values(HOSTILE[what])


@pytest.mark.parametrize("tag", DEPTHS)
def test_an_image_with_a_depth_is_never_decoded(tag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """imagecodecs would return memory that was never written in place of the second plane."""
    monkeypatch.setattr(imagecodecs, "tiff_decode", lambda *_, **__: pytest.fail("decoded"))
    with pytest.raises(ChunkError, match="not a whole image"):
        values(file_of({tag: 2, 279: 240}, pixels=2 * PIXELS), Size(480, exact=True))
    assert tiff_bytes(file_of({tag: 1}), None) == 240


def test_directories_that_overlap_are_not_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(800_000)
    data[:8] = b"II*\0" + struct.pack("<I", 8)
    for number in range(20):
        at, count = 8 + 2 * number, 60_000 - number
        struct.pack_into("<H", data, at, count)
        struct.pack_into("<I", data, at + 2 + 12 * count, at + 2)
    read = []
    tags_of = tiff_directories._tags
    monkeypatch.setattr(tiff_directories, "_tags", lambda *given: read.append(given[-1]) or tags_of(*given))
    assert tiff_bytes(bytes(data), None) is None
    assert read == [60_000]


@pytest.mark.parametrize(
    ("path", "at", "damage"),
    [("tiff/predictor", 38, b"\x09"), ("tiff/predictor_float", 144, b"\xaa")],
    ids=str,
)
def test_what_a_damaged_strip_does_not_fill_is_not_taken_from_memory(
    path: str, at: int, damage: bytes
) -> None:
    """libtiff reports no error for these two, and imagecodecs returns memory that was never written."""
    pipeline, data = first(path)
    damaged = data[:at] + damage + data[at + len(damage) :]
    imagecodecs.tiff_decode(damaged, index=None)
    with pytest.raises(ChunkError, match="not whole"):
        pipeline.decode(damaged)


@pytest.mark.parametrize("change", [{278: 5}, {277: 2, 284: 2}, {279: 0}], ids=["strip", "plane", "size"])
def test_an_image_without_one_of_its_parts_is_never_decoded(
    change: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """libtiff leaves a missing part black where it converts colours, such as those of JPEG and CMYK."""
    monkeypatch.setattr(imagecodecs, "tiff_decode", lambda *_, **__: pytest.fail("decoded"))
    with pytest.raises(ChunkError, match="not a whole image"):
        values(file_of(change))
