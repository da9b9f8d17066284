"""What `zarrlift inspect` shows, the tree of an archive, its problems and a summary."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from zarrstack.core.json_text import canonical

from ..archive.nodes import layout_to_json
from ..core.grid.frames import Shards
from ..core.units import brief, bytes_text, count_text, safe, shape_text
from . import blocks as b

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem
    from zarrstack.core.json_text import JSON, JSONObject

    from ..archive.nodes import Archive, ArrayNode, Layout, Node, RecognizedConvention

_NODES: Final = 200
"""Maximum number of tree rows; further nodes are only counted."""
_ATTRIBUTES: Final = 40
"""Maximum number of lines of the attributes of a node alone."""
_FILL: Final = 24
"""Maximum number of characters of a fill value; those of structs are long base64 texts."""
_COLUMNS: Final[tuple[b.Column, ...]] = (
    b.Column(title="node"),
    b.Column(title="kind", is_state=True),
    b.Column(title="shape"),
    b.Column(title="chunk", once=True, folded=True),
    b.Column(title="data type", wraps=True, once=True),
    b.Column(title="fill", spare=2, once=True, folded=True),
    b.Column(title="codecs", wraps=True, spare=1, once=True, folded=True),
    b.Column(title="keys", spare=3, once=True, folded=True),
    b.Column(title="attributes", right=True, spare=4),
)
_FORM: Final = slice(6, 8)
"""The columns that stand in a table of their own if most arrays share them."""


def blocks(archive: Archive) -> Iterator[b.Block]:
    """The tree of an archive, and its problems."""
    consolidated = ", consolidated metadata" if archive.consolidated else ""
    yield b.Title(f"{safe(archive.url)} ({archive.format}{consolidated})")
    yield from conventions(archive.conventions)
    yield b.Section(title="Contents")
    yield b.Table(
        columns=_COLUMNS,
        items=archive.nodes,
        row=_row,
        most=_NODES,
        what="node",
        shared=_FORM,
        paths=lambda node: node.path,
        more=_details,
    )
    if len(archive.nodes) == 1 and archive.nodes[0].path:
        yield b.Section(on="text")
        yield b.Pairs(tuple(_facts(archive.nodes[0])))
        attributes = json.dumps(dict(archive.nodes[0].attributes), indent=2)
        yield b.Lines(tuple(map(safe, attributes.splitlines())), most=_ATTRIBUTES)
    yield b.Section(title="Problems")
    yield b.Problems.of(archive.all_problems(), "refused")
    yield b.Section()
    yield b.Summary(summary_text(archive))


def _details(node: Node) -> Iterator[b.Block]:
    """What a node folds out in a notebook."""
    yield b.Pairs(tuple(_facts(node)))
    yield b.Problems.of(node.problems)
    yield b.Document("attributes", dict(node.attributes))


def _facts(node: Node) -> Iterator[tuple[str, str]]:
    yield "documents", ", ".join(safe(document.key) for document in node.documents)
    layout = getattr(node, "layout", None)
    if layout is None:
        return
    names = layout.dimension_names
    if names and any(names):
        yield "dimensions", brief(", ".join(name or "-" for name in names))
    yield "values, decoded", bytes_text(math.prod(layout.shape) * layout.item_bytes)


def conventions(seen: Iterable[RecognizedConvention]) -> Iterator[b.Block]:
    """One line with the names of recognized conventions; none if there are none."""
    if text := "; ".join(f"{item.name} ({safe(item.summary)})" for item in seen):
        yield b.Text(f"conventions: {text}", indent=2, hang=4)


def _row(node: Node) -> tuple[str, ...]:
    name = node.path.rpartition("/")[2]
    indent = "  " * (node.path.count("/") + 1) if node.path else ""
    label = indent + (safe(name) or "/")
    attributes = count_text(len(node.attributes)) if node.attributes else ""
    layout = getattr(node, "layout", None)
    if (passed := getattr(node, "passed", None)) is not None:
        shape, codecs, data_type = stated(passed.document)
        return (label, _kind(node), shape, "", data_type, "", codecs, "", attributes)
    if layout is None:
        return (label, _kind(node), *[""] * 6, attributes)
    return (
        label,
        _kind(node),
        shape_text(layout.shape),
        shape_text(layout.chunk_shape),
        brief(str(layout.data_type)),
        _fill(node),  # type: ignore[arg-type]
        brief(str(layout.chain)) + _shards(layout),
        str(layout.keys),
        attributes,
    )


def stated(document: JSONObject) -> tuple[str, str, str]:
    """The shape, the codecs and the data type that a document of Zarr v3 states, whatever they are."""

    def name(extension: JSON) -> str:
        return safe(str(extension.get("name") if isinstance(extension, dict) else extension))

    codecs = " > ".join(map(name, document["codecs"]))
    return shape_text(document["shape"]), brief(codecs), brief(name(document["data_type"]))


def _shards(layout: Layout) -> str:
    """Size of the shards that contain the chunks, if any."""
    if not isinstance(layout.frame, Shards):
        return ""
    return f" in shards of {shape_text(layout.object_shape)}" if layout.shape else " in a shard"


def _kind(node: Node) -> str:
    """What a row does not show otherwise; an array has a shape, a group has none."""
    if node.refused:
        return "REFUSED"
    if getattr(node, "passed", None) is not None:
        return "not described"
    return "implicit group" if getattr(node, "implicit", False) else ""


def _fill(node: ArrayNode) -> str:
    if node.fill_is_null or node.layout is None:
        return "null"
    text = canonical(node.layout.fill_value)
    return safe(text if len(text) <= _FILL else text[: _FILL - 2] + "..")


def brief_lines(archive: Archive) -> Iterator[str]:
    """One line if nodes are refused."""
    return refused_briefly(sum(node.refused for node in archive.nodes))


def refused_briefly(nodes: int) -> Iterator[str]:
    """One line if nodes are refused; else empty."""
    if nodes:
        yield f"{nodes:,} {'node is' if nodes == 1 else 'nodes are'} refused."


def summary_text(archive: Archive) -> str:
    """One sentence: groups, arrays, problems."""
    arrays = [node for node in archive.nodes if hasattr(node, "layout")]
    refused = sum(node.refused for node in archive.nodes)
    groups = len(archive.nodes) - len(arrays)
    parts = [count_text(groups, "group"), count_text(len(arrays), "array")]
    if refused:
        parts.append(f"{count_text(refused, 'node')} refused")
    if others := problem_counts(p for p in archive.all_problems() if p.severity != "refusal"):
        parts.append(others)
    return ", ".join(parts) + "."


def problem_counts(problems: Iterable[Problem]) -> str:
    """`2 refusals, 1 warning`, or "" without problems."""
    counts = dict.fromkeys(b.ORDER, 0)
    for problem in problems:
        counts[problem.severity] += 1
    return ", ".join(count_text(count, severity) for severity, count in counts.items() if count)


def archive_json(archive: Archive) -> JSONObject:
    """An archive: its nodes and their properties in v3 terms."""
    return {
        "url": archive.url,
        "format": archive.format,
        "consolidated": archive.consolidated,
        "conventions": [{"name": seen.name, "summary": seen.summary} for seen in archive.conventions],
        "nodes": [_node_json(node) for node in archive.nodes],
        "problems": [problem.to_json() for problem in archive.problems],
    }


def _node_json(node: Node) -> JSONObject:
    data: JSONObject = {
        "path": node.path,
        "kind": "array" if hasattr(node, "layout") else "group",
        "refused": node.refused,
        "attributes": dict(node.attributes),
        "documents": [document.key for document in node.documents],
        "problems": [problem.to_json() for problem in node.problems],
    }
    layout = getattr(node, "layout", None)
    if data["kind"] == "array":
        data["layout"] = None if layout is None else layout_to_json(layout)
        data["unknown"] = None if node.passed is None else node.passed.unknown  # type: ignore[union-attr]
        data["fill_is_null"] = node.fill_is_null  # type: ignore[union-attr]
        data["extra"] = node.extra  # type: ignore[union-attr]
    else:
        data["implicit"] = node.implicit  # type: ignore[union-attr]
    return data
