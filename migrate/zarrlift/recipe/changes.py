"""The options of a recipe: what is to be changed of each array, and of an archive as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from .options import Option, Size

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

ARRAY_OPTIONS: Final[Mapping[str, Option]] = {
    "codecs": Option(
        "portable (default for copies), registered, keep (default in place), none, zstd:3, gzip:6, "
        "blosc:zstd:5:shuffle, or v3 JSON.",
        metavar="CODECS",
        changes="objects",
    ),
    "dtype": Option(
        "Cast to a v3 data type; a value that does not fit is an error.", metavar="NAME", changes="payloads"
    ),
    "casting": Option(
        "With dtype: values that it cannot represent become the nearest valid one (clamp), or are rounded.",
        Casting,
        rare=True,
    ),
    "endian": Option("Byte order of the result.", Endian, rare=True, changes="payloads"),
    "order": Option("Memory order within the chunks of the result.", Order, rare=True, changes="payloads"),
    "key_encoding": Option(
        "Chunk key encoding of the result.", KeyEncodingName, rare=True, changes="objects"
    ),
    "separator": Option("Separator within chunk keys.", Separator, rare=True),
    "chunks": Option(
        "Chunk shape of the result, such as 64,64,64, or time=100,lat=50; -1 is a whole axis.",
        metavar="LENGTHS",
        changes="payloads",
    ),
    "shards": Option(
        "Chunks per shard: auto, 8,8,8, time=4, 4x (along each axis) or none; or the size of a shard: 100MB. "
        "Chunks are not decoded for this.",
        metavar="SHARDS",
        changes="objects",
    ),
    "shard_index": Option(
        "crc32c: the index of each shard has a checksum; bytes: no checksum.",
        ShardIndexCodec,
        rare=True,
        changes="objects",
    ),
    "shard_index_location": Option(
        "Location of the index in a shard; end by default.", IndexLocation, rare=True, changes="objects"
    ),
    "drop_empty": Option("Omit chunks that contain only the fill value.", bool, changes="payloads"),
    "objects": Option("json: store object values as JSON text.", Objects, rare=True),
    "allow_pickle": Option("Unpickle objects. This runs code from the archive.", bool),
    "zero_fill": Option(
        "Fill value 0 or NaN of text: text means '0' or 'nan', as in zarr-python 2.18; empty, no text.",
        ZeroFill,
        rare=True,
    ),
    "attributes": Option(
        "keep: write bare NaN and Infinity; strict: write them as strings.", Attributes, rare=True
    ),
    "conventions": Option(
        "auto, or names: the metadata of these conventions is converted; none: no attribute changes.",
        metavar="NAMES",
    ),
    "multiscale": Option(
        "N5: ome describes pyramids of COSEM, n5-viewer, Paintera and BigDataViewer as OME-Zarr 0.5.",
        Multiscale,
        rare=True,
    ),
    "ome": Option(
        "Version of OME-Zarr metadata that conventions write; 0.5 by default.", OmeVersion, rare=True
    ),
}
"""Field of `ArrayRecipe`, key of a TOML recipe and, with hyphens, option of the command line."""

WHOLE_OPTIONS: Final[Mapping[str, Option]] = {
    "memory": Option(
        "With --chunks: memory limit of the process, such as 2GB; by default a quarter of the machine's "
        "memory.",
        Size,
        metavar="SIZE",
        heading="Running",
    ),
    "include": Option(
        "Only nodes whose path matches; repeatable.", list[str], metavar="GLOB", heading="What to convert"
    ),
    "exclude": Option(
        "Omit nodes whose path matches; repeatable.", list[str], metavar="GLOB", heading="What to convert"
    ),
    "consolidate": Option(
        "Whether to write consolidated metadata; by default as in the source.",
        bool,
        flag="--consolidate/--no-consolidate",
        heading="Result",
    ),
    "model": Option(
        "Required structure of the result: a ZOM or JSON Schema in a file. Checked during planning.",
        metavar="MODEL",
        heading="Result",
    ),
}
"""The same for a whole archive: fields of `Recipe`."""
