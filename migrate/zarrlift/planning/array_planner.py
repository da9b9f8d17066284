"""Plans one array; results that depend only on layout and recipe are shared between arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from math import prod
from typing import TypeAlias

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.json_text import JSON, JSONObject

from ..archive.chunk_inventory import (
    NOT_LISTED,
    Inventory,
    nothing_there,
    require_countable,
    take_settled_inventory,
)
from ..archive.nodes import ArrayNode, Layout, Node
from ..conventions.apply import ConventionChanges
from ..conventions.base import Change
from ..core.identity_cache import IdentityCache
from ..core.problems import any_refusal, note, refusal
from ..formats.tree.directory import located, unfollowed_link
from ..recipe.recipe import ArrayRecipe
from ..storage.base import Storage
from .chunk_checks import (
    TrailingBytes,
    damage_problem,
    exact_size,
    fit_problem,
    memory_problem,
    object_problem,
    size_problems,
)
from .destination import destination_layout
from .estimates import DENSE, figures
from .inventories import Inventories, digests
from .n5_checks import block_problems, mode_problem, shard_problem
from .plans import ArrayPlan
from .reader_limits import reader_problems
from .regrid.blocks import Blocks, choose_blocks, mean_inner_chunk, memory_of_pairs
from .routes import Move, Route, route_between
from .zarr_json import array_head, strict_attributes

_Notes: TypeAlias = tuple[Problem, ...]


@dataclass(eq=False)
class ArrayPlanner:
    """Plans the arrays of one archive."""

    storage: Storage
    applied: ConventionChanges
    _: KW_ONLY
    in_place: bool
    follow_links: bool
    listing: bool
    budget: int
    """Bytes, for `sharing` workers."""
    buffers: int
    """Bytes of each worker for pending requests."""
    sharing: int | None = None
    earlier: Mapping[str, Layout]
    """The layouts of an existing result by path."""
    inventories: Inventories | None
    """May have an earlier listing of an array, which need not be repeated; counts what is listed."""

    def __post_init__(self) -> None:
        self._trailing = TrailingBytes(self.storage)
        self._destination = IdentityCache(self._new_destination)
        self._way = IdentityCache(self._new_way)
        self._countable = IdentityCache(require_countable)
        self._head = IdentityCache(array_head)
        self._exact_size = IdentityCache(exact_size)
        self._strict = IdentityCache(strict_attributes)

    def plan(
        self, node: ArrayNode, recipe: ArrayRecipe, children: frozenset[str]
    ) -> tuple[ArrayPlan, Inventory]:
        """The plan and problems for an array that is not refused, and the listing made for it.

        `children` are names below the array that belong to other nodes. Raises the error that excludes the
        array.
        """
        source = node.layout_with(recipe.zero_fill)
        assert source is not None  # refused nodes are not planned
        change = self.applied.change(node.path)
        problems = [*node.problems, *self.applied.problems_of(node.path)]
        inventory = self._inventory(node, source, children, recipe)
        destination, notes = self._destined(node, source, recipe, inventory)
        # A refusal concerns the content of the array's document, which is the first of its documents.
        key = node.documents[0].key if node.documents else None
        problems.extend(located(notes, node.path, key))
        if change.dimension_names is not None:
            destination = replace(destination, dimension_names=change.dimension_names)
        attributes, notes = self.attributes(node, change, recipe)
        problems.extend(notes)
        route, blocks = self._way(source, destination, recipe)
        if self.in_place and route.name != "stay":
            raise UsageError(
                "in place only metadata is added, but this recipe changes chunks",
                node=node.path,
                found=f"a change of {route.reason}",
                advice="Migrate to a new destination, or omit the option.",
            )
        problems.extend(_inventory_problems(node, source, inventory))
        if node.fill_is_zero and recipe.zero_fill is None:
            problems.extend(_zero_fill_problems(node, source, inventory, key))
        problems.extend(self._chunk_problems(node, source, inventory, route, recipe, key))
        document: JSONObject = {}
        if not any_refusal(problems):
            # The layout of a refused array is the source's, which a v3 document may be unable to express.
            document = {**self._head(destination), "attributes": attributes}
            contents = [legacy.content for legacy in node.documents]
            problems.extend([problem.at(node=node.path) for problem in reader_problems(document, contents)])
        stored_bytes = inventory.total_bytes
        raw = prod(source.chunk_shape) * (source.data_type.itemsize or 32)
        bytes_in = stored_bytes if stored_bytes is not None else len(inventory.indexes) * raw // DENSE
        if isinstance(blocks, Problem):
            problems.append(blocks.at(node=node.path))
            blocks = None
        worked = figures(source, destination, route, bytes_in, inventory, blocks)
        if blocks is not None:
            from .regrid.two_passes import pass_figures, passes_note, two_passes

            worked["memory"] = blocks.memory
            passes = None
            if self.listing:
                passes = two_passes(
                    source,
                    destination,
                    blocks,
                    self.budget,
                    node.path,
                    buffers=self.buffers,
                    sharing=self.sharing,
                )
            if passes is not None:
                problems.append(passes_note(passes, blocks).at(node=node.path))
                blocks = passes.second
                worked |= figures(source, destination, route, bytes_in, inventory, blocks, decoded=True)
                worked |= pass_figures(passes, source, inventory, bytes_in)
        elif route.name != "stay":
            worked["memory"] = memory_of_pairs(source, destination, self.buffers)
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
                buffer_shape=None if blocks is None else blocks.piece,
                sweep_shape=None if blocks is None else blocks.run,
            ),
            document=document,
            fill_is_null=node.fill_is_null,
            chunks=len(inventory.indexes),
            bytes_in=bytes_in,
            bytes_in_known=stored_bytes is not None,
            **worked,
            fingerprint=inventory.fingerprint,
            source_digests=digests(node.documents),
            problems=tuple(problems),
        )
        return planned, inventory

    def attributes(self, node: Node, change: Change, recipe: ArrayRecipe) -> tuple[JSONObject, _Notes]:
        """The attributes of a node's result, and notes about them."""
        values: Mapping[str, JSON] = node.attributes if change.attributes is None else change.attributes
        if recipe.attributes == "keep":
            return dict(values), ()
        strict, notes = self._strict(values)
        return strict, tuple([note.at(node=node.path) for note in notes])

    def _inventory(
        self, node: ArrayNode, source: Layout, children: frozenset[str], recipe: ArrayRecipe
    ) -> Inventory:
        if not self.listing and not (node.fill_is_zero and recipe.zero_fill is None):
            return NOT_LISTED
        if node.only_documents:
            self._countable(source)
            return nothing_there()
        if self.inventories is not None and (earlier := self.inventories.reuse(node)) is not None:
            return earlier
        return take_settled_inventory(
            self.storage,
            node.path,
            source,
            children=children,
            follow_links=self.follow_links,
            count=None if self.inventories is None else self.inventories.count,
        )

    def _destined(
        self, node: ArrayNode, source: Layout, recipe: ArrayRecipe, inventory: Inventory
    ) -> tuple[Layout, _Notes]:
        """The layout of the result; only shards depend on the stored size of a chunk."""
        if recipe.shards is None:
            return self._destination(source, recipe, node.fill_is_null)
        size = mean_inner_chunk(source, inventory)
        layout, notes = destination_layout(node, recipe, in_place=self.in_place, inner_chunk_bytes=size)
        earlier = self.earlier.get(node.path)
        if recipe.shards != "auto" or earlier is None or earlier.chunk_shape != layout.chunk_shape:
            return layout, notes
        if earlier.frame != layout.frame:
            layout = replace(layout, frame=earlier.frame)
            notes = tuple(note for note in notes if note.kind != "grid")  # the reason for other shards
        return layout, notes

    def _new_destination(
        self, source: Layout, recipe: ArrayRecipe, fill_is_null: bool
    ) -> tuple[Layout, _Notes]:
        alike = ArrayNode(path="", layout=source, fill_is_null=fill_is_null)
        return destination_layout(alike, recipe, in_place=self.in_place)

    def _new_way(
        self, source: Layout, destination: Layout, recipe: ArrayRecipe
    ) -> tuple[Route, Blocks | Problem | None]:
        route = route_between(source, destination, same_place=self.in_place, drop_empty=recipe.drop_empty)
        return route, choose_blocks(source, destination, self.budget, self.buffers, sharing=self.sharing)

    def _chunk_problems(
        self,
        node: ArrayNode,
        source: Layout,
        inventory: Inventory,
        route: Route,
        recipe: ArrayRecipe,
        key: str | None,
    ) -> list[Problem]:
        """Problems found in the chunks themselves."""
        if not len(inventory.indexes):
            return []
        problems: list[Problem] = []
        stays = route.name == "stay"
        if (shards := shard_problem(node.path, self.storage, source, inventory, always=stays)) is not None:
            return [shards]
        if stays:
            problems.extend(block_problems(node.path, self.storage, source, inventory))
        elif (other := mode_problem(node.path, self.storage, source, inventory)) is not None:
            problems.append(other)
        for name, large in size_problems(source, inventory):
            problems.append(large.at(node=node.path, key=source.prefix(node.path) + name))
        if problems:
            return problems
        size = self._exact_size(source)
        if (wrong := memory_problem(source, inventory) or fit_problem(source, inventory)) is not None:
            problems.append(wrong.at(node=node.path, key=key))
        elif (wrong := damage_problem(node.path, self.storage, source, inventory, size)) is not None:
            problems.append(wrong)
        elif source.data_type.name == "object" and recipe.objects == "refuse" and route.name == "rewrite":
            other = object_problem(node.path, self.storage, source, inventory)
            problems.extend([] if other is None else [other])
        trailing = self._trailing.problem(node.path, source, inventory, stay=stays)
        return problems if trailing is None else [*problems, trailing]


def _zero_fill_problems(
    node: ArrayNode, source: Layout, inventory: Inventory, key: str | None
) -> list[Problem]:
    """A refusal if the values of missing chunks depend on what the fill value 0 of text means."""
    missing = source.objects.total - len(inventory.indexes)
    if not missing:
        return []
    return [
        Problem(
            kind="fill",
            node=node.path,
            key=key,
            message=f"the fill value 0 of text is ambiguous, and is the value of {missing} missing chunks"
            if inventory.certain
            else "the fill value 0 of text is ambiguous, and missing chunks cannot be told from others here",
            found="0: the text '0' (zarr-python 2.18), or no text (other readers)",
            expected='"" or the text "0"; zarr-python 3 rejects 0',
            advice="Decide with --set zero-fill=text or --set zero-fill=empty, for all or in a recipe.",
        )
    ]


def _inventory_problems(node: ArrayNode, source: Layout, inventory: Inventory) -> list[Problem]:
    problems = []
    if node.fill_is_null and inventory.certain:
        missing = source.objects.total - len(inventory.indexes)
        if missing:
            problems.append(
                note(
                    "fill-null",
                    f"fill_value null becomes {source.fill_value!r}, the value of {missing} missing chunks",
                    node=node.path,
                )
            )
    if inventory.unclaimed_count:
        names = ", ".join(repr(name) for name in inventory.unclaimed)
        more = "" if inventory.unclaimed_count == len(inventory.unclaimed) else ", ..."
        problems.append(
            note(
                "stray",
                f"{inventory.unclaimed_count} objects of no chunk are not copied: {names}{more}",
                node=node.path,
            )
        )
    for key, target in inventory.bad_links:
        problems.append(unfollowed_link(node.path, key, target))
    for key, what in inventory.no_files:
        problems.append(
            refusal(
                "chunk",
                "an entry in the place of a chunk is not a file",
                node=node.path,
                key=key,
                found=what,
                expected="a regular file, or nothing",
                advice="Restore the chunk, remove the entry, or exclude the array.",
            )
        )
    return problems
