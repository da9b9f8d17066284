"""Characters of one byte under the name of four: `<U1` as netcdf-c 4.9.0 writes it.

In mode `nczarr` it leaves `_NCZARR_ARRAY` beside (see `deviations`), in modes `zarr` and `xarray`
nothing. But an uncompressed chunk says it by its length: every chunk of an array is as long as every
other, so one of a byte per item holds no text of four. Seen in netCDF4 1.6.2; 4.9.4 writes `>S1`.
"""

from __future__ import annotations

from math import prod
from typing import Final

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.json_text import JSONObject
from zarrstack.core.paths import join

from ...storage.base import Storage
from ..tree.directory import CHUNK

_UCS4: Final = 4
"""Bytes of a character under `<U1`."""
_LOOKED_AT: Final = 4096
"""Bytes from the start of a chunk."""


def shown_by_a_chunk(storage: Storage, path: str, document: JSONObject) -> Problem | None:
    """A warning if the array at `path` has to be read as `|S1`; None for every other array.

    Only the first stored chunk of uncompressed arrays of `<U1` is looked for: its length, and its first
    bytes, lest it be a chunk of real `<U1` that was cut to its first quarter.
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
        return None  # told where chunks are listed
    return Problem(
        kind="deviation",
        severity="warning",
        message='text-of-bytes: "dtype": "<U1" over characters of one byte, as netcdf-c 4.9.0 writes them',
        found=f"a chunk of {items} bytes",
        expected=f'{items * _UCS4} bytes; "dtype": "|S1" is taken',
    )


def _of_four(data: bytes | None) -> bool:
    """Whether bytes look like ASCII in four bytes each: several fourth ones are set, and no other."""
    if data is None:
        return False
    return len(data[::_UCS4].replace(b"\0", b"")) > 1 and not any(any(data[at::_UCS4]) for at in (1, 2, 3))


def _first_key(storage: Storage, path: str, ndim: int) -> str | None:
    """The key of a stored chunk; None where there is none."""
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
