"""The output of `zarrlift inspect`: the tree of an archive, its problems, and a summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from zarrstack.core.json_text import canonical

from ..core.grid.frames import Shards
from ..jobs.units import brief, count_text, safe, shape_text
from . import problems as report_problems
from .names import node_names
from .table import Column, fits

if TYPE_CHECKING:
    from ..archive.nodes import Archive, ArrayNode, Layout, Node, RecognizedConvention
    from .page import Page

_NODES: Final = 200
"""Maximum number of tree rows; further nodes are only counted."""
_FILL: Final = 24
"""Maximum number of characters of a fill value; those of structs are long base64 texts."""
_COLUMNS: Final[tuple[Column, ...]] = (
    Column(title="node"),
    Column(title="kind"),
    Column(title="shape"),
    Column(title="chunk", once=True),
    Column(title="data type", wraps=True, once=True),
    Column(title="fill", spare=2, once=True),
    Column(title="codecs", wraps=True, spare=1, once=True),
    Column(title="keys", spare=3, once=True),
    Column(title="attributes", right=True, spare=4),
)
_FORM: Final = slice(6, 8)
"""The columns that stand in a table of their own if most arrays share them."""
_ARRAYS: Final = Column(title="arrays", wraps=True)
_FORMS: Final = 12
"""Maximum number of rows of that table."""
_NAMES: Final = 8
"""Maximum number of names and ranges of arrays that share them; further ones are counted."""


def lines(archive: Archive, page: Page) -> Iterator[str]:
    """The report on an archive."""
    consolidated = ", consolidated metadata" if archive.consolidated else ""
    head = f"{safe(archive.url)} ({archive.format}{consolidated})"
    yield from page.paragraph(head, hang=2, tone="title")
    yield from convention_lines(archive.conventions, page)
    yield ""
    nodes = page.shown(archive.nodes, _NODES)
    rows = [_row(node) for node in nodes]
    forms = _forms(nodes, rows, page)
    if forms:
        rows = [(*row[: _FORM.start], "", "", *row[_FORM.stop :]) for row in rows]
    yield from page.table(_COLUMNS, rows)
    yield from page.rest(len(archive.nodes) - len(nodes), "node")
    most = None if page.everything else _NAMES
    form_rows = [(node_names(paths, most, hint=" (--all)"), *form) for form, paths in forms]
    shared = page.listing((_ARRAYS, *_COLUMNS[_FORM]), form_rows, tuple, most=_FORMS, what="codec chain")
    yield from page.apart(shared)
    yield from page.apart(report_problems.lines(archive.all_problems(), page, refusal="refused"))
    yield ""
    yield from page.paragraph(summary_text(archive), hang=2)


def convention_lines(seen: Iterable[RecognizedConvention], page: Page) -> Iterator[str]:
    """One line with the names of recognized conventions; none if there are none."""
    text = "; ".join(f"{item.name} ({safe(item.summary)})" for item in seen)
    if text:
        yield from page.paragraph(f"conventions: {text}", indent=2, hang=4)


def _forms(
    nodes: Sequence[Node], rows: Sequence[tuple[str, ...]], page: Page
) -> list[tuple[tuple[str, ...], list[str]]]:
    """Codecs and keys with paths of their arrays, the most frequent first; none if they fit into the rows."""
    forms: dict[tuple[str, ...], list[str]] = {}
    for node, row in zip(nodes, rows, strict=True):
        if any(row[_FORM]):
            forms.setdefault(row[_FORM], []).append(node.path)
    shared = 1 < len(forms) < sum(map(len, forms.values())) / 2
    if not shared or fits(_COLUMNS, rows, page.width - 2):
        return []
    return sorted(forms.items(), key=lambda form: -len(form[1]))


def _row(node: Node) -> tuple[str, ...]:
    name = node.path.rpartition("/")[2]
    indent = "  " * (node.path.count("/") + 1) if node.path else ""
    label = indent + (safe(name) or "/")
    attributes = count_text(len(node.attributes)) if node.attributes else ""
    layout = getattr(node, "layout", None)
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


def _shards(layout: Layout) -> str:
    """Size of the shards that contain the chunks, if any."""
    if not isinstance(layout.frame, Shards):
        return ""
    return f" in shards of {shape_text(layout.object_shape)}" if layout.shape else " in a shard"


def _kind(node: Node) -> str:
    """What a row does not show otherwise; an array has a shape, a group has none."""
    if node.refused:
        return "REFUSED"
    return "implicit group" if getattr(node, "implicit", False) else ""


def _fill(node: ArrayNode) -> str:
    if node.fill_is_null or node.layout is None:
        return "null"
    text = canonical(node.layout.fill_value)
    return safe(text if len(text) <= _FILL else text[: _FILL - 2] + "..")


def summary_text(archive: Archive) -> str:
    """One sentence: groups, arrays, problems."""
    arrays = [node for node in archive.nodes if hasattr(node, "layout")]
    refused = sum(node.refused for node in archive.nodes)
    groups = len(archive.nodes) - len(arrays)
    parts = [count_text(groups, "group"), count_text(len(arrays), "array")]
    if refused:
        parts.append(f"{count_text(refused, 'node')} refused")
    if others := report_problems.summary(p for p in archive.all_problems() if p.severity != "refusal"):
        parts.append(others)
    return ", ".join(parts) + "."
