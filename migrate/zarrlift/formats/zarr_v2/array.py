"""Describes a `.zarray` and its `.zattrs` for `Layout`, with all their problems.

Specification: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from ...core.problems import any_refusal, attempt
from ...core.shapes import lengths_of, whole_chunks
from ...core.zarr_v2.chain import bad_member, codec_problems, is_beyond_v3, read_chain
from .deviations import DEVIATIONS, DTYPE_DEVIATIONS, NAN_FOR_TEXT, ZERO_FOR_TEXT, undo

MEMBERS: Final = frozenset(
    {
        *("zarr_format", "shape", "chunks", "dtype", "compressor"),
        *("fill_value", "order", "filters", "dimension_separator"),
    }
)
_NETCDF_NAMES: Final = ("_nczarr_group", "_nczarr_superblock", "_nczarr_array")
NETCDF_MEMBERS: Final = {member: name for name in _NETCDF_NAMES for member in (name, name.upper())}
"""Members of `.zgroup` and `.zarray` that become attributes -> name of the attribute."""
_NUMBERS_AS_TEXT: Final = {ZERO_FOR_TEXT: "0", NAN_FOR_TEXT: "nan"}
_MAX_ITEM_BYTES: Final = 2**24
"""Maximum bytes per element; real arrays have thousands at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class V2Array:
    """The content of a `.zarray`; layout members are None if a problem makes them unknown."""

    shape: tuple[int, ...] | None = None
    chunk_shape: tuple[int, ...] | None = None
    data_type: DataType | None = None
    fill_value: JSON = None
    fill_is_null: bool = False
    number_as_text: str | None = None
    """The text of a number that is the fill value of text; see `ArrayNode`."""
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
        problems: list[Problem] = []
        shape, stated = (lengths_of(document, name, problems) for name in ("shape", "chunks"))
        chunks = None
        if shape is not None and stated is not None:
            chunks = attempt(problems, lambda: whole_chunks(stated, shape, "chunks"))
        ndim = None if shape is None else len(shape)
        # The deviations need both only if an axis and its chunk are empty.
        empty = (shape, stated) if stated is not None and 0 in stated else ()
        rest = {name: value for name, value in document.items() if name not in ("shape", "chunks")}
        key = f"{ndim} {empty} {canonical(rest)}"
        described = self._described.get(key)
        if described is None:
            described = self._described[key] = _describe(rest, document, ndim)
        return replace(described, shape=shape, chunk_shape=chunks, problems=(*problems, *described.problems))


def _describe(rest: JSONObject, raw: JSONObject, ndim: int | None) -> V2Array:
    """Describe a document without its shape and chunks."""
    problems: list[Problem] = []
    extra = {
        name: value for name, value in rest.items() if name not in MEMBERS and name not in NETCDF_MEMBERS
    }
    if extra:
        problems.append(
            bad_member(
                "members that the specification does not define are preserved",
                severity="note",
                found=excerpt(sorted(extra)),
            )
        )
    whole, notes = undo(raw, None, DTYPE_DEVIATIONS)
    core = {name: value for name, value in whole.items() if name in MEMBERS}
    dtype = _dtype(core, problems)
    document, more = undo(core, None if dtype is not None and dtype.metadata else dtype, DEVIATIONS)
    problems.extend((*notes.values(), *more.values()))
    # Shape and chunks are checked elsewhere, so that equal documents are equal here.
    document = {**document, "shape": [1] * (ndim or 0), "chunks": [1] * (ndim or 0)}
    strict = list(strict_problems(document, dtype))
    problems.extend(strict)
    declared = document.get("dimension_separator")
    described = V2Array(
        extra=extra,
        separator=declared if declared in (".", "/") else None,
        number_as_text=next((text for name, text in _NUMBERS_AS_TEXT.items() if name in more), None),
        problems=tuple(problems),
    )
    return described if strict or dtype is None else _typed(described, document, dtype)


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
        problems.append(bad_member("dtype is missing"))
        return None
    try:
        dtype = parse_v2_dtype(document["dtype"])
        if dtype.itemsize > _MAX_ITEM_BYTES:
            # A fill value of this size would have to be created and written to zarr.json.
            found, expected = f"{dtype.itemsize} bytes", f"{_MAX_ITEM_BYTES} at most"
            problems.append(bad_member("an element is too large", found=found, expected=expected))
            return None
        if not dtype.hasobject and not is_beyond_v3(dtype):
            # Names types that v3 does not support; the strict reading would call them malformed.
            DataType.from_numpy(dtype)
        return dtype
    except ZarrstackError as error:
        problems.append(error.problem)
    except (ValueError, TypeError) as error:
        # numpy refuses some combinations, such as sub-arrays of zero-byte items.
        problems.append(bad_member("numpy has no such dtype", found=f"{excerpt(document['dtype'])}: {error}"))
    return None


def strict_problems(document: JSONObject, dtype: np.dtype[Any] | None) -> Iterator[Problem]:
    """What the specification and numcodecs do not allow; `shape` and `chunks` are checked elsewhere."""
    for name in sorted(MEMBERS - {"dimension_separator", "dtype", "shape", "chunks"} - document.keys()):
        yield bad_member(f"{name} is missing")
    version = document.get("zarr_format", 2)
    if type(version) is not int or version != 2:
        yield bad_member("zarr_format is not 2", found=excerpt(version), expected="2")
    for name, words in (("order", ("C", "F")), ("dimension_separator", (".", "/"))):
        if name in document and document[name] not in words:
            found, expected = excerpt(document[name]), " or ".join(words)
            yield bad_member(f"{name} is invalid", found=found, expected=expected)
    yield from codec_problems(document)
    if dtype is not None and not dtype.hasobject:
        try:
            v2_fill_to_scalar(document.get("fill_value"), dtype)
        except ZarrstackError as error:
            yield type(error).of(error.problem, before="fill_value: ").problem
