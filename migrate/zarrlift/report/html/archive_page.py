"""The page on one archive: its tree, what each node is, its problems, and pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import ZarrstackError, short
from zarrstack.core.json_text import canonical

from ...formats.describe import describe, opened
from ...jobs.job_report import StoredForm
from ...jobs.units import FORMATS, bytes_text, count_text, safe, shape_text
from ...planning.inspection import inspected
from ...recipe.options import Reading
from ...recipe.recipe import Recipe
from ..problem_groups import grouped
from .job_pictures import pictures_of_view
from .pictures import NO_PICTURES, PictureMaker, Pictures
from .rendering import attribute_lines, render
from .report_page import PAGE_SIZE

if TYPE_CHECKING:
    from ...archive.nodes import Archive, Node
    from ...planning.plans import ArrayPlan
    from ...recipe.options import Format
    from ...storage.base import Storage

_MAX_NODES: Final = 2000
_MAX_ATTRIBUTES: Final = 2_000_000
"""Maximum number of characters of all attributes together."""
_TOO_MANY: Final = "not shown: the page has too many attributes; see zarrlift inspect --json"
_DEEPEST: Final = 6
"""Nodes below are indented no further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How a program opens what is served."""

    name: str
    lines: tuple[str, ...]
    """To copy."""
    origin: str | None = None
    """Of its pages, which the server has to allow; None for a program that is no page."""
    allowed: bool = False


def page_of(place: Any, **options: Any) -> str:
    """The page on the archive at a place, with stored sizes, for which chunks are listed."""
    storage, reading, format = opened(place, options)  # noqa: A001 - as in the public functions
    archive = inspected(describe(storage, format=format, options=reading), storage, reading)
    previews = pictures(storage, format, reading, PictureMaker())
    return archive_page(archive, pictures=previews, stored=_stored(archive, storage, reading))


def pictures(storage: Storage, format: Format | None, reading: Reading, maker: PictureMaker) -> Pictures:
    """Pictures of the images of an archive, so far as there is a view of it."""
    from ...views.legacy import view_of

    try:
        view = view_of(storage, format=format, reading=reading)
    except ZarrstackError:
        return NO_PICTURES
    return pictures_of_view(view.plan, view, maker)


def archive_page(
    archive: Archive,
    *,
    pictures: Pictures = NO_PICTURES,
    stored: Mapping[str, ArrayPlan] | None = None,
    readers: Sequence[Reader] = (),
) -> str:
    """One self-contained HTML page on an archive; `stored` are plans by path, with the listed amounts."""
    arrays = [node for node in archive.nodes if hasattr(node, "layout")]
    numbers = {node.path: number for number, node in enumerate(archive.nodes)}
    return render(
        "archive.html",
        kicker="served by zarrlift" if readers else "zarrlift inspect",
        title=archive.url.rstrip("/").rpartition("/")[2] or archive.url,
        url=archive.url,
        format=FORMATS.get(archive.format, archive.format),
        conventions=[(seen.name, seen.summary) for seen in archive.conventions],
        refused=sum(node.refused for node in archive.nodes),
        figures=list(_figures(archive, arrays, stored or {})),
        readers=readers,
        groups=grouped((None, problem) for problem in archive.all_problems()),
        pictures=pictures.linked(lambda path: f"n{numbers.get(path, 0)}"),
        nodes=list(_nodes(archive, stored or {})),
        more_nodes=max(len(archive.nodes) - _MAX_NODES, 0),
        page_size=PAGE_SIZE,
    )


def _stored(archive: Archive, storage: Storage, reading: Reading) -> dict[str, ArrayPlan] | None:
    """The plan of each array, with its listed chunks; None if the archive cannot be planned or listed."""
    from ...planning.planner import make_plan

    try:
        plan, _ = make_plan(archive, storage, Recipe(), destination="", reading=reading)
    except ZarrstackError:
        return None
    return {array.path: array for array in plan.arrays} if storage.can_list else None


def _figures(
    archive: Archive, arrays: Sequence[Node], stored: Mapping[str, ArrayPlan]
) -> Iterator[tuple[str, str, str]]:
    refused = sum(node.refused for node in arrays)
    yield "Arrays", count_text(len(arrays)), f"{count_text(refused)} refused" if refused else ""
    yield "Groups", count_text(len(archive.nodes) - len(arrays)), ""
    sizes = [_decoded(node) for node in arrays]
    yield "Values", bytes_text(sum(size for size in sizes if size is not None)), "decoded, all chunks"
    if stored:
        exact = all(plan.bytes_in_known for plan in stored.values())
        total = sum(plan.bytes_in for plan in stored.values())
        yield "Stored", bytes_text(total, estimated=not exact), "chunks"
        yield "Objects", count_text(sum(plan.chunks for plan in stored.values())), "chunks that are there"


def _decoded(node: Node) -> int | None:
    layout = getattr(node, "layout", None)
    return None if layout is None else math.prod(layout.shape) * layout.item_bytes


def _nodes(archive: Archive, stored: Mapping[str, ArrayPlan]) -> Iterator[dict[str, Any]]:
    room = [_MAX_ATTRIBUTES]
    for number, node in enumerate(archive.nodes[:_MAX_NODES]):
        layout = getattr(node, "layout", None)
        array = hasattr(node, "layout")
        plan = stored.get(node.path)
        size = "" if layout is None else bytes_text(_decoded(node) or 0)
        if plan is not None:
            size = f"{bytes_text(plan.bytes_in, estimated=not plan.bytes_in_known)} of {size}"
        yield {
            "number": number,
            "path": node.path,
            "name": node.path.rpartition("/")[2] or "/",
            "depth": min(node.path.count("/") + 1, _DEEPEST) if node.path else 0,
            "kind": "refused" if node.refused else "array" if array else "group",
            "tone": "bad" if node.refused else "",
            "attributes_text": count_text(len(node.attributes), "attribute") if node.attributes else "",
            "attributes": attribute_lines(node.attributes, room, _TOO_MANY),
            "shape": "" if layout is None else shape_text(layout.shape),
            "data_type": "" if layout is None else short(safe(str(layout.data_type)), 60),
            "size": size,
            "form": None if layout is None else StoredForm.of(layout),
            "facts": list(_facts(node, plan)),
            "groups": grouped((None, problem) for problem in node.problems),
        }


def _facts(node: Node, plan: ArrayPlan | None) -> Iterator[tuple[str, str]]:
    if node.documents:
        yield "Documents", ", ".join(document.key for document in node.documents)
    if getattr(node, "implicit", False):
        yield "Document", "none: the group is implied by its members"
    layout = getattr(node, "layout", None)
    if layout is None:
        return
    yield "Shape", shape_text(layout.shape)
    names = (None if plan is None else plan.destination.dimension_names) or layout.dimension_names
    if names and any(names):
        yield "Dimensions", ", ".join(name or "-" for name in names)
    fill = "null" if node.fill_is_null else canonical(layout.fill_value)  # type: ignore[union-attr]
    yield "Fill value", short(fill, 60)
    yield "Chunk keys", str(layout.keys)
    if plan is not None:
        yield "Chunks", f"{count_text(plan.chunks)} of {count_text(layout.objects.total)} are there"
        yield "As Zarr v3", f"by {plan.route.name} ({plan.route.reason})"
