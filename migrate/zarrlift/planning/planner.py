"""(Archive, Recipe) -> Plan. All decisions are made here, before anything is changed."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Literal

from zarrstack.core.errors import (
    MetadataError,
    Problem,
    StorageError,
    UnsupportedError,
    UsageError,
    ZarrstackError,
)
from zarrstack.core.paths import join
from zarrstack.core.similar_names import did_you_mean

from ..archive.nodes import Archive, ArrayNode, GroupNode, Layout, Node
from ..conventions.apply import ConventionChanges, apply_conventions, look_for
from ..core.json_document import document
from ..core.node_paths import names_below
from ..core.problems import any_refusal, note, refusal, warning
from ..core.units import bytes_text
from ..formats.tree.documents import read_each
from ..recipe.options import Reading
from ..recipe.recipe import ArrayRecipe, Recipe
from ..storage.base import Storage
from ..storage.local.files import existing_directory
from ..storage.local.storage import LocalStorage
from .array_planner import ArrayPlanner
from .blocks import memory_budget, store_buffers, worker_budget
from .estimates import Samples
from .inventories import Inventories, digests
from .plans import ArrayPlan, GroupPlan, Plan, Refusal
from .reader_limits import reader_problems
from .recipe_checks import partly_applied, unchanged_arrays, unconverted_nodes
from .zarr_json import group_document

_DOCUMENT: Final = "zarr.json"


def make_plan(
    archive: Archive,
    storage: Storage,
    recipe: Recipe,
    *,
    destination: str | None,
    free_bytes: int | None = None,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    listing: bool = True,
    elsewhere: bool = False,
    inventories: Inventories | None = None,
    earlier: Mapping[str, Layout] | None = None,
    samples: Samples | None = None,
) -> Plan:
    """The plan for an archive.

    `destination` is None in place. Without `listing`, chunks are not listed: the plan then contains layouts,
    but no amounts. `elsewhere`: workers are on other machines, and the memory is that of each. Listings are
    put into `inventories`, which may hold earlier ones that are still valid; by default, none is kept.
    `earlier` are the layouts of an existing result by path, whose automatic shards are kept. `samples`
    re-encodes a few chunks, to estimate sizes; without it, they are guessed.
    A node that cannot be migrated becomes a `Refusal`; only a recipe that is invalid for every array raises
    (UsageError).
    """
    in_place = destination is None
    budget = worker_budget(recipe.memory) if elsewhere else memory_budget(recipe.memory)
    arrays: list[ArrayPlan] = []
    groups: list[GroupPlan] = []
    refusals: list[Refusal] = []
    unnoticed = 0
    needed = recipe.needed(node.path for node in archive.nodes)
    children = names_below(node.path for node in archive.nodes)
    applied = apply_conventions(archive, storage, recipe, in_place=in_place)
    planner = ArrayPlanner(
        storage,
        applied,
        in_place=in_place,
        follow_links=reading.follow_links,
        listing=listing,
        budget=budget,
        buffers=store_buffers(storage, destination),
        sharing=1 if elsewhere else None,
        earlier=earlier or {},
        samples=samples,
        inventories=inventories,
    )
    for node in map(applied.described, archive.nodes):
        if node.path not in needed:
            continue
        convention_problems = applied.problems_of(node.path)
        if node.refused or any_refusal(convention_problems):
            kind: Literal["array", "group"] = "group" if isinstance(node, GroupNode) else "array"
            refusals.append(
                Refusal(path=node.path, kind=kind, problems=(*node.problems, *convention_problems))
            )
            continue
        if isinstance(node, GroupNode):
            files = () if in_place else applied.files.get(node.path, ())
            group = _group_plan(node, recipe.for_array(node.path), applied, planner, files)
            if any_refusal(group.problems):
                refusals.append(Refusal(path=node.path, kind="group", problems=group.problems))
            else:
                groups.append(group)
            continue
        try:
            below = children.get(_directory(node), frozenset())
            if node.passed is not None:
                planned, inventory = planner.pass_through(node, node.passed, recipe, below)
            else:
                planned, inventory = planner.plan(node, recipe.for_array(node.path), below)
        except UsageError:
            raise
        except ZarrstackError as error:
            if isinstance(error, MetadataError | UnsupportedError) and node.documents:
                error.at(key=node.documents[0].key)  # for example, a grid too large to count
            why = (*node.problems, error.at(node=node.path).problem)
            refusals.append(Refusal(path=node.path, kind="array", problems=why))
            continue
        if any_refusal(planned.problems):
            refusals.append(Refusal(path=node.path, kind="array", problems=planned.problems))
            continue
        arrays.append(planned)
        unnoticed += not inventory.notices_rewriting
        if inventories is not None:
            inventories[node.path] = inventory
    consolidate = archive.consolidated if recipe.consolidate is None else recipe.consolidate
    root_is_group = any(group.path == "" for group in groups)
    strays = archive.problems if in_place else applied.strays(archive.problems)
    passed = [array.path for array in arrays if array.route.name == "pass"]
    problems = [*strays, *_unmatched(recipe, archive), *unchanged_arrays(recipe, passed)]
    problems += unconverted_nodes(recipe, applied.unconverted)
    problems += [*_unnoticed(unnoticed), *_unlisted(storage, arrays)]
    problems.extend(_grown(planner.grown))
    result = Plan(
        source=archive.url,
        destination=archive.url if destination is None else destination,
        in_place=in_place,
        format=archive.format,
        recipe=recipe,
        arrays=tuple(arrays),
        groups=tuple(groups),
        refusals=tuple(refusals),
        excluded=tuple(node.path for node in archive.nodes if node.path not in needed),
        consolidate=consolidate and root_is_group,
        reading=reading,
        source_digests=digests(archive.documents),
        conventions=applied.seen,
        free_bytes=free_bytes,
    )
    problems += partly_applied(result)
    need = sum(array.bytes_out for array in arrays)
    if free_bytes is not None and need > free_bytes:
        problems.append(
            warning(
                "space",
                "the destination may not have enough free space",
                found=f"{free_bytes} bytes free",
                expected=f"about {need} bytes",
                advice="Free some space, or choose another destination.",
            )
        )
    return replace(result, problems=tuple(problems))


def _directory(node: ArrayNode) -> str:
    """Path of the directory with the chunks of an array."""
    return node.path if node.layout is None or node.layout.root is None else node.layout.root


def _unlisted(storage: Storage, arrays: Sequence[ArrayPlan]) -> list[Problem]:
    """A note on how missing chunks are found where the source cannot be listed."""
    if storage.can_list or not arrays:
        return []
    return [
        note(
            "no-listing",
            "the source cannot be listed: each chunk is requested, and one reported as missing"
            f" ({storage.absence}) has the fill value",
            found=f"{sum(array.source.objects.total for array in arrays)} possible chunks",
        )
    ]


def free_space(storage: Storage) -> int | None:
    """Free bytes at the location of `storage`; None if unknown."""
    if not isinstance(storage, LocalStorage):
        return None
    place = existing_directory(storage.root)
    try:
        return shutil.disk_usage(place).free
    except OSError:
        return None


def _group_plan(
    node: GroupNode,
    recipe: ArrayRecipe,
    applied: ConventionChanges,
    planner: ArrayPlanner,
    files: tuple[str, ...],
) -> GroupPlan:
    attributes, notes = planner.attributes(node, applied.change(node.path), recipe)
    document = group_document(attributes)
    readers = reader_problems(document, [legacy.content for legacy in node.documents])
    limits = [problem.at(node=node.path) for problem in readers]
    return GroupPlan(
        path=node.path,
        document=document,
        files=files,
        source_digests=digests(node.documents),
        problems=(*node.problems, *applied.problems_of(node.path), *notes, *limits),
    )


def _unnoticed(arrays: int) -> list[Problem]:
    """A note if the source's listing of some arrays contains nothing that reveals a rewritten chunk."""
    if not arrays:
        return []
    return [
        note(
            "no-versions",
            "chunks that are rewritten during the job cannot be detected",
            found=f"no ETags or times in the listing of the source, for {arrays} arrays",
            advice="Do not write to the source until the job is complete.",
        )
    ]


def _grown(arrays: Sequence[tuple[int, int, tuple[str, ...]]]) -> list[Problem]:
    """A note on arrays whose decoded values take much more space, with the ways to avoid this."""
    if not arrays:
        return []
    before, after = (sum(figures[place] for figures in arrays) for place in (0, 1))  # type: ignore[misc]
    ways = [
        f"--codecs {way}" for way in ("registered", "keep") if any(way in figures[2] for figures in arrays)
    ]
    count = f"{len(arrays)} array" + ("s are" if len(arrays) > 1 else " is")
    return [
        note(
            "size",
            f"{count} foreseen to become {after / max(before, 1):.1f} times as large with portable codecs",
            found=f"{bytes_text(before)} stored",
            expected=f"about {bytes_text(after)}",
            advice=f"To keep the stored bytes, for fewer readers: {' or '.join(ways)}.",
        )
    ]


def _unmatched(recipe: Recipe, archive: Archive) -> list[Problem]:
    """A warning for each glob of the recipe that matches no node."""
    paths = [node.path for node in archive.nodes]
    return [
        warning(
            "recipe",
            f"the pattern {pattern!r} matches no node",
            advice=did_you_mean(pattern, paths) or "Give a pattern of whole paths; '**' crosses groups.",
        )
        for pattern in recipe.unmatched(paths)
    ]


def refuse_existing_documents(plan: Plan, storage: Storage) -> Plan:
    """A plan in place without the nodes that have a `zarr.json` with other content already.

    Documents that the job would write unchanged remain from an earlier migration.
    """
    if not plan.in_place:
        return plan
    nodes = plan.published
    keys = [join(node.path, _DOCUMENT) for node in nodes]
    refused = {}
    for node, key, content in zip(nodes, keys, read_each(storage, keys), strict=True):
        if content is None or content == (document(plan.document("")) if not node.path else node.content):
            continue
        problem = refusal(
            "format",
            f"another {_DOCUMENT} already exists, which a migration in place does not replace",
            node=node.path,
            key=key,
            advice="Move it away, or migrate to a new destination.",
        )
        if isinstance(content, StorageError):
            problem = content.problem.at(node=node.path, key=key)
        kind: Literal["array", "group"] = "array" if isinstance(node, ArrayPlan) else "group"
        refused[node.path] = Refusal(path=node.path, kind=kind, problems=(*node.problems, problem))
    return replace(
        plan,
        arrays=tuple(array for array in plan.arrays if array.path not in refused),
        groups=tuple(group for group in plan.groups if group.path not in refused),
        refusals=(*plan.refusals, *refused.values()),
    )


def inspected(archive: Archive, storage: Storage, reading: Reading) -> Archive:
    """The archive with its conventions, and with the refusals of a plan without options.

    Chunks are listed where that is no request, in a directory and in most containers: only a plan lists the
    chunks of a store. Raises nothing because of the archive's content.
    """
    plan = make_plan(
        archive,
        storage,
        Recipe(),
        destination="",
        reading=reading,
        listing=storage.can_list and storage.requests is None,
    )
    with_conventions = look_for(archive, storage)
    refused = {refusal.path: refusal.problems for refusal in plan.refusals}
    if not refused:
        return with_conventions
    return replace(
        with_conventions,
        nodes=tuple(_refused(node, refused.get(node.path, ())) for node in with_conventions.nodes),
        problems=tuple(
            p for p in with_conventions.problems if p.severity != "refusal" or p.node not in refused
        ),
    )


def _refused(node: Node, problems: tuple[Problem, ...]) -> Node:
    """A node with the refusals of its plan."""
    new = [p for p in problems if p.severity == "refusal" and p not in node.problems]
    return replace(node, problems=(*node.problems, *new)) if new else node


@contextmanager
def without_collecting() -> Iterator[None]:
    """Make many objects that live on without looking for cycles among them.

    Collections of older generations took a fifth of the plan of 100,000 arrays.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
