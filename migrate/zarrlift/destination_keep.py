"""What may keep its stored bytes under zarr-python's `numcodecs.*` names, and what may not.

Each rule was found by writing chunks as Zarr v2 does and reading them back through a v3
document with zarr-python 3.1.6 and 3.4.2 (`tests/test_destination_keep.py` does so again).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import numpy as np

from zarrstack.core.chain import ARRAY_FILTERS, CodecSpec
from zarrstack.core.errors import Problem, ZarrstackError

from .archive import Layout
from .portable import CODECS, DATA_TYPES, limits_problem, within_limits

Reason: TypeAlias = tuple[str, tuple[CodecSpec, ...]]
"""What is wrong, and with which codecs."""

_ADVICE: Final = "A copy without --codecs keep re-encodes it."
_STORED_TYPE: Final = {
    "numcodecs.delta": ("astype", "dtype"),
    "numcodecs.fixedscaleoffset": ("astype", "dtype"),
    "numcodecs.quantize": ("astype", "dtype"),
    "numcodecs.astype": ("encode_dtype",),
}
"""Array filter -> the members of its configuration that say what it stores, first found counts."""


def keep_problems(layout: Layout, advice: str = _ADVICE) -> Iterator[Problem]:
    """A refusal for each reason why v3 readers would not read the stored bytes as they are."""
    for message, specs in _reasons(layout):
        found = " > ".join(map(str, specs))
        yield Problem(kind="unsupported", message=message, found=found, advice=advice)


def _reasons(layout: Layout) -> Iterator[Reason]:
    middle = layout.chain.codecs[layout.chain.middle]
    if middle.name not in ("bytes", "vlen-utf8", "vlen-bytes"):
        what = "fields that are not all little-endian" if middle.name == "numpy_bytes" else "objects"
        yield f"{what} have no v3 name as stored", (middle,)
    elif layout.data_type.name not in DATA_TYPES:
        yield f"data type {layout.data_type} has no v3 name", (middle,)
    if layout.data_type.name in ("structured", "struct") and middle.configuration.get("endian") == "big":
        # zarr-python 3.1.6 reads the fields little-endian whatever the codec says.
        yield "zarr-python 3.1.6 reads big-endian structs wrongly", (middle,)
    tail = layout.chain.codecs[layout.chain.middle + 1 :]
    for spec in tail:
        row = CODECS.get(spec.name)
        problem = limits_problem(within_limits(spec))
        if row is None or not row.readers:
            yield f"no v3 reader knows codec {spec.name!r}", (spec,)
        elif problem is not None:
            yield f"{spec.name}: {problem[0]}", (spec,)
    filters = tuple(spec for spec in tail if spec.name in ARRAY_FILTERS)
    try:
        layout.chain.to_json()
        yield from _filter_reasons(middle, filters)
    except ZarrstackError as error:
        yield error.problem.message, tail
    except (TypeError, ValueError):
        yield "a filter has a malformed configuration", filters


def _filter_reasons(middle: CodecSpec, filters: tuple[CodecSpec, ...]) -> Iterator[Reason]:
    if not filters:
        return
    if middle.name != "bytes":
        yield "an array filter cannot be named beside text of variable length", filters
        return
    order: Literal["<", ">"] = ">" if middle.configuration.get("endian", "little") == "big" else "<"
    for spec in filters:
        if spec.name != "numcodecs.quantize":
            continue
        dtype, stored = (spec.configuration.get(name) for name in ("dtype", "astype"))
        if stored is not None and dtype is not None and np.dtype(stored) != np.dtype(dtype):
            # Both zarr-pythons: "cannot reshape array", they take the stored type for the array's.
            yield "zarr-python does not read quantize that stores another data type", (spec,)
        elif order == ">":
            # zarr-python 3.4.2 brings chunks to native order first; quantize then swaps again.
            yield "zarr-python 3.4.2 reads big-endian quantize wrongly", (spec,)
    stored_type = _stored_type(filters[-1])
    if stored_type is not None and stored_type != stored_type.newbyteorder(order):
        # v3 says one byte order, that of what the last filter stores: 3.1.6 does not look, 3.4.2 does.
        yield "a filter stores another byte order than the array's", (filters[-1],)


def _stored_type(spec: CodecSpec) -> np.dtype[np.generic] | None:
    for name in _STORED_TYPE.get(spec.name, ()):
        if spec.configuration.get(name) is not None:
            return np.dtype(spec.configuration[name])
    return None
