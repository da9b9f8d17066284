"""(Archive, Recipe) -> Plan: what will happen to every node, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from zarrstack.core.errors import Problem
from zarrstack.core.jsons import JSONObject

from .archive import Document, Format, Layout
from .recipe import ArrayRecipe

Route: TypeAlias = Literal["stay", "relink", "reframe", "recode", "rewrite", "regrid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan:
    """What will happen to one array."""

    path: str
    source: Layout
    destination: Layout
    route: Route
    recipe: ArrayRecipe
    document: JSONObject
    """The `zarr.json` that will be written."""
    fill_is_null: bool = False
    chunks: int = 0
    """Chunks present in the source."""
    bytes_in: int = 0
    bytes_in_estimated: bool = False
    bytes_out: int = 0
    bytes_out_estimated: bool = True
    bounds: tuple[int, ...] = ()
    """Task k moves the present chunks with bounds[k] <= linear index < bounds[k + 1]."""
    fingerprint: str = ""
    """What the source's chunk listing looked like; a changed source is noticed by it."""
    source_documents: tuple[Document, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What will happen to one group: its `zarr.json`."""

    path: str
    document: JSONObject
    source_documents: tuple[Document, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A node that is not migrated, and why."""

    path: str
    kind: Literal["array", "group"]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that a migration will do; printed, saved in the job, sent to workers."""

    source: str
    """URL or path of the source."""
    destination: str
    """URL or path of the destination; equal to `source` in place."""
    in_place: bool
    format: Format
    arrays: tuple[ArrayPlan, ...] = ()
    groups: tuple[GroupPlan, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    excluded: tuple[str, ...] = ()
    """Paths of nodes the recipe leaves out."""
    consolidate: bool = False
    source_documents: tuple[Document, ...] = ()
    problems: tuple[Problem, ...] = ()
    source_options: JSONObject = field(default_factory=dict)
    """fsspec `storage_options` of the source; never written into the job."""
    destination_options: JSONObject = field(default_factory=dict)
