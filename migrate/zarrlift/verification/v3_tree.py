"""The nodes of a Zarr v3 hierarchy, with each document read by zarr-python separately.

`zarr.open_group(...).members()` would stop at the first damaged document and rely on consolidated metadata.
Here every node is read separately, and its problems are recorded with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zarrstack.core.errors import MetadataError, Problem, ZarrstackError
from zarrstack.core.json_text import JSONObject, canonical
from zarrstack.core.paths import join

from ..core.problems import refusal
from ..storage.base import Storage
from ..storage.local.scratch import is_own
from .zarr_python_reader import parse, words

if TYPE_CHECKING:
    from zarr.core.metadata.v3 import ArrayV3Metadata

DOCUMENT = "zarr.json"
_DEEPEST = 200
"""Maximum depth below the root; ends any loop of links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultNode:
    """A node of the destination."""

    path: str
    document: JSONObject
    attributes: JSONObject
    metadata: ArrayV3Metadata | None = None
    """Metadata of an array; None for a group."""
    problems: tuple[Problem, ...] = ()
    """Problems that prevent a comparison."""

    @property
    def is_array(self) -> bool:
        """Whether the node is an array."""
        return self.document.get("node_type") == "array"


def find_nodes(
    storage: Storage, expected: Iterable[str], *, strict_json: Callable[[str], bool]
) -> dict[str, ResultNode]:
    """Every node of a v3 hierarchy by path.

    The tree is listed, and the `expected` paths are read in addition, because a store that cannot list shows
    at least those. Directories of chunks are not entered. `strict_json` tells for a path whether bare NaN and
    Infinity are errors there.
    """
    nodes: dict[str, ResultNode] = {}
    seen: set[str] = set()
    waiting = [("", 0)] if storage.can_list else []
    while waiting:
        path, depth = waiting.pop()
        seen.add(path)
        node = read_node(storage, path, strict_json=strict_json(path))
        if node is not None:
            nodes[path] = node
        if (node is not None and node.is_array) or depth >= _DEEPEST:
            continue
        entries = list(storage.list_dir(path))
        if node is None and any(entry.name == ".zarray" for entry in entries):
            continue  # in place and not migrated: it contains chunks
        waiting.extend(
            (join(path, entry.name), depth + 1)
            for entry in entries
            if entry.is_dir and not is_own(entry.name)
        )
    for path in expected:
        if path not in seen:
            node = read_node(storage, path, strict_json=strict_json(path))
            if node is not None:
                nodes[path] = node
    return dict(sorted(nodes.items()))


def read_node(storage: Storage, path: str, *, strict_json: bool) -> ResultNode | None:
    """The node at a path, or None without a `zarr.json`; damage is among its problems."""
    key = join(path, DOCUMENT)
    try:
        content = storage.get(key)
        if content is None:
            return None
        document = _parse_json(content, strict_json=strict_json)
        if not isinstance(document, dict):
            raise MetadataError("zarr.json is not a JSON object")
        attributes = document.get("attributes", {})
        if document.get("node_type") == "array":
            if document.get("storage_transformers"):
                # Refused when an array is opened, not when its document is parsed (zarr 3.1.6, 3.4.2).
                raise MetadataError(
                    "zarr-python reads no array with storage transformers",
                    found=canonical(document["storage_transformers"]),
                )
            metadata = parse(document)
            return ResultNode(
                path=path, document=document, attributes=dict(metadata.attributes), metadata=metadata
            )
        _check_group(document)
        return ResultNode(path=path, document=document, attributes=attributes)
    except ZarrstackError as error:
        problem = error.at(node=path, key=key).problem
        return ResultNode(path=path, document={}, attributes={}, problems=(problem,))


def _parse_json(content: bytes, *, strict_json: bool) -> Any:
    def refuse(constant: str) -> float:
        if strict_json:
            raise MetadataError("zarr.json is not strict JSON", found=f"a bare {constant}")
        return float(constant)

    try:
        return json.loads(content, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        if isinstance(error, MetadataError):
            raise
        raise MetadataError("zarr.json is not JSON", found=words(error)) from error


def _check_group(document: JSONObject) -> None:
    from zarr.core.group import GroupMetadata

    if document.get("node_type") != "group":
        raise MetadataError(
            "zarr.json names no kind of node",
            found=canonical(document.get("node_type")),
            expected='"array" or "group"',
        )
    plain = {name: value for name, value in document.items() if name != "consolidated_metadata"}
    try:
        GroupMetadata.from_dict(plain)
    except Exception as error:
        raise MetadataError("zarr-python does not read the group's zarr.json", found=words(error)) from error


def consolidated_problems(nodes: dict[str, ResultNode], *, wanted: bool | None) -> list[Problem]:
    """Differences between consolidated metadata and the nodes' own documents.

    The form is zarr-python's (3.1.6 and 3.4.2): `consolidated_metadata.metadata` of a group, relative path ->
    document. `wanted` tells whether the root must have it; None for either.
    """
    problems = []
    root = nodes.get("")
    if wanted and root is not None and not root.is_array and _consolidated(root) is None:
        problems.append(_wrong("", "there is no consolidated metadata", "none", "as in the source"))
    for path, node in nodes.items():
        entries = _consolidated(node)
        if entries is None:
            continue
        below = {
            other.removeprefix(f"{path}/" if path else ""): other_node
            for other, other_node in nodes.items()
            if other != path and (not path or other.startswith(f"{path}/"))
        }
        for name in sorted(entries.keys() | below.keys()):
            entry, own = entries.get(name), below.get(name)
            message = f"consolidated metadata differs at {name!r}"
            if own is None:
                problems.append(_wrong(path, message, "an entry", "none: there is no such node"))
            elif entry is None:
                problems.append(_wrong(path, message, "no entry", "the node's document"))
            elif own.document and _own(entry) != _own(own.document):
                problems.append(_wrong(path, message, _own(entry)[:200], _own(own.document)[:200]))
    return problems


def _consolidated(node: ResultNode) -> dict[str, JSONObject] | None:
    block = node.document.get("consolidated_metadata")
    entries = block.get("metadata") if isinstance(block, dict) else None
    return entries if isinstance(entries, dict) else None


def _own(document: JSONObject) -> str:
    """A document without insignificant parts: nested consolidated metadata and null members."""
    optional = {"attributes", "storage_transformers", "dimension_names"}
    members = {
        name: value
        for name, value in document.items()
        if name != "consolidated_metadata" and (value or name not in optional)
    }
    return canonical(members)


def _wrong(path: str, message: str, found: str, expected: str) -> Problem:
    return node_problem(path, message, found, expected, kind="verify-consolidated")


def node_problem(path: str, message: str, found: str, expected: str, *, kind: str) -> Problem:
    """A difference in the `zarr.json` of a node."""
    return refusal(kind, message, node=path, key=join(path, DOCUMENT), found=found, expected=expected)
