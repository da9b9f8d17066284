"""Where times are whole seconds, a file that was just written is listed again later."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import zarr

import zarrlift
from zarrlift.archive import settled_inventory

SECOND = 1_000_000_000
NOW = 1_700_000_001 * SECOND


class Clock:
    """Time that passes while someone sleeps, and a writer who rewrites the chunk meanwhile."""

    def __init__(self, chunk: Path) -> None:
        self.now = NOW + SECOND // 2
        self.chunk = chunk
        self.slept: list[float] = []

    def time_ns(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += round(seconds * SECOND)
        if len(self.slept) == 1:
            write(self.chunk, 2, NOW)


def write(chunk: Path, value: int, modified_ns: int) -> None:
    chunk.write_bytes(bytes([value] * 4))
    os.utime(chunk, ns=(modified_ns, modified_ns))


@pytest.mark.parametrize(
    ("modified_ns", "sleeps"),
    [
        (NOW, [1.52]),
        (NOW - SECOND, [0.52, 1.0]),
        (NOW - 2 * SECOND, []),
        (NOW + 1, []),
        (NOW + 9 * SECOND, []),
    ],
    ids=["this second", "the second before", "FAT's last step", "a finer time", "the future"],
)
def test_a_chunk_that_may_be_rewritten_at_the_same_time_is_listed_again(
    modified_ns: int, sleeps: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=(4,), chunks=(4,), dtype="u1", compressors=None, zarr_format=2
    )
    array[:] = 1
    chunk = tmp_path / "a.zarr" / "0"
    write(chunk, 1, modified_ns)
    clock = Clock(chunk)
    monkeypatch.setattr(settled_inventory, "time", clock)
    zarrlift.migrate(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert clock.slept == pytest.approx(sleeps)
    assert zarr.open_array(tmp_path / "b.zarr")[0] == (2 if sleeps else 1)
