"""Names of metadata documents at an archive's root, in all formats."""

from typing import Final

METADATA: Final = frozenset(
    {".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json", "attributes.json", "meta", "attrs"}
)
