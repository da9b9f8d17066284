"""Locates the nodes of a 2022 draft hierarchy by their documents below `meta/`, and its chunks below `data/`.

The entry point, which may be missing, only determines where documents are stored, which is visible from the
documents: zarr-python's dialect has `root` in every key, the specification's does not. It could also declare
extensions of the whole hierarchy, but no writer ever had any. `meta/` is listed once; below `data/`, only the
directories of groups are, so that chunks are never visited one by one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.paths import join, parents

from ...archive.nodes import ArrayNode, GroupNode, Layout, Node
from ...core.draft_v3.nodes import CONSOLIDATED, ENTRY, Dialect, DraftEntryPoint, bad_node_name, write_entry
from ...core.grid.chunk_keys import DraftKeys
from ...core.problems import refusal, warning
from ...storage.base import DirectoryEntry, Storage
from ...storage.local.storage import LocalStorage
from ..tree.directory import (
    MAX_LEVELS,
    NodeDirectory,
    broken_link,
    implicit_group,
    is_above,
    link_outside,
    link_to_parent,
    name_problems,
    warn_of_case,
)
from ..tree.documents import read_each
from ..tree.walk import passed_over

META: Final = "meta"
_ENDS: Final = (".array.json", ".group.json", "/array.json", "/group.json")
_MAX_LISTED: Final = 1000
"""Maximum number of directories below `meta/` searched for a document."""


def document_below(storage: Storage, root: str = "") -> str | None:
    """The key of a metadata document of the draft, or None if `meta/` contains none. StorageError.

    `root` is the path of the hierarchy in the storage.
    """
    level = [join(root, META)]
    looked = 0
    while level and looked < _MAX_LISTED:
        level = level[: _MAX_LISTED - looked]
        looked += len(level)
        below: list[str] = []
        for directory, entries in zip(level, storage.list_dirs(level), strict=True):
            for entry in sorted(entries, key=lambda entry: entry.name):
                key = f"{directory}/{entry.name}"
                if not entry.is_dir and key.endswith(_ENDS):
                    return key
                if entry.is_dir and entry.link is None and not passed_over(entry.name):
                    below.append(key)
        level = below
    return None


def without_entry(storage: Storage) -> tuple[Dialect, Problem] | None:
    """The dialect of the documents, with a warning; None if there are none.

    The specification's dialect has documents outside `meta/root`, or next to it. If all are in it, both
    dialects would find the same arrays, and zarr-python's is the one that was in use.
    """
    if not storage.can_list:
        return None
    try:
        key = document_below(storage)
        entries = [] if key is None else list(storage.list_dir(META))
    except StorageError:
        return None
    if key is None:
        return None
    by_zarr = all(
        entry.name == "root" if entry.is_dir else entry.name.startswith("root.")
        for entry in entries
        if not passed_over(entry.name) and (entry.is_dir or f"/{entry.name}".endswith(_ENDS))
    )
    dialect = Dialect.ZARR_PYTHON if by_zarr else Dialect.TEXT
    whose = "zarr-python 2's dialect" if by_zarr else "the dialect of its text"
    entry = json.dumps(write_entry(DraftEntryPoint(dialect=dialect)))
    return dialect, warning(
        "metadata",
        f"the entry point of this hierarchy of the 2022 draft is missing; it is read as {whose}",
        key=ENTRY,
        found=key,
        expected=f"{ENTRY} at the root",
        advice=f"For other programs, write {entry} there.",
    )


_APPLE_DOUBLE: Final = b"\x00\x05\x16\x07"
"""First bytes of `._*` files, which macOS creates next to others (RFC 1740)."""


@dataclass(slots=True, kw_only=True)
class Places:
    """The documents of a hierarchy by node, and the problems of the whole hierarchy."""

    nodes: dict[str, NodeDirectory] = field(default_factory=dict)
    """Nodes by path, with `array.json` and `group.json`: `meta/root/a.array.json` is the first of `a`."""
    consolidated: bytes | None = None
    unclaimed: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def find_documents(storage: Storage, dialect: Dialect, *, follow_links: bool = False) -> Places:
    """Read every document below `meta/`.

    Raises StorageError if `meta/` itself cannot be listed.
    """
    tree = Places()
    if isinstance(storage, LocalStorage):
        keys = list(_local_keys(storage, dialect, tree, follow_links=follow_links))
    else:
        keys = sorted(storage.list_prefix(f"{META}/"))
    for key, content in zip(keys, read_each(storage, keys), strict=True):
        if key == CONSOLIDATED and dialect.name == "zarr-python" and isinstance(content, bytes):
            tree.consolidated = content
        elif content is not None:
            _sort(tree, dialect, key, content)
    by_parent: dict[str, list[NodeDirectory]] = {}
    for path in sorted(tree.nodes):
        place = tree.nodes[path]
        place.problems[:0] = _name_problems(path)
        by_parent.setdefault(path.rpartition("/")[0], []).append(place)
    for siblings in by_parent.values():
        warn_of_case(siblings)
    return tree


def documents_named(dialect: Dialect, documents: dict[str, bytes]) -> Places:
    """Build the tree from given documents by key, for a store that cannot list."""
    tree = Places()
    for key, content in documents.items():
        _sort(tree, dialect, key, content)
    for path, place in tree.nodes.items():
        place.problems.extend(_name_problems(path))
    return tree


def _sort(tree: Places, dialect: Dialect, key: str, content: bytes | StorageError) -> None:
    """Add a document to its node."""
    node = dialect.node(key)
    name = key.rpartition("/")[2]
    if name.startswith("._") and isinstance(content, bytes) and content.startswith(_APPLE_DOUBLE):
        return
    if node is None:
        kinds = tuple(f"{kind}{dialect.suffix}" for kind in ("array", "group"))
        if name not in kinds and not name.endswith(tuple(f".{kind}" for kind in kinds)):
            tree.unclaimed.append(key)
            return
        tree.problems.append(
            refusal(
                "name",
                "the key of a metadata document is not a valid node path",
                key=key,
                expected=f"such as {dialect.key('a/b', 'array')}",
                advice="Rename or remove it.",
            )
        )
        return
    place = tree.nodes.setdefault(node.path, NodeDirectory(path=node.path))
    if isinstance(content, bytes):
        place.documents[f"{node.kind}.json"] = content
        place.keys = {**(place.keys or {}), f"{node.kind}.json": key}
    else:
        place.problems.append(content.problem.at(node=node.path, key=key))


def _name_problems(path: str) -> list[Problem]:
    """Problems of a node's path in v3, or a warning for a name allowed only in the draft."""
    problems = name_problems(path)
    name = path.rpartition("/")[2]
    if not problems and path and (wrong := bad_node_name(name)) is not None:
        message = f"{wrong} in the draft; Zarr v3 allows the name"
        problems = [warning("name", message, node=path, found=repr(name))]
    return problems


# ----- local archives, with links


def _local_keys(
    storage: LocalStorage, dialect: Dialect, tree: Places, *, follow_links: bool
) -> Iterator[str]:
    pending: list[tuple[str, tuple[str, ...]]] = [(META, (storage.real,))]
    while pending:
        directory, above = pending.pop()
        try:
            entries = sorted(storage.list_dir(directory), key=lambda entry: entry.name)
        except StorageError as error:
            if directory == META:
                raise
            _keep_back(tree, _path_of(dialect, directory), error.problem)
            continue
        real = os.path.realpath(storage.path(directory))
        for entry in entries:
            key = f"{directory}/{entry.name}"
            if passed_over(entry.name):
                continue
            problem = _bad_link(storage, entry, key, (*above, real), follow_links)
            if problem is not None:
                node = dialect.node(key)
                _keep_back(tree, node.path if node else _path_of(dialect, key), problem)
            elif not entry.is_dir:
                yield key
            elif (path := _path_of(dialect, key)) is not None and path.count("/") >= MAX_LEVELS:
                _keep_back(tree, path)  # whose name is sufficient
            else:
                pending.append((key, (*above, real)))


def _bad_link(
    storage: LocalStorage, entry: DirectoryEntry, key: str, above: tuple[str, ...], follow_links: bool
) -> Problem | None:
    """The problem of a link among the documents."""
    if entry.link is None:
        return None
    if not os.path.exists(entry.link):
        return broken_link(None, entry.link)
    if storage.leaves_root(entry.link) and not follow_links:
        return link_outside(None, key, entry.link)
    if entry.is_dir and any(is_above(entry.link, real) for real in above):
        return link_to_parent(None, entry.link)
    return None


def _keep_back(tree: Places, path: str | None, *problems: Problem) -> None:
    if path is None:
        tree.problems.extend(problems)
    else:
        place = tree.nodes.setdefault(path, NodeDirectory(path=path))
        place.problems.extend(problem.at(node=path) for problem in problems)


def _path_of(dialect: Dialect, directory: str) -> str | None:
    """The node whose children's documents are in a directory; None for directories above the root's."""
    root = dialect.below("")[:-1]
    if directory == root:
        return ""
    return directory[len(root) + 1 :] if directory.startswith(f"{root}/") else None


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
