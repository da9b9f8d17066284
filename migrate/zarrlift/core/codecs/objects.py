"""`numcodecs.json2`, `numcodecs.msgpack2`, `numcodecs.pickle`: whole object arrays as one document.

Facts (numcodecs 0.16.6 `numcodecs.json`, `.msgpacks`, `.pickles`): json2 and msgpack2 are one list that
contains the nested lists of `ndarray.tolist()`, one for each index along the first axis, then numpy's name of
the data type, then the shape; a pickle is that of the ndarray.

Memory order F: numcodecs' `tolist()` iterates over the array in C order whatever its memory order, but
zarr-python 2.4 to 2.18 arrange the decoded items, in that sequence, in F order: arrays written with
`order="F"` in two or more dimensions are read back with their items in other places (2.2 wrote the same bytes
and read them correctly; zarr-python 3 reads neither codec). This module follows 2.18's reading: the
document's items, flattened in C order, are the inner chunk's in C order, and the chain's transpose does the
rest. The document's own shape still shows what was originally written. A pickle preserves the memory order
of its array, and is read back correctly.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from zarrstack.core.errors import ChunkError, UnsupportedError

from ..codec_facts import wrong_member
from ..codec_table import require_facts
from .base import DEFAULT_OPTIONS, InnerChunk, ObjectCodec, Options, buffer_length, memory

if TYPE_CHECKING:
    from ..codec_spec import CodecSpec
    from .base import Buffer

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Document(ObjectCodec):
    """Base class of json2 and msgpack2."""

    @abstractmethod
    def load(self, data: Buffer) -> Any:
        """Parse the document into Python objects; any exception means that it is invalid."""

    def decode(self, data: Buffer) -> Array:
        """Decode to an object array, or to the inner chunk's fixed-size type."""
        if buffer_length(data) > self.limit:
            raise ChunkError(
                f"{self.spec.name}: the payload is too large",
                found=f"{buffer_length(data)} bytes",
                expected=f"at most {self.limit} bytes",
            )
        try:
            document = self.load(data)
        except Exception as error:  # noqa: BLE001 - parsers fail in many ways
            raise self._fault(str(error) or type(error).__name__) from None
        if not isinstance(document, list) or len(document) < 2 or not isinstance(document[-1], list):
            raise self._fault("no list that ends with a data type and a shape")
        shape = document[-1]
        if not all(isinstance(length, int) and length >= 0 for length in shape):
            raise self._fault(f"the shape {str(shape)[:80]}")
        if math.prod(shape) != self.inner_chunk.items:
            raise ChunkError(
                f"{self.spec.name}: the payload holds the wrong number of items",
                found=str(math.prod(shape)),
                expected=str(self.inner_chunk.items),
            )
        items = self._flatten(document[:-2], shape or [1])
        native = self.inner_chunk.data_type.numpy
        flat = np.empty(len(items), dtype=object)
        flat[:] = items if not any(isinstance(item, list) for item in items) else _boxed(items)
        if native.hasobject:
            return flat.reshape(self.inner_chunk.shape)
        try:
            return flat.astype(native).reshape(self.inner_chunk.shape)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._fault(str(error)) from None

    def _flatten(self, items: list[Any], shape: list[int]) -> list[Any]:
        # Only as deep as the shape: an item may itself be a list.
        for depth, length in enumerate(shape):
            expected = math.prod(shape[: depth + 1])
            if depth:
                if not all(isinstance(item, list) and len(item) == length for item in items):
                    raise self._fault(f"lists that do not fit the shape {shape}")
                items = [inner for item in items for inner in item]
            if len(items) != expected:
                raise self._fault(f"{len(items)} items where the shape {shape} has {expected}")
        return items


@dataclass(frozen=True, slots=True)
class Json2(Document):
    """The `json2` codec of numcodecs."""

    encoding: str
    strict: bool

    @classmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        """Compile; the configuration has the arguments of Python's JSONEncoder and JSONDecoder."""
        values = require_facts(spec.name).read(spec)
        encoding, indent, separators = (values[name] for name in ("encoding", "indent", "separators"))
        if encoding not in ("utf-8", "utf8", "UTF-8", "ascii", "utf-16", "utf-32", "latin-1", "latin1"):
            raise UnsupportedError("numcodecs.json2 in this text encoding", found=str(encoding))
        if indent is not None and not isinstance(indent, int | str):
            raise wrong_member(spec, "indent", "a number, a string or null")
        texts = isinstance(separators, list | tuple) and [type(text) for text in separators] == [str, str]
        if separators is not None and not texts:
            raise wrong_member(spec, "separators", "two strings")
        return cls(spec, inner_chunk, options.object_limit, encoding, values["strict"])

    def load(self, data: Buffer) -> Any:
        """Parse; NaN and Infinity are allowed, as written by numcodecs."""
        return json.JSONDecoder(strict=self.strict).decode(bytes(memory(data)).decode(self.encoding))


@dataclass(frozen=True, slots=True)
class MsgPack2(Document):
    """The `msgpack2` codec of numcodecs."""

    raw: bool

    @classmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        return cls(spec, inner_chunk, options.object_limit, require_facts(spec.name).read(spec)["raw"])

    def load(self, data: Buffer) -> Any:
        """Unpack; the payload's length limits the sizes that its headers state."""
        import msgpack

        return msgpack.unpackb(bytes(memory(data)), raw=self.raw)


@dataclass(frozen=True, slots=True)
class Pickle(ObjectCodec):
    """The `pickle` codec of numcodecs; available only if the user allows pickles."""

    @classmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        """Compile; UnsupportedError unless `options.allow_pickle`."""
        if not options.allow_pickle:
            raise UnsupportedError(
                "codec 'numcodecs.pickle' executes code that the archive names",
                advice="If you trust the archive's writer, allow it with --allow-pickle.",
            )
        return super(Pickle, cls).from_spec(spec, inner_chunk, options)

    def decode(self, data: Buffer) -> Array:
        """Load the pickled array's items in its memory order, as zarr-python does."""
        import pickle

        try:
            loaded = pickle.loads(memory(data))  # noqa: S301 - allowed by the user by name
        except Exception as error:
            raise ChunkError(
                "numcodecs.pickle: the payload does not load", found=str(error) or type(error).__name__
            ) from error
        if not isinstance(loaded, np.ndarray) or loaded.size != self.inner_chunk.items:
            found = f"{loaded.size} items" if isinstance(loaded, np.ndarray) else type(loaded).__name__
            raise ChunkError(
                "numcodecs.pickle: the payload holds something else",
                found=found,
                expected=f"an array of {self.inner_chunk.items} items",
            )
        flat = loaded.reshape(-1, order="A")
        native = self.inner_chunk.data_type.numpy
        if not native.hasobject:
            flat = flat.astype(native, casting="unsafe")
        elif not loaded.dtype.hasobject:
            flat = flat.astype(object)
        return flat.reshape(self.inner_chunk.shape)


def _boxed(items: list[Any]) -> Array:
    # Assigning lists to a slice would make numpy unpack them.
    boxed = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        boxed[index] = item
    return boxed
