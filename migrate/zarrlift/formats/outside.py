"""Describes an archive with the format of another package, and checks what that says.

What is wrong with one node refuses that node. Only a format that fails as a whole, or gives something that is
no node, is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import index
from typing import Any, Final

from zarrstack.core.errors import MetadataError, Problem, UsageError, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..archive.nodes import ArrayNode, GroupNode, Layout, Node, SourceDocument
from ..core.data_types.v3 import DataType, fill_to_json, zero_fill
from ..core.grid.chunk_keys import chunk_keys_of
from ..core.grid.chunk_keys_pattern import PatternKeys
from ..core.problems import any_refusal, refusal
from ..recipe.format_names import provider
from .description import Array, Group
from .files import Files
from .registry import broken, find
from .tree.conflicts import refuse_below_arrays
from .tree.node_names import name_problems
from .tree.nodes import implicit_group, located, refuse
from .tree.open_tree import Tree
from .tree.reader import Describer
from .tree.unclaimed_files import unclaimed_files
from .zarr_v3.array import V3ArrayDescriber

_WRONG: Final = "the format {!r} of {} describes this node wrongly: "


class _OutsideNodes(Describer):
    """Nodes as a format of another package describes them, after checks."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self.format = tree.row.name
        self.files = Files(self)
        self.describer = V3ArrayDescriber()

    def may_hold_chunks(self, layout: Layout | None, name: str) -> bool:
        """Whether the first segment of a chunk's key may have a name."""
        if layout is not None and isinstance(layout.keys, PatternKeys):
            return layout.keys.fits(0, name)
        return name == "c" or super().may_hold_chunks(layout, name)

    def nodes(self) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        for described in self._described_by_format():
            if not isinstance(described, Array | Group | Problem):
                expected = "zarrlift.formats.Array, Group, or a Problem"
                raise broken(self.format, "describes something else", excerpt(described), expected)
            if isinstance(described, Problem):
                self._add_problem(nodes, described)
            elif self._path(described.path) in nodes:
                refuse(nodes, self._wrong("it is described twice").at(node=described.path))
            else:
                try:
                    nodes[described.path] = self._node(described)
                except Exception as error:  # noqa: BLE001 - fields may be anything
                    refuse(nodes, self.files.problem(error, described.path))
        for path, place in self.tree.directories.items():
            if place.problems and path not in nodes:
                nodes[path] = implicit_group(path, place.problems)
        if not nodes:
            expected = ", ".join(self.tree.row.nodes)
            raise UsageError(
                f"no {self.format} archive found", found=self.tree.storage.url, expected=expected
            )
        refuse_below_arrays(nodes)
        arrays = (path for path, node in nodes.items() if isinstance(node, ArrayNode) and node.layout)
        self.refuse_inside([path for path in arrays if path in self.tree.directories], nodes)
        nodes.setdefault("", implicit_group(""))
        self.complete(nodes)
        return nodes

    def strays(self, nodes: Mapping[str, Node]) -> Iterable[str]:
        layouts = (node.layout for node in nodes.values() if isinstance(node, ArrayNode))
        if any(layout is not None and layout.root is not None for layout in layouts):
            return ()
        names = {each.key.rpartition("/")[2] for node in nodes.values() for each in node.documents}
        return unclaimed_files(self.tree.directories, nodes, {*names, *self.tree.row.nodes})

    def _described_by_format(self) -> Iterator[object]:
        """What the format gives, which may be anything; UsageError if it fails."""
        try:
            yield from find(self.format)().read(self.files)
        except (ZarrstackError, MemoryError):
            raise
        except Exception as error:  # a plug-in may raise anything
            raise broken(
                self.format, "fails to read an archive", f"{type(error).__name__}: {error}"
            ) from error

    def _add_problem(self, nodes: dict[str, Node], problem: Problem) -> None:
        if problem.node is None or problem.severity in ("note", "warning"):
            self.tree.problems.append(problem)
        else:
            refuse(nodes, replace(problem, node=self._path(problem.node), severity="refusal"))

    def _path(self, path: object) -> str:
        """A path that is text; UsageError for anything else, which no node can be named by."""
        if not isinstance(path, str) or path.startswith("/") or path.endswith("/"):
            raise broken(
                self.format, "gives something else than the path of a node", excerpt(path), "such as 'a/b'"
            )
        return path

    def _node(self, described: Array | Group) -> Node:
        return self._group(described) if isinstance(described, Group) else self._array(described)

    def _group(self, group: Group) -> GroupNode:
        problems = self._problems_of(group.path)
        documents = self._documents(group.documents, problems)
        attributes = self._json(group.attributes, "attributes are", problems)
        return GroupNode(
            path=group.path,
            attributes=attributes if isinstance(attributes, dict) else {},
            documents=documents,
            implicit=not documents,
            problems=located(problems, group.path, documents[0].key if documents else None),
        )

    def _array(self, array: Array) -> ArrayNode:
        problems = self._problems_of(array.path)
        documents = self._documents(array.documents, problems)
        if not array.documents:
            problems.append(self._wrong("it names no documents, whose changes would not be noticed"))
        attributes = self._json(array.attributes, "attributes are", problems)
        layout = self._layout(array, problems)
        for document in documents:
            if layout is not None and is_chunk(layout, array.path, document.key):
                problems.append(self._wrong("a document of it is one of its chunks", document.key))
        all_problems = located(problems, array.path, documents[0].key if documents else None)
        return ArrayNode(
            path=array.path,
            attributes=attributes if isinstance(attributes, dict) else {},
            layout=None if any_refusal(all_problems) else layout,
            fill_is_null=array.fill_value is None,
            documents=documents,
            problems=all_problems,
        )

    def _layout(self, array: Array, problems: list[Problem]) -> Layout | None:
        """The layout, checked as that of a `zarr.json`; None after adding a problem."""
        try:
            shape, chunk_shape = _lengths(array.shape, "shape"), _lengths(array.chunk_shape, "chunk_shape")
            names = None if array.dimension_names is None else list(array.dimension_names)
            fill = array.fill_value
            if fill is None:
                data_type = DataType.from_json(array.data_type)
                fill = fill_to_json(zero_fill(data_type), data_type)
            keys = chunk_keys_of(_text(array.keys, "keys"), len(shape))
            directory = None if array.directory is None else _text(array.directory, "directory")
            if directory and (wrong := name_problems(directory)) and any_refusal(wrong):
                raise MetadataError("directory is not a path in the archive", found=excerpt(directory))
        except ZarrstackError as error:
            problems.append(self._wrong(error.problem.message, error.problem.found, error.problem.expected))
            return None
        except (TypeError, ValueError) as error:
            problems.append(self._wrong(str(error)))
            return None
        document: Any = {
            "shape": shape,
            "data_type": array.data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk_shape}},
            "chunk_key_encoding": {"name": "default"},
            "fill_value": fill,
            "codecs": list(array.codecs),
            "dimension_names": names,
        }
        document = self._json(document, "description is", problems)
        if document is None:
            return None
        described = self.describer.describe(document)
        problems.extend(
            self._wrong(problem.message, problem.found, problem.expected) for problem in described.problems
        )
        if described.layout is None:
            return None
        root = None if directory == array.path else directory
        return replace(described.layout, keys=keys, root=root)

    def _documents(self, keys: Any, problems: list[Problem]) -> tuple[SourceDocument, ...]:
        documents = []
        for key in (keys,) if isinstance(keys, str) else keys:
            try:
                content = self.files.content(key)
            except ZarrstackError as error:
                problems.append(error.problem)
                continue
            if content is None:
                problems.append(self._wrong("a document that it names does not exist", excerpt(key)))
            else:
                documents.append(SourceDocument(key=key, content=content))
        return tuple(documents)

    def _problems_of(self, path: str) -> list[Problem]:
        """Problems of the name, and of the directory if it was visited."""
        place = self.tree.directories.get(path)
        return name_problems(path) if place is None else list(place.problems)

    def _json(self, value: Any, what: str, problems: list[Problem]) -> JSON:
        """A value as JSON gives it; None, after adding a problem, if it has none."""
        try:
            if isinstance(value, Mapping):
                result: JSONObject = json.loads(json.dumps(dict(value)))
                return result
            found = excerpt(value)
        except (TypeError, ValueError, RecursionError) as error:
            found = str(error)
        problems.append(self._wrong(f"its {what} not JSON", found))
        return None

    def _wrong(self, message: str, found: str | None = None, expected: str | None = None) -> Problem:
        """The refusal of a node because of what the format says of it."""
        package = provider(self.format)
        return refusal(
            "format",
            _WRONG.format(self.format, package) + message,
            found=found,
            expected=expected,
            advice=f"Check its document; if that is valid, report this to the authors of {package}.",
        )


def _lengths(lengths: Any, what: str) -> list[int]:
    """Lengths as JSON; those of numpy are converted."""
    try:
        return [index(length) for length in lengths]
    except TypeError:
        raise MetadataError(
            f"{what} is not a list of lengths", found=excerpt(lengths), expected="whole numbers"
        ) from None


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise MetadataError(f"{what} is not text", found=excerpt(value))
    return value


def is_chunk(layout: Layout, path: str, key: str) -> bool:
    """Whether a key is that of a chunk of the array at a path."""
    prefix = layout.prefix(path)
    if not key.startswith(prefix):
        return False
    place = layout.keys.coordinates(key.removeprefix(prefix), len(layout.shape))
    return place is not None and layout.objects.index(place) is not None


describer = _OutsideNodes
