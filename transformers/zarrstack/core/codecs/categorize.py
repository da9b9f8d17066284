"""`numcodecs.categorize`: strings as numbers of labels; 0 is every other string.

Facts: numcodecs 0.16.6 `numcodecs.categorize`. Label `i` is stored as `i + 1`; 0, and any
number without a label, decodes to the empty string. Over `U` arrays it is a filter
(`numcodecs.categorize`); over object arrays it stands in the middle of the chain, which
this project calls `numcodecs.object-categorize`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import CastError
from .base import DEFAULT_OPTIONS, ArrayCodec, BytesCodec, Leaf, Options, Size
from .bounds import buffer_length, elements_in, elements_of, items_as_octets, octets, require_fit
from .config import Configuration

if TYPE_CHECKING:
    from ..chain.codec_spec import CodecSpec
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
        """Read `labels` and `astype` (u1 if missing)."""
        labels = config.value("labels")
        if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
            raise config.wrong("labels", labels, "a list of strings")
        codes = config.dtype("astype", np.dtype("u1"))
        if codes.kind not in "iu":
            raise config.wrong("astype", codes.str, "an integer type")
        return cls(spec.name, tuple(labels), codes)

    def numbers(self, values: list[Any]) -> Array:
        """The numbers of some strings; CastError for one that is neither a label nor empty."""
        # A label that stands twice is stored under its last number, as numcodecs does.
        known = {"": 0} | {label: number for number, label in enumerate(self.labels, 1)}
        try:
            return np.array([known[value] for value in values], dtype=self.codes)
        except (KeyError, TypeError, OverflowError) as error:
            raise CastError(f"{self.name}: a value has no number", found=str(error)) from None

    def strings(self, data: Buffer, table: Array) -> Array:
        """What some stored numbers stand for; `table` holds '' and the labels."""
        numbers = octets(data).view(self.codes).astype(np.uint64)
        # A negative number wraps to a large one.
        numbers[numbers >= len(table)] = 0
        result: Array = table[numbers.astype(np.intp)]
        return result

    def count(self, length: int) -> int:
        """How many numbers a payload holds."""
        return elements_in(self.name, length, self.codes.itemsize)


@dataclass(frozen=True, slots=True)
class Categorize(BytesCodec):
    """The `categorize` filter over `U` arrays."""

    spec: CodecSpec
    text: np.dtype[Any]
    labels: Labels

    @classmethod
    def from_spec(cls, spec: CodecSpec, item: np.dtype[Any] | None = None) -> Self:
        """Configuration: `labels`, `dtype` (the items' type if missing), `astype`."""
        config = Configuration(spec, ("labels", "dtype", "astype"))
        text = config.dtype("dtype", item)
        if text.kind != "U":
            raise config.wrong("dtype", text.str, 'a text type such as "<U8"')
        return cls(spec, text, Labels.parse(spec, config))

    def encoded_item(self, item: np.dtype[Any] | None) -> np.dtype[Any] | None:
        """The numbers' type."""
        return self.labels.codes

    def encoded_size(self, decoded: Size) -> Size:
        """A number for every string."""
        count = elements_of(self.spec.name, decoded, self.text.itemsize)
        return Size(count * self.labels.codes.itemsize, decoded.exact)

    def encode(self, data: Buffer) -> Buffer:
        """Numbers; a string that is no label is refused, where numcodecs loses it."""
        return items_as_octets(self.labels.numbers(octets(data).view(self.text).tolist()))

    def decode(self, data: Buffer, decoded: Size) -> Buffer:
        """Labels, cut to the width of the type as numcodecs cuts them."""
        count = self.labels.count(buffer_length(data))
        require_fit(self.spec.name, count * self.text.itemsize, decoded)
        table = np.array(["", *self.labels.labels], dtype=self.text)
        return items_as_octets(self.labels.strings(data, table))


@dataclass(frozen=True, slots=True)
class ObjectCategorize(ArrayCodec):
    """The `categorize` filter over object arrays."""

    spec: CodecSpec
    leaf: Leaf
    labels: Labels

    @classmethod
    def from_spec(cls, spec: CodecSpec, leaf: Leaf, options: Options = DEFAULT_OPTIONS) -> Self:
        """Configuration: `labels`, `astype`; `dtype` can only be "|O"."""
        config = Configuration(spec, ("labels", "dtype", "astype"))
        config.choice("dtype", ("|O", "O", "object"), "|O")
        return cls(spec, leaf, Labels.parse(spec, config))

    @property
    def item(self) -> np.dtype[Any] | None:
        """The numbers' type."""
        return self.labels.codes

    @property
    def size(self) -> Size:
        """A number for every string."""
        return Size(self.leaf.items * self.labels.codes.itemsize, exact=True)

    def encode(self, array: Array) -> Buffer:
        """Numbers; a string that is no label is refused, where numcodecs loses it."""
        return items_as_octets(self.labels.numbers(array.reshape(-1).tolist()))

    def decode(self, data: Buffer) -> Array:
        """An object array of str."""
        self.labels.count(buffer_length(data))
        require_fit(self.spec.name, buffer_length(data), self.size)
        table = np.array(["", *self.labels.labels], dtype=object)
        return self.labels.strings(data, table).reshape(self.leaf.shape)
