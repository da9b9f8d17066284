"""Finds conventions of applications, and applies them to an archive.

A convention receives the whole described archive and returns the change of each node. Conventions are called
in order, each on the result of the previous one. The package contains the contract, which classes of users
implement, too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Final

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.paths import parents

from ..archive.nodes import Archive, ArrayNode, Node, RecognizedConvention
from ..core.problems import refusal
from ..recipe.parsing import AUTO, classes_by_name, require_conventions
from ..recipe.recipe import Recipe
from ..storage.base import Storage
from . import Change, Convention, View

_ORDER: Final = {
    "hdmf": ".hdmf.convention:Hdmf",
    "n5": ".n5.convention:N5",
    "xarray": ".xarray:Xarray",
    "ome": ".ome.convention:Ome",
    "spatialdata": ".spatialdata:SpatialData",
}
"""Our own in calling order: conventions with exclusive files first, then dimension names."""
_NEEDED: Final = ("hdmf", "xarray", "ome")
"""Those without which the readers of Zarr v3 do not find what they found in the source."""


def chosen(names: tuple[str, ...]) -> tuple[type[Convention], ...]:
    """The conventions for a recipe's names, in calling order: zarrlift's own come first.

    UsageError for a class that is not a convention.
    """
    own = [_built_in(name) for name in _ORDER if AUTO in names or name in names]
    return (*own, *(_given(name) for name in sorted(names) if name in classes_by_name))


@functools.cache
def _built_in(name: str) -> type[Convention]:
    module, _, attribute = _ORDER[name].partition(":")
    convention: type[Convention] = getattr(import_module(module, __package__), attribute)
    return convention


def _given(name: str) -> type[Convention]:
    convention = classes_by_name[name]
    if not issubclass(convention, Convention):
        raise UsageError(
            f"the class {convention.__qualname__} is not a convention",
            expected="a subclass of zarrlift.conventions.Convention",
        )
    return convention


_NOTHING: Final = Change()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConventionChanges:
    """The changes made to an archive by the conventions that a recipe requests."""

    seen: tuple[RecognizedConvention, ...] = ()
    changes: Mapping[str, Change] = field(default_factory=dict)
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    """Problems by path; the refusal of a node is repeated, in short, for each node below it."""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Path of a group -> keys of the extra files copied with it."""
    unconverted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Name of a convention that readers need -> paths of the nodes for which the recipe omits it."""

    def change(self, path: str) -> Change:
        """The change of the node at a path."""
        return self.changes.get(path, _NOTHING)

    def described(self, node: Node) -> Node:
        """The node with the layout in which the conventions read its values."""
        change = self.change(node.path)
        if change.layout is None or not isinstance(node, ArrayNode):
            return node
        left = tuple(problem for problem in node.problems if problem not in change.lifts)
        return replace(node, layout=change.layout, problems=left)

    def problems_of(self, path: str) -> tuple[Problem, ...]:
        """The problems of the node at a path."""
        return self.problems.get(path, ())

    def strays(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """Problems, except those that report an extra file as left behind although it is copied."""
        carried = {key for keys in self.files.values() for key in keys}
        return tuple(p for p in problems if p.kind != "stray" or p.key not in carried)


def apply_conventions(
    archive: Archive, storage: Storage, recipe: Recipe, *, in_place: bool = False
) -> ConventionChanges:
    """Run every convention that the recipe names anywhere; UsageError for an unknown name."""
    names_of = _requested_names(archive, recipe)
    everywhere = tuple(dict.fromkeys(name for names in set(names_of.values()) for name in names))
    # Others are asked, too, what they would change.
    classes = chosen((*everywhere, *_NEEDED))
    classes_of = {names: frozenset(chosen(names)) for names in set(names_of.values())}
    changes: dict[str, Change] = {}
    problems: dict[str, tuple[Problem, ...]] = {}
    files: dict[str, tuple[str, ...]] = {}
    unconverted: dict[str, frozenset[str]] = {}
    seen = []
    left = archive
    claimed: set[str] = set()
    for convention in classes:

        def applies(path: str, convention: type[Convention] = convention) -> bool:
            return path in names_of and path not in claimed and convention in classes_of[names_of[path]]

        view = View(archive=left, storage=storage, recipe=recipe, in_place=in_place, wanted=applies)
        result = convention().recognise(view)
        if result is None:
            continue
        if convention.name in _NEEDED:
            paths = result.changes or ("",) if convention.exclusive else result.changes
            omitted = (path for path in paths if convention not in classes_of[names_of[path]])
            if nodes := view.migrated.intersection(omitted):
                unconverted[convention.name] = nodes
        own_problems = [p for p in result.problems if p.node is None or applies(p.node)]
        reported = [_reported(problem, convention, recipe) for problem in own_problems]
        refused = {p.node: p for p in reported if p.severity == "refusal" and p.node is not None}
        plain = {p.node for p in own_problems if p.severity == "refusal" and p.node is not None}
        accepted = {
            path: change
            for path, change in result.changes.items()
            if applies(path) and plain.isdisjoint((path, *parents(path)))
        }
        carried = {
            path: keys
            for path, keys in result.files.items()
            if keys and applies(path) and refused.keys().isdisjoint((path, *parents(path)))
        }
        if not accepted and not reported and not carried:
            continue
        for path, keys in carried.items():
            files[path] = (*files.get(path, ()), *keys)
        seen.append(RecognizedConvention(name=convention.name, summary=result.summary))
        for path, change in accepted.items():
            changes[path] = _merged(changes.get(path), change)
        for problem in reported:
            path = problem.node or ""
            problems[path] = (*problems.get(path, ()), problem)
        for path, problem in _refusals_below(left, refused):
            problems[path] = (*problems.get(path, ()), problem)
        if convention.exclusive:
            claimed.update(result.changes, refused)
        left = replace(left, nodes=tuple(_changed(node, accepted.get(node.path)) for node in left.nodes))
    return ConventionChanges(
        seen=tuple(seen), changes=changes, problems=problems, files=files, unconverted=unconverted
    )


def look_for(archive: Archive, storage: Storage) -> Archive:
    """The archive with automatically recognized conventions and their problems."""
    applied = apply_conventions(archive, storage, Recipe())
    more = [problem for path in sorted(applied.problems) for problem in applied.problems[path]]
    nodes = tuple(map(applied.described, archive.nodes))
    return replace(
        archive, nodes=nodes, conventions=applied.seen, problems=(*applied.strays(archive.problems), *more)
    )


def _reported(problem: Problem, convention: type[Convention], recipe: Recipe) -> Problem:
    """A problem as a warning, if the convention does not refuse what it cannot convert."""
    if problem.severity != "refusal" or problem.node is None or problem.kind == "recipe":
        return problem
    if convention.refuses(recipe.for_array(problem.node)):
        return problem
    return replace(
        problem,
        severity="warning",
        message=f"kept unchanged, with everything below: {problem.message}",
        advice=f"Correct the metadata, and migrate again; --conventions {convention.name} refuses it.",
    )


def _requested_names(archive: Archive, recipe: Recipe) -> Mapping[str, tuple[str, ...]]:
    """The requested names for each node that the recipe selects."""
    wanted = {node.path: recipe.for_array(node.path).conventions for node in archive.nodes}
    for names in set(wanted.values()):
        require_conventions(names)
    return wanted


def _refusals_below(archive: Archive, refused: Mapping[str, Problem]) -> Iterator[tuple[str, Problem]]:
    """A refusal for each node below a refused one."""
    if not refused:
        return
    for node in archive.nodes:
        above = next((line for line in parents(node.path) if line in refused), None)
        if above is not None and node.path not in refused:
            yield (
                node.path,
                refusal(
                    refused[above].kind,
                    "not migrated, because the convention of a group above it is broken",
                    node=node.path,
                    found=f"/{above}",
                    advice=refused[above].advice,
                ),
            )


def _merged(before: Change | None, change: Change) -> Change:
    if before is None:
        return change
    return Change(
        attributes=before.attributes if change.attributes is None else change.attributes,
        dimension_names=change.dimension_names or before.dimension_names,
        objects=change.objects or before.objects,
        layout=change.layout or before.layout,
        lifts=(*before.lifts, *change.lifts),
        replaced=(*before.replaced, *change.replaced),
    )


def _changed(node: Node, change: Change | None) -> Node:
    """A node as passed to the next convention."""
    if change is None:
        return node
    attributes = node.attributes if change.attributes is None else change.attributes
    if not isinstance(node, ArrayNode):
        return replace(node, attributes=attributes)
    layout = node.layout if change.layout is None else change.layout
    if layout is not None and change.dimension_names is not None:
        layout = replace(layout, dimension_names=change.dimension_names)
    return replace(node, attributes=attributes, layout=layout)
