"""Describes a `.zarray` and its `.zattrs` for `Layout`, with all their problems.

Specification: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#metadata.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from zarrstack.core.chunk_keys_v3 import Separator
from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, canonical, excerpt

from ...archive.nodes import Layout
from ...core.chain.chain import Chain
from ...core.data_types.object_values import plain
from ...core.data_types.v2 import parse_v2_dtype, v2_fill_to_scalar, v2_object_fill
from ...core.data_types.v3 import DataType, fill_to_json, zero_fill
from ...core.grid.chunk_keys import ChunkKeys
from ...core.problems import any_refusal
from ...core.zarr_v2.chain import is_beyond_v3, read_chain, unknown_codecs
from .deviations import DEVIATIONS, DTYPE_DEVIATIONS, ZERO_FOR_TEXT, undo
from .fast_path import plainly_right

MEMBERS: Final = frozenset(
    {
        *("zarr_format", "shape", "chunks", "dtype", "compressor"),
        *("fill_value", "order", "filters", "dimension_separator"),
    }
)
_NETCDF_NAMES: Final = ("_nczarr_group", "_nczarr_superblock", "_nczarr_array")
NETCDF_MEMBERS: Final = {member: name for name in _NETCDF_NAMES for member in (name, name.upper())}
"""Members of `.zgroup` and `.zarray` that become attributes -> name of the attribute."""
_MAX_ELEMENTS: Final = 2**63 - 1
"""Linear indexes are 64-bit integers, here and in numpy."""
_MAX_ITEM_BYTES: Final = 2**24
"""Maximum bytes per element; real arrays have thousands at most."""
_MAX_AXES: Final = 32
"""The limit of numpy 1, the only one that zarr-python 2 supported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class V2Array:
    """The content of a `.zarray`; layout members are None if a problem makes them unknown."""

    shape: tuple[int, ...] | None = None
    chunk_shape: tuple[int, ...] | None = None
    data_type: DataType | None = None
    fill_value: JSON = None
    fill_is_null: bool = False
    fill_is_zero: bool = False
    """Whether the fill value of text is the number 0; see `ArrayNode`."""
    chain: Chain | None = None
    separator: Separator | None = None
    """Declared separator; None if absent."""
    extra: JSONObject
    problems: tuple[Problem, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether a problem excludes the array."""
        return any_refusal(self.problems)

    def layout(self, keys: ChunkKeys) -> Layout | None:
        """The layout with these chunk keys; None if it is unknown."""
        if self.shape is None or self.chunk_shape is None or self.data_type is None or self.chain is None:
            return None
        return Layout(
            shape=self.shape,
            data_type=self.data_type,
            fill_value=self.fill_value,
            chunk_shape=self.chunk_shape,
            chain=self.chain,
            keys=keys,
        )


class V2ArrayDescriber:
    """Describes `.zarray` documents; documents that differ only in shape and chunks are parsed once."""

    def __init__(self) -> None:
        self._described: dict[str, V2Array] = {}

    def describe(self, document: JSONObject) -> V2Array:
        """The content of a document; its problems have no node or key yet."""
        shape, chunks, problems = _grid(document)
        ndim = None if shape is None else len(shape)
        # The deviations only need to know whether an axis and its chunk are empty.
        empty = [(n == 0, c == 0) for n, c in zip(shape or (), chunks or (), strict=False)]
        rest = {name: value for name, value in document.items() if name not in ("shape", "chunks")}
        key = f"{ndim} {empty} {canonical(rest)}"
        described = self._described.get(key)
        if described is None:
            described = self._described[key] = _describe(rest, document, ndim)
        if chunks is not None and shape is not None:
            chunks = tuple(c or (n == 0) * 1 for n, c in zip(shape, chunks, strict=True))
        return replace(described, shape=shape, chunk_shape=chunks, problems=(*problems, *described.problems))


# ----- shape and chunks


def _grid(
    document: JSONObject,
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None, list[Problem]]:
    problems: list[Problem] = []
    shape = _lengths(document, "shape", problems)
    chunks = _lengths(document, "chunks", problems)
    if shape is None or chunks is None:
        return shape, chunks, problems
    if len(shape) != len(chunks):
        problems.append(
            _problem(
                "chunks and shape have different numbers of axes",
                found=f"shape {excerpt(shape)}, chunks {excerpt(chunks)}",
                expected="one chunk length per axis",
            )
        )
        return shape, None, problems
    if any(c == 0 and n > 0 for n, c in zip(shape, chunks, strict=True)):
        problems.append(
            _problem("a chunk has length 0", found=excerpt(chunks), expected="lengths of 1 and more")
        )
    return shape, chunks, problems


def _lengths(document: JSONObject, name: str, problems: list[Problem]) -> tuple[int, ...] | None:
    if name not in document:
        problems.append(_problem(f"{name} is missing"))
        return None
    value = document[name]
    expected = "a list of non-negative integers"
    if not isinstance(value, list) or not all(type(n) is int for n in value) or any(n < 0 for n in value):
        problems.append(_problem(f"{name} is not a list of lengths", found=excerpt(value), expected=expected))
        return None
    if len(value) > _MAX_AXES:
        problems.append(
            _problem(f"{name} has too many axes", found=str(len(value)), expected=f"{_MAX_AXES} at most")
        )
        return None
    # A length of 0 makes the product 0, regardless of the others.
    if max(value, default=0) > _MAX_ELEMENTS or math.prod(n or 1 for n in value) > _MAX_ELEMENTS:
        problems.append(
            _problem(f"{name} has too many elements", found=excerpt(value), expected="fewer than 2^63")
        )
        return None
    return tuple(value)


# ----- everything else


def _describe(rest: JSONObject, raw: JSONObject, ndim: int | None) -> V2Array:
    """Describe a document without its shape and chunks."""
    problems: list[Problem] = []
    extra = {
        name: value for name, value in rest.items() if name not in MEMBERS and name not in NETCDF_MEMBERS
    }
    if extra:
        problems.append(
            _problem(
                "members that the specification does not define are preserved",
                severity="note",
                found=excerpt(sorted(extra)),
            )
        )
    whole, rows = undo(raw, None, DTYPE_DEVIATIONS)
    core = {name: value for name, value in whole.items() if name in MEMBERS}
    dtype = _dtype(core, problems)
    document, more = undo(core, dtype, DEVIATIONS)
    problems.extend(row.problem for row in (*rows, *more))
    # Shape and chunks are checked elsewhere, so that equal documents are equal here.
    document = {**document, "shape": [1] * (ndim or 0), "chunks": [1] * (ndim or 0)}
    strict = [] if plainly_right(document) else strict_problems(document, known_dtype=dtype is not None)
    problems.extend(strict)
    declared = document.get("dimension_separator")
    described = V2Array(
        extra=extra,
        separator=declared if declared in (".", "/") else None,
        fill_is_zero=any(row.name == ZERO_FOR_TEXT for row in more),
        problems=tuple(problems),
    )
    if strict:
        return described
    if dtype is None:
        # The codecs can still be checked.
        return replace(
            described, problems=(*problems, *(error.problem for error in unknown_codecs(document)))
        )
    return _typed(described, document, dtype)


def _typed(described: V2Array, document: JSONObject, dtype: np.dtype[Any]) -> V2Array:
    problems = list(described.problems)
    try:
        chain, data_type, wrong = read_chain(document, dtype)
        problems.extend(error.problem for error in wrong)
    except ZarrstackError as error:
        return replace(described, problems=(*problems, error.problem))
    fill = document["fill_value"]
    try:
        if data_type.name in ("string", "bytes"):
            value: Any = v2_object_fill(fill, data_type)
        elif data_type.name == "object" and not dtype.hasobject:
            zero = np.zeros((), dtype=dtype.newbyteorder("="))[()]
            value = plain(zero if fill is None else v2_fill_to_scalar(fill, dtype))
        elif fill is None:
            value = zero_fill(data_type)
        else:
            value = v2_fill_to_scalar(fill, dtype)
        encoded = fill_to_json(value, data_type)
    except ZarrstackError as error:
        return replace(described, problems=(*problems, error.problem))
    return replace(
        described,
        data_type=data_type,
        chain=chain,
        fill_value=encoded,
        fill_is_null=fill is None,
        problems=tuple(problems),
    )


def _dtype(document: JSONObject, problems: list[Problem]) -> np.dtype[Any] | None:
    if "dtype" not in document:
        problems.append(_problem("dtype is missing"))
        return None
    try:
        dtype = parse_v2_dtype(document["dtype"])
        if dtype.itemsize > _MAX_ITEM_BYTES:
            # A fill value of this size would have to be created and written to zarr.json.
            found, expected = f"{dtype.itemsize} bytes", f"{_MAX_ITEM_BYTES} at most"
            problems.append(_problem("an element is too large", found=found, expected=expected))
            return None
        if not dtype.hasobject and not is_beyond_v3(dtype):
            # Names types that v3 does not support; the strict reading would call them malformed.
            DataType.from_numpy(dtype)
        return dtype
    except ZarrstackError as error:
        problems.append(error.problem)
    except (ValueError, TypeError) as error:
        # numpy refuses some combinations, such as sub-arrays of zero-byte items.
        problems.append(_problem("numpy has no such dtype", found=f"{excerpt(document['dtype'])}: {error}"))
    return None


def strict_problems(document: JSONObject, *, known_dtype: bool) -> list[Problem]:
    """Problems found by zarr-metadata, each with the member concerned."""
    from zarr_metadata.model import read_repaired_node_metadata_v2

    checked = dict(document)
    if known_dtype:
        checked["dtype"] = _smoothed(checked["dtype"])
    read: Callable[..., Any] = read_repaired_node_metadata_v2
    result = []
    for problem in read({".zarray": checked}).reading.problems:
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem.loc)[1:]
        member = problem.loc[0] if problem.loc else None
        if member == "dtype" and not known_dtype:
            continue
        found = excerpt(document[member]) if member in document else None
        result.append(_problem(f"{place}: {problem.message}", found=found))
    return result


def _smoothed(dtype: JSON, *, field: bool = False) -> JSON:
    """The dtype in terms that zarr-metadata knows; it has already been read by the core.

    Times without a unit (`<M8`, a separate type that numpy writes in this way) get one; long doubles become
    doubles or, in a struct, whose size matters, raw bytes.
    """
    if isinstance(dtype, list):
        return [[item[0], _smoothed(item[1], field=True), *item[2:]] for item in dtype]
    if not isinstance(dtype, str):
        return dtype
    if dtype[1:].replace("[generic]", "") in ("M8", "m8"):
        return f"{dtype[:3]}[s]"
    if dtype[1:] in ("f12", "f16", "c24", "c32"):
        return f"|V{dtype[2:]}" if field else dtype[:2] + ("8" if dtype[1] == "f" else "16")
    return dtype


def _problem(message: str, **fields: Any) -> Problem:
    return Problem(kind="metadata", message=message, **fields)
