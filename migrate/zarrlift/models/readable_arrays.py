"""Detects arrays in models whose data type or codecs neither this project nor zarr-python supports.

For Zarr v2, the support of zarr-python 2 and numcodecs counts too.
"""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np

from zarrstack.base.array_documents import FIELD, GUARD
from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject

from ..archive.nodes import ArrayNode
from ..formats.describe import describe
from ..formats.zarr_v3.array import V3ArrayDescriber
from .model_storage import ModelStorage
from .zom import format_of, is_group

_OPTIONAL: Final = frozenset({"crc32c", "msgpack", "msgpack2", "pcodec", "zfpy"})
"""Codecs of numcodecs (0.16) that require optional packages."""
_READ: Final = (
    *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs"),
    "fill_value",
)
"""Members of a v3 document that determine how its chunks are read."""


class ReadableArrays:
    """Checks both; caches results for codecs, which rarely vary."""

    def __init__(self) -> None:
        self._describer = V3ArrayDescriber()

    def refused(self, node: JSONObject) -> Problem | None:
        """The problem of a node whose chunks cannot be read by any; None if readable, and for groups."""
        if is_group(node):
            return None
        problem = self._refused_here(node)
        if problem is None or _zarr_reads(node) or (format_of(node) == 2 and _zarr_2_reads(node)):
            return None
        return problem

    def _refused_here(self, node: JSONObject) -> Problem | None:
        if format_of(node) == 3:
            # Other grids are not supported here, but this check is about data types and codecs.
            if not isinstance(grid := node.get("chunk_grid"), dict) or grid.get("name") != "regular":
                return None
            problems = self._describer.describe({name: node[name] for name in _READ if name in node}).problems
            return next((problem for problem in problems if problem.severity == "refusal"), None)
        plain = {name: value for name, value in node.items() if name != "attributes"}
        try:
            (array,) = describe(ModelStorage({"": plain}, url="the model"), format="zarr2").nodes
        except ZarrstackError as error:
            return error.problem
        if not isinstance(array, ArrayNode) or array.layout is not None:
            return None
        return next((problem for problem in array.problems if problem.severity == "refusal"), None)


def _zarr_2_reads(node: JSONObject) -> bool:
    """Whether numpy supports the dtype and numcodecs each codec, as zarr-python 2 requires."""
    import numcodecs.registry as known

    names = {*known.codec_registry, *known.entries, *_OPTIONAL}
    codecs = [node.get("compressor"), *(node.get("filters") or ())]
    try:
        np.dtype(_for_numpy(node.get("dtype")))
    except (TypeError, ValueError):
        return False
    return all(codec is None or (isinstance(codec, dict) and codec.get("id") in names) for codec in codecs)


def _for_numpy(dtype: JSON) -> Any:
    """A document's dtype in numpy's form: fields are tuples."""
    if not isinstance(dtype, list):
        return dtype
    return [
        (field[0], _for_numpy(field[1]), *map(tuple, field[2:])) if isinstance(field, list) else field
        for field in dtype
    ]


def _zarr_reads(node: JSONObject) -> bool:
    from zarr.core.metadata import ArrayV2Metadata, ArrayV3Metadata

    document = {name: value for name, value in node.items() if name not in (FIELD, GUARD)}
    kind = ArrayV3Metadata if format_of(node) == 3 else ArrayV2Metadata
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind.from_dict(document)
    except Exception:  # noqa: BLE001 - zarr has many errors for what it does not read
        return False
    return True
