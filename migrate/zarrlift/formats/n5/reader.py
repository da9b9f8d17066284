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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zarrstack.core.errors import Problem, StorageError, UsageError, any_refusal
from zarrstack.core.grid.frames import N5Blocks
from zarrstack.core.identity_cache import Remembered
from zarrstack.core.json_text import JSONObject
from zarrstack.core.n5.dataset import (
    N5Dataset,
    describe_dataset,
    is_dataset,
    user_attributes,
    version_problem,
)
from zarrstack.core.paths import join, parents

from ...archive.nodes import Archive, ArrayNode, Document, GroupNode, Layout, Node
from ...recipe.options import Axes, Format
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from ..tree.conflicts import Native, chunks_alone
from ..tree.documents import Documents
from ..tree.nodes import placed, refuse
from ..tree.unclaimed_files import stray_notes, strays
from ..tree.unlisted import root_alone
from ..tree.walk import Found, chunk_root, passed_over, walk
from .axis_attributes import axes_note

DOCUMENT: Final = "attributes.json"
_OTHERS: Final[Mapping[str, Format]] = {".zarray": "zarr2", ".zgroup": "zarr2", "zarr.json": "zarr3"}
"""Metadata documents of other formats."""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_NATIVE: Final = Native(format="n5", archive="an N5 archive", documents=(DOCUMENT,))
_KNOWN: Final = frozenset({DOCUMENT, *_OTHERS, ".zattrs"})
"""Files that are not strays."""


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
    names = (DOCUMENT, *_OTHERS)
    if storage.can_list:
        found = walk(storage, documents=names, leaves=reader.is_dataset, follow_links=follow_links)
    else:
        found = {"": root_alone(storage, names)}
        if not reader.is_dataset(found[""]):
            raise UsageError(
                "the nodes of this archive cannot be found",
                found="a store that cannot list",
                expected="a dataset at the root",
                advice="Copy the archive to a place that can list, or name one dataset.",
            )
    nodes = reader.nodes(found)
    if not any(node.documents or isinstance(node, ArrayNode) for node in nodes):
        raise UsageError("no N5 archive is here", found=storage.url, expected=DOCUMENT)
    return Archive(url=storage.url, format="n5", nodes=nodes, problems=tuple(reader.strays))


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Converts directories to nodes, and collects problems of the archive as a whole."""

    storage: Storage
    only: bool
    axes: Axes
    documents: Documents = field(default_factory=Documents)
    strays: list[Problem] = field(default_factory=list)
    _described: Remembered[tuple[JSONObject, Layout | None, tuple[Problem, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self._described = Remembered(self._describe)

    def is_dataset(self, place: Found) -> bool:
        """Whether a directory is a dataset, by its document; False if that cannot be read."""
        data = self._parse(place)
        return isinstance(data, dict) and is_dataset(data)

    def nodes(self, found: dict[str, Found]) -> tuple[Node, ...]:
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
            for problem in self._inside(array, found[array.path].inner):
                refuse(nodes, problem)
        for path, place in found.items():
            if path not in nodes and not _below_array(path, nodes):
                nodes[path] = self._group(place)
        self.strays.extend(stray_notes([*strays(found, nodes, _KNOWN)]))
        return tuple(nodes[path] for path in sorted(nodes))

    # ----- arrays

    def _was_dataset(self, place: Found, found: Mapping[str, Found]) -> bool:
        """Whether a directory with an unreadable document was a dataset: it contains blocks, or nothing."""
        if not isinstance(self._parse(place), Problem) or not place.path:
            return False
        inner = [path for path in found if path.startswith(f"{place.path}/")]
        names = {path[len(place.path) + 1 :].partition("/")[0] for path in inner}
        return all(_NUMBER.fullmatch(name) for name in names) and not any(
            found[path].documents for path in inner
        )

    def _array(self, place: Found) -> ArrayNode:
        problems = [*place.problems, *self._other_format(place), *self._version(place)]
        data = self._parse(place)
        layout: Layout | None = None
        attributes: JSONObject = {}
        key = join(place.path, DOCUMENT)
        if isinstance(data, Problem):
            problems.append(data)
        elif data is not None:
            attributes, layout, told = self._described(data)
            problems.extend(problem.at(key=key) for problem in told)
            if layout is not None:
                problems.extend(axes_note(attributes, self.axes, len(layout.shape)))
        return ArrayNode(
            path=place.path,
            attributes=attributes,
            layout=None if any_refusal(problems) else layout,
            documents=_documents(place),
            problems=placed(problems, place.path, place.key_of(DOCUMENT)),
            bare=place.bare,
        )

    def _describe(self, data: JSONObject) -> tuple[JSONObject, Layout | None, tuple[Problem, ...]]:
        """Attributes, layout and problems of a dataset."""
        dataset, told = describe_dataset(data)
        layout = None if dataset is None else _layout(dataset, self.axes)
        return user_attributes(data), layout, tuple(told)

    def _inside(self, node: ArrayNode, inner: Sequence[str] | None) -> Iterator[Problem]:
        """Refusals for nodes inside an array's own directory, which v3 does not allow.

        Directories at the place of a row of blocks are not searched: entries in them that are not blocks are
        reported when the blocks are listed. Local archives only; elsewhere all are reported then.
        """
        if not isinstance(self.storage, LocalStorage):
            return
        rows = 0
        if node.layout is not None and node.layout.shape:
            rows = node.layout.grid.counts[-1 if self.axes == "reversed" else 0]
        try:
            names = [
                name
                for name in (self.storage.directories(node.path) if inner is None else inner)
                if not passed_over(name) and not (_NUMBER.fullmatch(name) and int(name) < rows)
            ]
            keys = [join(join(node.path, name), DOCUMENT) for name in names]
            contents = self.storage.get_many(keys)
        except StorageError as error:
            yield error.problem.at(node=node.path)
            return
        for key, content in zip(keys, contents, strict=True):
            if content is not None:
                yield Problem(
                    kind="metadata",
                    message="a node lies inside an array, where Zarr v3 has no place for it",
                    node=key.rpartition("/")[0],
                    key=key,
                    found=f"/{node.path} is an array",
                    advice="Migrate it by its own path, or move it.",
                )

    # ----- groups

    def _group(self, place: Found) -> GroupNode:
        problems = [*place.problems, *self._other_format(place), *self._version(place)]
        data = self._parse(place)
        attributes: JSONObject = {}
        if isinstance(data, Problem):
            problems.append(data)
        elif data is not None:
            attributes = user_attributes(data)
            problems.extend(axes_note(attributes, self.axes))
        return GroupNode(
            path=place.path,
            attributes=attributes,
            documents=_documents(place),
            implicit=DOCUMENT not in place.documents,
            problems=placed(problems, place.path, place.key_of(DOCUMENT)),
        )

    # ----- both

    def _parse(self, place: Found) -> JSONObject | Problem | None:
        """The document of a directory, a refusal, or None if it has none."""
        if DOCUMENT not in place.documents:
            return None
        return self.documents.read(place.documents[DOCUMENT], join(place.path, DOCUMENT))

    def _version(self, place: Found) -> Iterator[Problem]:
        """Problems of the version, which is significant at the root; elsewhere it is a copy."""
        data = self._parse(place)
        if place.path or not isinstance(data, dict) or (problem := version_problem(data)) is None:
            return
        yield problem.at(key=DOCUMENT)

    def _other_format(self, place: Found) -> Iterator[Problem]:
        return _NATIVE.foreign(place, {} if self.only else _OTHERS)


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


def _documents(place: Found) -> tuple[Document, ...]:
    if DOCUMENT not in place.documents:
        return ()
    return (Document(key=join(place.path, DOCUMENT), content=place.documents[DOCUMENT]),)
