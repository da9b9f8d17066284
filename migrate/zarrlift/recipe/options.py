"""The options of a migration, defined once for Python, TOML files and the command line.

Imports nothing heavy, because `--help` needs it. The defaults are those of `ArrayRecipe`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

Format: TypeAlias = str
"""Name of a source format: one of `FORMATS`, or that of a format added by another package."""
FORMATS: Final = ("zarr1", "zarr2", "zarr3", "zarr3-draft", "n5")
"""The formats included in zarrlift."""
Axes: TypeAlias = Literal["reversed", "kept"]
"""Axis orders of N5 arrays."""
VerifyLevel: TypeAlias = Literal["none", "sample", "full"]
"""Extents of the verification before an array is published."""
Link: TypeAlias = Literal["auto", "hard"]
"""Methods of copying unchanged chunks."""

Casting: TypeAlias = Literal["exact", "clamp", "round", "clamp+round"]
Endian: TypeAlias = Literal["little", "big", "keep"]
Order: TypeAlias = Literal["C", "F", "keep"]
KeyEncodingName: TypeAlias = Literal["default", "v2"]
Separator: TypeAlias = Literal[".", "/"]
ShardIndexCodec: TypeAlias = Literal["bytes", "crc32c"]
IndexLocation: TypeAlias = Literal["start", "end"]
Objects: TypeAlias = Literal["refuse", "json"]
ZeroFill: TypeAlias = Literal["text", "empty"]
Attributes: TypeAlias = Literal["strict", "keep"]
Multiscale: TypeAlias = Literal["ome"]
OmeVersion: TypeAlias = Literal["0.5", "0.6"]


class Option(NamedTuple):
    """An option for the arrays of a recipe."""

    help: str
    type: Any = str
    """bool, a Literal with the choices, or str for a value that `ArrayRecipe` parses."""
    metavar: str | None = None
    flag: str | None = None
    """Option of the command line, if it is not the field's name with hyphens."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The permitted values; empty unless the type is a Literal."""
        return get_args(self.type)


ARRAY_OPTIONS: Final[Mapping[str, Option]] = {
    "codecs": Option(
        "portable (default for copies), keep (default in place), none, zstd:3, gzip:6, "
        "blosc:zstd:5:shuffle, or v3 JSON.",
        metavar="CODECS",
    ),
    "dtype": Option("Cast to a v3 data type; a value that does not fit is an error.", metavar="NAME"),
    "casting": Option("Treatment of values that the data type cannot represent.", Casting),
    "endian": Option("Byte order of the result.", Endian),
    "order": Option("Memory order within the chunks of the result.", Order),
    "key_encoding": Option("Chunk key encoding of the result.", KeyEncodingName),
    "separator": Option("Separator within chunk keys.", Separator),
    "chunks": Option("Chunk shape of the result, such as 64,64,64; -1 is a whole axis.", metavar="N,N"),
    "shards": Option(
        "Chunks per shard: auto, 8,8,8, 4x (along each axis) or none; chunks are not decoded for this.",
        metavar="SHARDS",
    ),
    "shard_index": Option(
        "crc32c: the index of each shard has a checksum; bytes: no checksum.", ShardIndexCodec
    ),
    "shard_index_location": Option("Location of the index in a shard; end by default.", IndexLocation),
    "drop_empty": Option("Omit chunks that contain only the fill value.", bool),
    "objects": Option("json: store object values as JSON text.", Objects),
    "allow_pickle": Option("Unpickle objects. This runs code from the archive.", bool),
    "zero_fill": Option(
        "Fill value 0 of text of fixed length: text means '0', as in zarr-python 2.18; empty, no text.",
        ZeroFill,
    ),
    "attributes": Option("keep: write bare NaN and Infinity; strict: write them as strings.", Attributes),
    "conventions": Option(
        "auto, or names: the metadata of these conventions is converted; none: no attribute changes.",
        metavar="NAMES",
    ),
    "multiscale": Option(
        "N5: ome describes pyramids of COSEM, n5-viewer, Paintera and BigDataViewer as OME-Zarr 0.5.",
        Multiscale,
    ),
    "ome": Option("Version of OME-Zarr metadata that conventions write; 0.5 by default.", OmeVersion),
    "readers": Option(
        "Readers that must be able to read the result, such as gdal,xarray: what is free to choose is "
        "adapted, the rest refused. `zarrlift readers` lists them.",
        metavar="NAMES",
        flag="--for",
    ),
}
"""Field of `ArrayRecipe`, key of a TOML recipe and, with hyphens, option of the command line."""
