"""Codec chains as data: parse, normalise, compare, split.

A chain is listed from the array side to the stored bytes, as in `zarr.json`. Its *normal form*, used
throughout this project, is

    transpose*  array-to-bytes  bytes-to-bytes*

with array filters (`numcodecs.delta`, `cast_value` etc.) after the array-to-bytes codec, although zarr-python
lists them before it: in Zarr v2 every filter converts a buffer to a buffer, and the array's data type is a
view of the outermost one (https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#filters; zarr-python 2.18
`Array._decode_chunk`). `to_json` moves them to zarr-python's position, and sets the byte order that `bytes`
then requires (see `array_filters`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from zarrstack.core.errors import MetadataError, UnsupportedError
from zarrstack.core.json_text import JSON, excerpt

from ..codec_spec import CodecSpec
from ..codec_table import ALIASES, ARRAY_FILTERS, ARRAY_TO_BYTES, NUMBERS, REGISTERED_FILTERS, SEVERAL
from .array_filters import Endian, endian_from_json, endian_to_json

_LITTLE: Final = CodecSpec("bytes", {"endian": "little"})
_BEFORE_BYTES: Final = ARRAY_FILTERS | {"transpose"}


@dataclass(frozen=True)
class Chain:
    """A codec chain in normal form."""

    codecs: tuple[CodecSpec, ...]
    middle: int = field(init=False, repr=False, compare=False)
    """Index of the array-to-bytes codec."""

    def __post_init__(self) -> None:
        middles = [i for i, codec in enumerate(self.codecs) if codec.name in ARRAY_TO_BYTES]
        if len(middles) != 1:
            raise MetadataError(
                "a codec chain needs exactly one array-to-bytes codec",
                found=self._names(),
                expected="transpose*, one of bytes, vlen-utf8, ..., then bytes-to-bytes codecs",
            )
        for codec in self.codecs[: middles[0]]:
            if codec.name != "transpose":
                raise UnsupportedError(
                    f"codec {codec.name!r} is not supported before the array-to-bytes codec",
                    found=self._names(),
                    expected="transpose and the numcodecs array filters",
                )
        for codec in self.codecs[middles[0] :]:
            if codec.name == "transpose":
                raise MetadataError("transpose comes after the array-to-bytes codec", found=self._names())
        object.__setattr__(self, "middle", middles[0])

    @classmethod
    def from_json(cls, data: Iterable[JSON]) -> Chain:
        """Parse the `codecs` of a v3 document, and normalise the order of array filters.

        UnsupportedError for an array filter before a transpose, which sees the elements in another order and
        has no normal form; and for a byte order beside array filters that zarr-python versions interpret
        differently.
        """
        if isinstance(data, str | Mapping) or not isinstance(data, Iterable):
            raise MetadataError("codecs must be a list", found=excerpt(data), expected="[...]")
        codecs = [
            replace(codec, name=ALIASES.get(codec.name, codec.name))
            for codec in map(CodecSpec.from_json, data)
        ]
        if not any(codec.name in ARRAY_TO_BYTES for codec in codecs):
            # A codec of numbers replaces `bytes` and encodes native ones. The drafts until 2023 had
            # little-endian values by default (https://github.com/zarr-developers/zarr-specs/pull/249): GDAL
            # before 3.11 wrote them without `codecs`, and zarrita.js 0.7 reads such chains.
            first = (i for i, codec in enumerate(codecs) if codec.name not in _BEFORE_BYTES)
            codecs.insert(next(first, len(codecs)), _LITTLE)
        middle = next(i for i, codec in enumerate(codecs) if codec.name in ARRAY_TO_BYTES)
        filters = [codec for codec in codecs[:middle] if codec.name in ARRAY_FILTERS]
        head = [codec for codec in codecs[:middle] if codec.name not in ARRAY_FILTERS]
        if codecs[: len(head)] != head:
            raise UnsupportedError(
                "an array filter comes before a transpose",
                found=" > ".join(codec.name for codec in codecs),
                expected="transpose first, then filters",
            )
        if 0 < sum(codec.name in REGISTERED_FILTERS for codec in filters) < len(filters):
            raise UnsupportedError(
                "registered filters are combined with those of numcodecs",
                found=" > ".join(codec.name for codec in codecs),
            )
        packing = [_turned(codec, filters, endian_from_json) for codec in codecs[middle : middle + 1]]
        return cls((*head, *packing, *filters, *codecs[middle + 1 :]))

    def to_json(self) -> list[dict[str, Any]]:
        """The `codecs` of a v3 document.

        UnsupportedError if v3 cannot express the position or the effect of array filters.
        """
        middle = self.middle
        tail = self.codecs[middle + 1 :]
        count = 0
        while count < len(tail) and tail[count].name in ARRAY_FILTERS:
            count += 1
        if any(codec.name in ARRAY_FILTERS for codec in tail[count:]):
            raise UnsupportedError(
                "an array filter after a bytes-to-bytes codec has no form in v3", found=self._names()
            )
        packing = _turned(self.codecs[middle], tail[:count], endian_to_json)
        filters, rest = tail[:count], tail[count:]
        if any(codec.name in NUMBERS for codec in rest):
            if rest[0].name not in NUMBERS or packing != _LITTLE:
                raise UnsupportedError(
                    "a codec of numbers behind a codec of bytes has no form in v3", found=self._names()
                )
            packing, rest = rest[0], rest[1:]
        order = (*self.codecs[:middle], *filters, packing, *rest)
        return [codec.to_json() for codec in order]

    @property
    def states_lengths(self) -> bool:
        """Whether headers state the length of payloads, so that bytes may follow (`trailing_bytes`)."""
        return any(codec.name == "blosc" for codec in self.codecs[self.middle + 1 :])

    def common_prefix(self, other: Chain) -> int:
        """Number of codecs, from the array side, that both chains start with."""
        count = 0
        for mine, theirs in zip(self.codecs, other.codecs, strict=False):
            if mine != theirs:
                break
            count += 1
        return count

    def _names(self) -> str:
        return " > ".join(codec.name for codec in self.codecs) or "no codecs"

    def __str__(self) -> str:
        return " > ".join(str(codec) for codec in self.codecs)


def with_several_streams(chain: Chain) -> Chain:
    """The chain with codecs whose payloads may have several streams, such as frames of zstd."""
    return Chain(tuple(replace(spec, name=SEVERAL.get(spec.name, spec.name)) for spec in chain.codecs))


def _turned(
    packing: CodecSpec, filters: Sequence[CodecSpec], turn: Callable[[Endian, Sequence[CodecSpec]], Endian]
) -> CodecSpec:
    """The array-to-bytes codec with the byte order that applies on the other side of the filters."""
    # A missing byte order is little, as everywhere (codecs/fixed.py).
    endian = packing.configuration.get("endian", "little")
    if not filters or packing.name != "bytes" or endian not in ("little", "big"):
        return packing
    turned = turn(endian, filters)
    if turned == endian:
        return packing
    return replace(packing, configuration={**packing.configuration, "endian": turned})
