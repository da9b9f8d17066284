"""Results as notebooks show them: a sentence, a tree that folds out, and the problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import short
from zarrstack.core.json_text import canonical

from ...archive.nodes import Archive, Layout
from ...jobs.outcome import Outcome
from ...jobs.status import NodeStatus, Status
from ...jobs.units import FORMATS, bytes_text, count_text, node_text, rate_text, safe, shape_text
from ...planning.plans import ArrayPlan, Plan
from ...verification.report import VerificationReport
from ..archive import summary_text
from ..outcome import headline, verification_lines
from ..page import Page
from ..plan import totals
from ..problem_groups import ProblemGroup, grouped
from ..status import facts
from ..status import summary_text as status_text
from .rendering import attribute_lines, fragment

if TYPE_CHECKING:
    from zarrstack.core.errors import Problem

    from ...archive.nodes import Node
    from ...planning.plans import Planned

_MAX_NODES: Final = 200
"""Maximum number of nodes; the rest is counted."""
_MAX_GROUPS: Final = 20
"""Maximum number of groups of problems."""
_MAX_ATTRIBUTES: Final = 100_000
"""Maximum number of characters of all attributes together."""
_DEEPEST: Final = 12
"""Maximum depth of the tree; what is deeper stands there with the rest of its path."""
_LONGEST: Final = 80
_WIDE: Final = Page(width=10_000)

Facts = Sequence[tuple[str, str]]


@dataclass(slots=True, kw_only=True)
class Row:
    """A node of the tree."""

    name: str = ""
    cells: Sequence[str] = ()
    """Beside its name."""
    tone: str = ""
    facts: Facts = ()
    """Folded out."""
    attributes: Sequence[str] = ()
    children: list[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Some nodes, and how many there are besides."""

    label: str
    rows: Sequence[Row]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is shown of a result."""

    text: str
    tone: str = ""
    facts: Facts = ()
    trees: Sequence[Tree] = ()
    groups: Sequence[ProblemGroup] = ()
    more_groups: int = 0


def notebook_html(result: Archive | Plan | Outcome | Status | VerificationReport) -> str:
    """A fragment of HTML without scripts and requests, whose size is bounded."""
    from zarrstack.base.notebook import STYLE

    view = _VIEWS[type(result)](result)
    return fragment("notebook.html", notebook_style=STYLE, name=type(result).__name__, view=view)


def _archive(archive: Archive) -> View:
    room = [_MAX_ATTRIBUTES]
    return View(
        text=f"{FORMATS.get(archive.format, archive.format)}: {summary_text(archive)}",
        tone="bad" if any(node.refused for node in archive.nodes) else "",
        facts=[("at", archive.url), *((seen.name, seen.summary) for seen in archive.conventions)],
        trees=[_tree("Nodes", archive.nodes, partial(_node_row, room))],
        **_problems(archive.all_problems()),
    )


def _plan(plan: Plan) -> View:
    where = "in place" if plan.in_place else plan.destination or "(no destination given)"
    return View(
        text=totals(plan),
        tone="bad" if plan.refusals else "",
        facts=[
            ("from", f"{plan.source} ({FORMATS.get(plan.format, plan.format)})"),
            ("to", where),
            *((seen.name, seen.summary) for seen in plan.conventions),
            *([("excluded", count_text(len(plan.excluded), "node"))] if plan.excluded else []),
        ],
        trees=[_tree("Nodes", plan.nodes, _plan_row)],
        **_problems(plan.all_problems()),
    )


def _outcome(outcome: Outcome) -> View:
    plan = outcome.plan
    facts = [("job", outcome.job)]
    if plan is not None:
        facts = [("from", plan.source), ("to", plan.destination), *facts]
    if outcome.retries:
        facts.append(("retries", count_text(outcome.retries, "request")))
    for number, line in enumerate(outcome.how_to_open.splitlines()):
        facts.append(("" if number else "open it by", line))
    return View(
        text=headline(outcome),
        tone="good" if outcome.ok else "bad",
        facts=facts,
        trees=[] if plan is None else [_tree("Nodes", plan.nodes, _plan_row)],
        **_problems(outcome.problems),
    )


def _status(status: Status) -> View:
    where = "in place" if status.in_place else status.destination
    rate = rate_text(round(status.rate), 1) if status.rate is not None else ""
    about = [("from", status.source), ("to", where), *facts(status), ("rate", rate)]
    failed = any(row.state in ("failed", "refused") for row in status.nodes)
    return View(
        text=status_text(status),
        tone="bad" if failed else "good" if status.state in ("done", "finished") else "",
        facts=[(name, text) for name, text in about if text],
        trees=[_tree("Nodes", sorted(status.nodes, key=lambda row: row.path), _status_row)],
    )


def _verification(report: VerificationReport) -> View:
    differ = [
        Row(name=short(safe(node_text(path)), _LONGEST), cells=[count_text(count, "difference")], tone="bad")
        for path, count in report.differences[:_MAX_NODES]
    ]
    more = max(len(report.differences) - _MAX_NODES, 0)
    return View(
        text=next(verification_lines(report, _WIDE)),
        tone="good" if report.ok else "bad",
        facts=[("source", report.source), ("destination", report.destination)],
        trees=[Tree(label="Nodes that differ", rows=differ, more=more)] if differ else [],
        **_problems(report.problems),
    )


_VIEWS: Final[Mapping[type, Callable[[Any], View]]] = {
    Archive: _archive,
    Plan: _plan,
    Outcome: _outcome,
    Status: _status,
    VerificationReport: _verification,
}


def _problems(problems: Iterable[Problem]) -> dict[str, Any]:
    groups = grouped((None, problem) for problem in problems)
    return {"groups": groups[:_MAX_GROUPS], "more_groups": max(len(groups) - _MAX_GROUPS, 0)}


def _tree(label: str, nodes: Sequence[Any], row: Callable[[Any], Row]) -> Tree:
    """The first nodes, sorted by path, below their groups; a group that is no node has a name alone."""
    rows: dict[tuple[str, ...], Row] = {}
    for node in nodes[:_MAX_NODES]:
        names = tuple(node.path.split("/")) if node.path else ()
        if len(names) > _DEEPEST:
            names = (*names[: _DEEPEST - 1], "/".join(names[_DEEPEST - 1 :]))
        _place(rows, names, row(node))
    return Tree(label=label, rows=[rows[()]] if nodes else [], more=max(len(nodes) - _MAX_NODES, 0))


def _place(rows: dict[tuple[str, ...], Row], names: tuple[str, ...], row: Row) -> Row:
    """The row of a node, put below that of its group."""
    row.name = short(safe(names[-1]), _LONGEST) if names else "/"
    rows[names] = row
    if names:
        (rows.get(names[:-1]) or _place(rows, names[:-1], Row())).children.append(row)
    return row


def _node_row(room: list[int], node: Node) -> Row:
    layout = getattr(node, "layout", None)
    not_shown = f"{count_text(len(node.attributes), 'attribute')}, not shown"
    return Row(
        cells=[*_shown(layout), *(["refused"] if node.refused else [])],
        tone="bad" if node.refused else "",
        facts=[] if layout is None else [*_stored(layout)],
        attributes=attribute_lines(node.attributes, room, not_shown),
    )


def _shown(layout: Layout | None) -> Iterator[str]:
    if layout is not None:
        yield shape_text(layout.shape)
        yield _brief(layout.data_type)


def _stored(layout: Layout) -> Iterator[tuple[str, str]]:
    yield "chunks", shape_text(layout.chunk_shape)
    if layout.object_shape != layout.chunk_shape:
        yield "shards", shape_text(layout.object_shape)
    yield "codecs", _brief(layout.chain)
    yield "fill value", _brief(canonical(layout.fill_value))
    yield "chunk keys", str(layout.keys)
    if layout.dimension_names:
        yield "dimensions", _brief(", ".join(name or "-" for name in layout.dimension_names))


def _plan_row(node: Planned) -> Row:
    if not isinstance(node, ArrayPlan):
        refused = hasattr(node, "kind")
        return Row(cells=["refused"] if refused else [], tone="bad" if refused else "")
    before, after = dict(_stored(node.source)), dict(_stored(node.destination))
    written = (
        "" if node.route.name == "stay" else f", {_amount(node.bytes_out, node.bytes_out_known)} written"
    )
    return Row(
        cells=[*_shown(node.destination), node.route.name],
        facts=[
            (
                "route",
                f"{node.route.name}: {_brief(node.route.reason)}" if node.route.reason else node.route.name,
            ),
            (
                "objects",
                f"{count_text(node.chunks)}, {_amount(node.bytes_in, node.bytes_in_known)} read{written}",
            ),
            ("data type", _change(_brief(node.source.data_type), _brief(node.destination.data_type))),
            *(
                (name, _change(before.get(name, "none"), after.get(name, "none")))
                for name in {**before, **after}
            ),
        ],
    )


def _status_row(node: NodeStatus) -> Row:
    amount = ""
    if node.bytes_total:
        amount = f"{bytes_text(node.bytes_done)} of {_amount(node.bytes_total, node.bytes_known)}"
    return Row(
        cells=[text for text in (node.route or "", amount, node.state) if text],
        tone={"failed": "bad", "refused": "bad", "done": "good"}.get(node.state, ""),
        facts=[("error", node.error)] if node.error else [],
    )


def _amount(count: int, exact: bool) -> str:
    return bytes_text(count, estimated=not exact)


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _brief(value: object) -> str:
    return short(safe(str(value)), 2 * _LONGEST)
