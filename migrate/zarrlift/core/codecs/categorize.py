"""`numcodecs.categorize`: strings as the numbers of labels; 0 stands for all other strings.

Source: numcodecs 0.16.6 `numcodecs.categorize`. Label `i` is stored as `i + 1`; 0, and any number without a
label, decodes to the empty string. On `U` arrays it is a filter (`numcodecs.categorize`); on object arrays it
is an array-to-bytes codec, named `numcodecs.object-categorize` in this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .base import DEFAULT_OPTIONS, ArrayCodec, BytesCodec, InnerChunk, Options, Size
from .bounds import buffer_length, elements_in, elements_of, items_as_octets, octets, require_fit
from .config import Configuration

if TYPE_CHECKING:
    from ..codec_spec import CodecSpec
    from .base import Buffer

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels, and the type of their numbers."""

    name: str
    labels: tuple[str, ...]
    codes: np.dtype[Any]

    @classmethod
    def parse(cls, spec: CodecSpec, config: Configuration) -> Self:
        """Parse `labels` and `astype` (default u1)."""
        labels = config.value("labels")
        if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
            raise config.wrong("labels", labels, "a list of strings")
        codes = config.dtype("astype", np.dtype("u1"))
        if codes.kind not in "iu":
            raise config.wrong("astype", codes.str, "an integer type")
        return cls(spec.name, tuple(labels), codes)

    def strings(self, data: Buffer, table: Array) -> Array:
        """Convert stored numbers to strings; `table` holds '' and the labels."""
        numbers = octets(data).view(self.codes).astype(np.uint64)
        # Negative numbers wrap around to large ones.
        numbers[numbers >= len(table)] = 0
        result: Array = table[numbers.astype(np.intp)]
        return result

    def count(self, length: int) -> int:
        """Number of items in a payload."""
        return elements_in(self.name, length, self.codes.itemsize)


@dataclass(frozen=True, slots=True)
class Categorize(BytesCodec):
    """The `categorize` filter on `U` arrays."""

    text: np.dtype[Any]
    labels: Labels

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Compile; configuration: `labels`, `dtype` (default: the type of the items), `astype`."""
        config = Configuration(spec, ("labels", "dtype", "astype"))
        text = config.dtype("dtype", item)
        if text.kind != "U":
            raise config.wrong("dtype", text.str, 'a text type such as "<U8"')
        return cls(spec, text, Labels.parse(spec, config))

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        return self.labels.codes

    def encoded_size(self, decoded: Size) -> Size:
        count = elements_of(self.spec.name, decoded, self.text.itemsize)
        return Size(count * self.labels.codes.itemsize, decoded.exact)

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Decode to labels, truncated to the width of the type as in numcodecs."""
        count = self.labels.count(buffer_length(data))
        require_fit(self.spec.name, count * self.text.itemsize, decoded)
        table = np.array(["", *self.labels.labels], dtype=self.text)
        return items_as_octets(self.labels.strings(data, table))


@dataclass(frozen=True, slots=True)
class ObjectCategorize(ArrayCodec):
    """The `categorize` filter on object arrays."""

    labels: Labels

    @classmethod
    def from_spec(cls, spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS) -> Self:
        """Compile; configuration: `labels`, `astype`; `dtype` can only be "|O"."""
        config = Configuration(spec, ("labels", "dtype", "astype"))
        config.choice("dtype", ("|O", "O", "object"), "|O")
        return cls(spec, inner_chunk, Labels.parse(spec, config))

    @property
    def item(self) -> np.dtype[Any] | None:
        return self.labels.codes

    @property
    def size(self) -> Size:
        return Size(self.inner_chunk.items * self.labels.codes.itemsize, exact=True)

    def decode(self, data: Buffer) -> Array:
        self.labels.count(buffer_length(data))
        require_fit(self.spec.name, buffer_length(data), self.size)
        table = np.array(["", *self.labels.labels], dtype=object)
        return self.labels.strings(data, table).reshape(self.inner_chunk.shape)
