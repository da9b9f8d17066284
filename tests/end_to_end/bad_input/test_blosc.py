"""Blosc chunks that numcodecs alone would read wrongly without a word, or not at all."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numcodecs
import numpy as np
import pytest
from tests.support.damaged_archives import assert_good, migrate, write_archive, write_array

WHOLE = bytes(numcodecs.Blosc("lz4", 5, 1).encode(np.arange(4000, dtype="<i4") % 7))


def lying(cut: int) -> bytes:
    """Cut short, with a header that says so (bytes 12 to 15: compressed size)."""
    short = WHOLE[:-cut]
    return short[:12] + struct.pack("<I", len(short)) + short[16:]


def by(number: int) -> bytes:
    """As if compressed with another codec (bits 5 to 7 of the flags)."""
    return WHOLE[:2] + bytes([WHOLE[2] & 0x1F | number << 5]) + WHOLE[3:]


DAMAGE: dict[str, Callable[[], bytes]] = {
    "one byte short": lambda: WHOLE[:-1],
    "half": lambda: WHOLE[: len(WHOLE) // 2],
    "a header only": lambda: WHOLE[:16],
    "less than a header": lambda: WHOLE[:10],
    "short and the header agrees": lambda: lying(5),
    "shorter and the header agrees": lambda: lying(len(WHOLE) // 2),
    "snappy": lambda: by(2),
    "a codec that does not exist": lambda: by(6),
}


@pytest.mark.parametrize("options", [[], ["--codecs", "zstd:1"]], ids=["copied", "decoded"])
@pytest.mark.parametrize("damaged", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_blosc_chunk_is_refused(
    damaged: Callable[[], bytes], options: list[str], tmp_path: Path
) -> None:
    source, destination = write_archive(tmp_path / "source.zarr"), tmp_path / "out.zarr"
    blosc = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    write_array(source / "bad", {"0": damaged()}, shape=[4000], chunks=[4000], compressor=blosc)
    ran = migrate(source, destination, *options)
    assert ran.code == 1
    assert [(p["kind"], p["node"], p["key"]) for p in ran.refusals] == [("chunk", "bad", "bad/0")]
    assert not (destination / "bad/zarr.json").exists()
    assert_good(destination)
