"""Describes the nodes of a Zarr v1 archive: arrays in directories, and nothing else.

Specification: https://zarr.readthedocs.io/en/stable/spec/v1.html ("Metadata", "Chunks", "Attributes").
Behaviour of zarr 1.0.0 and 1.1.0 (observed):

- There are no groups; v2 introduced them. A directory that contains arrays is an implicit group.
- With order F, chunks compressed by zlib, bz2, lzma or none are nevertheless in C order: these
  compressors take `array.tobytes()`. Only blosc receives the memory unchanged. zarr 2's `migrate_1to2`
  and the specification do not account for this.
- `compression="gzip"` is zlib, and stored under that name.
- Fill values are in JSON as Python writes them: bare NaN and Infinity, plain text for `S` and `U`
  (never base64, which v2 expects), a list for a struct.

An array's document is converted to Zarr v2 terms and read by v2's reader; the remaining differences
between the two formats are the compressor's form and the names of documents.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import MetadataError, Problem, UnsupportedError, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, excerpt
from zarrstack.core.paths import join

from ..core.data_types.v2 import parse_v2_dtype, v2_fill_to_scalar
from ..core.format_table import V1_ARRAY as ARRAY
from ..core.problems import note, refusal
from ..storage.base import DirectoryEntry
from .tree.directory import NodeDirectory
from .tree.documents import wrong_version
from .zarr_v2.array import V2Array
from .zarr_v2.deviations import specified_fill
from .zarr_v2.reader import V2ArrayReader

_BEFORE: Final = "__zmeta__"
"""Document in which zarr 0.x stored an array's metadata: a pickle, which is not read."""
_MEMBERS: Final = frozenset(
    {"zarr_format", "shape", "chunks", "dtype", "compression", "compression_opts", "fill_value", "order"}
)
_REALLY_F: Final = frozenset({"blosc"})
"""Compressions whose chunks really have the order given by `order`."""
_RAW: Final = 3
"""The number of lzma's raw format (Python's `lzma.FORMAT_RAW`), whose stream does not contain its filters."""


def in_v2_terms(document: Mapping[str, JSON]) -> JSONObject:
    """The `.zarray` that is equivalent to a `meta` document, for the same chunks.

    Missing members remain missing and are reported by v2's strict reading. Raises MetadataError and
    UnsupportedError, with what was found, for an invalid or unknown compression.
    """
    compression = document.get("compression")
    result: JSONObject = {
        name: value
        for name, value in document.items()
        if name not in ("zarr_format", "compression", "compression_opts")
    }
    result.update(zarr_format=2, filters=None, dimension_separator=".", compressor=_compressor(document))
    if "order" in document and document["order"] == "F" and compression not in _REALLY_F:
        result["order"] = "C"
    if "fill_value" in document and "dtype" in document:
        result["fill_value"] = _fill(document["fill_value"], document["dtype"])
    return result


def _compressor(document: Mapping[str, JSON]) -> JSONObject | None:
    for name in ("compression", "compression_opts"):
        if name not in document:
            raise MetadataError(f"{name} is missing")
    name, options = document["compression"], document["compression_opts"]
    if name in (None, "none"):
        if options is not None:
            raise MetadataError("compression 'none' has options", found=excerpt(options), expected="null")
        return None
    if name in ("zlib", "gzip", "bz2"):
        level = 1 if options is None else options
        if type(level) is not int or not (name == "bz2") <= level <= 9:
            raise MetadataError(
                f"compression_opts of {name} must be a level",
                found=excerpt(options),
                expected="an integer up to 9",
            )
        return {"id": "bz2" if name == "bz2" else "zlib", "level": level}
    if name not in ("blosc", "lzma"):
        raise UnsupportedError(
            f"unknown compression {excerpt(name)}",
            found=excerpt({"compression": name, "compression_opts": options}),
            expected="blosc, zlib, bz2, lzma, none",
        )
    if not isinstance(options, dict | None):
        raise MetadataError(
            f"compression_opts of {name} must be an object", found=excerpt(options), expected="{...}"
        )
    defaults: JSONObject = (
        {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
        if name == "blosc"
        else {"format": 1, "check": 0, "preset": 1, "filters": None}
    )
    if unknown := sorted((options or {}).keys() - defaults.keys()):
        raise MetadataError(f"unknown compression_opts of {name}", found=excerpt(unknown))
    result = {"id": name, **defaults, **(options or {})}
    if name == "lzma" and result["format"] != _RAW and isinstance(result["filters"], list):
        # The stream contains its filters, and numcodecs cannot decode it if they are given.
        result["filters"] = None
    return result


def _fill(fill: JSON, data: JSON) -> JSON:
    """A fill value in v2's form, if v2 would misread the v1 form."""
    if not isinstance(fill, str | list):
        return fill
    try:
        dtype = parse_v2_dtype(data)
        if isinstance(fill, str):
            return base64.b64encode(fill.encode("ascii")).decode("ascii") if dtype.kind == "S" else fill
        return specified_fill(v2_fill_to_scalar(_by_name(fill, dtype), dtype), dtype) if dtype.names else fill
    except (ZarrstackError, UnicodeEncodeError, RecursionError):
        # v2's reader reports the problem of the type or the value.
        return fill


def _by_name(fill: JSON, dtype: Any) -> JSON:
    if dtype.names is None or not isinstance(fill, list) or len(fill) != len(dtype.names):
        return fill
    return {name: _by_name(item, dtype.fields[name][0]) for name, item in zip(dtype.names, fill, strict=True)}


class _Reader(V2ArrayReader):
    """Arrays have `meta`; their attributes are in `attrs`."""

    def kind(self, place: NodeDirectory) -> Literal["array", "group"] | None:
        if place.is_array or self.is_array(place):
            return "array"
        return self.foreign_kind(place)

    def document(self, place: NodeDirectory, problems: list[Problem]) -> JSONObject | None:
        if _BEFORE in place.documents and ARRAY not in place.documents:
            message = "an array of zarr 0.x: its metadata is a pickle, which is never read"
            problems.append(refusal("unsupported", message, key=join(place.path, _BEFORE)))
        document, key = self.parse(place, ARRAY, problems), join(place.path, ARRAY)
        if document is None:
            return None
        if (wrong := wrong_version(document, 1, key)) is not None:
            problems.append(wrong)
            return None
        if missing := sorted({"fill_value", "order"} - document.keys()):
            # v2's reader would treat them as omissions of some v2 writers.
            problems.append(refusal("metadata", f"{', '.join(missing)} is missing", key=key))
        try:
            return in_v2_terms(document)
        except ZarrstackError as error:
            problems.append(error.problem.at(key=key))
            return None

    def keys(
        self, place: NodeDirectory, facts: V2Array, entries: Iterable[DirectoryEntry], problems: list[Problem]
    ) -> KeyEncoding:
        if facts.shape == ():
            # zarr 1.1.0 creates such an array, but cannot store its chunk under the key "".
            message = "Zarr v1 has no key for the chunk of a zero-dimensional array"
            problems.append(note("metadata", message, key=join(place.path, ARRAY)))
        return super().keys(place, facts, entries, problems)


reader = _Reader
