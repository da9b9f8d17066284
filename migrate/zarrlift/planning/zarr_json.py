"""The `zarr.json` of a node, strict attributes, and consolidated metadata.

Form of the documents: https://zarr-specs.readthedocs.io/en/latest/v3/core/ (array and group metadata).
Consolidated metadata is zarr-python's convention, as 3.1.6 and 3.4.2 write and read it
(`zarr.core.group.ConsolidatedMetadata`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from zarrstack.core.errors import MetadataError, Problem
from zarrstack.core.json_text import JSON, JSONObject

from ..archive.nodes import Layout
from ..core.chain.chain import Chain
from ..core.chain.codec_limits import within_limits
from ..core.codec_table import as_written
from ..core.frozen_json import thawed
from ..core.grid.frames import N5Blocks, Shards
from .portable_codecs import complete


def array_document(layout: Layout, attributes: Mapping[str, JSON]) -> JSONObject:
    """The `zarr.json` of an array, with its members in reading order."""
    return {**array_head(layout), "attributes": dict(attributes)}


def array_head(layout: Layout) -> JSONObject:
    """The part of an array's `zarr.json` that its layout determines: everything except the attributes.

    Encoder levels outside of the readers' range are adjusted; the stored bytes do not depend on them.
    """
    result = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(layout.shape),
        "data_type": layout.data_type.to_json(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(layout.object_shape)}},
        "chunk_key_encoding": layout.keys.to_json(),
        "codecs": _with_configurations(stored_chain(layout).to_json()),
        "fill_value": thawed(layout.fill_value),
    }
    if layout.dimension_names is not None and layout.dimension_names:
        # zarr-python 3.1.6 drops an empty list when it writes, so it is omitted for 0-d arrays.
        result["dimension_names"] = list(layout.dimension_names)
    return result


def stored_chain(layout: Layout) -> Chain:
    """The chain from the array to a stored object, as in the document."""
    written = map(as_written, layout.chain.codecs)
    chain = Chain(tuple(complete(within_limits(spec), layout.data_type) for spec in written))
    if isinstance(layout.frame, Shards):
        return layout.frame.chain(layout.chunk_shape, chain)
    if isinstance(layout.frame, N5Blocks):
        return layout.frame.chain(len(layout.shape), chain)
    return chain


def _with_configurations(codecs: Iterable[JSONObject]) -> list[JSONObject]:
    """The `codecs` of a document; those of numcodecs have the configuration that zarr-python requires.

    zarr-python 3.1.6 and 3.4.2 read no numcodecs codec without one.
    """
    result = [dict(codec) for codec in codecs]
    for codec in result:
        if codec["name"].startswith("numcodecs."):
            codec.setdefault("configuration", {})
        if codec["name"] == "sharding_indexed":
            inner = _with_configurations(codec["configuration"]["codecs"])
            codec["configuration"] = {**codec["configuration"], "codecs": inner}
    return result


def group_document(attributes: Mapping[str, JSON]) -> JSONObject:
    """The `zarr.json` of a group."""
    return {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}


def strict_attributes(attributes: Mapping[str, JSON]) -> tuple[JSONObject, tuple[Problem, ...]]:
    """Attributes as strict JSON: NaN and infinities as strings, with a note per location.

    What contains no such number is the same object. Locations are JSON pointers (RFC 6901).
    """
    problems: list[Problem] = []
    strict = _strict(dict(attributes), "", problems)
    return strict if problems or not isinstance(attributes, dict) else attributes, tuple(problems)


def _strict(value: JSON, place: str, problems: list[Problem]) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        text = "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        problems.append(
            Problem(
                kind="attributes",
                severity="note",
                message="a number that JSON does not have is written as a string",
                found=f"{place}: {text}",
                advice="Use --set attributes=keep to write it as a bare number.",
            )
        )
        return text
    if isinstance(value, dict):
        return {
            key: _strict(item, f"{place}/{key.replace('~', '~0').replace('/', '~1')}", problems)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_strict(item, f"{place}/{index}", problems) for index, item in enumerate(value)]
    return value


def consolidate(documents: Mapping[str, JSONObject]) -> JSONObject:
    """The root's document with the documents of all nodes below it.

    `documents` maps paths ("" is the root, a group) to `zarr.json` contents. Nodes are ordered by level and,
    within a level, by parent: zarr-python 3.1.6 loses nodes whose siblings are not adjacent. A group below
    the root states empty consolidated metadata of its own, as zarr-python writes it; otherwise an empty group
    would be listed from storage.
    """
    root = documents.get("")
    if root is None or root.get("node_type") != "group":
        raise MetadataError("consolidated metadata belongs to a root that is a group", node="")
    paths = sorted((path for path in documents if path), key=_by_level)
    metadata: JSONObject = {}
    for path in paths:
        document = {key: value for key, value in documents[path].items() if key != "consolidated_metadata"}
        if document.get("node_type") == "group":
            document["consolidated_metadata"] = _inline({})
        metadata[path] = document
    result = {key: value for key, value in root.items() if key != "consolidated_metadata"}
    result["consolidated_metadata"] = _inline(metadata)
    return result


def _inline(metadata: JSONObject) -> JSONObject:
    return {"kind": "inline", "must_understand": False, "metadata": metadata}


def _by_level(path: str) -> tuple[int, list[str]]:
    names = path.split("/")
    return len(names), names
