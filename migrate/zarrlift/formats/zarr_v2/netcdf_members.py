"""What netcdf-c writes into Zarr v2: metadata in other places than today's attributes, and wrong data types.

NCZarr 2.0 stores dimensions (used or not), the members of groups and each variable's references to dimensions
in members that the Zarr v2 specification does not define: in upper case in 4.9.0, in lower case in 4.9.1 and
4.9.2. Since 4.9.3 they are attributes, whose members have longer names; netcdf-c 4.10.1 reads either, the
attribute first (https://github.com/Unidata/netcdf-c/pull/2936, `libnczarr/zsync.c`, `getnczarrkey`,
`dictgetalt`). Zarr v3 only allows attributes.

netcdf-c 4.9.0 declares one-byte characters as four-byte ones, `<U1`. In mode `nczarr` it also writes
`_NCZARR_ARRAY` (see `deviations`), in modes `zarr` and `xarray` nothing. The length of an uncompressed chunk
is then decisive: all chunks of an array have the same length, and one byte per item excludes four-byte
characters. Observed with netCDF4 1.6.2; 4.9.4 writes `>S1`.
"""

from __future__ import annotations

from math import prod
from typing import Final

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.json_text import JSON, JSONObject, canonical, excerpt
from zarrstack.core.paths import join

from ...core.problems import note, warning
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


_NAMES: Final = ("_nczarr_group", "_nczarr_superblock", "_nczarr_array")
_ATTRIBUTE: Final = {spelled: name for name in _NAMES for spelled in (name, name.upper())}
MEMBERS: Final = frozenset(_ATTRIBUTE)
"""Members of `.zgroup` and `.zarray` that become attributes."""
_RENAMED: Final = {"dims": "dimensions", "vars": "arrays", "dimrefs": "dimension_references"}


def with_netcdf_members(
    attributes: JSONObject, document: JSONObject, key: str, problems: list[Problem]
) -> JSONObject:
    """The attributes of a node with netcdf-c's members of its other document, at `key`."""
    if MEMBERS.isdisjoint(document):
        return attributes
    result = dict(attributes)
    moved = []
    for spelled in [spelled for spelled in _ATTRIBUTE if spelled in document]:
        name, value = _ATTRIBUTE[spelled], _renamed(document[spelled])
        if name not in result:
            result[name] = value
            moved.append(spelled)
        elif canonical(result[name]) != canonical(value):
            message = f"the attribute {name!r} differs from this member; netcdf-c reads the attribute"
            problems.append(
                warning("metadata", message, key=key, found=excerpt(value), expected=excerpt(result[name]))
            )
    if moved:
        message = "metadata of netcdf-c is moved to attributes, as written by netcdf-c since 4.9.3"
        problems.append(note("metadata", message, key=key, found=excerpt(moved)))
    return result


def _renamed(value: JSON) -> JSON:
    """The value with its members renamed to the names that netcdf-c writes today."""
    if not isinstance(value, dict):
        return value
    pairs = ((_RENAMED.get(name, name), name) for name in value)
    return {(old if new in value else new): value[old] for new, old in pairs}
