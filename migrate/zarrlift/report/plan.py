"""The output of `zarrlift migrate --dry-run`: each array before and after, and the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from zarrstack.core.chain.reader_table import Reader, table
from zarrstack.core.grid.frames import Shards

from ..jobs.command_line import command
from ..jobs.units import brief, bytes_text, count_text, node_text, safe, shape_text
from ..planning.estimates import plan_totals
from ..planning.result_readers import readings
from . import problems as report_problems
from .archive import convention_lines
from .table import Column

if TYPE_CHECKING:
    from ..planning.plans import ArrayPlan, Plan
    from .page import Page

_ROWS: Final = 12
"""Maximum number of arrays listed individually in a group; more are combined by shape and data type."""
_MEANING: Final = {
    "stay": "metadata only; chunks are unchanged and stay in place",
    "relink": "chunks copied unchanged",
    "reframe": "chunks copied into another frame, not decoded",
    "recode": "outer codecs changed",
    "rewrite": "decoded and re-encoded",
    "regrid": "rechunked",
}
_COLUMNS: Final = (
    Column(title="array"),
    Column(title="shape"),
    Column(title="chunk", spare=1),
    Column(title="data type", wraps=True),
    Column(title="chunks", right=True, spare=2),
    Column(title="in", right=True),
    Column(title="out", right=True),
)


def lines(plan: Plan, page: Page, *, job: str | None = None) -> Iterator[str]:
    """The report on a plan, of which a job in parts may have been made."""
    where = "in place" if plan.in_place else f"-> {safe(plan.destination) or '(no destination given)'}"
    yield from page.paragraph(f"Plan: {safe(plan.source)} ({plan.format}) {where}", hang=6, tone="title")
    yield from convention_lines(plan.conventions, page)
    for group in _groups(plan.arrays):
        yield ""
        yield from _group(group, page)
    problems = plan.all_problems()
    if problems:
        yield ""
        yield from report_problems.lines(problems, page, refusal="refused")
    if plan.excluded:
        yield ""
        yield from _excluded(plan, page)
    yield ""
    yield from page.paragraph(totals(plan), hang=2)
    if job is None:
        yield "Nothing has been written."
        return
    yield from page.paragraph("The job has been created, and nothing has been migrated.")
    yield from page.advice("Do each part:", command("migrate", "--job", job, "--part", "INDEX"))
    yield from page.advice("Then collect them:", command("gather", job))


def totals(plan: Plan) -> str:
    """One sentence: arrays, groups, objects, bytes in and out, and the available space."""
    amounts = plan_totals(plan)
    read = bytes_text(amounts["bytes_read"], estimated=not amounts["bytes_in_known"])
    written = bytes_text(amounts["bytes_out"], estimated=not amounts["bytes_out_known"])
    parts = [
        f"{count_text(amounts['arrays'], 'array')} in {count_text(amounts['groups'], 'group')}",
        count_text(amounts["chunks"], "chunk"),
        f"{read} to read",
        f"{written} to write in {count_text(amounts['objects_out'], 'object')}",
    ]
    if plan.refusals:
        parts.insert(1, f"{count_text(len(plan.refusals), 'node')} refused")
    text = ", ".join(parts)
    if plan.free_bytes is not None:
        text += f"; {bytes_text(plan.free_bytes)} free at the destination"
    return text + "."


def _groups(arrays: Sequence[ArrayPlan]) -> list[list[ArrayPlan]]:
    """Arrays with the same conversion, in the order of first appearance."""
    groups: dict[tuple[str, ...], list[ArrayPlan]] = {}
    for array in arrays:
        key = (
            array.route.name,
            array.route.reason,
            str(array.source.chain),
            str(array.destination.chain),
            str(array.source.keys),
            str(array.destination.keys),
            str(array.source.frame),
            str(array.destination.frame),
        )
        groups.setdefault(key, []).append(array)
    return list(groups.values())


def _group(group: list[ArrayPlan], page: Page) -> Iterator[str]:
    first = group[0]
    name = first.route.name
    count = count_text(len(group), "array")
    reason = f" ({first.route.reason})" if first.route.reason and name != "stay" else ""
    head = f"{name}: {count}, {_MEANING.get(name, '')}{safe(reason)}"
    yield from page.paragraph(head, hang=2, tone="title")
    yield from page.pairs(
        (
            ("codecs", _change(brief(str(first.source.chain)), brief(str(first.destination.chain)))),
            ("keys", _change(str(first.source.keys), str(first.destination.keys))),
            *_shards(first),
            *_cost(group),
            *_readers(group),
        )
    )
    yield from page.table(_COLUMNS, _rows(group, page))


def _shards(array: ArrayPlan) -> Iterator[tuple[str, str]]:
    """The shards of either side, if any."""
    frames = (array.source.frame, array.destination.frame)
    if any(isinstance(frame, Shards) for frame in frames):
        before, after = (str(frame) if isinstance(frame, Shards) else "none" for frame in frames)
        yield ("shards", _change(before.removeprefix("shards of "), after.removeprefix("shards of ")))


def _cost(group: list[ArrayPlan]) -> Iterator[tuple[str, str]]:
    """The cost of changing the number or grid of objects."""
    needed = [array.memory for array in group if array.memory is not None]
    again = max(array.times_read for array in group)
    if again > 1:
        each = "each chunk" if len(group) == 1 else "chunks of the most affected array"
        total = bytes_text(sum(array.bytes_read for array in group))
        yield "reading", f"{each} {again:.3g} times on average, {total} in all"
    if needed:
        yield "memory", f"about {bytes_text(max(needed))} for each worker, in addition to the program's own"


def _readers(group: list[ArrayPlan]) -> Iterator[tuple[str, str]]:
    """Who can read all of the arrays, and who cannot, and why; readers of no Zarr v3 are left out."""
    readers = tuple(reader for reader in table().current if reader.reads and reader.built_on is None)
    prevents: dict[Reader, dict[str, None]] = {}
    lost: Counter[Reader] = Counter()
    unknown: set[Reader] = set()
    for _, found in readings(group, readers):
        unknown.update(found.unknown)
        lost.update(found.unable.keys())
        for reader, features in found.unable.items():
            prevents.setdefault(reader, {}).update(dict.fromkeys(features))
    able = [reader.name for reader in readers if reader not in prevents and reader not in unknown]
    yield "read by", ", ".join(able)
    reasons: dict[str, list[str]] = {}
    for reader, features_ in prevents.items():
        why = ", ".join([*features_][:2]) + (", ..." if len(features_) > 2 else "")
        if lost[reader] < len(group):
            why += f", in {count_text(lost[reader])} of {count_text(len(group))} arrays"
        reasons.setdefault(safe(why), []).append(reader.name)
    yield "not by", "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())


def _rows(group: list[ArrayPlan], page: Page) -> Iterator[tuple[str, ...]]:
    if page.everything or len(group) <= _ROWS:
        for array in group:
            yield _row([array])
        return
    alike: dict[tuple[str, ...], list[ArrayPlan]] = {}
    for array in group:
        key = (*_row([array])[1:4],)
        alike.setdefault(key, []).append(array)
    for members in list(alike.values())[:_ROWS]:
        yield _row(members)
    rest = [array for members in list(alike.values())[_ROWS:] for array in members]
    if rest:
        yield (f"{count_text(len(rest), 'more array')} (--all)", "", "", "", *_figures(rest))


def _row(arrays: list[ArrayPlan]) -> tuple[str, ...]:
    """One row for arrays with the same shape, chunk shape and data type."""
    first = arrays[0]
    source, destination = first.source, first.destination
    label = node_text(first.path)
    if len(arrays) > 1:
        label += f" and {count_text(len(arrays) - 1)} like it"
    return (
        label,
        shape_text(source.shape),
        _change(shape_text(source.chunk_shape), shape_text(destination.chunk_shape)),
        _change(brief(str(source.data_type)), brief(str(destination.data_type))),
        *_figures(arrays),
    )


def _figures(arrays: list[ArrayPlan]) -> tuple[str, str, str]:
    chunks = sum(array.chunks for array in arrays)
    stays = all(array.route.name == "stay" for array in arrays)
    total = sum(array.source.objects.total for array in arrays)
    present = count_text(chunks) + (f" of {count_text(total)}" if chunks != total else "")
    return present, _bytes_in(arrays), "-" if stays else _bytes_out(arrays)


def _bytes_in(arrays: Sequence[ArrayPlan]) -> str:
    known = all(array.bytes_in_known for array in arrays)
    return bytes_text(sum(array.bytes_in for array in arrays), estimated=not known)


def _bytes_out(arrays: Sequence[ArrayPlan]) -> str:
    known = all(array.bytes_out_known for array in arrays)
    return bytes_text(sum(array.bytes_out for array in arrays), estimated=not known)


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _excluded(plan: Plan, page: Page) -> Iterator[str]:
    shown = plan.excluded if page.everything else plan.excluded[:5]
    names = ", ".join(node_text(path) for path in shown)
    more = len(plan.excluded) - len(shown)
    tail = f" and {count_text(more)} more (--all shows them)" if more else ""
    head = count_text(len(plan.excluded), "node")
    yield from page.paragraph(f"Excluded by the recipe, {head}: {names}{tail}", hang=2)
