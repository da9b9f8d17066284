"""The output of `zarrlift update --dry-run`, and of `migrate --dry-run --show`: metadata before and after."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ..jobs.units import bytes_text, count_text, node_text
from . import blocks as b

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSON

    from ..jobs.node_change import NodeChange
    from ..jobs.update.steps import NodeUpdate, UpdatePlan

_NODES: Final = 20
"""Maximum number of rows; the rest is counted."""
_COLUMNS: Final = (
    b.Column(title="node"),
    b.Column(title="what is done"),
    b.Column(title="chunks", right=True, spare=1),
    b.Column(title="bytes", right=True),
)


def update_blocks(plan: UpdatePlan) -> Iterator[b.Block]:
    """What an update would do, node by node."""
    if not plan.nodes:
        yield b.Text("Nothing to do: the source has not changed.")
        return
    amount = f"{count_text(plan.objects, 'chunk')} to read, {bytes_text(plan.bytes)}"
    yield b.Title(f"{count_text(len(plan.nodes), 'node')} to change: {amount}.", hang=0)
    yield b.Section()
    yield b.Table(columns=_COLUMNS, items=plan.nodes, row=_row, most=_NODES, what="node")
    if any(node.visible for node in plan.nodes):
        yield b.Section()
        yield b.Text(
            "Objects of visible arrays are replaced one by one: until an array is complete, a reader may see"
            " some of its objects as they were and others as they are now."
        )
    yield b.Section()
    yield b.Problems.of((problem for node in plan.nodes for problem in node.problems), "kept")


def _row(node: NodeUpdate) -> tuple[str, ...]:
    return (node_text(node.path), _what(node), *_amounts(node))


def _what(node: NodeUpdate) -> str:
    match node.action:
        case "new":
            return "new"
        case "removed":
            return "removed"
        case "kept":
            return "kept as it is"
        case "replaced":
            return "hidden, then migrated as a whole"
        case "changed":
            return "its objects one by one, then its metadata" if node.visible else "its metadata"


def _amounts(node: NodeUpdate) -> tuple[str, str]:
    return (count_text(node.objects), bytes_text(node.bytes)) if node.objects else ("", "")


_ORDER: Final = {
    name: place
    for place, names in enumerate(
        (
            "zarr_format", "node_type", "n5", "shape dimensions", "data_type dtype dataType",
            "chunk_grid chunks blockSize", "chunk_key_encoding dimension_separator chunk_memory_layout order",
            "codecs filters compressor compression compressionType compression_opts", "fill_value",
            "dimension_names", "attributes", "consolidated_metadata .zmetadata",
        )
    )
    for name in names.split(" ")
}  # fmt: skip
"""The order in which members of old and new documents correspond; others come before the attributes."""
_ATTRIBUTES: Final = frozenset({".zattrs", "attrs"})
_ROOM: Final = 72
"""Characters of a line; a longer value has several."""


def change_blocks(change: NodeChange) -> Iterator[b.Block]:
    """What a migration would write in place of what is there."""
    kind = f"{change.kind} {node_text(change.path)}"
    yield b.Title(f"The metadata of {kind}, before and after:")
    (after,) = change.after.values()
    heads = ", ".join(change.before) or "no document", *change.after
    yield b.Change(list(_before(change)), json_lines(after), (heads[0], heads[1]))
    yield b.Text("Nothing has been written.")


def _before(change: NodeChange) -> Iterator[str]:
    """The lines of the old documents, as one object in the order of the new one."""
    merged: dict[str, JSON] = {}
    for key, document in change.before.items():
        name = key.rpartition("/")[2]
        if not isinstance(document, dict):
            yield from str(document).splitlines()
        elif name in _ATTRIBUTES:
            merged["attributes"] = document
        elif merged:
            merged[name] = document
        else:
            merged.update(document)
    if merged:
        others = _ORDER["attributes"] - 0.5
        yield from json_lines(
            {name: merged[name] for name in sorted(merged, key=lambda n: _ORDER.get(n, others))}
        )


def json_lines(value: JSON, indent: int = 0, head: str = "", tail: str = "") -> list[str]:
    """JSON in lines of a limited length; members of a document and its attributes have one each at least."""
    margin = " " * indent
    text = json.dumps(value, ensure_ascii=False)
    opened = isinstance(value, dict | list) and value
    whole = indent == 0 or head == '"attributes": '
    fits = indent + len(head) + len(text) <= _ROOM
    if not opened or (fits and not (whole and isinstance(value, dict))):
        return [f"{margin}{head}{text}{tail}"]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    items: list[tuple[str, Any]] = [("", item) for item in value]
    if isinstance(value, dict):
        items = [(f"{json.dumps(name, ensure_ascii=False)}: ", item) for name, item in value.items()]
    inner = [
        line
        for number, (name, item) in enumerate(items, 1)
        for line in json_lines(item, indent + 2, name, "," if number < len(items) else "")
    ]
    return [f"{margin}{head}{begin}", *inner, f"{margin}{end}{tail}"]
