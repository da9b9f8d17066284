"""Locates the nodes of a 2022 draft hierarchy by their documents below `meta/`, which is listed once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from zarrstack.core.errors import Problem, StorageError

from ...core.draft_v3.nodes import CONSOLIDATED, Dialect, bad_node_name
from ...core.problems import refusal, warning
from ...storage.base import DirectoryEntry, Storage
from ...storage.local.storage import LocalStorage
from ..tree.directory import NodeDirectory
from ..tree.documents import read_each
from ..tree.links import broken_link, is_above, link_outside, link_to_parent
from ..tree.node_names import MAX_LEVELS, name_problems, warn_of_case
from ..tree.walk import passed_over

META: Final = "meta"
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
        place.keys[f"{node.kind}.json"] = key
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
