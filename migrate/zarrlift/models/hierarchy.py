"""Reads models from archives and from model files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import MetadataError, Problem, UsageError
from zarrstack.core.json_text import JSONObject, excerpt

from ..archive.nodes import Archive, ArrayNode, GroupNode, Layout, Node
from ..core.grid.frames import N5Blocks
from ..core.json_document import finite
from ..core.problems import JoinedProblems, warning
from ..formats.describe import describe
from ..formats.tree.directory import MAX_LEVELS, bad_name
from ..formats.tree.documents import parse_object
from ..planning.planner import make_plan
from ..planning.zarr_json import array_document, group_document, strict_attributes
from ..recipe.options import Format, Reading
from ..recipe.recipe import Recipe
from ..storage.base import Storage
from ..storage.local.files import is_directory
from .model_storage import ModelStorage
from .zom import (
    MEMBERS,
    OMITTED_IF_NULL,
    Flat,
    FormatNumber,
    empty_group,
    flatten,
    format_of,
    is_ambiguous,
    is_group,
    model_problems,
    nodes,
    normalized,
    unflatten,
)

STANDARD_INPUT: Final = "-"
"""Name of standard input, in place of a file."""
MAX_BYTES: Final = 256 << 20
"""Maximum size of a model or schema file in bytes; ten thousand nodes take about six million."""
MAX_JSON_LEVELS: Final = 2 * MAX_LEVELS + 100
"""Maximum nesting of a model: two levels for each level of groups, plus that of a node's own document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """A model and its origin.

    Examples
    --------
    >>> hierarchy = zarrlift.models.show("ocean.zarr")
    >>> hierarchy.format, hierarchy.problems
    ('zarr2', ())
    """

    url: str
    format: Format
    """Format of the archive; the model of any format except v2 is a v3 model."""
    model: JSONObject
    problems: tuple[Problem, ...] = ()
    """Reasons for nodes missing in the model, and other notes."""
    archive: Archive | None = None
    """The reader's description; None for v3, whose documents are the model, and for files."""
    storage: Storage | None = None
    """Storage of the archive."""

    unread: tuple[str, ...] = ()
    """Paths of nodes that are missing in the model or lack the content of a document."""

    @property
    def unread_problems(self) -> tuple[Problem, ...]:
        """Reasons for unread nodes; other problems do not exclude a node from the model."""
        unread = frozenset(self.unread)
        return tuple(p for p in self.problems if p.severity == "refusal" and p.node in unread)


def read_hierarchy(
    storage: Storage,
    *,
    format: Format | None = None,
    options: Reading = Reading(),  # noqa: B008 - frozen
) -> Hierarchy:
    """The model of an archive: v2 and v3 unchanged, others as the v3 model of their layout.

    Raises UsageError if there is no archive, MetadataError if its root cannot be read.
    """
    archive = describe(storage, format=format, options=options)
    number: FormatNumber = 2 if archive.format == "zarr2" else 3
    build = {"zarr2": _of_v2, "zarr3": _of_v3}.get(archive.format, _by_layout)
    problems = list(archive.all_problems())
    flat: Flat = {}
    for node in archive.nodes:
        document = None if _is_unread(node) else build(node, problems)
        if document is not None:
            flat[node.path] = document
    read = set(flat)
    model = _tree(flat, number, problems)  # removes nodes that cannot be in a tree, adds a missing root
    in_tree = read & flat.keys()
    return Hierarchy(
        url=storage.url,
        format=archive.format,
        model=model,
        problems=tuple(problems),
        archive=archive,
        storage=storage,
        unread=tuple(node.path for node in archive.nodes if node.path not in in_tree),
    )


def _is_unread(node: Node) -> bool:
    """Whether a document of a node could not be read, so that the others are incomplete."""
    refusals = (problem for problem in node.problems if problem.severity == "refusal")
    keys = {refusal.key for refusal in refusals if refusal.kind == "storage"}
    return any(key and key.rpartition("/")[0] == node.path != key for key in keys)


def read_model(path: str | os.PathLike[str]) -> Hierarchy:
    """The model in a file.

    Raises UsageError if there is no file, MetadataError with all problems of its tree.
    """
    name = os.fspath(path)
    data = parse_json(read_file(name), name)
    return checked_model(data, name)


def checked_model(data: Any, name: str) -> Hierarchy:
    """The model in a JSON value, as a copy in normal form; MetadataError with all problems of its tree."""
    if not isinstance(data, dict):
        raise MetadataError("a model is a JSON object", key=name, found=excerpt(data))
    if "$schema" in data or "$ref" in data or "$defs" in data or "definitions" in data:
        raise MetadataError(
            "this is a JSON Schema, where a model is expected", key=name, found=excerpt(sorted(data))
        )
    model = normalized(data)
    problems = model_problems(model)
    if problems:
        first, more = problems[0], len(problems) - 1
        raise MetadataError(
            JoinedProblems.of(
                (first.message, *problems[1:20]), after=f"; and {more - 19} more" if more > 19 else ""
            ),
            node=first.node,
            key=name,
            found=first.found,
            expected=first.expected,
        )
    for _, node in nodes(model):  # copies of the input
        node.update({key: finite(value) for key, value in node.items() if key != MEMBERS})
    format_: Format = "zarr2" if format_of(model) == 2 else "zarr3"
    return Hierarchy(url=name, format=format_, model=model)


def parse_json(content: bytes, name: str) -> JSONObject:
    """The JSON object in a model or schema file; MetadataError."""
    return parse_object(content, name, most_levels=MAX_JSON_LEVELS)


def read_file(name: str) -> bytes:
    """The content of a model or schema file, or of standard input for "-".

    UsageError if it does not exist or is too large.
    """
    try:
        if name == STANDARD_INPUT:
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(name, "rb") as file:
                content = file.read(MAX_BYTES + 1)
    except OSError as error:
        if is_directory(name, error):
            advice = f"Write it with: zarrlift model show {name} > model.json"
            raise UsageError(
                "a model is a file, and this is a directory", found=name, advice=advice
            ) from None
        raise UsageError(
            "the file cannot be read",
            found=f"{name}: {error.strerror}",
            expected="a ZOM or JSON Schema in a file",
        ) from None
    if len(content) > MAX_BYTES:
        what = "standard input" if name == STANDARD_INPUT else "the file"
        raise UsageError(f"{what} is too large for a model", expected=f"at most {MAX_BYTES} bytes")
    return content


# ----- conversion to v3


def as_v3(hierarchy: Hierarchy, recipe: Recipe | None = None) -> Hierarchy:
    """The result of migrating a hierarchy, by the plan's own mapping; chunks are not read.

    Refused nodes are omitted, and among the problems.
    """
    archive, place = hierarchy.archive, hierarchy.storage
    if archive is None or place is None:
        place = ModelStorage(flatten(hierarchy.model), url=hierarchy.url)
        archive = describe(place)
    plan = make_plan(archive, place, recipe or Recipe(), destination="", listing=False)
    problems = list(plan.all_problems())
    flat = {node.path: dict(node.document) for node in plan.published}
    return Hierarchy(
        url=hierarchy.url,
        format="zarr3",
        model=_tree(flat, 3, problems),
        problems=tuple(problems),
        unread=tuple(refusal.path for refusal in plan.refusals),
    )


def in_v3_terms(hierarchy: Hierarchy) -> Hierarchy:
    """The v3 model of a hierarchy's layout: the same arrays in v3 terms.

    An array without a layout keeps its place, with its attributes only.
    """
    if hierarchy.format != "zarr2":
        return hierarchy
    archive = hierarchy.archive or describe(ModelStorage(flatten(hierarchy.model), url=hierarchy.url))
    problems = list(archive.all_problems())
    flat: Flat = {}
    for node in archive.nodes:
        document = _by_layout(node, [])
        if document is None and node.documents:
            document = {"zarr_format": 3, "node_type": "array", "attributes": dict(node.attributes)}
        if document is not None:
            flat[node.path] = document
    return replace(hierarchy, format="zarr3", model=_tree(flat, 3, problems), problems=tuple(problems))


# ----- nodes


def _of_v2(node: Node, problems: list[Problem]) -> JSONObject | None:
    """A v2 node: its document with attributes; None if it has no readable document."""
    name = ".zarray" if isinstance(node, ArrayNode) else ".zgroup"
    content = _content(node, name)
    attributes_there = _content(node, ".zattrs")
    if content is None and isinstance(node, GroupNode) and (node.implicit or attributes_there is not None):
        metadata: JSONObject | None = {}
    else:
        metadata = _parsed(content, name)
    if metadata is None or (attributes_there is not None and _parsed(attributes_there, ".zattrs") is None):
        return None
    document = {"zarr_format": 2, **finite(metadata)}
    if "attributes" in document:
        problems.append(
            warning(
                "model",
                "a metadata member named attributes cannot be kept beside the attributes of .zattrs",
                node=node.path,
                found=excerpt(document["attributes"]),
            )
        )
    document["attributes"] = _attributes(node.attributes, node.path, problems)
    return document


def _of_v3(node: Node, problems: list[Problem]) -> JSONObject | None:
    """A v3 node without derived members; None if it cannot be read."""
    if isinstance(node, GroupNode) and node.implicit:
        return empty_group(3)
    data = _parsed(_content(node, "zarr.json"), "zarr.json")
    if data is None or data.get("node_type") not in ("array", "group") or data.get("zarr_format") != 3:
        return None
    attributes = data.get("attributes", {})
    if not isinstance(attributes, dict):
        return None
    document = {
        name: finite(value)
        for name, value in data.items()
        # Consolidated metadata is derived from the model. A null dimension_names or storage_transformers, as
        # some writers produce, equals its absence.
        if name not in ("consolidated_metadata", "attributes")
        and not (value is None and name in OMITTED_IF_NULL)
    }
    document["attributes"] = _attributes(attributes, node.path, problems)
    return document


def _content(node: Node, name: str) -> bytes | None:
    """A document of a node by the last component of its key."""
    return next((d.content for d in node.documents if d.key.rpartition("/")[2] == name), None)


def _parsed(content: bytes | None, name: str) -> JSONObject | None:
    """The JSON object in a document; None if it is missing or invalid, which the reader reports."""
    try:
        return None if content is None else parse_object(content, name)
    except MetadataError:
        return None


def _by_layout(node: Node, problems: list[Problem]) -> JSONObject | None:
    """A node in v3 terms, from its layout; None for an array without one."""
    attributes = _attributes(node.attributes, node.path, problems)
    if isinstance(node, GroupNode):
        return group_document(attributes)
    return None if node.layout is None else array_document(in_v3_words(node.layout), attributes)


def in_v3_words(layout: Layout) -> Layout:
    """The layout as a v3 document can express it: the keys of N5 and the draft become the default ones.

    In v3, N5's block headers can only be expressed by a codec that in-place migration uses; the model
    contains the encoding of a block's payload.
    """
    if not isinstance(layout.keys, KeyEncoding):
        layout = replace(layout, keys=KeyEncoding("default", getattr(layout.keys, "separator", "/")))
    return replace(layout, frame=None) if isinstance(layout.frame, N5Blocks) else layout


def _attributes(attributes: Mapping[str, Any], path: str, problems: list[Problem]) -> JSONObject:
    strict, notes = strict_attributes(attributes)
    problems.extend(replace(note, node=path, advice=None) for note in notes)
    return strict


def _tree(flat: Flat, number: int, problems: list[Problem]) -> JSONObject:
    """The model of nodes; those below an array or a missing root are omitted, with a problem."""
    for path in [path for path in flat if path and not _has_place(path, flat)]:
        del flat[path]
    for path, node in flat.items():
        if is_ambiguous(node):
            message = "properties named members with leading underscores cannot be restored from the model"
            problems.append(warning("model", message, node=path))
    if not flat:
        refusal = next((problem for problem in problems if problem.severity == "refusal"), None)
        raise MetadataError(
            "no node of the archive can be read" if refusal is None else refusal.message,
            node=None if refusal is None else refusal.node,
            key=None if refusal is None else refusal.key,
            found=None if refusal is None else refusal.found,
            expected=None if refusal is None else refusal.expected,
        )
    flat.setdefault("", empty_group(2 if number == 2 else 3))
    return unflatten(flat)


def _has_place(path: str, flat: Flat) -> bool:
    """Whether a node can be in a tree: valid names, and only groups above it."""
    while path:
        path, _, name = path.rpartition("/")
        if bad_name(name) is not None or (path in flat and not is_group(flat[path])):
            return False
    return True
