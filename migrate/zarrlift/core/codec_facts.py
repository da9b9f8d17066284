"""What is stated of each codec (`CodecFacts`), and the members of its configuration.

`codec_table` has the row of every codec. A fact that every codec has is without a default, so that a row
without it is an error when the table is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import JSON, canonical

from .codec_spec import CodecSpec

REQUIRED: Final[Any] = object()
"""The default of a member that has none."""

Register: TypeAlias = Literal["core", "zarr-extensions"]
Kind: TypeAlias = Literal["transpose", "array", "serializer", "numbers", "bytes"]
"""The place of a codec in a v3 document: before the array-to-bytes codec ("array" are numcodecs' filters of
arrays), as that codec, or after it. "numbers" replace `bytes` in v3; in Zarr v2 and here they follow it.
"""
Role: TypeAlias = Literal["items", "filter", "compressor", "encoding", "checksum", "frame"]
Objects: TypeAlias = Literal["text", "bytes", "labels", "arrays", "document", "pickle", "hdmf"]
"""The values of an object codec: "labels" are text, "document" and "pickle" of any type."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a configuration, of any value."""

    default: Any = REQUIRED
    """Of numcodecs or Java, by which the codec was written; null counts as absent if it is None."""
    needed: bool = False
    """Whether v3 readers require the member although it has a default."""

    @property
    def expected(self) -> str:
        """The valid values, as text."""
        return "any value"

    def parse(self, value: JSON) -> Any:
        """The value in the form that the codec uses; ValueError if it is invalid."""
        return value

    def limits(self, value: JSON) -> str | None:
        """What every reader accepts, as text, if that does not include the value; otherwise None."""
        return None

    def limited(self, value: JSON) -> JSON:
        """The value, or the closest one that every reader accepts if it matters to the encoder only."""
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Member):
    """An integer within bounds (inclusive); 5.0 counts as 5, true does not count as 1."""

    low: int
    high: int
    of_item: int | None = None
    """Unless None, the default is the size of an item, or this if that is not known."""
    everywhere: tuple[int, int] | None = None
    """The range that every reader accepts; the member matters to the encoder only."""
    below: int | None = None
    above: int | None = None
    """Values for those outside of that range, if not its ends."""

    @property
    def expected(self) -> str:
        return f"an integer from {self.low} to {self.high}"

    def parse(self, value: JSON) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            raise ValueError(self.expected)
        return value

    def limits(self, value: JSON) -> str | None:
        if self.everywhere is None:
            return None
        low, high = self.everywhere
        fits = type(value) is int and low <= value <= high
        return None if fits else f"an integer from {low} to {high}"

    def limited(self, value: JSON) -> JSON:
        if self.everywhere is None or type(value) is not int:
            return value
        low, high = self.everywhere
        if value < low:
            return low if self.below is None else self.below
        if value > high:
            return high if self.above is None else self.above
        return value


@dataclass(frozen=True, slots=True)
class Number(Member):
    """A JSON number."""

    @property
    def expected(self) -> str:
        return "a number"

    def parse(self, value: JSON) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(self.expected)  # noqa: TRY004 - caught by `_parsed`
        return value


@dataclass(frozen=True, slots=True)
class Flag(Member):
    """A JSON boolean."""

    @property
    def expected(self) -> str:
        return "true or false"

    def parse(self, value: JSON) -> bool:
        if not isinstance(value, bool):
            raise ValueError(self.expected)  # noqa: TRY004 - the same
        return value

    def limits(self, value: JSON) -> str | None:
        return None if isinstance(value, bool) else self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Member):
    """One of some values."""

    values: Mapping[JSON, Any]
    """Value -> the form that the codec uses."""
    everywhere: tuple[str, ...] | None = None
    """The values that every reader accepts."""
    flags: bool = False
    """Whether true and false count as 1 and 0."""

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(map(str, self.values))

    def parse(self, value: JSON) -> Any:
        unfit = isinstance(value, list | dict) or (isinstance(value, bool) and not self.flags)
        if unfit or value not in self.values:
            raise ValueError(self.expected)
        return self.values[value]

    def limits(self, value: JSON) -> str | None:
        if self.everywhere is None or value in self.everywhere:
            return None
        return ", ".join(self.everywhere) if len(self.everywhere) > 2 else " or ".join(self.everywhere)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtype(Member):
    """A fixed-size numpy type in its short form, such as "<i4"."""

    of_item: bool = False
    """Whether the type of the items stands for a missing one."""

    @property
    def expected(self) -> str:
        return 'a fixed-size type such as "<i4"'

    def parse(self, value: JSON) -> np.dtype[Any]:
        try:
            dtype = np.dtype(value) if isinstance(value, str) else None
        except (TypeError, ValueError):
            dtype = None
        if dtype is None or dtype.hasobject or dtype.itemsize == 0:
            raise ValueError(self.expected)
        return dtype


@dataclass(frozen=True, slots=True)
class Texts(Member):
    """A list of strings."""

    @property
    def expected(self) -> str:
        return "a list of strings"

    def parse(self, value: JSON) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
            raise ValueError(self.expected)
        return tuple(map(str, value))


class Items(NamedTuple):
    """The types of a filter's items: members of the configuration that state them."""

    decoded: str | None = None
    """None: the type of its input."""
    encoded: str | None = None
    otherwise: str | None = None
    """The encoded type if it is not stated; None: the decoded type."""


class Like(NamedTuple):
    """A registered codec that decodes the same bytes to the same values."""

    name: str
    configuration: Callable[[Mapping[str, Any], int], Mapping[str, JSON] | None]
    """From a configuration and the size of an item, that of the registered codec; None if it has none."""


class Readers(NamedTuple):
    """Where a codec is registered, and the readers that refuse it."""

    register: Register | None
    """None: in use, but not registered."""
    refused_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecFacts:
    """The row of one codec; a fact that has a default applies to some codecs only."""

    name: str
    """In chains: its name in v3; `numcodecs.*` as zarr-python names the codecs of numcodecs."""
    kind: Kind
    role: Role
    made_by: str | None
    """Module and class of `core.codecs`; None for what is no step of a pipeline."""
    members: Mapping[str, Member] | None
    """Of the configuration; None if they are not checked."""
    readers: Readers | None
    """Who reads it in v3; None if that was not tested."""
    aliases: tuple[str, ...] = ()
    """Names in documents of others, with the same configuration."""
    v2_id: str | None = None
    """Its `id` in Zarr v2."""
    n5_type: str | None = None
    """N5's name of the compression."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What differs between the codecs of one class."""
    items: Items | None = None
    casts: bool = False
    """Whether decoding an item only casts it, which does nothing between equal types."""
    bound: Callable[[int], int] | None = None
    """The size in bytes of so many bytes, encoded, if it depends on nothing else."""
    lossy: bool = False
    """Whether encoding may change values without an error, so that the result is compared."""
    objects: Objects | None = None
    """The values of an object codec; None for other codecs."""
    package: str | None = None
    """A package that decodes it and that a bare install does not have."""
    extra: str | None = None
    """The extra that installs the package."""
    like: Like | None = None

    def read(self, spec: CodecSpec, item: np.dtype[Any] | None = None) -> dict[str, Any]:
        """The members of a configuration, parsed, with defaults; MetadataError that names a wrong one.

        `item` is the type of the items before encoding. Unknown members are refused, because they may matter.
        """
        return read_members(spec, self.members or {}, item)

    def item_types(
        self, values: Mapping[str, Any], item: np.dtype[Any] | None
    ) -> tuple[np.dtype[Any] | None, np.dtype[Any] | None]:
        """The types before and after encoding, for parsed members; None for bytes."""
        if self.items is None:
            return item, None
        decoded = item if self.items.decoded is None else values[self.items.decoded]
        encoded = None if self.items.encoded is None else values[self.items.encoded]
        if encoded is None:
            encoded = decoded if self.items.otherwise is None else np.dtype(self.items.otherwise)
        return decoded, encoded


def read_members(
    spec: CodecSpec, members: Mapping[str, Member], item: np.dtype[Any] | None = None
) -> dict[str, Any]:
    """`CodecFacts.read` for any members."""
    if unknown := sorted(set(spec.configuration) - set(members)):
        raise MetadataError(
            f"codec {spec.name!r} has unknown members in its configuration",
            found=", ".join(unknown),
            expected=", ".join(sorted(members)) or "none",
        )
    return {name: _parsed(spec, name, member, item) for name, member in members.items()}


def _parsed(spec: CodecSpec, name: str, member: Member, item: np.dtype[Any] | None) -> Any:
    value = spec.configuration.get(name, REQUIRED)
    if value is None and (member.default is None or isinstance(member, Dtype)):
        value = REQUIRED
    if value is REQUIRED:
        if isinstance(member, Integer) and member.of_item is not None:
            return item.itemsize if item is not None and item.itemsize else member.of_item
        if isinstance(member, Dtype) and member.of_item and item is not None:
            return item
        if member.default is REQUIRED:
            raise MetadataError(f"codec {spec.name!r} lacks {name!r} in its configuration")
        return member.default
    try:
        return member.parse(value)
    except ValueError as error:
        raise wrong_member(spec, name, str(error)) from None


def wrong_member(spec: CodecSpec, name: str, expected: str) -> MetadataError:
    """The error for an invalid member of a configuration."""
    return MetadataError(
        f"codec {spec.name!r}: {name!r} is invalid",
        found=canonical(spec.configuration.get(name)),
        expected=expected,
    )
