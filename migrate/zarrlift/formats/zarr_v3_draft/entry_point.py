"""Reads a hierarchy of the 2022 draft without an entry point, from its documents below `meta/`.

The entry point only determines where documents are stored, which is visible from the documents: zarr-python's
dialect has `root` in every key, the specification's does not. It could also declare extensions of the whole
hierarchy, but no writer ever had any.
"""

from __future__ import annotations

import json
from typing import Final

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.paths import join

from ...core.draft_v3.nodes import ENTRY, Dialect, DraftEntryPoint, write_entry
from ...core.problems import warning
from ...storage.base import Storage
from ..tree.walk import passed_over

_META: Final = "meta"
_ENDS: Final = (".array.json", ".group.json", "/array.json", "/group.json")
_MAX_LISTED: Final = 1000
"""Maximum number of directories below `meta/` searched for a document."""


def document_below(storage: Storage, root: str = "") -> str | None:
    """The key of a metadata document of the draft, or None if `meta/` contains none. StorageError.

    `root` is the path of the hierarchy in the storage.
    """
    level = [join(root, _META)]
    looked = 0
    while level and looked < _MAX_LISTED:
        level = level[: _MAX_LISTED - looked]
        looked += len(level)
        below: list[str] = []
        for directory, entries in zip(level, storage.list_dirs(level), strict=True):
            for entry in sorted(entries, key=lambda entry: entry.name):
                key = f"{directory}/{entry.name}"
                if not entry.is_dir and key.endswith(_ENDS):
                    return key
                if entry.is_dir and entry.link is None and not passed_over(entry.name):
                    below.append(key)
        level = below
    return None


def without_entry(storage: Storage) -> tuple[Dialect, Problem] | None:
    """The dialect of the documents, with a warning; None if there are none.

    The specification's dialect has documents outside `meta/root`, or next to it. If all are in it, both
    dialects would find the same arrays, and zarr-python's is the one that was in use.
    """
    if not storage.can_list:
        return None
    try:
        key = document_below(storage)
        entries = [] if key is None else list(storage.list_dir(_META))
    except StorageError:
        return None
    if key is None:
        return None
    by_zarr = all(
        entry.name == "root" if entry.is_dir else entry.name.startswith("root.")
        for entry in entries
        if not passed_over(entry.name) and (entry.is_dir or f"/{entry.name}".endswith(_ENDS))
    )
    dialect = Dialect.ZARR_PYTHON if by_zarr else Dialect.TEXT
    whose = "zarr-python 2's dialect" if by_zarr else "the dialect of its text"
    entry = json.dumps(write_entry(DraftEntryPoint(dialect=dialect)))
    return dialect, warning(
        "metadata",
        f"the entry point of this hierarchy of the 2022 draft is missing; it is read as {whose}",
        key=ENTRY,
        found=key,
        expected=f"{ENTRY} at the root",
        advice=f"For other programs, write {entry} there.",
    )
