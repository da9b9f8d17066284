"""Listed chunks come back by ascending index, whether they stay in memory or go through a file."""

from __future__ import annotations

import errno
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.archive.chunk_columns import ChunkColumns
from zarrstack.core.errors import StorageError

ROWS = st.lists(st.integers(0, 2**63 - 1), max_size=400, unique=True)


@given(ROWS, st.integers(1, 60), st.integers(1, 50))
def test_rows_are_sorted_whatever_is_kept_in_memory(indexes, most, page):
    columns = ChunkColumns(most)
    for start in range(0, len(indexes), page):
        part = np.array(indexes[start : start + page], np.int64)
        columns.extend(part, part % 1000, part % 77)
    assert len(columns) == len(indexes)
    found, sizes, versions = columns.sorted()
    assert found.tolist() == sorted(indexes)
    assert (sizes == found % 1000).all()
    assert (versions == found % 77).all()


@pytest.mark.parametrize("order", ["ascending", "descending", "interleaved", "as text"])
def test_runs_are_merged_in_parts_of_about_a_run(order, monkeypatch):
    """A part has at most two runs' rows, so memory does not depend on the number of runs."""
    count, most = 40_000, 400
    indexes = {
        "ascending": list(range(count)),
        "descending": list(range(count))[::-1],
        "interleaved": [place * 7919 % count for place in range(count)],
        "as text": sorted(range(count), key=str),
    }[order]
    columns = ChunkColumns(most)
    for index in indexes:
        columns.add(index, index, index)
    parts = []
    concatenate = np.concatenate

    def watched(arrays, axis=0):
        made = concatenate(arrays, axis=axis)
        if axis == 1:
            parts.append(made.shape[1])
        return made

    monkeypatch.setattr(np, "concatenate", watched)
    found, _, _ = columns.sorted()
    assert found.tolist() == list(range(count))
    assert max(parts) <= 2.1 * most


def test_a_temporary_file_without_room_is_an_error_that_names_its_folder(monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    columns, rows = ChunkColumns(10), np.arange(10)
    columns.extend(rows, rows, rows)
    monkeypatch.setattr(np, "memmap", full)
    with pytest.raises(StorageError, match="No space left") as told:
        columns.sorted()
    assert told.value.problem.key == tempfile.gettempdir()
    assert "TMPDIR" in (told.value.problem.advice or "")
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(StorageError, match="No space left"):
        ChunkColumns(10).extend(rows, rows, rows)
