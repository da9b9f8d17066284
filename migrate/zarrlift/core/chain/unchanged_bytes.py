"""Chunks that can be kept unchanged under zarr-python's `numcodecs.*` codecs, and those that cannot.

Each rule was observed by writing chunks as Zarr v2 does and reading them through a v3 document with
zarr-python 3.1.6 and 3.4.2 (`tests/zarrlift/planning/test_keep.py` repeats this).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError

from ..codec_facts import REQUIRED
from ..codec_spec import CodecSpec
from ..codec_table import ARRAY_FILTERS, NUMBERS, as_written, require_facts
from ..data_types.v3 import DataType
from ..problems import refusal
from .array_filters import decoded_type, resolved_type
from .chain import Chain
from .codec_limits import limits_problem, within_limits
from .reader_table import codecs, data_types

Reason: TypeAlias = tuple[str, tuple[CodecSpec, ...]]
"""The problem, and the codecs concerned."""

_XZ, _RAW = 1, 3
"""Numbers of lzma formats: numcodecs' default, and streams without a header."""


def keep_problems(chain: Chain, data_type: DataType, advice: str | None = None) -> Iterator[Problem]:
    """Yield a refusal for each reason why v3 readers cannot read the stored bytes unchanged."""
    for message, specs in _reasons(chain, data_type):
        found = " > ".join(map(str, specs))
        yield refusal("unsupported", message, found=found, advice=advice)


def _reasons(chain: Chain, data_type: DataType) -> Iterator[Reason]:
    middle = chain.codecs[chain.middle]
    if middle.name not in ("bytes", "vlen-utf8", "vlen-bytes"):
        what = "fields that are not all little-endian" if middle.name == "numpy_bytes" else "objects"
        yield f"{what} have no v3 name as stored", (middle,)
    elif data_type.name not in data_types():
        yield f"data type {data_type} has no v3 name", (middle,)
    if data_type.name in ("structured", "struct") and middle.configuration.get("endian") == "big":
        # zarr-python 3.1.6 ignores the codec's `endian` and reads the fields as little-endian.
        yield "zarr-python 3.1.6 reads big-endian structs wrongly", (middle,)
    tail = tuple(map(as_written, chain.codecs[chain.middle + 1 :]))
    for spec in tail:
        row = codecs().get(spec.name)
        problem = limits_problem(within_limits(spec))
        if spec.name in NUMBERS:
            if spec is not tail[0] or data_type.numpy.kind not in "iuf":
                yield "zarr-python reads this codec only for arrays of numbers, without filters", (spec,)
        elif row is None or not (row.readers or row.register):
            yield f"no v3 reader supports codec {spec.name!r}", (spec,)
        elif problem is not None:
            yield f"{spec.name}: {problem[0]}", (spec,)
        elif spec.name == "numcodecs.lzma" and _undecodable_lzma(spec):
            yield "numcodecs does not decode lzma with filters in this format", (spec,)
    filters = tuple(spec for spec in tail if spec.name in ARRAY_FILTERS)
    try:
        chain.to_json()
        yield from _filter_reasons(middle, filters, data_type.numpy)
    except ZarrstackError as error:
        yield error.problem.message, tail
    except (TypeError, ValueError):
        yield "a filter has a malformed configuration", filters


def _undecodable_lzma(spec: CodecSpec) -> bool:
    """Whether numcodecs passes filters to the decoder of a format other than raw, which rejects them."""
    return spec.configuration.get("filters") is not None and spec.configuration.get("format", _XZ) != _RAW


def _filter_reasons(
    middle: CodecSpec, filters: tuple[CodecSpec, ...], item: np.dtype[Any]
) -> Iterator[Reason]:
    """`item` is the array's native type; `Chain.to_json` checks its byte order."""
    if not filters:
        return
    if middle.name != "bytes":
        yield "array filters of text of variable length have no form in v3", filters
        return
    current, outermost = item, True
    for spec in filters:
        if spec.name == "numcodecs.bitround":
            if current.kind == "i":  # zarrs rounds them, too
                yield "zarr-python reads bitround of signed integers as floats", (spec,)
            continue
        if spec.name == "numcodecs.packbits":
            if not outermost or item != np.dtype(bool):
                # zarr-python: "Packbits filter requires bool dtype".
                yield "zarr-python reads packbits only as the first filter of booleans", (spec,)
            decoded, current = current, np.dtype(np.uint8)
        else:
            members = require_facts(spec.name).members or {}
            missing = [
                name
                for name, member in members.items()
                if member.default is REQUIRED and name not in spec.configuration
            ]
            if missing:
                yield f"zarr-python reads no {spec.name} without {missing[0]}", (spec,)
                return
            decoded = decoded_type(spec) or current
            if outermost and not _same_values(decoded, item):
                # Zarr v2 views the filter's bytes as the array's type, v3 converts its values.
                yield "a filter decodes to another data type than the array's", (spec,)
            elif decoded.itemsize != current.itemsize:
                yield "a filter decodes to items of another size than the next filter encodes", (spec,)
            current = _stored_type(spec) or decoded
        outermost = False
    resolved = resolved_type(filters) or item
    if item.itemsize == 1 < resolved.itemsize:
        # zarr-python 3.1.6, and 3.4.2 for little-endian types, drop `endian` and then require it.
        yield "zarr-python does not read filters that make larger items of single bytes", filters
    if resolved.itemsize != current.itemsize:
        # Both zarr-python versions fail with "cannot reshape array": they take the array's type as stored.
        yield "zarr-python does not read the data type that quantize stores", filters


def _same_values(decoded: np.dtype[Any], item: np.dtype[Any]) -> bool:
    """Whether converting one type to the other preserves all bits except for byte order."""
    if decoded.kind in "iu" and item.kind in "iumM":
        return decoded.itemsize == item.itemsize
    return decoded.newbyteorder("=") == item


def _stored_type(spec: CodecSpec) -> np.dtype[Any] | None:
    text = spec.configuration.get("encode_dtype", spec.configuration.get("astype"))
    return None if text is None else np.dtype(text)
