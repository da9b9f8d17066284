"""Datasets of hdmf-zarr: how their objects are decoded, and whether the content matches the metadata.

Arrays of numbers are unchanged. Arrays of objects are small and are read completely during planning: a broken
reference is reported before anything is written.

Compound datasets with object rows: hdmf-zarr 0.11 to 0.13, `ZarrIO.write_dataset`, writes `zarr_dtype` as a
list of {name, dtype}, in which "object" is a reference and numbers have numpy's or Python's names. 0.14
stores text and paths as text of a fixed size, 512 characters or more (`COMPOUND_DTYPE_MIN_STRING_LENGTH`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import CastError, Problem, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ...archive.chunk_reader import object_bound
from ...archive.nodes import ArrayNode, Layout
from ...core.chain.chain import Chain
from ...core.codec_spec import CodecSpec
from ...core.codec_table import require_facts
from ...core.codecs.hdmf import fields_of, is_absent, number, text
from ...core.codecs.pipeline import Pipeline
from ...core.data_types.v2 import parse_v2_dtype
from ...core.data_types.v3 import DataType, fill_to_json, zero_fill
from ...formats.zarr_v2.array import V2ArrayDescriber
from .. import View, finding
from .references import ADVICE, FileNodes, ItemFindings

_CODEC: Final = "hdmf-zarr.objects"
_OBJECTS: Final = frozenset({"pickle", "document", "bytes"})
"""Values of object codecs whose arrays are decoded differently from their description."""
_STRUCT: Final = "a struct with object fields has no v3 data type"
"""The reader's refusal for arrays that hdmf-zarr commonly writes."""
_MAX_ITEMS: Final = 1 << 24
"""Maximum number of items in one chunk of objects; a pickle of this size needs the memory limit of a chunk (1
GiB).
"""
_BATCH: Final = 64
_TEXT: Final = {"string": "str", "bytes": "str", "fixed_length_utf32": "str"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A dataset on Zarr v3; `layout` is None if it is unchanged."""

    layout: Layout | None = None
    dtype: str | None = None
    """Value of `_DTYPE`; None for compound data, whose type states it."""
    reference_fields: tuple[str, ...] = ()
    references: int = 0
    lifts: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()


class DatasetReader:
    """Reads the datasets of one file."""

    def __init__(self, view: View, places: FileNodes) -> None:
        self._view = view
        self._places = places
        self._describer = V2ArrayDescriber()

    def read(self, node: ArrayNode, dtype: JSON) -> Dataset:
        """The dataset at a node with this `zarr_dtype`."""
        layout = node.layout
        lifts: tuple[Problem, ...] = ()
        if layout is None:
            layout, lifts = self._struct_of_objects(node)
        if layout is None:
            return Dataset()  # the reader reports the reason
        middle = layout.chain.codecs[layout.chain.middle].name
        scalar = dtype == "scalar"
        if scalar and layout.shape == (1,) and layout.chunk_shape == (1,):
            layout = replace(layout, shape=(), chunk_shape=(), dimension_names=None)
        if dtype == "region" or (isinstance(dtype, list) and any(_is_region(field) for field in dtype)):
            return self._refused(node, "references to regions, which hdmf-zarr does not read", dtype)
        if require_facts(middle).objects not in _OBJECTS:
            if dtype == "object" or (lifts and not isinstance(dtype, list)):
                return self._refused(node, "zarr_dtype does not match the content of the array", dtype)
            changed = None if layout is node.layout else layout
            return Dataset(layout=changed, dtype=_dtype_of(dtype, layout.data_type))
        if dtype == "object":
            return self._references(node, layout)
        if isinstance(dtype, list):
            return self._rows(node, layout, dtype, lifts)
        if lifts:
            return self._refused(
                node, "a struct with objects whose fields zarr_dtype does not describe", dtype
            )
        return self._texts(node, layout)

    # ----- kinds of datasets

    def _references(self, node: ArrayNode, layout: Layout) -> Dataset:
        findings = ItemFindings(node, self._places)
        for key, place, item in self._items(node, layout, findings):
            findings.follow(key, place, item)
        configuration: JSONObject = {"values": "references", "own": list(findings.own)}
        dataset = Dataset(dtype="object_reference", references=findings.references)
        return self._read_as(node, layout, DataType("string"), configuration, findings, dataset)

    def _rows(
        self, node: ArrayNode, layout: Layout, dtype: list[JSON], lifts: tuple[Problem, ...]
    ) -> Dataset:
        stored = json.loads(node.documents[0].content)["dtype"] if lifts else None
        fields = fields_from(dtype, stored)
        if isinstance(fields, str):
            return self._refused(node, fields, dtype)
        findings = ItemFindings(node, self._places)
        for key, place, item in self._items(node, layout, findings):
            try:
                for reference in fields.add_row(fields_of(item)):
                    findings.follow(key, place, reference)
            except CastError as error:
                findings.refuse(key, f"{error.problem.message}, at {place}", error.problem.found)
        configuration = {"values": "rows", "own": list(findings.own), "fields": list(fields.kinds)}
        dataset = Dataset(reference_fields=fields.references, references=findings.references, lifts=lifts)
        return self._read_as(node, layout, fields.data_type(), configuration, findings, dataset)

    def _texts(self, node: ArrayNode, layout: Layout) -> Dataset:
        findings = ItemFindings(node, self._places)
        others = 0
        for key, place, item in self._items(node, layout, findings):
            try:
                text(item)
            except CastError as error:
                others += not isinstance(item, bytes)
                findings.refuse(key, f"{error.problem.message}, at {place}", error.problem.found)
        pickled = layout.chain.codecs[layout.chain.middle].name == "numcodecs.pickle"
        if others and not pickled:
            # Other kinds of objects: the recipe determines their conversion, as in any archive.
            return Dataset(layout=None if layout is node.layout else layout, dtype="str")
        return self._read_as(
            node, layout, DataType("string"), {"values": "text"}, findings, Dataset(dtype="str")
        )

    # ----- layouts

    def _struct_of_objects(self, node: ArrayNode) -> tuple[Layout | None, tuple[Problem, ...]]:
        """The layout of an array that the reader refused for its struct with objects; and that refusal."""
        lifts = tuple(problem for problem in node.problems if problem.message == _STRUCT)
        others = [p for p in node.problems if p.severity == "refusal" and p not in lifts]
        if not lifts or others:
            return None, ()
        document: JSONObject = json.loads(node.documents[0].content)
        described = self._describer.describe({**document, "dtype": "|O", "fill_value": None})
        if described.refused or described.chain is None or described.shape is None:
            return None, ()
        if described.chunk_shape is None or (len(described.shape) > 1 and described.separator is None):
            return None, ()
        layout = Layout(
            shape=described.shape,
            data_type=DataType("object"),
            fill_value=None,
            chunk_shape=described.chunk_shape,
            chain=described.chain,
            keys=KeyEncoding("v2", described.separator or "."),
        )
        return layout, lifts

    def _read_as(
        self,
        node: ArrayNode,
        layout: Layout,
        data_type: DataType,
        configuration: JSONObject,
        findings: ItemFindings,
        dataset: Dataset,
    ) -> Dataset:
        """The dataset, decoded by the codec that interprets its objects."""
        if self._view.in_place or self._view.recipe.for_array(node.path).codecs.mode == "keep":
            findings.add(
                finding(
                    "refusal",
                    node.path,
                    "its objects must be re-encoded, which is not permitted here",
                    layout.chain.codecs[layout.chain.middle].name.removeprefix("numcodecs."),
                    key=node.documents[0].key,
                    advice="Migrate the file to a new destination, without --codecs keep.",
                )
            )
        changed = replace(
            _with_codec(layout, configuration),
            data_type=data_type,
            fill_value=fill_to_json(zero_fill(data_type), data_type),
        )
        return replace(dataset, layout=changed, problems=findings.problems())

    def _refused(self, node: ArrayNode, message: str, dtype: JSON) -> Dataset:
        key = node.documents[0].key if node.documents else None
        problem = finding("refusal", node.path, message, excerpt(dtype), key=key, advice=ADVICE)
        return Dataset(problems=(problem,))

    # ----- content

    def _items(
        self, node: ArrayNode, layout: Layout, findings: ItemFindings
    ) -> Iterator[tuple[str, tuple[int, ...], Any]]:
        """(key, location in the array, item) of every written item within the array."""
        if np.prod(layout.chunk_shape, dtype=object) > _MAX_ITEMS:
            findings.refuse(None, "a chunk of objects is too large", str(list(layout.chunk_shape)))
            return
        raw = replace(_with_codec(layout, {"values": "items"}), data_type=DataType("object"))
        pipeline = Pipeline(raw.chain, raw.chunk_shape, raw.data_type)
        bound = object_bound(layout)
        places = np.ndindex(*(-(-n // c) for n, c in zip(layout.shape, layout.chunk_shape, strict=True)))
        while batch := list(islice(places, _BATCH)):
            keys = [layout.key(node.path, place) for place in batch]
            for key, place, payload in zip(
                keys, batch, self._view.storage.get_many(keys, bound), strict=True
            ):
                if payload is None:
                    continue
                try:
                    values = pipeline.decode(payload)
                except ZarrstackError as error:
                    findings.add(replace(error.at(node=node.path, key=key).problem, severity="refusal"))
                    continue
                yield from _within(key, place, values, layout)


def _within(
    key: str, place: tuple[int, ...], values: npt.NDArray[Any], layout: Layout
) -> Iterator[tuple[str, tuple[int, ...], Any]]:
    part: tuple[Any, ...] = (*layout.grid.valid(place), ...)
    inside = values[part]
    for index in np.ndindex(*inside.shape):
        item = inside[index]
        if not is_absent(item):
            start = zip(place, layout.chunk_shape, index, strict=True)
            yield key, tuple(p * c + i for p, c, i in start), item


def _with_codec(layout: Layout, configuration: JSONObject) -> Layout:
    """The layout with the object codec wrapped in the codec that interprets the objects."""
    codecs = list(layout.chain.codecs)
    middle = layout.chain.middle
    codecs[middle] = CodecSpec(_CODEC, {"codec": codecs[middle].to_json(), **configuration})
    return replace(layout, chain=Chain(tuple(codecs)))


def _dtype_of(dtype: JSON, data_type: DataType) -> str | None:
    """Value of `_DTYPE` for an unchanged array."""
    if isinstance(dtype, list) or dtype is None:
        return None
    if data_type.name in _TEXT:
        return _TEXT[data_type.name]
    if dtype == "scalar":
        return "bool" if data_type.name == "bool" else data_type.numpy.type.__name__
    return dtype if isinstance(dtype, str) else None


def _is_region(field: JSON) -> bool:
    return isinstance(field, dict) and field.get("dtype") == "region"


_SHORTEST: Final = 512
"""Minimum number of characters of a text field."""
_TEXTS: Final = frozenset(
    {"str", "str_", "bytes", "bytes_", "string_", "text", "utf", "utf8", "utf-8", "ascii"}
)
_WHOLE: Final = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
_NUMBERS: Final = {name: name for name in _WHOLE} | {
    "float16": "float16", "float32": "float32", "float64": "float64", "double": "float64", "float": "float64",
    "int": "int64", "uint": "uint64", "bool": "bool", "bool_": "bool", "long": "int64",
}  # fmt: skip
_WIDER: Final = {"b": "bool", "i": "int64", "u": "uint64", "f": "float64"}


class FieldValues:
    """The fields of one dataset, updated as its rows are read."""

    def __init__(
        self, names: tuple[str, ...], kinds: tuple[str, ...], types: list[np.dtype[Any] | None]
    ) -> None:
        self.names = names
        self.kinds = kinds
        """Kind of each field: "value", "text" or "reference"."""
        self._types = types
        self._widths = [_SHORTEST] * len(names)

    @property
    def references(self) -> tuple[str, ...]:
        """The names of the fields that contain references."""
        return tuple(name for name, kind in zip(self.names, self.kinds, strict=True) if kind == "reference")

    def add_row(self, row: tuple[Any, ...]) -> Iterator[Any]:
        """Update widths and number types from a row; yields its references. CastError for an invalid row."""
        if len(row) != len(self.kinds):
            raise CastError("a row has a different number of fields", found=str(len(row)))
        for place, (value, kind) in enumerate(zip(row, self.kinds, strict=True)):
            if kind == "text":
                self._widths[place] = max(self._widths[place], len(text(value)))
            elif kind == "reference":
                if isinstance(value, dict):
                    self._widths[place] = max(self._widths[place], len(str(value.get("path"))) + 1)
                if not is_absent(value):
                    yield value
            else:
                self._number(place, value)

    def _number(self, place: int, value: Any) -> None:
        dtype = self._types[place]
        assert dtype is not None
        try:
            number(value, dtype)
        except CastError:
            # A row stored as a plain tuple may exceed the types in zarr_dtype.
            wider = np.dtype(_WIDER[dtype.kind])
            number(value, wider)
            self._types[place] = wider

    def data_type(self) -> DataType:
        """The struct that can hold every row read so far."""
        members = [
            (name, f"<U{width}") if dtype is None else (name, dtype)
            for name, dtype, width in zip(self.names, self._types, self._widths, strict=True)
        ]
        return DataType.from_numpy(np.dtype(members))


def fields_from(dtype: list[JSON], stored: JSON) -> FieldValues | str:
    """The fields in `zarr_dtype`, or a text that describes why it is invalid.

    `stored` is the `dtype` of `.zarray` if that is a struct: the numbers then have these types.
    """
    names, kinds = [], []
    types: list[np.dtype[Any] | None] = []
    for place, field in enumerate(dtype):
        if not isinstance(field, dict) or not isinstance(field.get("name"), str):
            return f"zarr_dtype contains an entry that is not a field: {excerpt(field)}"
        name, type_name = field["name"], field.get("dtype")
        names.append(name)
        if stored is not None and (place >= len(stored) or stored[place][0] != name):
            return "the fields of zarr_dtype do not match those of the array"
        if type_name == "object":
            kinds.append("reference")
            types.append(None)
        elif type_name in _TEXTS or type_name == "object_":
            kinds.append("text")
            types.append(None)
        else:
            number_type = _number_type(type_name, stored, place)
            if number_type is None:
                return (
                    f"a field of a type that hdmf-zarr does not write in compound data: {excerpt(type_name)}"
                )
            kinds.append("value")
            types.append(number_type)
    if not names or len(set(names)) != len(names) or (stored is not None and len(stored) != len(names)):
        return "the fields of zarr_dtype do not match those of the array"
    return FieldValues(tuple(names), tuple(kinds), types)


def _number_type(type_name: JSON, stored: JSON, place: int) -> np.dtype[Any] | None:
    if stored is None:
        name = _NUMBERS.get(type_name) if isinstance(type_name, str) else None
        return None if name is None else np.dtype(name)
    try:
        number_type = parse_v2_dtype(stored[place][1]).newbyteorder("=")
    except ZarrstackError:
        return None
    return number_type if number_type.kind in _WIDER else None
