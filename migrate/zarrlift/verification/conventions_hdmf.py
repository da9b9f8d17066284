"""Checks the requirements of hdmf-zarr files against the result alone.

Written independently of `conventions.hdmf`, from the code of hdmf-zarr 0.14.0 (`ZarrIO.__read_links`,
`__read_dataset`, `__read_attrs`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zarrstack.core.json_text import JSON, canonical

from ..archive.nodes import ArrayNode, Node
from .v3_tree import ResultNode
from .zarr_python_reader import chunk_shape, native


def hdmf(node: Node, result: ResultNode) -> Iterator[tuple[str, str, str]]:
    """Check links, references and kinds of datasets; yields (what differs, found, expected)."""
    yield from _links(node.attributes.get("zarr_link"), result.attributes)
    for name, value in node.attributes.items():
        refers = isinstance(value, dict) and "zarr_dtype" in value and isinstance(value.get("value"), dict)
        if refers and value != result.attributes.get(name):
            yield from _reference(name, value, result.attributes.get(name))
    dtype = node.attributes.get("zarr_dtype")
    if isinstance(node, ArrayNode) and dtype is not None and "zarr_dtype" not in result.attributes:
        yield from _dataset(dtype, result)


def _links(links: JSON, attributes: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    if not isinstance(links, list) or "zarr_link" in attributes:
        return  # migrated as plain data, which the attributes show
    if not all(isinstance(link, dict) and {"name", "path"} <= link.keys() for link in links):
        return
    wanted = sorted((link["name"], _path(link["path"])) for link in links)
    mine = sorted((link["name"], _path(link["path"])) for link in attributes.get("_LINKS", ()))
    if mine != wanted:
        yield "list of links", canonical(mine), canonical(wanted)


def _reference(name: str, value: dict[str, Any], mine: JSON) -> Iterator[tuple[str, str, str]]:
    target = mine.get("_REFERENCE") if isinstance(mine, dict) else None
    path = target.get("path") if isinstance(target, dict) else None
    wanted = _path(value["value"].get("path"))
    if path is None or _path(path) != wanted:
        yield f"reference {name!r}", canonical(mine), wanted


def _dataset(dtype: JSON, result: ResultNode) -> Iterator[tuple[str, str, str]]:
    assert result.metadata is not None
    values = native(result.metadata)
    stated = result.attributes.get("_DTYPE")
    if dtype == "scalar" and tuple(result.metadata.shape) == (1,) and chunk_shape(result.metadata) == (1,):
        yield "shape of a scalar", "(1,)", "()"
    if dtype == "object" and (stated != "object_reference" or values.kind not in "TO"):
        yield "kind of a dataset of references", f"{stated}, {values}", "object_reference, string"
    if isinstance(dtype, list):
        names = tuple(field["name"] for field in dtype)
        wanted = [field["name"] for field in dtype if field["dtype"] == "object"]
        if values.names != names:
            yield "list of fields", str(values.names), str(names)
        if list(result.attributes.get("_REFERENCE_FIELDS", ())) != wanted:
            yield "list of fields that are references", canonical(result.attributes), canonical(wanted)


def _path(path: Any) -> str:
    return "/" + "/".join(name for name in str(path or "").split("/") if name)
