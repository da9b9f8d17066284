"""The fixed values of options."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Source formats."""

    ZARR1 = "zarr1"
    ZARR2 = "zarr2"
    ZARR3 = "zarr3"
    ZARR3_DRAFT = "zarr3-draft"
    N5 = "n5"


class Axes(StrEnum):
    """Axis orders of N5 arrays."""

    REVERSED = "reversed"
    KEPT = "kept"


class Endian(StrEnum):
    """Byte orders."""

    LITTLE = "little"
    BIG = "big"
    KEEP = "keep"


class Order(StrEnum):
    """Memory orders within a chunk."""

    C = "C"
    F = "F"
    KEEP = "keep"


class Encoding(StrEnum):
    """Chunk key encodings."""

    DEFAULT = "default"
    V2 = "v2"


class Separator(StrEnum):
    """Separators of the coordinates in a chunk key."""

    DOT = "."
    SLASH = "/"


class ShardIndex(StrEnum):
    """Codecs of a shard's index."""

    BYTES = "bytes"
    CRC32C = "crc32c"


class Objects(StrEnum):
    """Treatments of object values that are neither str nor bytes."""

    REFUSE = "refuse"
    JSON = "json"


class Attributes(StrEnum):
    """Treatments of NaN and Infinity in attributes."""

    STRICT = "strict"
    KEEP = "keep"


class Multiscale(StrEnum):
    """Metadata written for multiscale pyramids on N5."""

    OME = "ome"


class Check(StrEnum):
    """Extents of the verification before an array is published."""

    NONE = "none"
    SAMPLE = "sample"
    FULL = "full"


class Link(StrEnum):
    """Methods of copying unchanged chunks."""

    AUTO = "auto"
    HARD = "hard"


class Location(StrEnum):
    """Locations of the index in a shard."""

    START = "start"
    END = "end"


class Shown(StrEnum):
    """Formats in which an archive is served."""

    ZARR3 = "zarr3"
    ZARR2 = "zarr2"
    N5 = "n5"
