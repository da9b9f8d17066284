"""The table of who can read what of a Zarr v3 result: features of nodes, by reader and version.

The table is `readers.json` beside this module, which is read on first use. `tests/support/reader_evidence.py`
writes what was tested: an array per feature, opened by each reader, its values compared. Rows of readers that
could not be installed there state the document that they were taken from.

Every copy is made for the zarr-pythons and the tensorstore of the table; `Row` states which of them support
the name of a codec or data type, and where it is registered. Registers: the core specification,
https://zarr-specs.readthedocs.io/en/latest/v3/, and zarr-extensions,
https://github.com/zarr-developers/zarr-extensions (listing of 2026-07-14).
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from zarrstack.core.errors import UsageError
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.similar_names import did_you_mean

Register: TypeAlias = Literal["core", "zarr-extensions"]

FILE: Final = "readers.json"
MISREAD: Final = "other values, without an error"
"""What is noted where a reader opens an array and shows other values."""
NAN: Final = "attributes: bare NaN or Infinity"
HALF_A_PAIR: Final = "attributes: half of a surrogate pair"
ONE_TWICE: Final = "dimension names: one twice"
_EVERY_COPY: Final = ("zarr-python", "tensorstore")
_EXACT: Final = 2**53
"""Integers beyond it are not exact as a double, the only number of JavaScript's JSON."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reader:
    """One version of a reader, and what it reads; equal to itself only."""

    name: str
    version: str
    tested: str | None
    """Date of the test; None if the answers are those of `source`."""
    source: str | None
    """Address of the document or code that was read."""
    note: str | None
    built_on: str | None
    """The reader that does the reading, whose answers these are."""
    reads: frozenset[str]
    """Features that it reads."""
    refuses: Mapping[str, str]
    """Feature -> what it said, or what is documented."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()

    def answer(self, feature: str) -> bool | None:
        """Whether it reads a feature; None if that is unknown."""
        return True if feature in self.reads else False if feature in self.refuses else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Features by group, and the readers in the order of the docs."""

    features: Mapping[str, tuple[str, ...]]
    """Group, such as "data types", -> its features."""
    registered: Mapping[str, Register]
    """Feature -> the register that has its name."""
    readers: tuple[Reader, ...]

    @property
    def cells(self) -> tuple[int, int]:
        """(number of cells that were tested, number of cells)."""
        rows = sum(map(len, self.features.values()))
        own = [reader for reader in self.readers if reader.built_on is None]
        tested = sum(len(reader.reads) + len(reader.refuses) for reader in own if reader.tested)
        return tested, rows * len(own)

    def unable(self, feature: str) -> str:
        """Names of the current readers of Zarr v3 that do not read a feature."""
        return " and ".join(
            reader.name
            for reader in self.current
            if reader.reads and not reader.built_on and reader.answer(feature) is False
        )

    @property
    def current(self) -> tuple[Reader, ...]:
        """One version of each reader: the newest that was tested, or else the newest."""
        newest: dict[str, Reader] = {}
        for reader in self.readers:
            previous = newest.get(reader.name)
            if previous is None or reader.tested or not previous.tested:
                newest[reader.name] = reader
        return tuple(newest.values())

    def named(self, text: str) -> Reader:
        """The reader of "gdal", "gdal 3.10" or "gdal==3.10.3"; UsageError for an unknown one.

        A name alone means the version in `current`; the beginning of a version is enough.
        """
        name, _, version = re.sub(r"\s*==\s*|\s+", "==", text.strip()).partition("==")
        name = name.lower()
        if not version:
            for reader in self.current:
                if reader.name == name:
                    return reader
        versions = [reader for reader in self.readers if reader.name == name]
        for reader in reversed(versions):
            if (reader.version + ".").startswith(version + "."):
                return reader
        names = [reader.name for reader in self.current]
        raise UsageError(
            f"unknown version of {name}" if versions else f"unknown reader {name!r}",
            found=text,
            expected="one of " + ", ".join(map(str, versions) if versions else names),
            advice=None if versions else did_you_mean(name, names),
        )


@cache
def table() -> Table:
    """The table, read once."""
    data = json.loads(pkgutil.get_data(__package__, FILE) or b"")
    answers: dict[str, tuple[frozenset[str], Mapping[str, str]]] = {}
    readers = []
    for row in data["readers"]:
        base = row.get("built_on")
        if base is None:
            refusals: dict[str, str] = {
                name: text for text, names in row["refuses"].items() for name in names
            }
            answer: tuple[frozenset[str], Mapping[str, str]] = (
                frozenset(row["reads"]),
                MappingProxyType(refusals),
            )
            answers[f"{row['name']} {row['version']}".rstrip()] = answer
        else:
            answer = answers[base]
        readers.append(
            Reader(
                name=row["name"],
                version=row["version"],
                tested=row.get("tested"),
                source=row.get("source"),
                note=row.get("note"),
                built_on=base,
                reads=answer[0],
                refuses=answer[1],
            )
        )
    return Table(
        features=MappingProxyType({group: tuple(names) for group, names in data["features"].items()}),
        registered=MappingProxyType(data["registered"]),
        readers=tuple(readers),
    )


# ----- codecs and data types


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A name of a codec or data type, its register, and the readers that support it."""

    name: str
    register: Register | None
    """None: in use, but not registered."""
    readers: tuple[str, ...]
    """Those of `readers()` that support it."""
    strangers: tuple[str, ...]
    """The others of `readers()`."""

    @property
    def portable(self) -> bool:
        """Whether it is registered and all of `readers()` support it."""
        return self.register is not None and not self.strangers


@cache
def readers() -> tuple[str, ...]:
    """The readers for which every copy is made: the supported zarr-pythons, and tensorstore."""
    return tuple(str(reader) for reader in table().readers if reader.name in _EVERY_COPY)


@cache
def codecs() -> Mapping[str, Row]:
    """Codec name -> row."""
    return _rows("codec")


@cache
def data_types() -> Mapping[str, Row]:
    """Data type name -> row."""
    return _rows("data type")


def _rows(kind: str) -> Mapping[str, Row]:
    """One row per name: variants, such as blosc's, count together."""
    variants: dict[str, list[str]] = {}
    for feature in table().features[f"{kind}s"]:
        variants.setdefault(feature.removeprefix(f"{kind} ").partition(" ")[0], []).append(feature)
    judges = [(str(reader), reader.reads) for reader in table().readers if reader.name in _EVERY_COPY]
    rows: dict[str, Row] = {}
    for name, features in variants.items():
        able = tuple(judge for judge, reads in judges if reads.issuperset(features))
        rows[name] = Row(
            name=name,
            register=table().registered.get(f"{kind} {name}"),
            readers=able,
            strangers=tuple(judge for judge, _ in judges if judge not in able),
        )
    return MappingProxyType(rows)


# ----- features of a document


def head_features(document: JSONObject) -> tuple[str, ...]:
    """What a reader must know to open an array: features of its `zarr.json`, without its attributes."""
    return tuple(dict.fromkeys(_head(document)))


def node_features(path: str, attributes: JSON) -> tuple[str, ...]:
    """Features of a node's name and attributes."""
    features = []
    for name in path.split("/"):
        if not name.isascii():
            features.append("name: not ASCII")
        if " " in name:
            features.append("name: with a space")
        if name.startswith("."):
            features.append("name: with a leading dot")
    features.extend(_values(attributes))
    return tuple(dict.fromkeys(features))


def _head(document: JSONObject) -> Iterator[str]:
    data_type = document["data_type"]
    yield f"data type {data_type if isinstance(data_type, str) else data_type['name']}"
    yield from _codecs(document["codecs"])
    keys = document["chunk_key_encoding"]
    separator = keys.get("configuration", {}).get("separator", "/" if keys["name"] == "default" else ".")
    yield f"chunk keys: {keys['name']} {separator}"
    names = document.get("dimension_names")
    if names is None:
        if document["shape"]:
            yield "dimension names: none"
    elif None in names:
        yield "dimension names: some"
    else:
        yield "dimension names: all"
    if names and any(a == b for a, b in pairwise(sorted(name for name in names if name is not None))):
        yield ONE_TWICE
    if not document["shape"]:
        yield "shape: 0 dimensions"
    if 0 in document["shape"]:
        yield "shape: a length of 0"
    yield from _fill(document["fill_value"])


def _codecs(codecs: Iterable[Any]) -> Iterator[str]:
    for codec in codecs:
        name, configuration = (
            (codec, {}) if isinstance(codec, str) else (codec["name"], codec.get("configuration", {}))
        )
        if name == "blosc":
            yield f"codec blosc {configuration.get('cname')}"
            continue
        yield f"codec {name}"
        if name == "bytes" and configuration.get("endian") == "big":
            yield "codec bytes big-endian"
        if name == "zstd" and configuration.get("checksum"):
            yield "codec zstd with checksum"
        if name == "sharding_indexed":
            if configuration.get("index_location") == "start":
                yield "shards: index at the start"
            index = [codec["name"] for codec in configuration.get("index_codecs", ())]
            if index == ["bytes"]:
                yield "shards: index without checksum"
            yield from _codecs(configuration["codecs"])


def _fill(value: JSON) -> Iterator[str]:
    for part in value if isinstance(value, list | tuple) else (value,):
        if part == "NaN":
            yield "fill value: NaN"
        elif part in ("Infinity", "-Infinity"):
            yield "fill value: Infinity"
        elif isinstance(part, str) and part.startswith("0x"):
            yield "fill value: bits"
        elif type(part) is int and abs(part) > _EXACT:
            yield "fill value: beyond 2^53"


def _values(value: JSON) -> Iterator[str]:
    """Features of attributes."""
    if isinstance(value, float):
        if not isfinite(value):
            yield NAN
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
