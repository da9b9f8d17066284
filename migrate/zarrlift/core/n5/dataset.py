"""`attributes.json` of an N5 dataset -> the values of a v3 description.

Specification: https://github.com/saalfeldlab/n5/blob/master/README.md#file-system-specification, version
4.0.0, points 2 to 4. N5 has no fill value: every reader returns zeros for a missing block (zarr-python 2.18,
tensorstore 0.1.86, Java's imglib2 loaders).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import MetadataError, Problem, UnsupportedError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..chain.chain import Chain
from ..codec_spec import CodecSpec
from ..data_types.v2 import parse_v2_dtype
from ..data_types.v3 import DataType, fill_to_json
from ..grid.chunk_keys import Axes, N5Keys, reverse_axes
from ..problems import any_refusal, attempt, note, refusal, warning
from ..shapes import Shape, lengths_of, require_same_axes
from .compression import read_compression

MEMBERS: Final = frozenset(
    {"dimensions", "blockSize", "dataType", "compression", "compressionType", "codecs"}
)
"""Members of `attributes.json` that define a dataset; all others are the user's."""
VERSION: Final = "n5"
"""The root's member with the version of the specification."""
NEWEST_MAJOR: Final = 4

STANDARD: Final = frozenset(
    {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"float32", "float64"}
)
_BY_ZARR: Final = frozenset({"bool", "float16", "complex64", "complex128"})
_TIME: Final = re.compile(r"(datetime|timedelta)64(\[[0-9]*[a-zA-Z]+\])?")
_VERSION: Final = re.compile(r"([0-9]{1,9})(\.[0-9]+)*(-\S*)?")
MAX_IN_BLOCK: Final = 2**31 - 1
"""Java stores a block in one of its arrays."""
TO_NUMBERS: Final = (
    "Leave it out with --exclude. `paintera-convert to-scalar -i OLD.n5 -I DATASET -o NEW.n5` writes the "
    "label of each voxel as a number; migrate NEW.n5: docs/howto/n5.md, Label multisets."
)
"""Advice for blocks of variable length.

The command line is that of paintera-conversion-helper 1.2.0 (`ToScalar.kt`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class N5Dataset:
    """A dataset: lengths in N5's order, everything else in v3 terms."""

    dimensions: Shape
    block_size: Shape
    data_type: DataType
    compression: CodecSpec | None
    """None for raw blocks."""

    @property
    def fill_value(self) -> JSON:
        """Zero, in the data type's v3 JSON form."""
        # Times too: their zero is the number 0 here, not NaT (zarr-python 2.18 shows 1970-01-01).
        return fill_to_json(np.zeros((), self.data_type.numpy)[()], self.data_type)

    def shape(self, axes: Axes) -> Shape:
        """Elements along each axis, in the displayed order."""
        return reverse_axes(self.dimensions, axes)

    def chunk_shape(self, axes: Axes) -> Shape:
        """Shape of a whole block, in the displayed order."""
        return reverse_axes(self.block_size, axes)

    def chain(self, axes: Axes) -> Chain:
        """The chain from an array in the displayed order to the payload after a block's header."""
        order = tuple(reversed(range(len(self.dimensions))))
        front = [CodecSpec("transpose", {"order": list(order)})] if axes == "kept" and len(order) > 1 else []
        single = self.data_type.numpy.itemsize == 1
        packing = CodecSpec("bytes") if single else CodecSpec("bytes", {"endian": "big"})
        return Chain((*front, packing, *([self.compression] if self.compression is not None else [])))

    def keys(self, axes: Axes) -> N5Keys:
        """The keys of its blocks, from coordinates in the displayed order."""
        return N5Keys(axes)


def is_dataset(attributes: Mapping[str, JSON]) -> bool:
    """Whether an `attributes.json` is intended to be a dataset's.

    True for two of the three members that only datasets combine: BigDataViewer's groups have `dataType`
    alone, and one missing member indicates a broken dataset rather than a group.
    """
    return len({"dimensions", "blockSize", "dataType"} & attributes.keys()) > 1


def user_attributes(attributes: Mapping[str, JSON]) -> JSONObject:
    """The user's attributes in an `attributes.json`: all but a dataset's members and the version.

    The version belongs to the root, but zarr-python's N5Store writes it into every group.
    """
    own = MEMBERS if is_dataset(attributes) else frozenset()
    versioned = isinstance(version := attributes.get(VERSION), str) and _VERSION.fullmatch(version)
    return {
        name: value
        for name, value in attributes.items()
        if name not in own and not (name == VERSION and versioned)
    }


def version_problem(attributes: Mapping[str, JSON]) -> Problem | None:
    """The problem with the root's version, if any: a refusal for a later major version.

    None if there is no version: Java writes it at the root, and omits it elsewhere.
    """
    if VERSION not in attributes:
        return None
    version = attributes[VERSION]
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    expected = f"{NEWEST_MAJOR}.x or earlier"
    if match is None:
        return warning("metadata", "the N5 version is invalid", found=excerpt(version), expected=expected)
    if int(match[1]) > NEWEST_MAJOR:
        message = "a later version of N5 than is supported"
        return refusal("unsupported", message, found=match[0], expected=expected)
    return None


def describe_dataset(attributes: Mapping[str, JSON]) -> tuple[N5Dataset | None, tuple[Problem, ...]]:
    """Return the dataset, or None if a problem refuses it; and all problems, including harmless ones.

    `attributes` is the content of `attributes.json`. Nothing is raised, whatever it is.
    """
    problems: list[Problem] = []
    dimensions = lengths_of(attributes, "dimensions", problems)
    block_size = lengths_of(attributes, "blockSize", problems, least=1, most=MAX_IN_BLOCK)
    if dimensions is not None and block_size is not None:
        attempt(problems, lambda: require_same_axes(block_size, dimensions, "blockSize", whole="dimensions"))
    data_type = _data_type(attributes, problems)
    itemsize = 1 if data_type is None else data_type.numpy.itemsize
    compression, more = attempt(problems, lambda: read_compression(attributes, itemsize)) or (None, [])
    problems.extend(more)
    if attributes.get("isLabelMultiset") is True:
        # Paintera, https://github.com/saalfeldlab/paintera: bytes per label set, not per element.
        message = "a dataset of Paintera's label multisets: its blocks are of variable length"
        found = '"isLabelMultiset": true'
        problems.append(refusal("unsupported", message, found=found, advice=TO_NUMBERS))
    if any_refusal(problems):
        return None, tuple(problems)
    assert dimensions is not None
    assert block_size is not None
    assert data_type is not None
    dataset = N5Dataset(
        dimensions=dimensions, block_size=block_size, data_type=data_type, compression=compression
    )
    return dataset, tuple(problems)


def _data_type(attributes: Mapping[str, JSON], problems: list[Problem]) -> DataType | None:
    if "dataType" not in attributes:
        problems.append(refusal("metadata", "dataType is missing"))
        return None
    name = attributes["dataType"]
    data_type = attempt(problems, lambda: _data_type_of(_numpy(name)))
    if data_type is not None and name not in STANDARD:
        message = "a dataType that N5 does not have, as zarr-python's N5Store writes it"
        problems.append(note("deviation", message, found=excerpt(name)))
    return data_type


def _data_type_of(dtype: np.dtype[Any]) -> DataType:
    data_type = DataType.from_numpy(dtype)
    # Fail early: zarr-python 3.1.6 cannot read the zero of a time without unit.
    fill_to_json(np.zeros((), data_type.numpy)[()], data_type)
    return data_type


def _numpy(name: JSON) -> np.dtype[Any]:
    if not isinstance(name, str):
        raise MetadataError(
            "dataType must be a name", found=excerpt(name), expected='"uint16", "float32", ...'
        )
    if name in STANDARD or name in _BY_ZARR:
        return np.dtype(name)
    if match := _TIME.fullmatch(name):
        return parse_v2_dtype(f">{'M' if match[1] == 'datetime' else 'm'}8{match[2] or ''}")
    if name in ("object", "string"):
        raise UnsupportedError(
            f"N5 datasets of dataType {name!r} are not supported: their blocks have variable length",
            found=name,
        )
    raise UnsupportedError("unknown N5 dataType", found=excerpt(name), expected=", ".join(sorted(STANDARD)))
