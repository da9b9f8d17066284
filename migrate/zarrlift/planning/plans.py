"""A plan as plain data, which is printed, stored in the job and sent to workers."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ..archive.chunk_columns import Indexes
from ..archive.nodes import Layout, RecognizedConvention, layout_from_json, layout_to_json
from ..archive.notebook import NotebookResult
from ..core.json_document import document
from ..core.json_fields import FieldsAsJSON, json_of_fields
from ..recipe.options import Format, Reading
from ..recipe.recipe import Recipe, ValueOptions
from .routes import IntermediateArray, Move, Route, shapes_from_json, shapes_to_json
from .zarr_json import consolidate

_value_options = cache(ValueOptions)  # arrays share them


# Without `__slots__`, with which it is pickled by generated methods, field by field: that takes twice as long
# for the plans sent to other processes.
@dataclass(frozen=True, kw_only=True)
class ArrayPlan:
    """The plan for one array."""

    move: Move
    times_read: float = 1.0
    """Average number of times that a chunk of the source is read and decoded."""
    reads: int = 0
    """Number of reads of source objects, repeated ones included."""
    objects_out: int = 0
    """Number of objects to write, without the `zarr.json`; a maximum if empty ones are omitted."""
    memory: int | None = None
    """Maximum memory in bytes that one worker needs for its blocks; None without blocks."""
    between: IntermediateArray | None = None
    """The intermediate array of two passes; the other members are then those of the second pass."""
    document: JSONObject
    """The `zarr.json` to write."""
    verbatim: str | None = None
    """The bytes of the document of an array that is passed through, as text (UTF-8, surrogateescape)."""
    fill_is_null: bool = False
    """Whether the source defines no fill value."""
    chunks: int = 0
    """Number of chunks in the source (of possible ones, if its store cannot list)."""
    bytes_in: int = 0
    """Stored bytes of these chunks."""
    bytes_in_known: bool = True
    """False if they are an estimate."""
    bytes_out: int = 0
    """Bytes to write."""
    bytes_out_known: bool = False
    """False if they are an estimate."""
    bounds: tuple[int, ...] = ()
    """Task k moves the existing chunks with `bounds[k]` <= linear index < `bounds[k + 1]`."""
    fingerprint: str = ""
    """Fingerprint of the source's chunk listing, which reveals changes of the source."""
    source_digests: tuple[tuple[str, str], ...] = ()
    """(key, BLAKE2b of the content) of the source's metadata documents."""
    changes: Changes | None = None
    """What an update makes again, whose `bounds` and amounts of work these are; None for a whole array."""
    problems: tuple[Problem, ...] = ()

    @property
    def path(self) -> str:
        """Path of the array."""
        return self.move.path

    @property
    def source(self) -> Layout:
        """The source layout."""
        return self.move.source

    @property
    def destination(self) -> Layout:
        """The destination layout."""
        return self.move.destination

    @property
    def route(self) -> Route:
        """The route of its chunks."""
        return self.move.route

    @property
    def content(self) -> bytes:
        """The bytes of the `zarr.json` to write."""
        if self.verbatim is not None:
            return self.verbatim.encode("utf-8", "surrogateescape")
        return document(self.document)

    @property
    def bytes_read(self) -> int:
        """Stored bytes to read; bytes that are read twice count twice."""
        return round(self.bytes_in * self.times_read)

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return max(len(self.bounds) - 1, 0)

    def to_json(self, layout: Callable[[Layout], JSONObject] = layout_to_json) -> JSONObject:
        """The complete plan as JSON; `layout` may return the same object for the same layout."""
        move = self.move
        unset = tuple(name for name in ("changes", "verbatim") if getattr(self, name) is None)
        return {
            "path": move.path,
            "source": layout(move.source),
            "destination": layout(move.destination),
            "route": {"name": move.route.name, "shared": move.route.shared, "reason": move.route.reason},
            **move.values._asdict(),
            **shapes_to_json(move),
            **json_of_fields(self, "move", *unset),
        }

    @classmethod
    def from_json(cls, data: JSONObject, layout: Callable[[JSONObject], Layout] = layout_from_json) -> Self:
        """Inverse of `to_json`."""
        move = Move(
            path=data["path"],
            source=layout(data["source"]),
            destination=layout(data["destination"]),
            route=Route(**data["route"]),
            values=_value_options(*(data[name] for name in ValueOptions._fields)),
            **shapes_from_json(data),
            replaces="changes" in data,
        )
        names: tuple[str, ...] = ("document", "fill_is_null", "chunks", "bytes_in", "bytes_in_known")
        names += ("bytes_out", "bytes_out_known", "fingerprint")
        return cls(
            move=move,
            **{name: data[name] for name in names},
            bounds=tuple(data["bounds"]),
            source_digests=_digests(data),
            times_read=data.get("times_read", 1.0),
            reads=data["reads"] if "reads" in data else data["chunks"],
            objects_out=data["objects_out"] if "objects_out" in data else data["chunks"],
            memory=data.get("memory"),
            verbatim=data.get("verbatim"),
            between=None if data.get("between") is None else IntermediateArray.from_json(data["between"]),
            changes=Changes.from_json(data["changes"]) if "changes" in data else None,
            problems=_problems(data),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan(FieldsAsJSON):
    """The plan for one group: its `zarr.json`, without consolidated metadata."""

    path: str
    document: JSONObject
    files: tuple[str, ...] = ()
    """Keys of extra files that are copied unchanged."""
    source_digests: tuple[tuple[str, str], ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def content(self) -> bytes:
        """The bytes of the `zarr.json` to write."""
        return document(self.document)

    @classmethod
    def from_json(cls, data: JSONObject) -> Self:
        """Inverse of `to_json`."""
        return cls(
            path=data["path"],
            document=data["document"],
            files=tuple(data.get("files", ())),
            source_digests=_digests(data),
            problems=_problems(data),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(FieldsAsJSON):
    """A node that is not migrated, and the reason."""

    path: str
    kind: Literal["array", "group"]
    problems: tuple[Problem, ...]

    @classmethod
    def from_json(cls, data: JSONObject) -> Self:
        """Inverse of `to_json`."""
        return cls(path=data["path"], kind=data["kind"], problems=_problems(data))


Published: TypeAlias = ArrayPlan | GroupPlan
Planned: TypeAlias = ArrayPlan | GroupPlan | Refusal


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(NotebookResult):
    """The complete plan of a migration.

    Examples
    --------
    >>> plan = zarrlift.plan("cells.n5", "cells.zarr")
    >>> plan.refusals, {array.route.name for array in plan.arrays}
    ((), {'reframe'})
    """

    source: str
    """URL or path of the source, without credentials."""
    destination: str
    """URL or path of the destination; equal to `source` in place."""
    in_place: bool
    format: Format
    recipe: Recipe
    arrays: tuple[ArrayPlan, ...] = ()
    """Sorted by path."""
    groups: tuple[GroupPlan, ...] = ()
    """Sorted by path."""
    refusals: tuple[Refusal, ...] = ()
    excluded: tuple[str, ...] = ()
    """Paths of the nodes excluded by the recipe."""
    consolidate: bool = False
    reading: Reading = Reading()  # noqa: RUF009 - frozen
    source_digests: tuple[tuple[str, str], ...] = ()
    """Documents that belong to no node, such as `.zmetadata`."""
    problems: tuple[Problem, ...] = ()
    """Problems of the archive as a whole."""
    free_bytes: int | None = None
    """Free space at the destination, if known."""
    conventions: tuple[RecognizedConvention, ...] = ()
    """Recognized conventions that the recipe requests."""

    @property
    def root(self) -> GroupPlan | None:
        """The plan of the root; None if that is an array, or is not migrated."""
        return next((group for group in self.groups if not group.path), None)

    def __repr__(self) -> str:
        where = "in place" if self.in_place else f"to {self.destination!r}"
        counts = f"{len(self.arrays)} arrays, {len(self.groups)} groups, {len(self.refusals)} refused"
        return f"<Plan {self.source!r} ({self.format}) {where}: {counts}>"

    def header_to_json(self) -> JSONObject:
        """Everything except the nodes, which a job stores one by one."""
        return {
            "source": self.source,
            "destination": self.destination,
            "in_place": self.in_place,
            "format": self.format,
            "recipe": self.recipe.to_json(),
            "excluded": list(self.excluded),
            "consolidate": self.consolidate,
            **self.reading.to_json(),
            "source_digests": [list(pair) for pair in self.source_digests],
            "problems": [problem.to_json() for problem in self.problems],
            "free_bytes": self.free_bytes,
            "conventions": [{"name": seen.name, "summary": seen.summary} for seen in self.conventions],
        }

    def to_json(self) -> JSONObject:
        """The complete plan as JSON."""
        return {
            **self.header_to_json(),
            "arrays": [array.to_json() for array in self.arrays],
            "groups": [group.to_json() for group in self.groups],
            "refusals": [refusal.to_json() for refusal in self.refusals],
        }

    @classmethod
    def from_json(cls, data: JSONObject) -> Self:
        """Inverse of `to_json`."""
        arrays = map(ArrayPlan.from_json, data["arrays"])
        groups = map(GroupPlan.from_json, data["groups"])
        return cls.from_header(data, [*arrays, *groups, *map(Refusal.from_json, data["refusals"])])

    @classmethod
    def from_header(cls, data: JSONObject, nodes: Iterable[Planned]) -> Self:
        """The plan with a header made by `header_to_json`, and nodes sorted by path."""
        names = ("source", "destination", "in_place", "format", "consolidate", "free_bytes")
        return cls(
            **{name: data[name] for name in names},
            recipe=Recipe.from_json(data["recipe"]),
            reading=Reading.from_json(data),
            excluded=tuple(data["excluded"]),
            conventions=tuple(RecognizedConvention(**seen) for seen in data.get("conventions", ())),
            source_digests=_digests(data),
            problems=_problems(data),
        ).with_nodes(nodes)

    def with_nodes(self, nodes: Iterable[Planned]) -> Self:
        """The same with other nodes, which are sorted by path."""
        by_type: dict[type, list[Any]] = {ArrayPlan: [], GroupPlan: [], Refusal: []}
        for node in nodes:
            by_type[type(node)].append(node)
        arrays, groups, refusals = map(tuple, by_type.values())
        return replace(self, arrays=arrays, groups=groups, refusals=refusals)

    @property
    def published(self) -> tuple[Published, ...]:
        """The nodes that get a `zarr.json`, sorted by path."""
        nodes: list[Published] = [*self.arrays, *self.groups]
        return tuple(sorted(nodes, key=lambda node: node.path))

    @property
    def nodes(self) -> tuple[Planned, ...]:
        """All nodes except the excluded ones, sorted by path."""
        nodes: list[Planned] = [*self.arrays, *self.groups, *self.refusals]
        return tuple(sorted(nodes, key=lambda node: node.path))

    def document(self, path: str, done: Collection[str] | None = None) -> JSONObject:
        """The `zarr.json` to write for a node; KeyError if none is.

        Consolidated metadata of the root is that of the nodes that are `done`, of all by default.
        """
        documents = {
            node.path: node.document
            for node in self.published
            if node.path == path or (not path and self.consolidate and (done is None or node.path in done))
        }
        return consolidate(documents) if not path and self.consolidate else documents[path]

    def all_problems(self) -> tuple[Problem, ...]:
        """All problems, the archive's first, then by node."""
        return (*self.problems, *(problem for node in self.nodes for problem in node.problems))


def taken_over(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Those of a plan's problems that are about changes of the source that a resume has taken over."""
    return tuple(
        problem for problem in problems if problem.kind == "source-changed" and problem.severity == "warning"
    )


def _digests(data: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((key, digest) for key, digest in data["source_digests"])


def _problems(data: dict[str, Any]) -> tuple[Problem, ...]:
    return tuple(Problem.from_json(item) for item in data["problems"])


class Whole(NamedTuple):
    """Amounts of a whole array."""

    chunks: int
    """Stored chunks of the source."""
    bytes_in: int | None
    """Their stored bytes; None if they are not known."""
    objects_out: int
    """Objects of the result; until they are counted, those that may be omitted as empty are included."""
    bytes_out: int | None = None
    """Their stored bytes; None until they are counted."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The objects of a result that are made again; small and picklable."""

    packed: bytes
    """Differences of their ascending linear indexes in the destination's grid, compressed."""
    shape_before: tuple[int, ...] | None = None
    """The shape of the earlier result, if some of its objects are outside the present grid."""
    packed_outside: bytes
    """As `packed`, in the grid of the larger of both shapes: objects outside the present grid that updates
    which were interrupted may have written.
    """
    whole: Whole
    """The whole array, of which the plan has only what is moved."""

    @classmethod
    def of(
        cls, objects: Indexes, shape_before: tuple[int, ...] | None, outside: Indexes, whole: Whole
    ) -> Self:
        """`objects` and `outside` are ascending."""
        return cls(
            packed=_packed(objects),
            shape_before=shape_before,
            packed_outside=_packed(outside),
            whole=whole,
        )

    @property
    def objects(self) -> Indexes:
        """The linear indexes, ascending."""
        return _unpacked(self.packed)

    @property
    def outside(self) -> Indexes:
        """The linear indexes of `packed_outside`, ascending."""
        return _unpacked(self.packed_outside)

    def to_json(self) -> JSONObject:
        """The complete object as JSON."""
        return {
            "objects": base64.b64encode(self.packed).decode(),
            "shape_before": None if self.shape_before is None else list(self.shape_before),
            "outside": base64.b64encode(self.packed_outside).decode(),
            "whole": list(self.whole),
        }

    @classmethod
    def from_json(cls, data: JSONObject) -> Self:
        """Inverse of `to_json`."""
        shape = data["shape_before"]
        return cls(
            packed=base64.b64decode(data["objects"]),
            shape_before=None if shape is None else tuple(shape),
            packed_outside=base64.b64decode(data["outside"]),
            whole=Whole(*data["whole"]),
        )


def _packed(objects: Indexes) -> bytes:
    return zlib.compress(np.diff(objects, prepend=0).astype("<i8").tobytes(), 1)


def _unpacked(packed: bytes) -> Indexes:
    return np.cumsum(np.frombuffer(zlib.decompress(packed), "<i8"), dtype=np.int64)
