"""Index, size and version of listed chunks as columns: in memory up to a million, else in a temporary file.

A listing of 10^9 chunks takes 24 GB of a file (twice that while it is sorted), and no more memory than one of
a million.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from typing import IO, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import StorageError

from ..core.grid.chunk_keys import ChunkKeys, N5Keys
from ..core.grid.grid import Grid

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
        self.total_bytes = 0
        """The sum of all sizes."""
        self._indexes, self._sizes, self._versions = array("q"), array("q"), array("q")
        self._file: IO[bytes] | None = None
        self._runs: list[int] = []
        """Length of each sorted run in the file, which holds one column of the run after the other."""

    def add(self, index: int, size: int, version: int) -> None:
        """Add a row."""
        self.total_bytes += size
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
        self.total_bytes += int(sizes.sum())
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
        columns = self._indexes, self._sizes, self._versions
        indexes, sizes, versions = [np.frombuffer(column, np.int64) for column in columns]
        if len(indexes) < 2 or (indexes[1:] >= indexes[:-1]).all():
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
        self._indexes, self._sizes, self._versions = array("q"), array("q"), array("q")

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


NO_CHUNK: Final = -1
_ZERO, _NINE, _NEWLINE, _C = b"09\nc"
_MAX_DIGITS: Final = 18
"""Decimal digits that always fit an int64."""
_FEW: Final = 16
"""Number of keys up to which one at a time is faster."""


def chunk_indexes(names: Sequence[str], keys: ChunkKeys, grid: Grid) -> Indexes:
    """The linear index of each key's chunk, or NO_CHUNK; keys are relative to the array."""
    if isinstance(keys, KeyEncoding | N5Keys) and grid.shape and len(names) > _FEW:
        indexes = _all_regular(names, keys, grid)
        if indexes is not None:
            return indexes
    return np.array(_each_index(names, keys, grid), np.int64)


def listed_indexes(names: Sequence[str], keys: ChunkKeys, grid: Grid) -> list[int]:
    """The same as a list."""
    if len(names) <= _FEW:
        return _each_index(names, keys, grid)
    indexes: list[int] = chunk_indexes(names, keys, grid).tolist()
    return indexes


def _each_index(names: Sequence[str], keys: ChunkKeys, grid: Grid) -> list[int]:
    ndim = len(grid.shape)
    places = [keys.coordinates(name, ndim) for name in names]
    each = [None if place is None else grid.index(place) for place in places]
    return [NO_CHUNK if index is None else index for index in each]


def _all_regular(names: Sequence[str], keys: KeyEncoding | N5Keys, grid: Grid) -> Indexes | None:
    """The same if every key has the form of a chunk's key; None if one has not, or is unusually long."""
    separator = "/" if isinstance(keys, N5Keys) else keys.separator
    has_c = isinstance(keys, KeyEncoding) and keys.name == "default"
    text = np.frombuffer(("\n".join(names) + "\n").encode("utf-8", "surrogatepass"), np.uint8)
    at_end = text == _NEWLINE
    stops = np.flatnonzero(at_end | (text == ord(separator)))
    ndim = len(grid.shape)
    fields = ndim + has_c
    if len(stops) != len(names) * fields or not at_end[stops[fields - 1 :: fields]].all():
        return None
    others = len(text) - len(stops)
    starts = np.concatenate(([0], stops[:-1] + 1)).reshape(-1, fields)
    ends = stops.reshape(-1, fields)
    if has_c:
        if (ends[:, 0] - starts[:, 0] != 1).any() or (text[starts[:, 0]] != _C).any():
            return None
        starts, ends, others = starts[:, 1:], ends[:, 1:], others - len(names)
    lengths = ends - starts
    longest = int(lengths.max(initial=0))
    digits = np.count_nonzero((text >= _ZERO) & (text <= _NINE))
    leading_zero = (text[starts] == _ZERO) & (lengths > 1)
    if digits != others or longest > _MAX_DIGITS or lengths.min(initial=1) < 1 or leading_zero.any():
        return None
    places = np.zeros(starts.shape, np.int64)
    for digit in range(longest):
        has = lengths > digit
        values = text[np.where(has, starts + digit, 0)] - np.int64(_ZERO)
        places = np.where(has, places * 10 + values, places)
    if isinstance(keys, N5Keys) and keys.axes == "reversed":
        places = places[:, ::-1]
    counts = grid.counts
    if prod(counts) > np.iinfo(np.int64).max:
        return None
    strides = np.array([prod(counts[axis + 1 :]) for axis in range(ndim)], np.int64)
    inside = (places < np.array(counts, np.int64)).all(axis=1)
    return np.where(inside, places @ strides, NO_CHUNK)
