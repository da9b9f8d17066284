"""A Zarr v3 hierarchy in Zarr v2 or N5 form: documents, keys, and the conversion of each chunk.

This is the reverse of planning a migration: the source is described in the same way, and each array gets the
nearest layout that the older format can express. If that is the array's own layout, payloads are presented
unchanged (an inner chunk of a shard as a chunk, an N5 block after a header); otherwise they are re-encoded
one by one. Arrays that no layout of the older format can hold are refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import join

from ..archive.chunk_inventory import take_inventory
from ..archive.nodes import Archive, ArrayNode, GroupNode, Layout
from ..core.grid.frames import Shards
from ..core.grid.overlap import touching
from ..core.json_document import document
from ..core.n5 import writer as write_n5
from ..core.n5.dataset import STANDARD, VERSION
from ..core.problems import attempt, warning
from ..core.zarr_v2 import writer as write_v2
from ..transfer.shard_reader import ShardReader
from ..transfer.stored_chunks import MissingObject
from .hierarchy import PresentedHierarchy, StoredValue
from .reverse_arrays import Presentation, PresentedArray, PresentedFormat

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from ..core.chain.chain import Chain
    from ..storage.base import Storage

SHOWN: Final[Mapping[PresentedFormat, str]] = {"zarr2": "Zarr v2", "n5": "N5"}
"""Supported formats and their names for people."""
DOCUMENTS: Final[Mapping[PresentedFormat, frozenset[str]]] = {
    "zarr2": frozenset({".zarray", ".zgroup", ".zattrs", ".zmetadata"}),
    "n5": frozenset({"attributes.json"}),
}

_DIMENSIONS: Final = "_ARRAY_DIMENSIONS"
"""Attribute in which xarray stores dimension names in Zarr v2."""


@dataclass(slots=True, kw_only=True)
class ReverseHierarchy(PresentedHierarchy[PresentedArray]):
    """A hierarchy as presented, and the omitted nodes."""

    problems: tuple[Problem, ...]
    """Problems of the archive, and the reasons for omitted nodes."""

    @classmethod
    def of(
        cls,
        archive: Archive,
        storage: Storage,
        store: Store,
        showing: Presentation,
        *,
        follow_links: bool = False,
    ) -> Self:
        """Present a described archive; raises nothing for nodes that cannot be presented. StorageError."""
        named = any(
            isinstance(node, ArrayNode) and node.layout is not None and bool(node.layout.dimension_names)
            for node in archive.nodes
        )
        work = _Work(storage=storage, showing=showing, named=named, problems=list(archive.problems))
        for node in archive.nodes:
            work.problems.extend(node.problems)
            if node.refused:
                continue
            if isinstance(node, GroupNode):
                work.group(node)
            else:
                work.array(node)
        if showing.format == "zarr2" and ".zgroup" in work.documents:
            work.documents[".zmetadata"] = write_v2.consolidated(work.documents)
        return cls(
            storage=storage,
            store=store,
            follow_links=follow_links,
            names=DOCUMENTS[showing.format],
            documents={key: document(content) for key, content in work.documents.items()},
            arrays=work.arrays,
            problems=tuple(work.problems),
            refusals={
                problem.node: problem
                for problem in reversed(work.problems)
                if problem.node is not None and problem.severity == "refusal"
            },
        )

    def _held(self, key: str, above: str) -> StoredValue | None:
        array = self.array_above(above)
        return None if array is None else array.held(key)


@dataclass(slots=True, kw_only=True)
class _Work:
    storage: Storage
    showing: Presentation
    named: bool
    """Whether any axis in this hierarchy has a name."""
    problems: list[Problem]
    documents: dict[str, JSONObject] = field(default_factory=dict)
    arrays: dict[str, PresentedArray] = field(default_factory=dict)

    def group(self, node: GroupNode) -> None:
        attributes = dict(node.attributes)
        if self.showing.format == "zarr2":
            self._put(node.path, ".zgroup", {"zarr_format": 2})
            if attributes:
                self._put(node.path, ".zattrs", attributes)
            return
        problems: list[Problem] = []
        attempt(problems, lambda: write_n5.require_own_names(attributes, dataset=False))
        if not self._refused(node.path, problems):
            self._put(node.path, "attributes.json", {**self._version(node.path), **attributes})

    def array(self, node: ArrayNode) -> None:
        assert node.layout is not None
        if self.showing.format == "zarr2":
            self._array_v2(node, node.layout)
        else:
            self._array_n5(node, node.layout)

    def _array_v2(self, node: ArrayNode, layout: Layout) -> None:
        problems: list[Problem] = []
        fill: JSON = None
        chain = attempt(problems, lambda: write_v2.chain_for_v2(layout.chain, len(layout.shape)))
        if chain is not None:
            fill = self._fill(
                node.path,
                layout,
                lambda: write_v2.fill_for_v2(layout.fill_value, layout.data_type, chain),
                problems,
            )
        if self._refused(node.path, problems) or chain is None:
            return
        if fill is not None and _for_xarray(node.attributes, layout):
            if self._whole(node.path, layout):
                fill = None
            else:
                self.problems.append(_MASK.at(node=node.path))
        self._put(
            node.path,
            ".zarray",
            write_v2.array_document(
                shape=layout.shape,
                chunks=layout.chunk_shape,
                data_type=layout.data_type,
                chain=chain,
                fill=fill,
                separator=self.showing.separator,
            ),
        )
        if attributes := _with_dimensions(node.attributes, layout, named=self.named):
            self._put(node.path, ".zattrs", attributes)
        self._show(node.path, layout, chain)

    def _array_n5(self, node: ArrayNode, layout: Layout) -> None:
        problems: list[Problem] = []
        axes, attributes = self.showing.axes, dict(node.attributes)
        attempt(problems, lambda: write_n5.require_own_names(attributes, dataset=True))
        chain = attempt(
            problems,
            lambda: write_n5.chain_for_n5(layout.chain, layout.data_type, len(layout.shape), axes),
        )
        members: JSONObject = {}
        if chain is not None:
            described = attempt(
                problems,
                lambda: write_n5.dataset_members(
                    shape=layout.shape,
                    chunks=layout.chunk_shape,
                    data_type=layout.data_type,
                    chain=chain,
                    axes=axes,
                ),
            )
            members = described or {}
        if layout.data_type.name in STANDARD:
            self._fill(
                node.path,
                layout,
                lambda: write_n5.require_zero_fill(layout.fill_value, layout.data_type),
                problems,
            )
        if not self._refused(node.path, problems) and chain is not None:
            self._put(node.path, "attributes.json", {**self._version(node.path), **members, **attributes})
            self._show(node.path, layout, chain)

    def _fill(self, path: str, layout: Layout, write: Callable[[], JSON], problems: list[Problem]) -> JSON:
        """The fill value in the older format; null if it cannot be expressed and no chunk is missing."""
        own: list[Problem] = []
        fill = attempt(own, write)
        if own and not self._whole(path, layout):
            problems += [replace(own[0], advice="It could be shown if no chunk were missing.")]
        return fill

    def _whole(self, path: str, layout: Layout) -> bool:
        """Whether all chunks of an array exist, so that its fill value is never visible."""
        inventory = take_inventory(self.storage, path, layout)
        if not inventory.certain or len(inventory.indexes) < layout.objects.total:
            return False
        if not isinstance(layout.frame, Shards):
            return True
        shards, objects, grid = ShardReader(self.storage, path, layout), layout.objects, layout.grid
        try:
            return all(
                len(shards.present(number)) == len(touching(objects.coordinates(number), objects, grid))
                for number in range(objects.total)
            )
        except (ZarrstackError, MissingObject):
            return False  # a faulty shard is reported when it is read

    def _refused(self, path: str, problems: list[Problem]) -> bool:
        name = SHOWN[self.showing.format]
        key = join(path, "zarr.json")
        self.problems += [
            replace(p, message=f"not shown as {name}: {p.message}").at(node=path, key=key) for p in problems
        ]
        return bool(problems)

    def _show(self, path: str, layout: Layout, chain: Chain) -> None:
        self.arrays[path] = PresentedArray(self.storage, path, layout, chain, self.showing)

    def _put(self, path: str, name: str, content: JSONObject) -> None:
        self.documents[join(path, name)] = content

    def _version(self, path: str) -> JSONObject:
        """The version member; at the root only."""
        return {} if path else {VERSION: write_n5.WRITTEN_VERSION}


def _for_xarray(attributes: Mapping[str, JSON], layout: Layout) -> bool:
    """Whether xarray reads this array and would mistake its v2 fill value for a mask.

    In v3 the mask is the attribute `_FillValue`; in v2 it is the fill value itself (xarray 2026.9).
    """
    return bool(layout.dimension_names or not layout.shape) and "_FillValue" not in attributes


_MASK: Final = warning(
    "convention",
    "xarray treats the fill value of Zarr v2 as a mask, and chunks are missing",
    advice="Open it with mask_and_scale=False, or use_zarr_fill_value_as_mask=False if supported.",
)


def _with_dimensions(attributes: Mapping[str, JSON], layout: Layout, *, named: bool) -> JSONObject:
    """Attributes with xarray's dimension names added, if all axes are named and the attribute is absent.

    An array without axes gets an empty list, which v3 documents omit and xarray requires.
    """
    names = () if named and not layout.shape else layout.dimension_names
    if names is None or _DIMENSIONS in attributes or not all(isinstance(name, str) for name in names):
        return dict(attributes)
    return {**attributes, _DIMENSIONS: list(names)}
