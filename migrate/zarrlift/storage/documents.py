"""Metadata documents at an archive's root, in all formats, and the root that they tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

METADATA: Final = frozenset(
    {".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json", "attributes.json", "meta", "attrs"}
)
_PACKING: Final = frozenset({"__MACOSX", ".DS_Store"})
"""Names that archivers add next to an archive."""


def archive_root(children: Callable[[str], Mapping[str, bool]]) -> str:
    """The directory of a container that is the archive: its root, or a single directory in it.

    `children` gives the names in a directory ("" is the root), and whether each is a directory.
    """
    prefix: list[str] = []
    while True:
        here = children("/".join(prefix))
        here = {name: is_dir for name, is_dir in here.items() if name and name not in _PACKING}
        if METADATA & here.keys():
            return "/".join(prefix)
        # A root without documents and with a single child is probably an archive packed with its directory;
        # in either case, the child with everything in it is an archive.
        if len(here) != 1 or not all(here.values()):
            return ""
        prefix.append(next(iter(here)))
