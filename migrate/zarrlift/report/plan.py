"""The output of `zarrlift migrate --dry-run`: each array before and after, and the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from ..core.chain.reader_table import Reader, table
from ..core.grid.frames import Shards
from ..jobs.command_line import command
from ..jobs.units import brief, bytes_text, count_text, safe, shape_text
from ..planning.estimates import plan_totals
from ..planning.result_readers import readings
from . import problems as report_problems
from .archive import convention_lines
from .names import node_names
from .table import Column

if TYPE_CHECKING:
    from ..planning.plans import ArrayPlan, Plan
    from .page import Page

_Form: TypeAlias = "Callable[[ArrayPlan], str]"
_ROWS: Final = 12
"""Maximum number of arrays listed individually in a group; more are combined by shape and data type."""
_EXCLUDED: Final = 5
"""Maximum number of names of excluded nodes; further ones are counted."""
MEANINGS: Final = {
    "stay": "metadata only; chunks are unchanged and stay in place",
    "relink": "chunks copied unchanged",
    "reframe": "chunks copied into another frame, not decoded",
    "recode": "outer codecs changed",
    "rewrite": "decoded and re-encoded",
    "regrid": "rechunked",
}
"""What each route does, in a few words."""
_COLUMNS: Final = (
    Column(title="array"),
    Column(title="shape"),
    Column(title="chunk", spare=1, once=True),
    Column(title="data type", wraps=True, once=True),
    Column(title="codecs", wraps=True),
    Column(title="keys", wraps=True),
    Column(title="per shard"),
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
        yield from page.apart(_group(group, page))
    yield from page.apart(report_problems.lines(plan.all_problems(), page, refusal="refused"))
    if plan.excluded:
        yield from page.apart(_excluded(plan, page))
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


def _codecs(array: ArrayPlan) -> str:
    return _change(brief(str(array.source.chain)), brief(str(array.destination.chain)))


def _keys(array: ArrayPlan) -> str:
    return _change(str(array.source.keys), str(array.destination.keys))


def _shards(array: ArrayPlan, part: Callable[[Shards], str]) -> str:
    """What `part` gives for the shards of either side; "" without shards."""
    frames = (array.source.frame, array.destination.frame)
    sides = [part(frame) if isinstance(frame, Shards) else "none" for frame in frames]
    return "" if sides == ["none", "none"] else _change(*sides)


def _index(array: ArrayPlan) -> str:
    return _shards(array, lambda shards: str(shards.index))


def _per_shard(array: ArrayPlan) -> str:
    return _shards(array, lambda shards: shape_text(shards.chunks_per_shard)).removeprefix("none -> ")


_FORMS: Final = (_codecs, _keys, _per_shard)
"""What is told once of a group if all of its arrays have it in common, and in their rows if not."""


def _groups(arrays: Sequence[ArrayPlan]) -> list[list[ArrayPlan]]:
    """Arrays with the same conversion, in the order of first appearance.

    Those of a route whose codecs and keys no other array has are together if the same readers read them.
    """
    alike: dict[tuple[str, ...], list[ArrayPlan]] = {}
    for array in arrays:
        route = (array.route.name, array.route.reason, _index(array))
        alike.setdefault((*route, _codecs(array), _keys(array)), []).append(array)
    groups: dict[tuple[object, ...], list[ArrayPlan]] = {}
    for key, group in alike.items():
        able = next(readings(group, _current()))[1].able if len(group) == 1 else ()
        groups.setdefault((*key[:3], *able) if able else key, []).extend(group)
    return list(groups.values())


def _group(group: list[ArrayPlan], page: Page) -> Iterator[str]:
    first = group[0]
    name = first.route.name
    count = count_text(len(group), "array")
    reason = f" ({first.route.reason})" if first.route.reason and name != "stay" else ""
    head = f"{name}: {count}, {MEANINGS.get(name, '')}{safe(reason)}"
    yield from page.paragraph(head, hang=2, tone="title")
    shared = {form: len(set(map(form, group))) == 1 for form in _FORMS}
    whole_shards = _shards(first, lambda shards: str(shards).removeprefix("shards of "))
    yield from page.pairs(
        (
            ("codecs", _codecs(first) if shared[_codecs] else ""),
            ("keys", _keys(first) if shared[_keys] else ""),
            ("shards", whole_shards if shared[_per_shard] else _index(first)),
            *_cost(group),
            *_readers(group),
        )
    )
    own = [form for form in _FORMS if not shared[form]]
    yield from page.table(_COLUMNS, _rows(group, own, page))


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


def _current() -> tuple[Reader, ...]:
    """The newest version of each reader, except for those of no Zarr v3."""
    return tuple(reader for reader in table().current if reader.reads and reader.built_on is None)


def _readers(group: list[ArrayPlan]) -> Iterator[tuple[str, str]]:
    """Who can read all of the arrays, and who cannot, and why."""
    readers = _current()
    prevents: dict[Reader, dict[str, None]] = {}
    lost: Counter[Reader] = Counter()
    unknown: set[Reader] = set()
    for _, reading in readings(group, readers):
        unknown.update(reading.unknown)
        lost.update(reading.unable.keys())
        for reader, features in reading.unable.items():
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


def _rows(group: list[ArrayPlan], own: Sequence[_Form], page: Page) -> Iterator[tuple[str, ...]]:
    alike: dict[tuple[str, ...], list[ArrayPlan]] = {}
    for number, array in enumerate(group):
        form = _form(array, own)
        # A few arrays have a row each.
        key = form if len(group) > _ROWS and not page.everything else (*form, str(number))
        alike.setdefault(key, []).append(array)
    rows = list(alike.values())
    excerpt = page.shown(rows, _ROWS)
    for members in excerpt:
        names = node_names((array.path for array in members), 1)
        yield (names, *_form(members[0], own), *_figures(members))
    if rest := [array for members in rows[len(excerpt) :] for array in members]:
        yield (f"{count_text(len(rest), 'more array')} (--all)", *[""] * (len(_COLUMNS) - 4), *_figures(rest))


def _form(array: ArrayPlan, own: Sequence[_Form]) -> tuple[str, ...]:
    """What a row has of an array, except for its name and its figures."""
    source, destination = array.source, array.destination
    return (
        shape_text(source.shape),
        _change(shape_text(source.chunk_shape), shape_text(destination.chunk_shape)),
        _change(brief(str(source.data_type)), brief(str(destination.data_type))),
        *(form(array) if form in own else "" for form in _FORMS),
    )


def _figures(arrays: Sequence[ArrayPlan]) -> tuple[str, str, str]:
    chunks = sum(array.chunks for array in arrays)
    total = sum(array.source.objects.total for array in arrays)
    present = count_text(chunks) + (f" of {count_text(total)}" if chunks != total else "")
    exact = all(array.bytes_in_known for array in arrays)
    read = bytes_text(sum(array.bytes_in for array in arrays), estimated=not exact)
    if all(array.route.name == "stay" for array in arrays):
        return present, read, "-"
    exact = all(array.bytes_out_known for array in arrays)
    return present, read, bytes_text(sum(array.bytes_out for array in arrays), estimated=not exact)


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _excluded(plan: Plan, page: Page) -> list[str]:
    names = node_names(plan.excluded, None if page.everything else _EXCLUDED, hint=" (--all shows them)")
    count = count_text(len(plan.excluded), "node")
    return page.paragraph(f"Excluded by the recipe, {count}: {names}", hang=2)
