"""Converts netcdf-c's metadata in `.zgroup` and `.zarray` to the attributes that netcdf-c writes today.

NCZarr 2.0 stores dimensions (used or not), the members of groups and each variable's references to dimensions
in members that the Zarr v2 specification does not define: in upper case in 4.9.0, in lower case in 4.9.1 and
4.9.2. Since 4.9.3 they are attributes, whose members have longer names; netcdf-c 4.10.1 reads either, the
attribute first (https://github.com/Unidata/netcdf-c/pull/2936, `libnczarr/zsync.c`, `getnczarrkey`,
`dictgetalt`). Zarr v3 only allows attributes.
"""

from __future__ import annotations

from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, JSONObject, canonical, excerpt

from ...core.problems import note, warning

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
