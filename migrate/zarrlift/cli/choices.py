"""The closed sets of words that options take."""

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
    """Which axis order N5 arrays are given."""

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
    """What stands between the coordinates of a chunk key."""

    DOT = "."
    SLASH = "/"


class ShardIndex(StrEnum):
    """Codecs of a shard's index."""

    BYTES = "bytes"
    CRC32C = "crc32c"


class Objects(StrEnum):
    """What becomes of object values that are neither str nor bytes."""

    REFUSE = "refuse"
    JSON = "json"


class Attributes(StrEnum):
    """What becomes of NaN and Infinity in attributes."""

    STRICT = "strict"
    KEEP = "keep"


class Multiscale(StrEnum):
    """What the pyramids that programs leave on N5 are written as."""

    OME = "ome"


class Check(StrEnum):
    """How much is verified before an array appears."""

    NONE = "none"
    SAMPLE = "sample"
    FULL = "full"


class Link(StrEnum):
    """How unchanged chunks get to a new place."""

    AUTO = "auto"
    HARD = "hard"


class Location(StrEnum):
    """Where in a shard its index stands."""

    START = "start"
    END = "end"


class Shown(StrEnum):
    """What an archive is served as."""

    ZARR3 = "zarr3"
    ZARR2 = "zarr2"
    N5 = "n5"
