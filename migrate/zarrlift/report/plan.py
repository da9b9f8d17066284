"""The output of `zarrlift migrate --dry-run`: each array before and after, and the cost; also as JSON.

And that of `zarrlift update --dry-run`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ..core.codec_table import READERS
from ..core.grid.frames import Shards
from ..core.identity_cache import IdentityCache
from ..core.units import (
    amounts_text,
    brief,
    bytes_text,
    change_text,
    count_text,
    node_names,
    node_text,
    safe,
    shape_text,
)
from ..planning.estimates import plan_totals
from ..planning.reader_limits import readings
from . import blocks as b
from .archive import conventions, refused_briefly, stated

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSON, JSONObject

    from ..archive.nodes import Layout
    from ..core.chain.reader_table import Reading
    from ..jobs.update.steps import NodeUpdate, UpdatePlan
    from ..planning.plans import ArrayPlan, Plan
    from ..planning.routes import Route

_ROWS: Final = 12
"""Maximum number of arrays listed individually in a group; more are combined by shape and data type."""
_EXCLUDED: Final = 5
"""Maximum number of names of excluded nodes; further ones are counted."""
_COLUMNS: Final = (
    b.Column(title="array"),
    b.Column(title="shape"),
    b.Column(title="chunk", spare=1, once=True),
    b.Column(title="data type", wraps=True, once=True),
    b.Column(title="codecs", wraps=True),
    b.Column(title="keys", wraps=True),
    b.Column(title="per shard"),
    b.Column(title="objects", right=True, spare=2),
    b.Column(title="before", right=True),
    b.Column(title="after", right=True),
)

_CHANGES: Final = 20
"""Maximum number of nodes of an update; the rest is counted."""
_CHANGE_COLUMNS: Final = (
    b.Column(title="node"),
    b.Column(title="what is done"),
    b.Column(title="objects", right=True, spare=1),
    b.Column(title="bytes", right=True),
)


def blocks(plan: Plan) -> Iterator[b.Block]:
    """A plan, of which nothing has been done."""
    where = "in place" if plan.in_place else f"-> {safe(plan.destination) or '(no destination given)'}"
    yield b.Title(f"Plan: {safe(plan.source)} ({plan.format}) {where}", hang=6)
    yield from conventions(plan.conventions)
    yield from nodes(plan)
    yield b.Section(title="Problems")
    yield b.Problems.of(plan.all_problems(), "refused")
    if plan.excluded:
        yield b.Section(title="Excluded")
        head = f"Excluded by the recipe, {count_text(len(plan.excluded), 'node')}"
        yield b.Names(head, plan.excluded, most=_EXCLUDED)
    yield b.Section()
    yield b.Summary(totals(plan))
    yield b.Text("Nothing has been written.")


def brief_lines(plan: Plan) -> Iterator[str]:
    """One line if nodes are refused."""
    return refused_briefly(len(plan.refusals))


def nodes(plan: Plan) -> Iterator[b.Block]:
    """The arrays of a plan, those with the same conversion together."""
    for group in _groups(plan.arrays):
        yield from _group(group)


def totals(plan: Plan) -> str:
    """One sentence: arrays, groups, objects and bytes before and after, and the available space."""
    text = f"{count_text(len(plan.arrays), 'array')} in {count_text(len(plan.groups), 'group')}"
    if plan.refusals:
        text += f", {count_text(len(plan.refusals), 'node')} refused"
    if plan.arrays:
        objects, sizes = _objects(plan.arrays), _sizes(plan.arrays)
        text += f"; {amounts_text(objects[plan.in_place :], sizes[plan.in_place :])}"
    if plan.free_bytes is not None:
        text += f"; {bytes_text(plan.free_bytes)} free at the destination"
    return text + "."


class _Form(NamedTuple):
    """What a plan tells of an array's layouts, before and after."""

    shape: str
    chunk: str
    data_type: str
    codecs: str
    keys: str
    per_shard: str
    shard_index: str


_COMMON: Final = ("codecs", "keys", "per_shard")
"""What is told once of a group if all of its arrays have it in common, and in their rows if not."""


def _form_of(source: Layout, destination: Layout) -> _Form:
    both = (source, destination)
    return _Form(
        shape=shape_text(source.shape),
        chunk=change_text(*(shape_text(layout.chunk_shape) for layout in both)),
        data_type=change_text(*(brief(str(layout.data_type)) for layout in both)),
        codecs=change_text(*(brief(str(layout.chain)) for layout in both)),
        keys=change_text(*(str(layout.keys) for layout in both)),
        per_shard=_shards(both, lambda shards: shape_text(shards.chunks_per_shard)).removeprefix("none -> "),
        shard_index=_shards(both, lambda shards: str(shards.index)),
    )


_forms: Final = IdentityCache(_form_of)
"""Many arrays share their layouts."""


def _form(array: ArrayPlan) -> _Form:
    move = array.move
    return _forms(move.source, move.destination)


def _shards(layouts: Iterable[Layout], part: Callable[[Shards], str]) -> str:
    """What `part` gives for the shards of either side; "" without shards."""
    sides = [part(layout.frame) if isinstance(layout.frame, Shards) else "none" for layout in layouts]
    return "" if sides == ["none", "none"] else change_text(*sides)


def _groups(arrays: Sequence[ArrayPlan]) -> list[list[ArrayPlan]]:
    """Arrays with the same conversion, in the order of first appearance.

    Those of a route whose codecs and keys no other array has are together if the same readers read them.
    """
    key_of = IdentityCache(_key_of)  # few layouts and routes are those of all arrays
    alike: dict[tuple[str, ...], list[ArrayPlan]] = {}
    for array in arrays:
        move = array.move
        alike.setdefault(key_of(move.source, move.destination, move.route), []).append(array)
    groups: dict[tuple[object, ...], list[ArrayPlan]] = {}
    for key, group in alike.items():
        able = next(readings(group))[1].able if len(group) == 1 else ()
        groups.setdefault((*key[:3], *able) if able else key, []).extend(group)
    return list(groups.values())


def _key_of(source: Layout, destination: Layout, route: Route) -> tuple[str, ...]:
    if source.opaque:
        return (route.name, route.reason, "")
    form = _forms(source, destination)
    return (route.name, route.reason, form.shard_index, form.codecs, form.keys)


def _group(group: list[ArrayPlan]) -> Iterator[b.Block]:
    first = group[0]
    name = first.route.name
    count = count_text(len(group), "array")
    reason = f" ({first.route.reason})" if first.route.reason and name != "stay" else ""
    head = f"{name}: {count}, {b.ROUTES.get(name, '')}{safe(reason)}"
    yield b.Section(title=head, heads_text=True, folded=True)
    form = _form(first)
    forms = set(map(_form, {(id(each.source), id(each.destination)): each for each in group}.values()))
    own = [part for part in _COMMON if name == "pass" or len({getattr(each, part) for each in forms}) > 1]
    layouts = (first.source, first.destination)
    whole_shards = _shards(layouts, lambda shards: str(shards).removeprefix("shards of "))
    yield b.Pairs(
        (
            ("codecs", "" if "codecs" in own else form.codecs),
            ("keys", "" if "keys" in own else form.keys),
            ("shards", form.shard_index if "per_shard" in own else whole_shards),
            *_cost(group),
            *(_readers(group) if name != "pass" else [("read by", "what reads the source")]),
        )
    )

    def row(*arrays: ArrayPlan) -> tuple[str, ...]:
        names = node_names((array.path for array in arrays), 1)
        return (names, *_cells(arrays[0], own), *_figures(arrays))

    def rest(arrays: Sequence[ArrayPlan]) -> tuple[str, ...]:
        head = f"{count_text(len(arrays), 'more array')} (--all)"
        return (head, *[""] * (len(_COLUMNS) - 4), *_figures(arrays))

    yield b.Table(
        columns=_COLUMNS,
        items=group,
        row=row,
        most=_ROWS,
        what="array",
        # What is not in a row is the same for the group.
        alike=lambda array: _cells(array, own) if array.source.opaque else _form(array),
        rest=rest,
    )


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
    """Who can read all of the arrays, and who cannot, and why."""
    counts = Counter(reading for _, reading in readings(group))
    able = set(READERS)
    prevents: dict[str, dict[str, None]] = {}
    lost: Counter[str] = Counter()
    for reading, count in counts.items():
        able.intersection_update(reading.able)
        lost.update(dict.fromkeys(reading.unable, count))
        for reader, features in reading.unable.items():
            prevents.setdefault(reader, {}).update(dict.fromkeys(features))
    yield "read by", ", ".join(reader for reader in READERS if reader in able)
    reasons: dict[str, list[str]] = {}
    for reader, features_ in prevents.items():
        why = ", ".join([*features_][:2]) + (", ..." if len(features_) > 2 else "")
        if lost[reader] < len(group):
            why += f", in {count_text(lost[reader])} of {count_text(len(group))} arrays"
        reasons.setdefault(safe(why), []).append(reader)
    yield "not by", "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())


def _cells(array: ArrayPlan, own: Sequence[str]) -> tuple[str, ...]:
    """What a row has of an array, except for its name and its figures."""
    if array.source.opaque:
        shape, _, data_type = stated(array.document)
        return (shape, "", data_type, *[""] * len(_COMMON))
    form = _form(array)
    parts = [getattr(form, part) if part in own else "" for part in _COMMON]
    return (form.shape, form.chunk, form.data_type, *parts)


def _figures(arrays: Sequence[ArrayPlan]) -> tuple[str, str, str]:
    chunks = sum(array.chunks for array in arrays)
    total = sum(array.source.objects.total for array in arrays)
    partial = chunks != total and not arrays[0].source.opaque
    present = count_text(chunks) + (f" of {count_text(total)}" if partial else "")
    return (present, *_sizes(arrays))


def _objects(arrays: Sequence[ArrayPlan]) -> tuple[str, str]:
    """Stored objects before and after, which are fewer if some are omitted as empty."""
    after = sum(array.chunks if array.route.name == "stay" else array.objects_out for array in arrays)
    fewer = any(array.move.values.drop_empty for array in arrays if array.route.name != "stay")
    return count_text(sum(array.chunks for array in arrays)), ("~" if fewer else "") + count_text(after)


def _sizes(arrays: Sequence[ArrayPlan]) -> tuple[str, str]:
    """Stored bytes before and after."""
    before = sum(array.bytes_in for array in arrays)
    after = sum(array.bytes_in if array.route.name == "stay" else array.bytes_out for array in arrays)
    exact, exact_after = (
        all(getattr(array, name) for array in arrays) for name in ("bytes_in_known", "bytes_out_known")
    )
    return bytes_text(before, estimated=not exact), bytes_text(after, estimated=not exact_after)


def plan_json(plan: Plan, documents: Mapping[str, JSON]) -> JSONObject:
    """A plan, complete, with totals, who can read each array, and the documents before and after.

    `documents` are those of the source by key.
    """
    data = plan.to_json()
    for node in (data, *data["arrays"], *data["groups"]):
        node["source_documents"] = {key: documents[key] for key, _ in node["source_digests"]}
    for group in data["groups"]:
        group["document"] = plan.document(group["path"])
    arrays = [
        {**array, "readers": _reading(reading)}
        for array, (_, reading) in zip(data["arrays"], readings(plan.arrays), strict=True)
    ]
    return {**data, "arrays": arrays, "totals": plan_totals(plan)}


def _reading(reading: Reading) -> JSONObject:
    return {
        "yes": list(reading.able),
        "no": {reader: list(features) for reader, features in reading.unable.items()},
    }


def update_blocks(plan: UpdatePlan) -> Iterator[b.Block]:
    """What an update would do, node by node."""
    if not plan.nodes:
        yield b.Text("Nothing to do: the source has not changed.")
        return
    amount = f"{count_text(plan.objects, 'object')} to read, {bytes_text(plan.bytes)}"
    yield b.Title(f"{count_text(len(plan.nodes), 'node')} to change: {amount}.", hang=0)
    yield b.Section()
    yield b.Table(columns=_CHANGE_COLUMNS, items=plan.nodes, row=_change_row, most=_CHANGES, what="node")
    if any(node.visible for node in plan.nodes):
        yield b.Section()
        yield b.Text(
            "Objects of visible arrays are replaced one by one: until an array is complete, a reader may see"
            " some of its objects as they were and others as they are now."
        )
    yield b.Section()
    yield b.Problems.of((problem for node in plan.nodes for problem in node.problems), "kept")


def _change_row(node: NodeUpdate) -> tuple[str, ...]:
    return (node_text(node.path), _what_is_done(node), *_moved(node))


def _what_is_done(node: NodeUpdate) -> str:
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


def _moved(node: NodeUpdate) -> tuple[str, str]:
    return (count_text(node.objects), bytes_text(node.bytes)) if node.objects else ("", "")
