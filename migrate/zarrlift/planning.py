"""(Archive, Recipe) -> Plan. Deciding is done here, all of it, before anything is touched."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import replace
from math import prod

from zarrstack.core.errors import (
    MetadataError,
    Problem,
    UnsupportedError,
    UsageError,
    ZarrstackError,
    any_refusal,
)
from zarrstack.core.jsons import JSON, JSONObject
from zarrstack.core.paths import names_below, parents

from .archive import Archive, ArrayNode, Document, GroupNode, Layout
from .conventions import Applied, apply_conventions
from .destination import destination_layout
from .documents import array_document, group_document, strict_attributes
from .formats.nodes import placed
from .formats.walk import leading_away
from .inventory import NOT_LISTED, Inventory, take_inventory
from .planning_blocks import choose_blocks, mean_leaf, memory_budget, memory_of_pairs, store_buffers
from .planning_chunks import fit_problem, memory_problem, object_problem
from .planning_figures import DENSE, figures
from .planning_n5 import block_problems, mode_problem
from .planning_passes import pass_figures, passes_note, two_passes
from .planning_readers import reader_problems
from .plans import ArrayPlan, GroupPlan, Move, Plan, Refusal
from .read_options import ReadOptions
from .recipe import ArrayRecipe, Recipe
from .route import route_between
from .storage import LocalStorage, Storage

__all__ = ["ArrayPlan", "GroupPlan", "Inventories", "Move", "Plan", "Refusal", "make_plan"]

Inventories = dict[str, Inventory]
"""Listings made while planning, by array path; a run that follows at once need not list again."""


def digest(content: bytes) -> str:
    """The digest by which a metadata document is recognised."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def digests(documents: tuple[Document, ...]) -> tuple[tuple[str, str], ...]:
    """(key, digest) of each document."""
    return tuple((document.key, digest(document.content)) for document in documents)


def make_plan(
    archive: Archive,
    storage: Storage,
    recipe: Recipe,
    *,
    destination: str | None,
    free_bytes: int | None = None,
    reading: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    listing: bool = True,
) -> tuple[Plan, Inventories]:
    """The plan for an archive, and the chunk listings made on the way.

    `destination` is None in place. Without `listing` no chunk is looked for: the plan then says
    how arrays will lie, and nothing of what is there. A node that cannot be migrated becomes a `Refusal`;
    only a recipe that makes no sense at all raises (UsageError).
    """
    in_place = destination is None
    budget = memory_budget(recipe.memory)
    arrays: list[ArrayPlan] = []
    groups: list[GroupPlan] = []
    refusals: list[Refusal] = []
    inventories: Inventories = {}
    chosen = {node.path for node in archive.nodes if recipe.selects(node.path)}
    needed = {parent for path in chosen for parent in parents(path)} | chosen
    children = names_below(node.path for node in archive.nodes)
    applied = apply_conventions(archive, storage, recipe, in_place=in_place)
    for node in map(applied.described, archive.nodes):
        if node.path not in needed:
            continue
        if isinstance(node, GroupNode):
            files = () if in_place else applied.files.get(node.path, ())
            _plan_group(node, recipe.for_array(node.path), applied, files, groups, refusals)
            continue
        told = applied.told(node.path)
        if node.refused or any_refusal(told):
            refusals.append(Refusal(path=node.path, kind="array", problems=(*node.problems, *told)))
            continue
        try:
            planned, inventory = _plan_array(
                node,
                storage,
                recipe.for_array(node.path),
                applied,
                in_place=in_place,
                children=children.get(node.path, frozenset()),
                follow_links=reading.follow_links,
                listing=listing,
                budget=budget,
                buffers=store_buffers(storage, destination),
            )
        except UsageError:
            raise
        except ZarrstackError as error:
            if isinstance(error, MetadataError | UnsupportedError) and node.documents:
                error.at(key=node.documents[0].key)  # a grid beyond counting, for one
            why = (*node.problems, error.at(node=node.path).problem)
            refusals.append(Refusal(path=node.path, kind="array", problems=why))
            continue
        if any_refusal(planned.problems):
            refusals.append(Refusal(path=node.path, kind="array", problems=planned.problems))
            continue
        arrays.append(planned)
        inventories[node.path] = inventory
    consolidate = archive.consolidated if recipe.consolidate is None else recipe.consolidate
    root_is_group = any(group.path == "" for group in groups)
    strays = archive.problems if in_place else applied.strays(archive.problems)
    problems = [*strays, *_unmatched(recipe, archive)]
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
    if recipe.model is not None:
        from .models.requirement import unmet

        problems.extend(unmet(recipe.model, result))
    need = sum(array.bytes_out for array in arrays)
    if free_bytes is not None and need > free_bytes:
        problems.append(
            Problem(
                kind="space",
                severity="warning",
                message="the destination may not have room for the result",
                found=f"{free_bytes} bytes free",
                expected=f"about {need} bytes",
                advice="Free some space, or choose another place.",
            )
        )
    return replace(result, problems=tuple(problems)), inventories


def free_space(storage: Storage) -> int | None:
    """Free bytes where `storage` lies, or would lie; None where that cannot be told."""
    if not isinstance(storage, LocalStorage):
        return None
    place = storage.root
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        return shutil.disk_usage(place).free
    except OSError:
        return None


def _plan_group(
    node: GroupNode,
    recipe: ArrayRecipe,
    applied: Applied,
    files: tuple[str, ...],
    groups: list[GroupPlan],
    refusals: list[Refusal],
) -> None:
    told = applied.told(node.path)
    if node.refused or any_refusal(told):
        refusals.append(Refusal(path=node.path, kind="group", problems=(*node.problems, *told)))
        return
    change = applied.change(node.path)
    meant = node.attributes if change.attributes is None else change.attributes
    attributes, problems = _attributes(meant, recipe, node.path)
    document = group_document(attributes)
    readers = reader_problems(document, [legacy.content for legacy in node.documents])
    groups.append(
        GroupPlan(
            path=node.path,
            document=document,
            files=files,
            source_digests=digests(node.documents),
            problems=(
                *node.problems,
                *told,
                *problems,
                *(problem.at(node=node.path) for problem in readers),
            ),
        )
    )


def _attributes(
    attributes: Mapping[str, JSON], recipe: ArrayRecipe, path: str
) -> tuple[Mapping[str, JSON], tuple[Problem, ...]]:
    if recipe.attributes == "keep":
        return attributes, ()
    strict, problems = strict_attributes(attributes)
    return strict, tuple(problem.at(node=path) for problem in problems)


def _plan_array(
    node: ArrayNode,
    storage: Storage,
    recipe: ArrayRecipe,
    applied: Applied,
    *,
    in_place: bool,
    children: frozenset[str],
    follow_links: bool,
    listing: bool,
    budget: int,
    buffers: int,
) -> tuple[ArrayPlan, Inventory]:
    assert node.layout is not None  # refused nodes do not come here
    source = node.layout
    change = applied.change(node.path)
    problems = [*node.problems, *applied.told(node.path)]
    inventory = NOT_LISTED
    if listing:
        inventory = take_inventory(storage, node.path, source, children=children, follow_links=follow_links)
    destination, notes = destination_layout(
        node, recipe, in_place=in_place, leaf_bytes=mean_leaf(source, inventory)
    )
    # A refusal is about what the array's document says, which is the first of its documents.
    key = node.documents[0].key if node.documents else None
    problems.extend(placed(notes, node.path, key))
    if change.dimension_names is not None:
        destination = replace(destination, dimension_names=change.dimension_names)
    meant = node.attributes if change.attributes is None else change.attributes
    attributes, notes = _attributes(meant, recipe, node.path)
    problems.extend(notes)
    route = route_between(source, destination, same_place=in_place, drop_empty=recipe.drop_empty)
    if in_place and route.name != "stay":
        raise UsageError(
            "in place only metadata is added; this recipe changes chunks",
            node=node.path,
            found=f"a change of {route.reason}",
            advice="Migrate to a new place instead, or leave the option out.",
        )
    problems.extend(_inventory_problems(node, source, inventory))
    if route.name == "stay":
        problems.extend(block_problems(node.path, storage, source, inventory))
    elif (other := mode_problem(node.path, storage, source, inventory)) is not None:
        problems.append(other)
    if (wrong := memory_problem(source, inventory) or fit_problem(source, inventory)) is not None:
        problems.append(wrong.at(node=node.path, key=key))
    elif source.data_type.name == "object" and recipe.objects == "refuse" and route.name == "rewrite":
        other = object_problem(node.path, storage, source, inventory)
        problems.extend([] if other is None else [other])
    document: JSONObject = {}
    if not any_refusal(problems):
        # A layout that is refused is the source's, which no document of v3 may be able to say.
        document = array_document(destination, attributes)
        contents = [legacy.content for legacy in node.documents]
        problems.extend(problem.at(node=node.path) for problem in reader_problems(document, contents))
    known = inventory.total_bytes
    raw = prod(source.chunk_shape) * (source.data_type.itemsize or 32)
    bytes_in = known if known is not None else len(inventory.indexes) * raw // DENSE
    blocks = choose_blocks(source, destination, budget, buffers)
    if isinstance(blocks, Problem):
        problems.append(blocks.at(node=node.path))
        blocks = None
    worked = figures(source, destination, route, bytes_in, inventory, blocks)
    if blocks is not None:
        worked["memory"] = blocks.memory
        passes = None
        if listing:
            passes = two_passes(source, destination, blocks, budget, node.path, buffers=buffers)
        if passes is not None:
            problems.append(passes_note(passes, blocks).at(node=node.path))
            blocks = passes.second
            worked |= figures(source, destination, route, bytes_in, inventory, blocks)
            worked |= pass_figures(passes, source, inventory, bytes_in)
    elif route.name != "stay":
        worked["memory"] = memory_of_pairs(source, destination, buffers)
    planned = ArrayPlan(
        move=Move(
            path=node.path,
            source=source,
            destination=destination,
            route=route,
            casting=recipe.casting,
            objects=recipe.objects,
            allow_pickle=recipe.allow_pickle,
            drop_empty=recipe.drop_empty,
            block_shape=None if blocks is None else blocks.shape,
            piece_shape=None if blocks is None else blocks.piece,
            run_shape=None if blocks is None else blocks.run,
        ),
        document=document,
        fill_is_null=node.fill_is_null,
        chunks=len(inventory.indexes),
        bytes_in=bytes_in,
        bytes_in_known=known is not None,
        **worked,
        fingerprint=inventory.fingerprint,
        source_digests=digests(node.documents),
        problems=tuple(problems),
    )
    return planned, inventory


def _inventory_problems(node: ArrayNode, source: Layout, inventory: Inventory) -> list[Problem]:
    problems = []
    missing = source.objects.total - len(inventory.indexes)
    if node.fill_is_null and missing and inventory.certain:
        problems.append(
            Problem(
                kind="fill-null",
                severity="note",
                node=node.path,
                message=f"fill_value null becomes {source.fill_value!r}, "
                f"which {missing} missing chunks will show",
            )
        )
    if inventory.stray_count:
        names = ", ".join(repr(name) for name in inventory.strays)
        more = "" if inventory.stray_count == len(inventory.strays) else ", ..."
        problems.append(
            Problem(
                kind="stray",
                severity="note",
                node=node.path,
                message=f"{inventory.stray_count} objects belong to no chunk and stay behind: {names}{more}",
            )
        )
    for key, target in inventory.bad_links:
        problems.append(leading_away(node.path, key, target))
    for key, what in inventory.no_files:
        problems.append(
            Problem(
                kind="chunk",
                node=node.path,
                key=key,
                message="what stands in the place of a chunk cannot be one",
                found=what,
                expected="a file, or nothing",
                advice="Restore the chunk, move away what is there, or exclude the array.",
            )
        )
    return problems


def _unmatched(recipe: Recipe, archive: Archive) -> list[Problem]:
    """A warning for each glob of the recipe that matches no node."""
    return [
        Problem(
            kind="recipe",
            severity="warning",
            message=f"the pattern {pattern!r} matches no node",
            advice="Patterns are matched against whole paths; '**' crosses groups.",
        )
        for pattern in recipe.unmatched(node.path for node in archive.nodes)
    ]
