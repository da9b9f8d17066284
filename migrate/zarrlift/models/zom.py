"""A Zarr Object Model: a hierarchy without its values, as one JSON object.

Source: ZEP 6 (draft of 2023), "Specification of the base Zarr Object Model". A node is the metadata of a Zarr
array or group with user metadata in `attributes` only; a group also has `members`, name -> node. A *flat*
model maps paths ("" is the root, names joined by "/") to nodes without `members`.

The functions do not recurse, because the depth of a model is not limited by trusted code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from zarrstack.core.errors import MetadataError, Problem
from zarrstack.core.json_text import JSON, JSONObject, excerpt
from zarrstack.core.paths import join

from ..core.problems import refusal
from ..formats.tree.directory import MAX_LEVELS, bad_name
from ..formats.tree.documents import MAX_LEVELS as MAX_LEVELS_INSIDE
from ..formats.tree.documents import levels

MEMBERS: Final = "members"
OMITTED_IF_NULL: Final = frozenset({"dimension_names", "storage_transformers"})
"""Members of v3 metadata for which some writers produce null, which equals their absence."""
FormatNumber: TypeAlias = Literal[2, 3]
Flat: TypeAlias = dict[str, JSONObject]


_UNICODE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_ASCII: Final = json.JSONEncoder(allow_nan=False).encode


def format_of(node: Mapping[str, JSON]) -> FormatNumber:
    """The Zarr format of a model or one of its nodes; MetadataError for any but 2 and 3."""
    number = node.get("zarr_format")
    if type(number) is not int or number not in (2, 3):
        found = excerpt(number) if "zarr_format" in node else "none"
        raise MetadataError("a model has no known zarr_format", found=found, expected="2 or 3")
    return 2 if number == 2 else 3


def is_group(node: Mapping[str, JSON]) -> bool:
    """Whether a node is a group: stated in v3; in v2, a node without a shape."""
    if node.get("zarr_format") == 2:
        return "shape" not in node
    return node.get("node_type") == "group"


def in_model(document: Mapping[str, JSON], members: JSONObject | None = None) -> JSONObject:
    """A node's metadata as part of a model, with its `members` (None for an array).

    A property of the metadata that is itself named `members` is prefixed with as many underscores as needed
    for a unique name (ZEP 6).
    """
    name = MEMBERS
    while name in document:
        name = "_" + name
    node = {(name if key == MEMBERS else key): value for key, value in document.items()}
    if members is not None:
        node[MEMBERS] = members
    return node


def in_document(node: Mapping[str, JSON]) -> JSONObject:
    """A node's metadata without `members`, with the renamed property restored: the inverse of `in_model`.

    ZEP 6 cannot distinguish a renamed `members` from a property originally named `_members`; the longest name
    of `_members`, `__members`, ... without a gap is taken as the renamed one.
    """
    name, renamed = "_" + MEMBERS, None
    while name in node:
        name, renamed = "_" + name, name
    return {(MEMBERS if key == renamed else key): value for key, value in node.items() if key != MEMBERS}


def is_ambiguous(document: Mapping[str, JSON]) -> bool:
    """Whether `in_document` would not restore the input of `in_model`."""
    if not any(name.startswith("_") and name.lstrip("_") == MEMBERS for name in document):
        return False
    return in_document(in_model(document)) != document


def nodes(model: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    """Path and node, including `members`, of every node of a valid model; parents before children."""
    waiting = [("", model)]
    while waiting:
        path, node = waiting.pop()
        yield path, node
        members = node.get(MEMBERS)
        if isinstance(members, dict):
            waiting.extend((join(path, name), member) for name, member in reversed(members.items()))


def flatten(model: JSONObject) -> Flat:
    """The flat form of `model`: path -> metadata of each node.

    Examples
    --------
    >>> sorted(zarrlift.models.flatten(zarrlift.models.show("ocean.zarr").model))
    ['', 'lat', 'lon', 'sst', 'time']
    """
    return {path: in_document(node) for path, node in nodes(model)}


def unflatten(flat: Mapping[str, JSONObject]) -> JSONObject:
    """The model of the flat form `flat`; paths may begin with "/".

    Missing groups above a node are created without attributes.

    Raises
    ------
    MetadataError
        With the path, for a node below an array, for invalid names, and for an empty form.

    Examples
    --------
    >>> flat = {"a": {"zarr_format": 3, "node_type": "group", "attributes": {}}}
    >>> sorted(zarrlift.models.unflatten(flat)["members"])
    ['a']
    """
    paths = {path.strip("/"): path for path in flat}
    if not paths:
        raise MetadataError(
            "a flat model contains no node", expected='"" -> the root, "a/b" -> a node below it'
        )
    first = flat[next(iter(paths.values()))]
    tree: dict[str, JSONObject] = {}
    for path in sorted(paths, key=lambda path: (path.count("/") + bool(path), path)):
        _place(path, flat[paths[path]], tree, first)
    if "" not in tree:
        raise MetadataError("a flat model has no root")  # cannot happen: every path has one
    return tree[""]


def _place(path: str, document: JSONObject, tree: dict[str, JSONObject], first: JSONObject) -> None:
    """Insert a node and the missing groups above it into the tree."""
    names = path.split("/") if path else []
    if len(names) > MAX_LEVELS:
        raise _too_deep(path)
    above = ""
    for depth in range(len(names) + 1):
        here = "/".join(names[:depth])
        if here not in tree:
            own = document if depth == len(names) else empty_group(format_of(first))
            node = in_model(own, {} if is_group(own) else None)
            tree[here] = node
            if depth:
                _adopt(tree[above], names[depth - 1], node, here)
        above = here


def _adopt(parent: JSONObject, name: str, node: JSONObject, path: str) -> None:
    if MEMBERS not in parent:
        raise MetadataError("a node is below an array", node=path, expected="a group above it")
    wrong = bad_name(name)
    if wrong is not None:
        raise MetadataError(wrong, node=path, found=repr(name), advice="Rename it.")
    parent[MEMBERS][name] = node


def empty_group(number: FormatNumber) -> JSONObject:
    """The metadata of an empty group."""
    if number == 2:
        return {"zarr_format": 2, "attributes": {}}
    return {"zarr_format": 3, "node_type": "group", "attributes": {}}


def model_problems(model: JSONObject) -> list[Problem]:
    """Problems of a model's tree, each with its path; the content of nodes is not checked.

    Checks the types of nodes and members, the same format everywhere, names and depth.
    """
    problems: list[Problem] = []
    number = model.get("zarr_format")
    waiting: list[tuple[str, int, JSON]] = [("", 0, model)]
    while waiting:
        path, depth, node = waiting.pop()
        if not isinstance(node, dict):
            problems.append(_wrong("a node is not a JSON object", path, node, "an array or a group"))
            continue
        if depth > MAX_LEVELS:
            problems.append(_too_deep(path).problem)
            continue
        problems.extend(_node_problems(path, node, number))
        members = node.get(MEMBERS)
        if isinstance(members, dict):
            for name in members:
                if "/" in name or bad_name(name) is not None:
                    what = bad_name(name) or "a node's name has a slash"
                    problems.append(_wrong(what, join(path, name), name, "another name"))
            waiting.extend((join(path, name), depth + 1, member) for name, member in members.items())
    problems.sort(key=lambda problem: problem.node or "")
    return problems


def _node_problems(path: str, node: JSONObject, number: JSON) -> Iterator[Problem]:
    if any(levels(value) > MAX_LEVELS_INSIDE for key, value in node.items() if key != MEMBERS):
        what = "the metadata of a node is nested too deeply"
        yield _wrong(what, path, sorted(node), f"at most {MAX_LEVELS_INSIDE} levels")
        return
    own = node.get("zarr_format")
    if type(own) is not int or own not in (2, 3):
        yield _wrong("a node has no known zarr_format", path, own, "2 or 3")
        return
    if own != number:
        yield _wrong("a node has a different format than the model", path, own, excerpt(number))
    if own == 3 and node.get("node_type") not in ("array", "group"):
        yield _wrong("a node has no known node_type", path, node.get("node_type"), '"array" or "group"')
        return
    attributes = node.get("attributes")
    if not isinstance(attributes, dict):
        yield _wrong("attributes are not a JSON object", path, attributes, "an object")
    members = node.get(MEMBERS)
    if is_group(node):
        if not isinstance(members, dict):
            yield _wrong("members are not a JSON object", path, members, "an object: name -> node")
    elif MEMBERS in node:
        yield _wrong("an array has members", path, MEMBERS, "no members: only groups have them")


def normalized(model: JSONObject) -> JSONObject:
    """A copy of a model in which every node has `attributes` and every group `members`.

    Null members that v3 does not allow, as pydantic-zarr writes them, are removed.
    """

    def normalize(node: JSONObject) -> None:
        if node.get("zarr_format") == 3:
            for name in OMITTED_IF_NULL & node.keys():
                if node[name] is None:
                    del node[name]
        node.setdefault("attributes", {})
        if is_group(node) and node.get(MEMBERS) is None:
            node[MEMBERS] = {}

    return copied(model, normalize)


def copied(model: JSONObject, change: Callable[[JSONObject], object]) -> JSONObject:
    """A copy of a model, which need not be valid, with each node changed in the copy."""
    root = dict(model)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        change(node)
        members = node.get(MEMBERS)
        if isinstance(members, dict):
            members = {name: dict(item) if isinstance(item, dict) else item for name, item in members.items()}
            node[MEMBERS] = members
            waiting.extend(item for item in members.values() if isinstance(item, dict))
    return root


def _wrong(message: str, path: str, found: JSON, expected: str) -> Problem:
    return refusal("model", message, node=path, found=excerpt(found), expected=expected)


def _too_deep(path: str) -> MetadataError:
    return MetadataError(f"a node is more than {MAX_LEVELS} levels deep", node=path)


def text_lines(model: JSONObject) -> Iterator[str]:
    """The lines of a model as strict JSON, one member of metadata each; ValueError for NaN or an infinity.

    The standard library indents in Python code, ten times slower than it writes, and breaks every list.
    """
    yield "{"
    yield from _members(model, "  ")
    yield "}"


def _members(content: JSONObject, indent: str) -> Iterator[str]:
    """The lines of what is between the braces of a node, of its attributes or of its members."""
    for place, (name, value) in enumerate(content.items(), 1):
        comma = "," if place < len(content) else ""
        key = f"{indent}{_text(name)}: "
        is_node = isinstance(value, dict) and "zarr_format" in value
        if isinstance(value, dict) and value and (is_node or name in ("attributes", MEMBERS)):
            yield f"{key}{{"
            yield from _members(value, indent + "  ")
            yield f"{indent}}}{comma}"
        else:
            yield f"{key}{_text(value)}{comma}"


def _text(value: JSON) -> str:
    """JSON in Unicode; ASCII if a lone surrogate, which UTF-8 cannot encode, occurs."""
    text = _UNICODE(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return _ASCII(value)
    return text
