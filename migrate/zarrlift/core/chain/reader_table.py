"""Who can read what of a Zarr v3 result: data types, codecs, shards, keys and a few other features of arrays.

`tests/end_to_end/test_reader_table.py` opens an array with each feature by the readers that are installed and
compares the values; the rows of neuroglancer and GDAL were tested in the same way (neuroglancer 2.41.2, GDAL
3.12.2). `docs/reference/readers.md` is generated from the table.

Registers: the core specification, https://zarr-specs.readthedocs.io/en/latest/v3/, and zarr-extensions,
https://github.com/zarr-developers/zarr-extensions (listing of 2026-07-14).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

from zarrstack.core.json_text import JSON, JSONObject

from ..codec_facts import Register
from ..codec_table import BY_MOST, BY_NONE, BY_PYTHON, BY_PYTHON_ZARRS, READERS, TABLE
from ..data_types.numpy_types import RAW_BITS

EVERY_COPY: Final = ("zarr-python", "tensorstore")
"""The readers for which every copy is made."""

INDEX_AT_START: Final = "shards: index at the start"
SEVERAL_STREAMS: Final = "chunks: several frames"
ONE_TWICE: Final = "dimension names: one twice"
HALF_A_PAIR: Final = "attributes: half of a surrogate pair"
_BARE: Final = "attributes: bare NaN or Infinity"
_EXACT: Final = 2**53
"""Integers beyond it are not exact as a double, the only number of JavaScript's JSON."""

LATER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "data type struct": "zarr-python 3.4",
        "codec scale_offset": "zarr-python 3.4 and zarrita.js 0.7",
        "codec cast_value": "zarr-python 3.4 with the package cast-value-rs, and zarrita.js 0.7",
    }
)
"""Feature that some of `EVERY_COPY` read in later versions only -> who reads it; the last row needs most."""

_TABLE: Final[Mapping[str, Sequence[tuple[str, Register | None, str]]]] = MappingProxyType(
    {
        "data type": (
            ("bool int64 float64", "core", "neuroglancer"),
            ("int8 int16 int32 uint8 uint16 uint32 uint64 float32", "core", ""),
            ("float16 complex64 complex128", "core", "zarrita neuroglancer"),
            ("fixed_length_utf32 structured", "zarr-extensions", BY_PYTHON.refused_by),
            ("numpy.datetime64 numpy.timedelta64 bytes", "zarr-extensions", BY_PYTHON_ZARRS.refused_by),
            ("string", "zarr-extensions", BY_MOST.refused_by),
            ("struct", "zarr-extensions", BY_NONE.refused_by),
            ("bfloat16", "zarr-extensions", "zarr-python zarrs xarray zarrita neuroglancer gdal"),
            ("null_terminated_bytes", None, BY_PYTHON.refused_by),
            ("variable_length_bytes", None, BY_PYTHON_ZARRS.refused_by),
            ("raw_bytes", None, "zarrs zarrita neuroglancer gdal"),
            ("r*", "core", "zarr-python zarrs xarray zarrita neuroglancer gdal"),
        ),
        "chunk keys:": (("default v2", "core", ""),),
    }
)
"""Kind -> names, their register, and the readers that refuse them. None: in use, but not registered.

The table of codecs has those of codecs.
"""

_OTHERS: Final = (
    (INDEX_AT_START, "gdal", "zarrita"),
    (SEVERAL_STREAMS, "tensorstore", ""),
    ("shape: 0 dimensions", "gdal", ""),
    ("shape: a length of 0", "zarrita gdal", ""),
    ("fill value: bits", "", "zarrs zarrita"),
    ("fill value: beyond 2^53", "", "zarrita neuroglancer"),
    ("dimension names: none", "xarray", ""),
    (ONE_TWICE, "tensorstore", ""),
    (HALF_A_PAIR, "tensorstore zarrs", ""),
    (_BARE, "tensorstore zarrs zarrita neuroglancer", ""),
)
"""Further features, the readers that refuse them, and those that show other values without an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A feature, where its name is registered, and the readers that do not read it."""

    name: str
    register: Register | None = None
    refused_by: tuple[str, ...]
    misread_by: tuple[str, ...] = ()
    """Readers that show other values, without an error."""

    @property
    def unable(self) -> tuple[str, ...]:
        """The readers that do not read it, in the order of `READERS`."""
        return tuple(name for name in READERS if name in self.refused_by or name in self.misread_by)

    @property
    def readers(self) -> tuple[str, ...]:
        """Those of `EVERY_COPY` that read it."""
        return tuple(name for name in EVERY_COPY if name not in self.unable)

    @property
    def portable(self) -> bool:
        """Whether it is registered and all of `EVERY_COPY` read it."""
        return self.register is not None and self.readers == EVERY_COPY


@cache
def features() -> Mapping[str, Row]:
    """Feature, such as "codec zstd" -> row."""
    rows = {
        f"{kind} {name}": Row(name=name, register=register, refused_by=tuple(refused.split()))
        for kind, lines in _TABLE.items()
        for names, register, refused in lines
        for name in names.split()
    }
    for facts in TABLE.values():
        if facts.readers is not None:
            register, refused = facts.readers
            rows[f"codec {facts.name}"] = Row(
                name=facts.name, register=register, refused_by=tuple(refused.split())
            )
    for name, refused, misread in _OTHERS:
        rows[name] = Row(name=name, refused_by=tuple(refused.split()), misread_by=tuple(misread.split()))
    return MappingProxyType(rows)


@cache
def codecs() -> Mapping[str, Row]:
    """Codec name -> row."""
    return _of_kind("codec ")


@cache
def data_types() -> Mapping[str, Row]:
    """Data type name -> row."""
    return _of_kind("data type ")


def _of_kind(kind: str) -> Mapping[str, Row]:
    return MappingProxyType(
        {row.name: row for feature, row in features().items() if feature.startswith(kind)}
    )


# Each is itself alone, so that those of many arrays can be counted: `reading` gives the same one for the same
# features.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """Which readers read an array; a reader is in neither of them if a feature is not in the table."""

    able: tuple[str, ...]
    unable: Mapping[str, tuple[str, ...]]
    """Reader -> features that it does not read."""


@lru_cache(maxsize=1024)
def reading(names: tuple[str, ...]) -> Reading:
    """Which readers read an array with these features."""
    rows = {name: features().get(name) for name in names}
    prevents = {
        reader: tuple(name for name, row in rows.items() if row is not None and reader in row.unable)
        for reader in READERS
    }
    unable = {reader: found for reader, found in prevents.items() if found}
    able = () if None in rows.values() else tuple(reader for reader in READERS if reader not in unable)
    return Reading(able=able, unable=MappingProxyType(unable))


# ----- features of a document


def head_features(document: JSONObject) -> tuple[str, ...]:
    """What a reader must know to open an array: features of its `zarr.json`, without its attributes."""
    return tuple(dict.fromkeys(_head(document)))


def attribute_features(attributes: JSON) -> tuple[str, ...]:
    """Features of a node's attributes."""
    return tuple(dict.fromkeys(_values(attributes)))


def _head(document: JSONObject) -> Iterator[str]:
    data_type = document["data_type"]
    yield f"data type {type_name(data_type if isinstance(data_type, str) else data_type['name'])}"
    yield from _codecs(document["codecs"])
    yield f"chunk keys: {document['chunk_key_encoding']['name']}"
    names = document.get("dimension_names")
    if names is None and document["shape"]:
        yield "dimension names: none"
    if names and any(a == b for a, b in pairwise(sorted(name for name in names if name is not None))):
        yield ONE_TWICE
    if not document["shape"]:
        yield "shape: 0 dimensions"
    if 0 in document["shape"]:
        yield "shape: a length of 0"
    yield from _fill(document["fill_value"])


def type_name(name: str) -> str:
    """The name of a data type in the table: `r*` for raw bits of any number."""
    return "r*" if RAW_BITS.fullmatch(name) else name


def _codecs(codecs: Iterable[Any]) -> Iterator[str]:
    for codec in codecs:
        name, configuration = (
            (codec, {}) if isinstance(codec, str) else (codec["name"], codec.get("configuration", {}))
        )
        yield f"codec {name}"
        if name == "sharding_indexed":
            if configuration.get("index_location") == "start":
                yield INDEX_AT_START
            yield from _codecs(configuration["codecs"])


def _fill(value: JSON) -> Iterator[str]:
    for part in value if isinstance(value, list | tuple) else (value,):
        if isinstance(part, str) and part.startswith("0x"):
            yield "fill value: bits"
        elif type(part) is int and abs(part) > _EXACT:
            yield "fill value: beyond 2^53"


def _values(value: JSON) -> Iterator[str]:
    if isinstance(value, float):
        if not isfinite(value):
            yield _BARE
    elif isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            yield HALF_A_PAIR
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _values(name)
            yield from _values(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _values(item)
