"""`hdmf-zarr.objects`: object arrays of hdmf-zarr before 0.14, read as the values that 0.14 stores.

This project's, and never written. It wraps the array's actual codec and describes its objects. Configuration:

    codec    the array's own object codec: a name and a configuration
    values   "text", "references", "rows", or "items", which returns the objects unchanged
    own      of references: the sources that mean the file itself
    fields   of rows: per field "value", "text" or "reference"

Facts (hdmf-zarr 0.11 to 0.13, `hdmf_zarr/backend.py`; 0.14.0 for the result): references are dictionaries
with `source`, `path`, `object_id` and `source_object_id`, and become the path; `ascii` and `isodatetime`
values are stored by vlen-bytes and become text; rows with text or references are tuples or structs of objects
and become structs of fixed-size text. Items of a chunk that are outside the array, or were never written, are
the integer 0 and become '' and zero.

Pickles are parsed without unpickling: see `pickle.load`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from zarrstack.core.errors import CastError

from ..codec_facts import wrong_member
from ..codec_spec import CodecSpec
from ..codec_table import require_facts
from ..data_types.v3 import DataType
from ..pickle.load import read_array
from .base import DEFAULT_OPTIONS, ArrayCodec, InnerChunk, ObjectCodec, Options, memory
from .registry import compile_array_codec

if TYPE_CHECKING:
    from .base import Buffer

    Array = np.ndarray[Any, Any]

_DECODED = {"vlen-utf8": "string", "vlen-bytes": "bytes"}
"""Object codec -> its decoded data type, unless that is any object."""


@dataclass(frozen=True, slots=True)
class HdmfObjects(ObjectCodec):
    """Objects with their interpretation."""

    inner: ArrayCodec | None
    """None for a pickle."""
    values: str
    own: frozenset[str]
    fields: tuple[str, ...]

    @classmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        members = require_facts(spec.name).read(spec)
        codec, values, fields = CodecSpec.from_json(members["codec"]), members["values"], members["fields"]
        if values == "rows" and len(fields) != len(inner_chunk.data_type.fields):
            raise wrong_member(spec, "fields", "one word for each field")
        inner = None
        if codec.name != "numcodecs.pickle":
            data_type = DataType(_DECODED.get(codec.name, "object"))
            inner = compile_array_codec(codec, InnerChunk(inner_chunk.shape, data_type), options)
        else:
            require_facts(codec.name).read(codec)
        return cls(spec, inner_chunk, options.object_limit, inner, values, frozenset(members["own"]), fields)

    def decode(self, data: Buffer) -> Array:
        """Decode to the inner chunk's data type; CastError for an item without a meaning there."""
        items = self._items(data)
        if self.values == "items":
            return items.reshape(self.inner_chunk.shape)
        if self.values == "rows":
            return self._rows(items).reshape(self.inner_chunk.shape)
        to: Callable[[Any], str] = text if self.values == "text" else self._reference
        result = np.empty(items.size, dtype=object)
        for index, item in enumerate(items):
            try:
                result[index] = to(item)
            except CastError as error:
                raise self._placed(error, index) from None
        return result.reshape(self.inner_chunk.shape)

    def _items(self, data: Buffer) -> Array:
        """The objects, flat and in C order; rows as tuples."""
        if self.inner is not None:
            return self.inner.decode(data).reshape(-1)
        stored = read_array(bytes(memory(data)), items=self.inner_chunk.items, memory=self.limit)
        flat = stored.reshape(-1, order="A")  # its memory order, as in zarr-python
        if flat.dtype.hasobject and flat.dtype.names is None:
            return flat
        result = np.empty(flat.size, dtype=object)
        result[:] = flat.tolist()
        return result

    def _reference(self, item: Any) -> str:
        return path_of(item, self.own)

    def _rows(self, items: Array) -> Array:
        dtype = self.inner_chunk.data_type.numpy
        assert dtype.names is not None
        result = np.zeros(items.size, dtype=dtype)
        for index, item in enumerate(items):
            if is_absent(item):
                continue
            try:
                result[index] = self._row(item, dtype)
            except CastError as error:
                raise self._placed(error, index) from None
        return result

    def _row(self, item: Any, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        row = fields_of(item)
        if len(row) != len(self.fields):
            raise CastError(
                "a row has another number of fields", found=str(len(row)), expected=str(len(self.fields))
            )
        return tuple(
            fitting(text(value) if kind == "text" else path_of(value, self.own), dtype[place])
            if kind != "value"
            else number(value, dtype[place])
            for place, (value, kind) in enumerate(zip(row, self.fields, strict=True))
        )

    def _placed(self, error: CastError, index: int) -> CastError:
        place = (
            tuple(int(n) for n in np.unravel_index(index, self.inner_chunk.shape))
            if self.inner_chunk.shape
            else ()
        )
        problem = error.problem
        return CastError(
            f"{problem.message}, at {place} of the chunk",
            found=problem.found,
            expected=problem.expected,
            advice=problem.advice,
        )


def is_absent(item: Any) -> bool:
    """Whether an item was never written: zarr-python 2 fills object arrays with the integer 0."""
    return type(item) is int and item == 0


def text(item: Any) -> str:
    """Text from str or UTF-8 bytes; '' for None and items never written."""
    if isinstance(item, str):
        return str(item)
    if isinstance(item, bytes):
        try:
            return item.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CastError(
                "bytes that are not UTF-8 text",
                found=repr(item[:40]),
                expected="text, which is all Zarr v3 has",
            ) from error
    if item is None or is_absent(item):
        return ""
    raise CastError("an item is not text", found=type(item).__name__, expected="str or bytes")


def path_of(item: Any, own: frozenset[str]) -> str:
    """Path of a reference's target from the root of the file; '' if it was never written."""
    if is_absent(item):
        return ""
    if not isinstance(item, dict):
        raise CastError("an item is not a reference", found=type(item).__name__, expected="source and path")
    if "region" in item:
        raise CastError("a reference to a region", found="region", expected="a reference to an object")
    source, path = item.get("source"), item.get("path")
    if not (source is None or isinstance(source, str)) or not (path is None or isinstance(path, str)):
        raise CastError("a reference whose source or path is not text", expected="text")
    if source is not None and source not in own:
        raise CastError("a reference leads out of the file", found=repr(source)[:200], expected="'.'")
    return "/" + "/".join(name for name in (path or "").split("/") if name)


def fields_of(item: Any) -> tuple[Any, ...]:
    """The fields of a row: a tuple, its JSON or msgpack form, or a struct."""
    if isinstance(item, (tuple, list)):
        return tuple(item)
    if isinstance(item, np.void) and item.dtype.names is not None:
        return tuple(item.tolist())
    raise CastError("an item is not a row", found=type(item).__name__, expected="a tuple")


def fitting(value: str, dtype: np.dtype[Any]) -> str:
    """Text that a fixed-size field preserves; CastError otherwise."""
    if len(value) > dtype.itemsize // 4 or value.endswith("\0"):
        raise CastError(
            "a text does not fit its field",
            found=f"{len(value)} characters",
            expected=f"{dtype.itemsize // 4}",
        )
    return value


def number(value: Any, dtype: np.dtype[Any]) -> Any:
    """A number of a field's type; CastError if its value would change."""
    if isinstance(value, (str, bytes, dict)) or value is None:
        raise CastError("a field is not a number", found=type(value).__name__, expected=str(dtype))
    try:
        result = np.array(value, dtype=dtype)
    except (ValueError, TypeError, OverflowError):
        result = None
    nan = isinstance(value, float) and math.isnan(value)
    # As Python numbers: numpy compares 0.1 with a float32 as float32.
    fits = result is not None and result.shape == () and (nan or result.item() == value)
    if result is None or not fits or (nan and result.dtype.kind != "f"):
        raise CastError("a number does not fit its field", found=f"{value!r:.40}", expected=str(dtype))
    return result[()]
