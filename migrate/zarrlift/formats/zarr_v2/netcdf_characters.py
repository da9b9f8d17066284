"""One-byte characters declared as four-byte ones: `<U1` as written by netcdf-c 4.9.0.

In mode `nczarr` it also writes `_NCZARR_ARRAY` (see `deviations`), in modes `zarr` and `xarray` nothing. The
length of an uncompressed chunk is then decisive: all chunks of an array have the same length, and one byte
per item excludes four-byte characters. Observed with netCDF4 1.6.2; 4.9.4 writes `>S1`.
"""

from __future__ import annotations

from math import prod
from typing import Final

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.json_text import JSONObject
from zarrstack.core.paths import join

from ...core.problems import warning
from ...storage.base import Storage
from ..tree.directory import CHUNK

_UCS4: Final = 4
"""Bytes of a character in `<U1`."""
_LOOKED_AT: Final = 4096
"""Number of bytes read from the start of a chunk."""


def shown_by_a_chunk(storage: Storage, path: str, document: JSONObject) -> Problem | None:
    """A warning if the array at `path` must be read as `|S1`; None for every other array.

    Reads only the length and the first bytes of the first stored chunk of uncompressed `<U1` arrays; the
    bytes exclude a real `<U1` chunk truncated to a quarter.
    """
    if document.get("dtype") != "<U1" or document.get("compressor") or document.get("filters"):
        return None
    chunks = document.get("chunks")
    if (
        "_NCZARR_ARRAY" in document
        or not isinstance(chunks, list)
        or not all(type(length) is int and length > 0 for length in chunks)
    ):
        return None
    items = prod(chunks)
    try:
        key = _first_key(storage, path, len(chunks))
        if key is None or storage.size(key) != items or _of_four(storage.get_part(key, 0, _LOOKED_AT)):
            return None
    except StorageError:
        return None  # reported when the chunks are listed
    return warning(
        "deviation",
        'text-of-bytes: "dtype": "<U1" for one-byte characters, as written by netcdf-c 4.9.0',
        found=f"a chunk of {items} bytes",
        expected=f'{items * _UCS4} bytes; "dtype": "|S1" is used',
    )


def _of_four(data: bytes | None) -> bool:
    """Whether bytes look like four-byte ASCII: of each four, only the lowest byte is ever set."""
    if data is None:
        return False
    return len(data[::_UCS4].replace(b"\0", b"")) > 1 and not any(any(data[at::_UCS4]) for at in (1, 2, 3))


def _first_key(storage: Storage, path: str, ndim: int) -> str | None:
    """The key of a stored chunk; None if there is none."""
    if not storage.can_list:
        zeros = ["0"] * (ndim or 1)
        keys = [join(path, mark.join(zeros)) for mark in (".", "/")]
        return next((key for key in keys if storage.size(key) is not None), None)
    for _ in range(ndim or 1):
        entries = (entry for entry in storage.list_dir(path) if CHUNK.fullmatch(entry.name))
        first = next(entries, None)
        if first is None:
            return None
        path = join(path, first.name)
        if not first.is_dir:
            return path
    return None
