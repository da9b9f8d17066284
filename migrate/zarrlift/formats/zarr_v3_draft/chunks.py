"""The chunks of a 2022 draft hierarchy, below `data/`, and files there that belong to no node.

Only the directories of groups are listed, so that chunks are never visited one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.paths import join, parents

from ...archive.nodes import ArrayNode, GroupNode, Layout, Node
from ...core.draft_v3.nodes import Dialect
from ...core.grid.chunk_keys import DraftKeys
from ...core.problems import refusal
from ...storage.base import DirectoryEntry, Storage
from ..tree.nodes import implicit_group
from ..tree.walk import passed_over

_CHUNK: Final = re.compile(r"c([0-9]+(\.[0-9]+)*)?")
"""First name of a chunk's key."""
_MAX_LOOKED_INTO: Final = 1000
"""Maximum number of directories searched for a chunk, in each directory below `data/` without a node."""


def with_scalar_key(storage: Storage, layout: Layout) -> Layout:
    """A layout; that of an array without axes has the key of its only chunk, which has two possible names."""
    if layout.shape:
        return layout
    keys, prefix = layout.keys, layout.prefix("")
    assert isinstance(keys, DraftKeys)
    own = keys.scalar_key
    other = "c" if own == "c0" else "c0"
    try:
        if storage.can_list:
            present = {entry.name for entry in storage.list_dir(prefix[:-1])}
        else:
            contents = zip((own, other), storage.get_many([prefix + own, prefix + other]), strict=True)
            present = {name for name, content in contents if content is not None}
    except StorageError:
        return layout  # reported when the chunks are listed
    if own in present or other not in present:
        return layout
    return replace(layout, keys=replace(keys, scalar_key=other))


def refuse_lone_chunks(
    storage: Storage, dialect: Dialect, nodes: dict[str, Node]
) -> tuple[list[Problem], list[str]]:
    """Refuse chunks without an array's document, whose values cannot be decoded.

    Returns a warning for each group that contains chunks and also has a document or children, and the keys
    that belong to no node.
    """
    groups = [path for path in sorted(nodes) if isinstance(nodes[path], GroupNode)]
    lost, unclaimed, in_the_way = _find_lost(storage, dialect, groups, frozenset(nodes.keys() - {*groups}))
    for path, key in in_the_way:
        message = "a file is in the place of an array's chunk directory"
        problem = refusal("metadata", message, node=path, key=key)
        nodes[path] = replace(nodes[path], problems=(*nodes[path].problems, problem))
    warnings = []
    for item in lost:
        problem = refusal(
            "metadata",
            "chunks without an array",
            node=item.path,
            key=item.key,
            expected=f"a document {dialect.key(item.path, 'array')!r}",
            advice="Restore the document, or exclude the node.",
        )
        node = nodes.get(item.path, implicit_group(item.path))
        if node.documents or any(_is_below(path, item.path) for path in nodes):
            warnings.append(replace(problem, severity="warning", advice="Restore the document."))
        else:
            nodes[item.path] = ArrayNode(path=item.path, problems=(problem,))
            for above in parents(item.path):
                nodes.setdefault(above, implicit_group(above))
    return warnings, unclaimed


def _is_below(path: str, group: str) -> bool:
    return path != group and (not group or path.startswith(f"{group}/"))


@dataclass(frozen=True, slots=True)
class _Lost:
    """Chunks below a path without a node."""

    path: str
    key: str
    """One of their keys."""


def _find_lost(
    storage: Storage, dialect: Dialect, groups: Sequence[str], arrays: frozenset[str]
) -> tuple[list[_Lost], list[str], list[tuple[str, str]]]:
    """Chunks without an array, keys without a node, and files in the place of an array's chunks.

    The last as (path of the array, key). Searches the directories of groups, and directories in them without
    a node.
    """
    lost: list[_Lost] = []
    unclaimed: list[str] = []
    in_the_way: list[tuple[str, str]] = []
    nodes = {*groups, *arrays}
    for path, entries in zip(groups, _listings(storage, dialect, groups), strict=True):
        for entry in sorted(entries, key=lambda entry: entry.name):
            child, key = join(path, entry.name), dialect.data(path) + entry.name
            if not entry.is_dir:
                if child in arrays:
                    in_the_way.append((child, key))
                elif _CHUNK.fullmatch(entry.name):
                    lost.append(_Lost(path, key))
                else:
                    unclaimed.append(key)
            elif child not in nodes and entry.link is None and not passed_over(entry.name):
                chunk_place = _chunk_below(storage, key)
                if chunk_place is not None:
                    directory, chunk = chunk_place
                    lost.append(_Lost(directory.removeprefix(dialect.data("")), chunk))
    return lost, unclaimed, in_the_way


def _listings(storage: Storage, dialect: Dialect, groups: Sequence[str]) -> list[list[DirectoryEntry]]:
    places = [dialect.data(path)[:-1] for path in groups]
    try:
        return storage.list_dirs(places)
    except StorageError:
        # Reading the arrays below reports the error; skipping it here loses nothing silently.
        return [[] for _ in places]


def _chunk_below(storage: Storage, directory: str) -> tuple[str, str] | None:
    """The directory of an unknown array and a key in it; None if there is no object."""
    pending = [directory]
    inside: str | None = None
    looked = 0
    while pending and looked < _MAX_LOOKED_INTO:
        looked += 1
        place = pending.pop()
        try:
            entries = sorted(storage.list_dir(place), key=lambda entry: entry.name)
        except StorageError:
            continue
        if inside is None and any(_CHUNK.fullmatch(entry.name) for entry in entries):
            inside = place
        for entry in entries:
            if not entry.is_dir:
                return inside or place, f"{place}/{entry.name}"
            if entry.link is None:
                pending.append(f"{place}/{entry.name}")
    return None
