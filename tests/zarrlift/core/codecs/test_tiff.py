"""`imagecodecs_tiff`: chunks that are TIFF files, against what zarr-python 2.18 wrote and read."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import imagecodecs
import numpy as np
import pytest
from tests.support.optional_archives import seen_by_zarr2, tiff

from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs import tiff_header
from zarrlift.core.codecs.base import Size
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.codecs.registry import compile_bytes_codec
from zarrlift.core.codecs.tiff_header import DEPTHS, TILE_LENGTH, TILE_WIDTH, tiff_bytes
from zarrlift.core.zarr_v2.chain import read_chain
from zarrstack.core.errors import ChunkError

ARRAYS = sorted(seen_by_zarr2(tiff)["codecs.zarr"])
PIXELS = bytes(range(240))
"""An image of 10 rows of 12 pixels of 2 bytes."""
EXACT = Size(240, exact=True)


def first(path: str) -> tuple[Pipeline, bytes]:
    """The compiled chain of an array and its first chunk."""
    folder = tiff() / "codecs.zarr" / path
    document = json.loads((folder / ".zarray").read_text())
    chain, data_type, problems = read_chain(document, np.dtype(document["dtype"]))
    assert not problems
    chunk = next(file for file in sorted(folder.iterdir()) if file.name[0] != ".")
    return Pipeline(chain, tuple(document["chunks"]), data_type), chunk.read_bytes()


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


def codec(**configuration: Any) -> Any:
    """The compiled codec."""
    return compile_bytes_codec(CodecSpec("imagecodecs_tiff", configuration), np.dtype("<u2"))


def values(data: bytes, size: Size = EXACT, **configuration: Any) -> bytes:
    """The decoded bytes of a payload."""
    return bytes(memoryview(codec(**configuration).decode(data, size)).cast("B"))


@pytest.mark.parametrize("path", ARRAYS)
def test_no_part_of_a_payload_is_taken_for_another_chunk(path: str) -> None:
    pipeline, data = first(path)
    whole = pipeline.decode(data)
    for cut in range(0, len(data), max(1, len(data) // 40)):
        try:
            found = pipeline.decode(data[:cut])
        except ChunkError:
            continue
        assert found.tobytes() == whole.tobytes(), cut  # what is missing holds no values


@pytest.mark.parametrize("path", ARRAYS)
def test_a_damaged_payload_is_an_error_or_a_chunk(path: str) -> None:
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
    tags_of = tiff_header._tags
    monkeypatch.setattr(tiff_header, "_tags", lambda *given: read.append(given[-1]) or tags_of(*given))
    assert tiff_bytes(bytes(data), None) is None
    assert read == [60_000]


@pytest.mark.parametrize(
    ("configuration", "told"),
    [
        ({"asrgb": True}, "with asrgb is not supported"),
        ({"index": -1}, "needs the number of an image"),
        ({"index": True}, "needs the number of an image"),
        ({"index": [0, 1]}, "needs the number of an image"),
        ({"index": "0"}, "needs the number of an image"),
    ],
)
def test_other_readings_of_a_file_are_refused_before_a_chunk_is_read(
    configuration: dict[str, Any], told: str
) -> None:
    compressor = {"id": "imagecodecs_tiff", **configuration}
    document = {"shape": [4], "dtype": "<u2", "order": "C", "filters": None, "compressor": compressor}
    _, _, problems = read_chain(document, np.dtype("<u2"))
    assert told in str(problems[0])


@pytest.mark.parametrize(
    ("path", "at", "damage"), [("predictor", 38, b"\x09"), ("predictor_float", 144, b"\xaa")], ids=str
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
