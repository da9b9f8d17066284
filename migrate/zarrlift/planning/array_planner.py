"""Plans one array; results that depend only on layout and recipe are shared between arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from math import prod
from typing import Final, TypeAlias

from zarrstack.core.errors import Problem, UnsupportedError, UsageError
from zarrstack.core.json_text import JSON, JSONObject

from ..archive.chunk_inventory import (
    NOT_LISTED,
    Inventory,
    inventory_by_names,
    list_objects,
    take_inventory,
    take_settled_inventory,
)
from ..archive.nodes import ArrayNode, Layout, Node, PassedThrough
from ..conventions import Change
from ..conventions.apply import ConventionChanges
from ..core.chain.unchanged_bytes import keep_problems
from ..core.grid.frames import N5Blocks
from ..core.grid.pattern_keys import PatternKeys
from ..core.identity_cache import IdentityCache
from ..core.problems import any_refusal
from ..formats.tree.directory import located
from ..recipe.parsing import is_by_size
from ..recipe.recipe import ArrayRecipe, Recipe
from ..storage.base import Storage
from .blocks import Blocks, mean_inner_chunk, memory_of_pairs, payload_blocks
from .chunk_checks import (
    TrailingBytes,
    damage_problem,
    document_key,
    exact_size,
    fit_problem,
    listing_problems,
    memory_problem,
    number_as_text_problems,
    object_problem,
    size_problems,
)
from .destination import destination_layout
from .equal_chains import equal_layout
from .estimates import Ratio, Samples, Work, work_of
from .inventories import Inventories, digest, digests
from .plans import ArrayPlan
from .reader_limits import reader_problems
from .recipe_checks import changes_payloads, refuse_changes
from .routes import Move, Route, route_between
from .several_frames import Kind, SeveralFrames
from .zarr_json import array_head, strict_attributes

_Notes: TypeAlias = tuple[Problem, ...]
_GROWN: Final = 1.2
"""How many times larger an array must become to be noted, and by how many bytes."""
_WORTH_NOTING: Final = 4096


@dataclass(frozen=True, kw_only=True)
class _Conversion:
    """What arrays have in common whose layouts and recipes are the same objects."""

    source: Layout
    destination: Layout
    notes: _Notes
    """Problems with the destination, without nodes."""
    route: Route
    blocks: Blocks | Problem | None
    buffers: int
    """Bytes of each worker for pending requests."""

    @cached_property
    def head(self) -> JSONObject:
        """The result's `zarr.json` without attributes."""
        return array_head(self.destination)

    @cached_property
    def without_attributes(self) -> JSONObject:
        """The whole `zarr.json` of a result without attributes."""
        return {**self.head, "attributes": {}}

    @cached_property
    def decoded_bytes(self) -> int:
        """The size in bytes of a decoded object of the source; an estimate for variable length."""
        return prod(self.source.object_shape) * self.source.item_bytes

    @cached_property
    def exact_size(self) -> int | None:
        """The size in bytes of every stored chunk of the source, if they have one."""
        return exact_size(self.source)

    @cached_property
    def unfit(self) -> Problem | None:
        """A refusal of any chunk; without chunks, every reader finds only the fill value."""
        return memory_problem(self.source) or fit_problem(self.source)

    @cached_property
    def memory(self) -> int | None:
        """Bytes of one worker where chunks are moved one by one."""
        if self.route.name == "stay":
            return None
        return memory_of_pairs(self.source, self.destination, self.buffers)


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
    samples: Samples | None
    """Without it, sizes are guessed."""
    inventories: Inventories | None
    """May have an earlier listing of an array, which need not be repeated; counts what is listed."""

    def __post_init__(self) -> None:
        self.grown: list[tuple[int, int, tuple[str, ...]]] = []
        """Bytes of the source and of the result of arrays that become much larger; values of `--codecs` that
        keep the bytes.
        """
        self._trailing = TrailingBytes(self.storage)
        self._several = SeveralFrames(self.storage)
        self._equal = IdentityCache(self._new_equal)
        self._conversion = IdentityCache(self._new_conversion)
        self._strict = IdentityCache(strict_attributes)
        self._digest = IdentityCache(digest)  # the content of most documents is that of many others

    def plan(
        self, node: ArrayNode, recipe: ArrayRecipe, children: frozenset[str]
    ) -> tuple[ArrayPlan, Inventory]:
        """The plan and problems for an array that is not refused, and the listing made for it.

        `children` are names below the array that belong to other nodes. Raises the error that excludes the
        array.
        """
        source = node.layout_with(recipe.zero_fill)
        assert source is not None  # refused nodes are not planned
        inventory = self._inventory(node, source, children, recipe)
        source, renamed, kind = self._equal(source, recipe)
        problems = [*node.problems, *self.applied.problems_of(node.path)]
        problems.extend([problem.at(node=node.path) for problem in renamed])
        if kind is not None:
            kept = self.in_place or recipe.codecs.mode == "keep"
            source, several = self._several.described(kind, node.path, source, inventory, kept=kept)
            problems.extend(several)
        change = self.applied.change(node.path)
        if recipe.shards is None:
            conversion = self._conversion(source, recipe, change.dimension_names, node.fill_is_null)
        else:
            conversion = self._sharded(node, source, recipe, change.dimension_names, inventory)
        source, destination, route = conversion.source, conversion.destination, conversion.route
        problems.extend(located(conversion.notes, node.path, document_key(node)))
        attributes, notes = self.attributes(node, change, recipe)
        problems.extend(notes)
        if self.in_place and route.name != "stay":
            raise UsageError(
                "in place only metadata is added, but this recipe changes chunks",
                node=node.path,
                found=f"a change of {route.reason}",
                advice="Migrate to a new destination, or omit the option.",
            )
        problems.extend(self._source_problems(node, conversion, inventory, recipe))
        document: JSONObject = {}
        if not any_refusal(problems):
            # The layout of a refused array is the source's, which a v3 document may be unable to express.
            document = conversion.without_attributes
            if attributes:
                document = {**conversion.head, "attributes": attributes}
            contents = [legacy.content for legacy in node.documents]
            problems.extend([problem.at(node=node.path) for problem in reader_problems(document, contents)])
        blocks = None
        if isinstance(conversion.blocks, Problem):
            problems.append(conversion.blocks.at(node=node.path))
        else:
            blocks = conversion.blocks
        move = Move(path=node.path, source=source, destination=destination, route=route, values=recipe.values)
        ratio = None
        encodes = route.decodes or (route.name == "reframe" and isinstance(source.frame, N5Blocks))
        if self.samples is not None and encodes and inventory.certain and not any_refusal(problems):
            ratio = self.samples(move, inventory)
        work, blocks, notes = self._work(move, inventory, blocks, ratio, conversion)
        problems.extend(notes)
        if blocks is not None:
            move = move._replace(block_shape=blocks.shape, piece_shape=blocks.piece, run_shape=blocks.run)
        planned = self._planned(node, move, document, inventory, work, problems)
        if ratio is not None and recipe.codecs.mode == "portable" and not changes_payloads(recipe):
            self._note_growth(planned, recipe)
        return planned, inventory

    def _note_growth(self, planned: ArrayPlan, recipe: ArrayRecipe) -> None:
        """Remember an array that becomes much larger, if an option avoids it."""
        before, after, source = planned.bytes_in, planned.bytes_out, planned.source
        if after <= _GROWN * before or after - before < _WORTH_NOTING:
            return
        named = replace(recipe, codecs="registered")
        ways = ["registered"] if equal_layout(source, named)[0].chain != source.chain else []
        if not any(keep_problems(source.chain, source.data_type)):
            ways.append("keep")
        if ways:
            self.grown.append((before, after, tuple(ways)))

    def pass_through(
        self, node: ArrayNode, passed: PassedThrough, recipe: Recipe, children: frozenset[str]
    ) -> tuple[ArrayPlan, Inventory]:
        """The plan of an array that cannot be described: its document and its objects are copied unchanged.

        Raises the error that excludes the array.
        """
        refuse_changes(recipe, node.path)
        count = None if self.inventories is None else self.inventories.count
        layout, inventory = passed.objects or Layout.of_objects(PatternKeys()), NOT_LISTED
        if self.listing and self.storage.can_list:
            layout, inventory = list_objects(
                self.storage, node.path, children=children, follow_links=self.follow_links, count=count
            )
        elif passed.objects is None and not self.storage.can_list:
            raise UnsupportedError(
                "its objects cannot be found: the store cannot be listed",
                found=passed.unknown,
                advice="Copy the archive to a store that can be listed.",
            )
        elif self.listing:
            inventory = take_inventory(self.storage, node.path, layout)
        route = Route(name="pass", shared=0, reason=passed.unknown)
        work = work_of(layout, layout, route, inventory, None, memory=None)
        move = Move(path=node.path, source=layout, destination=layout, route=route)
        problems = (
            *node.problems,
            *self.applied.problems_of(node.path),
            *listing_problems(node, layout, inventory),
        )
        planned = self._planned(node, move, passed.document, inventory, work, problems)
        verbatim = node.documents[0].content.decode("utf-8", "surrogateescape")
        return replace(planned, verbatim=verbatim, fill_is_null=True), inventory

    def _work(
        self,
        move: Move,
        inventory: Inventory,
        blocks: Blocks | None,
        ratio: Ratio | None,
        conversion: _Conversion,
    ) -> tuple[Work, Blocks | None, _Notes]:
        """The work of moving the chunks, the blocks in which they are moved, and a note about two passes."""
        path, source, destination, route = move.path, move.source, move.destination, move.route
        if blocks is None:
            memory = conversion.memory
            work = work_of(source, destination, route, inventory, None, memory=memory, ratio=ratio)
            return work, None, ()
        if self.listing:
            from .two_passes import passes_note, two_passes, work_of_passes

            passes = two_passes(
                source, destination, blocks, self.budget, path, buffers=self.buffers, sharing=self.sharing
            )
            if passes is not None:
                work = work_of_passes(passes, source, destination, route, inventory, ratio)
                return work, passes.second, (passes_note(passes, blocks).at(node=path),)
        work = work_of(source, destination, route, inventory, blocks, memory=blocks.memory, ratio=ratio)
        return work, blocks, ()

    def attributes(self, node: Node, change: Change, recipe: ArrayRecipe) -> tuple[JSONObject, _Notes]:
        """The attributes of a node's result, and notes about them."""
        values: Mapping[str, JSON] = node.attributes if change.attributes is None else change.attributes
        if recipe.attributes == "keep" or not values:
            return dict(values), ()
        strict, notes = self._strict(values)
        return strict, tuple([note.at(node=node.path) for note in notes])

    def _inventory(
        self, node: ArrayNode, source: Layout, children: frozenset[str], recipe: ArrayRecipe
    ) -> Inventory:
        if not self.listing and not (node.number_as_text and recipe.zero_fill is None):
            return NOT_LISTED
        if self.inventories is not None and (earlier := self.inventories.reuse(node)) is not None:
            return earlier
        if (known := inventory_by_names(self.storage, node.path, source, node.chunk_names)) is not None:
            return known
        return take_settled_inventory(
            self.storage,
            node.path,
            source,
            children=children,
            follow_links=self.follow_links,
            count=None if self.inventories is None else self.inventories.count,
        )

    def _sharded(
        self,
        node: ArrayNode,
        source: Layout,
        recipe: ArrayRecipe,
        names: tuple[str | None, ...] | None,
        inventory: Inventory,
    ) -> _Conversion:
        """The conversion into shards, which depend on the stored size of a chunk."""
        size = mean_inner_chunk(source, inventory)
        earlier = self.earlier.get(node.path) if is_by_size(recipe.shards) else None
        return self._new_conversion(source, recipe, names, node.fill_is_null, size, earlier)

    def _new_equal(self, source: Layout, recipe: ArrayRecipe) -> tuple[Layout, _Notes, Kind | None]:
        """The layout with the names of codecs that a recipe wants, problems, and whose chunks to look at."""
        equal, problems = equal_layout(source, recipe)
        return equal, problems, self._several.kind_of(equal)

    def _new_conversion(
        self,
        source: Layout,
        recipe: ArrayRecipe,
        names: tuple[str | None, ...] | None,
        fill_is_null: bool,
        inner_chunk_bytes: float | None = None,
        earlier: Layout | None = None,
    ) -> _Conversion:
        if names is not None:
            source = replace(source, dimension_names=names)
        alike = ArrayNode(path="", layout=source, fill_is_null=fill_is_null)
        destination, notes = destination_layout(
            alike, recipe, in_place=self.in_place, inner_chunk_bytes=inner_chunk_bytes
        )
        if (
            earlier is not None
            and earlier.chunk_shape == destination.chunk_shape
            and earlier.frame != destination.frame
        ):
            destination = replace(destination, frame=earlier.frame)
            notes = tuple(note for note in notes if note.kind != "grid")  # the reason for other shards
        blocks: Blocks | Problem | None
        if source.chunk_shape == destination.chunk_shape:
            blocks = payload_blocks(source, destination, self.budget, self.buffers)
        else:
            from .boxes import choose_blocks  # most archives keep their chunks

            blocks = choose_blocks(source, destination, self.budget, self.buffers, sharing=self.sharing)
        return _Conversion(
            source=source,
            destination=destination,
            notes=notes,
            route=route_between(source, destination, same_place=self.in_place, values=recipe.values),
            blocks=blocks,
            buffers=self.buffers,
        )

    def _source_problems(
        self, node: ArrayNode, conversion: _Conversion, inventory: Inventory, recipe: ArrayRecipe
    ) -> list[Problem]:
        """Problems found in the listing of the chunks, and in the first of them."""
        source = conversion.source
        problems = listing_problems(node, source, inventory)
        if node.number_as_text and recipe.zero_fill is None:
            problems.extend(number_as_text_problems(node, source, inventory))
        if len(inventory.indexes):
            problems.extend(self._chunk_problems(node, conversion, inventory, recipe))
        return problems

    def _chunk_problems(
        self, node: ArrayNode, conversion: _Conversion, inventory: Inventory, recipe: ArrayRecipe
    ) -> list[Problem]:
        source, route = conversion.source, conversion.route
        path, storage, stays = node.path, self.storage, route.name == "stay"
        problems: list[Problem] = []
        if isinstance(source.frame, N5Blocks):
            from .n5_checks import n5_problems  # most archives have no such blocks

            problems.extend(n5_problems(path, storage, source, inventory, stays=stays))
        for name, large in size_problems(source, inventory, conversion.decoded_bytes):
            problems.append(large.at(node=path, key=source.prefix(path) + name))
        if problems:
            return problems
        if (unfit := conversion.unfit) is not None:
            problems.append(unfit.at(node=path, key=document_key(node)))
        elif (wrong := damage_problem(path, storage, source, inventory, conversion.exact_size)) is not None:
            problems.append(wrong)
        elif source.data_type.name == "object" and recipe.objects == "refuse" and route.name == "rewrite":
            other = object_problem(path, storage, source, inventory)
            problems.extend([] if other is None else [other])
        trailing = self._trailing.problem(path, source, inventory, stay=stays)
        return problems if trailing is None else [*problems, trailing]

    def _planned(
        self,
        node: ArrayNode,
        move: Move,
        document: JSONObject,
        inventory: Inventory,
        work: Work,
        problems: Sequence[Problem],
    ) -> ArrayPlan:
        return ArrayPlan(
            move=move,
            document=document,
            fill_is_null=node.fill_is_null,
            chunks=len(inventory.indexes),
            bytes_in=work.bytes_in,
            bytes_in_known=inventory.total_bytes is not None,
            bytes_out=work.bytes_out,
            bytes_out_known=work.bytes_out_known,
            bounds=work.bounds,
            times_read=work.times_read,
            reads=work.reads,
            objects_out=work.objects_out,
            memory=work.memory,
            between=work.between,
            fingerprint=inventory.fingerprint,
            source_digests=digests(node.documents, self._digest),
            problems=tuple(problems),
        )
