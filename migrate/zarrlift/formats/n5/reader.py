"""Reads an N5 container from any storage as `Archive`.

Specification: https://github.com/saalfeldlab/n5/blob/master/README.md#file-system-specification, version
4.0.0. Behaviour of its writers (observed with the Java library 1.5 to 4.0, z5py 3.0, zarr-python 2,
tensorstore):

- Every directory is a group, without a marker: `attributes.json` exists only if it has attributes.
- A dataset differs from a group by the members of that document (`is_dataset`).
- Java allows datasets below datasets, next to the outer one's blocks. An array of Zarr v3 has no
  children, so the inner ones are refused.
- The root states the version of the specification; zarr-python states it in every group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.grid.frames import N5Blocks
from zarrstack.core.identity_cache import IdentityCache
from zarrstack.core.json_text import JSONObject
from zarrstack.core.n5.dataset import (
    N5Dataset,
    describe_dataset,
    is_dataset,
    user_attributes,
    version_problem,
)
from zarrstack.core.paths import join, parents

from ...archive.nodes import Archive, ArrayNode, GroupNode, Layout, Node
from ...recipe.options import Axes
from ...storage.base import Storage
from ..tree.conflicts import chunks_alone, nodes_inside
from ..tree.directory import NodeDirectory
from ..tree.nodes import refuse
from ..tree.reader import NativeFormat, TreeReader
from ..tree.unlisted import root_alone, unknown_nodes
from ..tree.walk import chunk_root, walk
from .axis_attributes import axes_note

DOCUMENT: Final = "attributes.json"
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_NATIVE: Final = NativeFormat(
    format="n5",
    archive="an N5 archive",
    documents=(DOCUMENT,),
    sources=frozenset({DOCUMENT}),
    others={".zarray": "zarr2", ".zgroup": "zarr2", "zarr.json": "zarr3"},
    known=frozenset({DOCUMENT, ".zarray", ".zgroup", ".zattrs", "zarr.json"}),
)


def read(
    storage: Storage, *, follow_links: bool = False, only: bool = False, axes: Axes = "reversed"
) -> Archive:
    """Describe the archive, with the axes of its arrays in the requested order.

    With `only`, N5 was requested: documents of other formats next to its own are ignored instead of refused.
    `follow_links` allows links to leave the archive.

    Raises UsageError if there is no N5 archive, StorageError if the root cannot be read; all other errors are
    problems of the archive or of a node.
    """
    reader = _Reader(storage=storage, only=only, axes=axes)
    names = (DOCUMENT, *_NATIVE.others)
    if storage.can_list:
        found = walk(storage, documents=names, is_array=reader.is_dataset, follow_links=follow_links)
    else:
        found = {"": root_alone(storage, names)}
        if not reader.is_dataset(found[""]):
            raise unknown_nodes(
                expected="a dataset at the root",
                advice="Copy the archive to a store that can be listed, or open one dataset by its own URL.",
            )
    nodes = reader.nodes(found)
    if not any(node.documents or isinstance(node, ArrayNode) for node in nodes):
        raise UsageError("no N5 archive found", found=storage.url, expected=DOCUMENT)
    return Archive(url=storage.url, format="n5", nodes=nodes, problems=tuple(reader.problems))


@dataclass(slots=True, kw_only=True)
class _Reader(TreeReader):
    native: ClassVar[NativeFormat] = _NATIVE
    axes: Axes
    _described: IdentityCache[tuple[JSONObject, Layout | None, tuple[Problem, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self._described = IdentityCache(self._describe)

    def is_dataset(self, place: NodeDirectory) -> bool:
        """Whether a directory is a dataset, by its document; False if that cannot be read."""
        data = self._parse(place)
        return isinstance(data, dict) and is_dataset(data)

    def nodes(self, found: dict[str, NodeDirectory]) -> tuple[Node, ...]:
        """All nodes, sorted."""
        nodes: dict[str, Node] = {}
        for path, place in found.items():
            if self.is_dataset(place) or self._was_dataset(place, found):
                nodes[path] = self._array(place)
        arrays = [node for node in nodes.values() if isinstance(node, ArrayNode)]
        for path, place in found.items():
            root = chunk_root(path, found)
            if place.chunk is not None and path and not _below_array(path, nodes):
                problem = chunks_alone(root, join(path, place.chunk), DOCUMENT, called="blocks")
                nodes[root] = ArrayNode(path=root, problems=(problem,))
        for array in arrays:
            self._refuse_inside(array, found[array.path], nodes)
        for path, place in found.items():
            if path not in nodes and not _below_array(path, nodes):
                nodes[path] = self._group(place)
        return self.sorted(nodes, found)

    # ----- arrays

    def _was_dataset(self, place: NodeDirectory, found: Mapping[str, NodeDirectory]) -> bool:
        """Whether a directory with an unreadable document was a dataset: it contains blocks, or nothing."""
        if not isinstance(self._parse(place), Problem) or not place.path:
            return False
        inner = [path for path in found if path.startswith(f"{place.path}/")]
        names = {path[len(place.path) + 1 :].partition("/")[0] for path in inner}
        return all(_NUMBER.fullmatch(name) for name in names) and not any(
            found[path].documents for path in inner
        )

    def _array(self, place: NodeDirectory) -> ArrayNode:
        problems = [*self.problems_at(place), *self._version(place)]
        data = self.parse(place, DOCUMENT, problems)
        layout: Layout | None = None
        attributes: JSONObject = {}
        if data is not None:
            attributes, layout, told = self._described(data)
            problems.extend(problem.at(key=join(place.path, DOCUMENT)) for problem in told)
            if layout is not None:
                problems.extend(axes_note(attributes, self.axes, len(layout.shape)))
        return self.array(place, problems, attributes=attributes, layout=layout)

    def _describe(self, data: JSONObject) -> tuple[JSONObject, Layout | None, tuple[Problem, ...]]:
        """Attributes, layout and problems of a dataset."""
        dataset, told = describe_dataset(data)
        layout = None if dataset is None else _layout(dataset, self.axes)
        return user_attributes(data), layout, tuple(told)

    def _refuse_inside(self, array: ArrayNode, place: NodeDirectory, nodes: dict[str, Node]) -> None:
        """Refuse nodes inside an array's own directory, which v3 does not allow.

        Directories at the place of a row of blocks are not searched: entries in them that are not blocks are
        reported when the blocks are listed.
        """
        rows = 0
        if array.layout is not None and array.layout.shape:
            rows = array.layout.grid.counts[-1 if self.axes == "reversed" else 0]
        for problem in nodes_inside(
            self.storage, place, (DOCUMENT,), lambda name: _NUMBER.fullmatch(name) and int(name) < rows
        ):
            refuse(nodes, problem)

    # ----- groups

    def _group(self, place: NodeDirectory) -> GroupNode:
        problems = [*self.problems_at(place), *self._version(place)]
        data = self.parse(place, DOCUMENT, problems)
        attributes: JSONObject = {}
        if data is not None:
            attributes = user_attributes(data)
            problems.extend(axes_note(attributes, self.axes))
        return self.group(place, problems, attributes)

    # ----- both

    def _parse(self, place: NodeDirectory) -> JSONObject | Problem | None:
        """The document of a directory, a refusal, or None if it has none."""
        if DOCUMENT not in place.documents:
            return None
        return self.documents.read(place.documents[DOCUMENT], join(place.path, DOCUMENT))

    def _version(self, place: NodeDirectory) -> Iterator[Problem]:
        """Problems of the version, which is significant at the root; elsewhere it is a copy."""
        data = self._parse(place)
        if place.path or not isinstance(data, dict) or (problem := version_problem(data)) is None:
            return
        yield problem.at(key=DOCUMENT)


def _layout(dataset: N5Dataset, axes: Axes) -> Layout:
    return Layout(
        shape=dataset.shape(axes),
        data_type=dataset.data_type,
        fill_value=dataset.fill_value,
        chunk_shape=dataset.chunk_shape(axes),
        chain=dataset.chain(axes),
        keys=dataset.keys(axes),
        frame=N5Blocks(axes),
    )


def _below_array(path: str, nodes: Mapping[str, Node]) -> bool:
    """Whether a path is inside an array's own directory."""
    return any(isinstance(nodes.get(above), ArrayNode) for above in parents(path))
