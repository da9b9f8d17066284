"""Chains with other names that decode every stored value to the same bits, so that chunks stay unchanged.

A filter between equal types does nothing when it decodes, and is left out. With `--codecs registered`, packed
numbers get registered names where equality is proven: for every value of a stored type of up to 16 bits, by
decoding all of them under both names; otherwise where both compute in float64 or cast without loss. numcodecs
computes in float64, `scale_offset` in the array's type: for a float32 array over int16, with scale 1000 and
offset -5, 13,366 of 65,536 values differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject

from ..archive.nodes import Layout
from ..core.chain.chain import Chain
from ..core.codec_spec import CodecSpec
from ..core.codec_table import ARRAY_FILTERS, REGISTERED_FILTERS, facts_of, require_facts
from ..core.codecs.base import BytesCodec, Size, octets
from ..core.codecs.registry import compile_bytes_codec
from ..core.data_types.v3 import DataType, fill_from_json, fill_to_json
from ..core.problems import note
from ..recipe.recipe import ArrayRecipe
from .recipe_checks import changes_payloads

Dtype: TypeAlias = np.dtype[Any]

_ENUMERATED: Final = 2
"""Largest size in bytes of a stored type whose values are all decoded."""
_EXACT: Final = 1 << 53
"""Integers up to it are the same as a double."""
_SCALED: Final = "numcodecs.fixedscaleoffset"


def equal_layout(source: Layout, recipe: ArrayRecipe) -> tuple[Layout, tuple[Problem, ...]]:
    """The layout with the names that the result may have, and notes on what has another name or none."""
    if recipe.codecs.mode == "registered" and (named_type := source.data_type.registered) != source.data_type:
        fill = fill_from_json(source.fill_value, source.data_type)
        source = replace(source, data_type=named_type, fill_value=fill_to_json(fill, named_type))
    chain, first = source.chain, source.chain.middle + 1
    if not any(spec.name in ARRAY_FILTERS for spec in chain.codecs[first:]):
        return source, ()
    item = _item(chain, source.data_type)
    kept: list[tuple[CodecSpec, Dtype | None]] = []
    left_out = []
    for spec in chain.codecs[first:]:
        decoded, encoded = _types(spec, item)
        if spec.name in ARRAY_FILTERS and require_facts(spec.name).casts and decoded == encoded:
            left_out.append(spec)
            continue
        kept.append((spec, item))
        item = encoded
    tail = tuple(spec for spec, _ in kept)
    notes = []
    if left_out:
        message = "a filter whose decoding changes nothing is left out"
        notes.append(note("codec", message, found=_shown(left_out), expected=_shown(tail)))
    chain = Chain((*chain.codecs[:first], *tail))
    packed = [spec for spec in tail if spec.name in ARRAY_FILTERS - REGISTERED_FILTERS]
    if packed and recipe.codecs.mode == "registered" and not changes_payloads(recipe):
        named = None
        if packed == [tail[0]] and kept[0][1] is not None:
            named = registered_form(tail[0], kept[0][1], source.data_type, source.fill_value)
        if named is None:
            message = "packed values are decoded: no registered codec certainly gives every one the same bits"
            notes.append(note("codec", message, found=_shown(packed)))
        else:
            message = "packed values keep their stored bytes, under registered names"
            notes.append(note("codec", message, found=_shown(packed), expected=_shown(named[1:])))
            chain = Chain((*chain.codecs[: first - 1], *named, *tail[1:]))
    return source if chain == source.chain else replace(source, chain=chain), tuple(notes)


def registered_form(
    spec: CodecSpec, item: Dtype, data_type: DataType, fill: JSON
) -> tuple[CodecSpec, ...] | None:
    """`bytes` and the registered codecs in place of it and of a filter of numcodecs; None without a proof.

    `item` is the stored type of the array's items, as which the filter decodes. zarr-python encodes the fill
    value when it opens an array, so that one that cannot be encoded gets a rule.
    """
    decoded, encoded = _types(spec, item)
    native = data_type.numpy
    if encoded is None or decoded != item or item.newbyteorder("=") != native or encoded.kind not in "iuf":
        return None
    facts = require_facts(spec.name)
    if native.kind not in "iuf" or not (facts.casts or spec.name == _SCALED):
        return None
    named = []
    value = np.asarray(fill_from_json(fill, data_type), native)
    if spec.name == _SCALED:
        numbers = [_number(spec.configuration[name], native) for name in ("offset", "scale")]
        if None in numbers or not numbers[1]:
            return None
        named.append(CodecSpec("scale_offset", dict(zip(("offset", "scale"), numbers, strict=True))))
        if native.kind != "f":
            whole = (int(value) - numbers[0]) * numbers[1]
            if not np.iinfo(native).min <= whole <= np.iinfo(native).max:
                return None
            value = np.asarray(whole, native)
        else:
            with np.errstate(all="ignore"):
                value = np.asarray((value - native.type(numbers[0])) * native.type(numbers[1]))
    stored = encoded.newbyteorder("=")
    if stored != native:
        named.append(CodecSpec("cast_value", {"data_type": stored.name, **_rule(value, stored)}))
    endian = {} if stored.itemsize == native.itemsize == 1 else {"endian": _endian(encoded)}
    packing = CodecSpec("bytes", endian)
    if stored.itemsize <= _ENUMERATED:
        proven = _same_for_all(spec, item, named, _item(Chain((packing,)), data_type), stored.itemsize)
    elif spec.name == _SCALED:
        proven = native == np.float64 and (stored.kind != "f" or stored == native)
    else:
        proven = np.can_cast(stored, native, "safe")
    return (packing, *named) if proven else None


def numcodecs_form(codecs: Sequence[JSONObject], data_type: DataType, fill: JSON) -> list[JSONObject]:
    """The `codecs` of a document with numcodecs' names, where `registered_form` gives them.

    Versions of zarr-python without the registered codecs read them.
    """
    result = [dict(codec) for codec in codecs]
    if result[0].get("name") == "sharding_indexed":
        inner = result[0]["configuration"]
        inner = {**inner, "codecs": numcodecs_form(inner["codecs"], data_type, fill)}
        return [{**result[0], "configuration": inner}]
    chain = Chain.from_json(result)
    first = chain.middle + 1
    filters = [spec for spec in chain.codecs[first:] if spec.name in REGISTERED_FILTERS]
    if not filters or _shown(filters) not in ("scale_offset > cast_value", "scale_offset", "cast_value"):
        return result
    item = _item(chain, data_type)
    if item is None:
        return result
    stored = item
    if filters[-1].name == "cast_value":
        stored = np.dtype(str(filters[-1].configuration["data_type"])).newbyteorder(_endian(item))
    types = {"dtype": item.str, "astype": stored.str}
    old = CodecSpec("numcodecs.astype", {"decode_dtype": item.str, "encode_dtype": stored.str})
    if filters[0].name == "scale_offset":
        old = CodecSpec(_SCALED, {"offset": 0, "scale": 1, **filters[0].configuration, **types})
    if registered_form(old, item, data_type, fill) != (chain.codecs[chain.middle], *filters):
        return result
    return Chain((*chain.codecs[:first], old, *chain.codecs[first + len(filters) :])).to_json()


def _item(chain: Chain, data_type: DataType) -> Dtype | None:
    """The type of the items behind `bytes`; None behind other codecs."""
    packing = chain.codecs[chain.middle]
    if packing.name != "bytes" or data_type.itemsize is None:
        return None
    return data_type.numpy.newbyteorder(">" if packing.configuration.get("endian") == "big" else "<")


def _types(spec: CodecSpec, item: Dtype | None) -> tuple[Dtype | None, Dtype | None]:
    """The types of a filter's items before and after encoding; None if they are unknown or bytes."""
    facts = facts_of(spec.name)
    if facts is None or facts.kind != "array":
        return item, None
    try:
        if spec.name in REGISTERED_FILTERS:
            return item, compile_bytes_codec(spec, item).encoded_item(item)
        return facts.item_types(facts.read(spec, item), item)
    except ZarrstackError:  # reported elsewhere
        return item, None


def _number(value: JSON, native: Dtype) -> Any:
    """A number as `scale_offset` takes it for a type; None if it may compute with another one."""
    if not isinstance(value, int | float) or not isfinite(value):
        return None
    if isinstance(value, int) or value.is_integer():
        whole = int(value)
        exact = abs(whole) <= _EXACT and (native.kind == "f" or whole in range(*_range(native)))
        return (whole if native.kind != "f" else value) if exact else None
    return value if native.kind == "f" else None


def _range(dtype: Dtype) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1


def _rule(value: np.ndarray[Any, Any], stored: Dtype) -> dict[str, JSON]:
    """What `cast_value` needs to encode a fill value that its stored type does not have."""
    with np.errstate(all="ignore"):
        if stored.kind == "f":
            return {"out_of_range": "clamp"} if np.isfinite(value) and np.isinf(value.astype(stored)) else {}
        if not np.isfinite(value):
            text = "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return {"scalar_map": {"encode": [[text, 0]]}}
        low, end = _range(stored)
        return {} if low <= np.rint(value) < end else {"out_of_range": "clamp"}


def _same_for_all(
    old: CodecSpec, item: Dtype, named: Sequence[CodecSpec], named_item: Dtype | None, size: int
) -> bool:
    """Whether both decode every stored value to the same bits."""
    payload = octets(np.arange(256**size, dtype=f"u{size}"))
    try:
        return _decoded((old,), item, payload) == _decoded(named, named_item, payload)
    except ZarrstackError:
        return False


def _decoded(specs: Sequence[CodecSpec], item: Dtype | None, payload: Any) -> bytes:
    """The values of a payload, in native byte order."""
    steps: list[tuple[BytesCodec, Dtype | None]] = []
    inner = item
    for spec in specs:
        codec = compile_bytes_codec(spec, inner)
        steps.append((codec, inner))
        inner = codec.encoded_item(inner)
    assert inner is not None
    assert item is not None
    count = len(payload) // inner.itemsize
    for codec, before in reversed(steps):
        assert before is not None
        payload = codec.decode(payload, Size(count * before.itemsize, exact=True))
    return octets(payload).view(item).astype(item.newbyteorder("=")).tobytes()


def _endian(dtype: Dtype) -> Literal["little", "big"]:
    return "big" if dtype.str[0] == ">" else "little"


def _shown(specs: Sequence[CodecSpec]) -> str:
    return " > ".join(map(str, specs)) or "none"
