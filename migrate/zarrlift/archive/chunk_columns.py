"""Index, size and version of listed chunks as columns: in memory up to a million, else in a temporary file.

A listing of 10^9 chunks takes 24 GB of a file (twice that while it is sorted), and no more memory than one of
a million.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from zarrstack.core.errors import StorageError

Indexes: TypeAlias = npt.NDArray[np.int64]
Columns: TypeAlias = tuple[Indexes, Indexes, Indexes]
"""(indexes, sizes, versions), of equal length."""

MAX_IN_MEMORY: Final = 1 << 20
"""Rows kept in memory: 24 MB, and as much again while they are sorted."""
_SAMPLES: Final = 64
"""Minimum number of indexes by which a sorted run is divided."""
_ITEM: Final = 8


class ChunkColumns:
    """Collects rows in any order, and returns them by ascending index."""

    def __init__(self, most: int = MAX_IN_MEMORY) -> None:
        """`most`: number of rows kept in memory."""
        self._most = most
        self._indexes, self._sizes, self._versions = array("q"), array("q"), array("q")
        self._file: IO[bytes] | None = None
        self._runs: list[int] = []
        """Length of each sorted run in the file, which holds one column of the run after the other."""

    def add(self, index: int, size: int, version: int) -> None:
        """Add a row."""
        self._indexes.append(index)
        self._sizes.append(size)
        self._versions.append(version)
        if len(self._indexes) >= self._most:
            self._spill()

    def add_names(self, indexes: array[int]) -> None:
        """Add rows of which neither size nor version is known."""
        self._indexes.extend(indexes)
        unknown = bytes(_ITEM * len(indexes))
        self._sizes.frombytes(unknown)
        self._versions.frombytes(unknown)
        if len(self._indexes) >= self._most:
            self._spill()

    def extend(self, indexes: Indexes, sizes: Indexes, versions: Indexes) -> None:
        """Add rows."""
        self._indexes.frombytes(indexes.tobytes())
        self._sizes.frombytes(sizes.tobytes())
        self._versions.frombytes(versions.tobytes())
        if len(self._indexes) >= self._most:
            self._spill()

    def __len__(self) -> int:
        return sum(self._runs) + len(self._indexes)

    def sorted(self) -> Columns:
        """All rows by ascending index; nothing can be added afterwards. Raises StorageError."""
        if self._file is None:
            return self._sorted_rest()
        with _as_storage_error(), self._file:
            return self._sorted_file()

    def _sorted_file(self) -> Columns:
        assert self._file is not None
        if len(self._indexes):
            self._spill()
        runs = list(self._mapped())
        with ExitStack() as stack:
            # Written, not mapped: a disk that is full would kill the process.
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            for rows in _merged(runs):
                for file, column in zip(files, rows, strict=True):
                    file.write(column.tobytes())
            indexes, sizes, versions = (_mapped_column(file) for file in files)
        return indexes, sizes, versions

    def _sorted_rest(self) -> Columns:
        indexes = np.array(self._indexes, np.int64)
        sizes, versions = np.array(self._sizes, np.int64), np.array(self._versions, np.int64)
        if (indexes[1:] >= indexes[:-1]).all():
            return indexes, sizes, versions
        order = np.argsort(indexes, kind="stable")
        return indexes[order], sizes[order], versions[order]

    def _spill(self) -> None:
        with _as_storage_error():
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - has no name; closed by `sorted`
            for column in self._sorted_rest():
                self._file.write(column.tobytes())
        self._runs.append(len(self._indexes))
        del self._indexes[:], self._sizes[:], self._versions[:]

    def _mapped(self) -> Iterator[Indexes]:
        assert self._file is not None
        self._file.flush()
        start = 0
        for length in self._runs:
            yield np.memmap(self._file, np.int64, "r", offset=start, shape=(3, length))
            start += 3 * length * _ITEM


def _mapped_column(file: IO[bytes]) -> Indexes:
    """The numbers in a file, which needs no name and is freed with the array."""
    file.flush()
    return np.asarray(np.memmap(file, np.int64, "r"))


@contextmanager
def _as_storage_error() -> Iterator[None]:
    """Turns an error of the temporary file into a StorageError."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            "cannot keep the listing of the chunks in a temporary file",
            key=tempfile.gettempdir(),
            found=error.strerror or str(error),
            advice="Free some space, or set TMPDIR to a folder that has more: 48 bytes for each chunk.",
        ) from error


def _merged(runs: list[Indexes]) -> Iterator[Indexes]:
    """Rows of sorted runs in ascending order, in parts of at most half the length of a run.

    A part ends after a quarter of as many samples as a run has. Each run has four times as many samples as
    there are runs, so that the rows between two samples of all runs are no more than a quarter of a run.
    """
    count = 4 * max(len(runs), _SAMPLES)
    samples = np.sort(np.concatenate([run[0, :: max(run.shape[1] // count, 1)] for run in runs]))
    starts = [0] * len(runs)
    for division in [*samples[count // 4 :: count // 4].tolist(), None]:
        ends = [run.shape[1] if division is None else int(run[0].searchsorted(division)) for run in runs]
        parts = [run[:, start:end] for run, start, end in zip(runs, starts, ends, strict=True)]
        rows = np.concatenate(parts, axis=1)
        yield rows[:, rows[0].argsort(kind="stable")]
        starts = ends
