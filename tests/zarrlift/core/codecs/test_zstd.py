"""zstd: what is encoded is as small as zstd's own level makes it, and every reader takes it."""

from __future__ import annotations

from unittest import mock

import numcodecs
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.codecs import zstd
from zarrlift.core.codecs.base import Size
from zarrlift.core.codecs.zstd import Zstd
from zarrstack.core.codec_spec import CodecSpec

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
