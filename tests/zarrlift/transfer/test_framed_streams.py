"""Shuffled and compressed chunks of Zarr v2 become blosc containers around the same streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numcodecs
import numcodecs.blosc
import numpy as np
import pytest
from tests.support.readers import by_tensorstore, by_zarr_python

import zarrlift

COMPRESSORS = [numcodecs.Zlib(4), numcodecs.LZ4(), numcodecs.Zstd(3)]


def archive(root: Path, values: np.ndarray[Any, Any], compressor: Any, size: int) -> bytes:
    """An array of Zarr v2 with one chunk; its stream, without the size that LZ4 begins with."""
    shuffle = numcodecs.Shuffle(size)
    payload = bytes(compressor.encode(shuffle.encode(values.tobytes())))
    root.mkdir()
    document = {
        "zarr_format": 2, "shape": [len(values)], "chunks": [len(values)], "dtype": values.dtype.str,
        "fill_value": 0, "order": "C", "filters": [shuffle.get_config()],
        "compressor": compressor.get_config(),
    }  # fmt: skip
    (root / ".zarray").write_text(json.dumps(document))
    (root / "0").write_bytes(payload)
    return payload[4:] if compressor.codec_id == "lz4" else payload


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("compressor", COMPRESSORS, ids=lambda codec: codec.codec_id)
@pytest.mark.parametrize(("dtype", "size", "count"), [("<u2", 2, 7), ("<f4", 4, 70_000), (">f8", 16, 3000)])
def test_a_stream_stays_and_others_read_it(
    compressor: Any, dtype: str, size: int, count: int, tmp_path: Path
) -> None:
    values = np.cumsum(np.random.default_rng(0).integers(0, 3, count // 2 * 2)).astype(dtype)
    stream = archive(tmp_path / "old", values, compressor, size)
    zarrlift.migrate(tmp_path / "old", tmp_path / "new").raise_for_problems()
    container = (tmp_path / "new" / "c" / "0").read_bytes()
    assert container.endswith(stream) is (len(stream) + 8 <= values.nbytes)
    assert bytes(numcodecs.blosc.decompress(container)) == values.tobytes()
    for reader in (by_zarr_python, by_tensorstore):
        assert np.array_equal(np.asarray(reader(tmp_path / "new", "").values), values)


def test_noise_is_compressed_again(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 32, 1000, dtype="<u4")
    stream = archive(tmp_path / "old", values, numcodecs.Zlib(1), 4)
    assert len(stream) + 8 > values.nbytes
    zarrlift.migrate(tmp_path / "old", tmp_path / "new").raise_for_problems()
    assert bytes(numcodecs.blosc.decompress((tmp_path / "new/c/0").read_bytes())) == values.tobytes()


def test_a_damaged_stream_is_not_framed(tmp_path: Path) -> None:
    values = np.arange(1000, dtype="<i4")
    archive(tmp_path / "old", values, numcodecs.Zlib(1), 4)
    damaged = bytearray((tmp_path / "old/0").read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "old/0").write_bytes(damaged)
    outcome = zarrlift.migrate(tmp_path / "old", tmp_path / "new")
    assert not outcome.ok
    assert not (tmp_path / "new" / "zarr.json").exists()
