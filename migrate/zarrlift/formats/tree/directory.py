"""A directory of an archive, before its documents are parsed: its content, and problems of names and links.

A local directory is listed once for several purposes: the walk needs documents and directories, separator
detection the names of chunks, the search for nodes inside arrays the directories, and the plan the names of
a few chunks, after which it need not list them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.paths import parents

from ...archive.nodes import ArrayNode, GroupNode, Node
from ...core.problems import any_refusal, refusal, warning
from ...storage.base import DirectoryEntry
from ...storage.local.storage import LocalStorage

CHUNK: Final = re.compile(r"[0-9]+(\.[0-9]+)*")
"""Names of Zarr v2 chunks and of directories of chunks."""
_NUMBER: Final = re.compile(r"[0-9]+")
_DIGITS: Final = frozenset("0123456789")
_FEW: Final = 64
"""Maximum number of files named like chunks that are kept; an array may have millions."""


@dataclass(slots=True)
class DirectoryListing:
    """The content of a directory."""

    directories: list[str] = field(default_factory=list)
    """Names of directories that are not links, in the system's order."""
    links: dict[str, DirectoryEntry] = field(default_factory=dict)
    """Links by name, including links to files and broken ones."""
    files: list[str] = field(default_factory=list)
    """Names of files that are not named like chunks."""
    chunks: list[str] = field(default_factory=list)
    """Names of files that are named like chunks."""
    many: bool = False
    """Whether there are more of them than are kept: `chunks` and `files` are then incomplete."""

    def entries(self) -> Iterator[DirectoryEntry]:
        """The content, with only the first of the files named like chunks."""
        yield from (DirectoryEntry(name, is_dir=True) for name in self.directories)
        yield from self.links.values()
        yield from (DirectoryEntry(name, is_dir=False) for name in self.files)
        if self.chunks:
            yield DirectoryEntry(min(self.chunks), is_dir=False)

    def key_samples(self) -> Iterator[DirectoryEntry]:
        """Directories and links that show the form of chunk keys: a row of chunks, and what is named so."""
        row = next(filter(_NUMBER.fullmatch, self.directories), None)
        if row is not None:
            yield DirectoryEntry(row, is_dir=True)
        yield from (link for name, link in self.links.items() if CHUNK.fullmatch(name))


@lru_cache(maxsize=1024)
def chunk_names(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[DirectoryEntry, ...]]:
    """The same names, and the first of them with each number of dots; many arrays have the same."""
    dots = {name.count("."): name for name in sorted(names, reverse=True)}
    return names, tuple([DirectoryEntry(name, is_dir=False) for name in dots.values()])


@dataclass(slots=True, kw_only=True)
class NodeDirectory:
    """A directory, as known before its documents are parsed."""

    path: str
    documents: dict[str, bytes] = field(default_factory=dict)
    """Name -> content of the requested documents that exist."""
    keys: dict[str, str] | None = None
    """Name -> key of documents, if they are not in the directory itself."""
    problems: list[Problem] = field(default_factory=list)
    """Problems with names, links and storage."""
    chunk: str | None = None
    """A name in it that looks like a chunk's; None if it was not listed."""
    files: tuple[str, ...] = ()
    """Other files in it; empty if it was not listed."""
    subdirectories: tuple[str, ...] | None = None
    """For an array: names of the directories in its own; None if not listed, or if there are many."""
    key_samples: tuple[DirectoryEntry, ...] | None = None
    """For an array: entries that show the form of its chunk keys; None as above."""
    is_array: bool = False
    """Whether it is an array, which the walk did not enter."""
    chunk_names: tuple[str, ...] | None = None
    """For an array: names like those of chunks, if all others in its directory are those of documents, and
    all are files; None as above.
    """

    @property
    def refused(self) -> bool:
        """Whether a problem excludes it."""
        return any_refusal(self.problems)

    def fail(self, error: StorageError, key: str | None = None) -> None:
        """Add the problem of a failed request; one of them is sufficient."""
        if not any(problem.kind == "storage" for problem in self.problems):
            self.problems.append(error.problem.at(node=self.path, key=key))

    def first(self, names: Sequence[str]) -> str | None:
        """The first of some document names that exists here."""
        for name in names:  # a generator would take longer than what it goes through
            if name in self.documents:
                return name
        return None

    def key_of(self, *names: str) -> str | None:
        """The key of the first of some documents that exists here."""
        name = self.first(names)
        return None if name is None else self.key(name)

    def key(self, name: str) -> str:
        """The key of a document."""
        if self.keys is not None:
            return self.keys[name]
        return f"{self.path}/{name}" if self.path else name


def list_directory(storage: LocalStorage, path: str) -> DirectoryListing | None:
    """The content of a node's directory; None if it cannot be listed for any reason."""
    listing = DirectoryListing()
    try:
        with storage.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                digit = name[0] in _DIGITS
                if listing.many and digit and not entry.is_dir(follow_symlinks=False):
                    continue
                if entry.is_symlink():
                    target = os.path.realpath(entry.path)
                    listing.links[name] = DirectoryEntry(name, os.path.isdir(entry.path), target)
                elif entry.is_dir():
                    listing.directories.append(name)
                elif not (digit and CHUNK.fullmatch(name)):
                    listing.files.append(name)
                elif len(listing.chunks) < _FEW:
                    listing.chunks.append(name)
                else:
                    listing.many = True
    except OSError:
        return None
    return listing


MAX_LEVELS: Final = 256
"""Maximum depth of groups; real archives have about ten. Also limits paths too long for the system."""


def bad_name(name: str) -> str | None:
    """The problem of a node name, or None.

    https://zarr-specs.readthedocs.io/en/latest/v3/core/#node-names forbids empty names and names consisting
    of periods; a node named `zarr.json` would collide with its parent's document.
    """
    if not name:
        return "a node has an empty name"
    if not name.strip("."):
        return "a node's name consists of periods only"
    if name == "zarr.json":
        return "a node is named zarr.json, the name of Zarr v3 metadata"
    if "\0" in name or "\\" in name:
        return "a node's name contains a character that stores do not allow"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "a node's name is not UTF-8"
    return None


def name_problems(path: str) -> list[Problem]:
    """Problems of the last name of a path, and refusals for the names above it."""
    *above, name = path.split("/")
    if len(above) >= MAX_LEVELS:
        message = f"a node is more than {MAX_LEVELS} levels deep"
        return [refusal("name", message, node=path, advice="Move it up, or exclude it.")]
    for other in above:
        if bad_name(other) is not None:
            message = "the name of a node above is not allowed in Zarr v3"
            advice = "Rename or exclude that node."
            return [refusal("name", message, node=path, found=repr(other), advice=advice)]
    wrong = bad_name(name) if path else None
    if wrong is not None:
        return [refusal("name", wrong, node=path, found=repr(name), advice="Rename or exclude it.")]
    if name.startswith("__"):
        message = "names that start with __ are reserved in Zarr v3"
        return [warning("name", message, node=path, found=repr(name))]
    return []


def warn_of_case(children: Sequence[NodeDirectory]) -> None:
    """Add a warning to siblings whose names are equal on case-insensitive file systems."""
    seen: dict[str, str] = {}
    for child in children:
        other = seen.setdefault(child.path.casefold(), child.path)
        if other != child.path:
            message = "two names differ only by case; a case-insensitive file system keeps only one of them"
            child.problems.append(warning("name", message, node=child.path, found=f"/{other} too"))


def unfollowed_link(path: str | None, key: str | None, target: str) -> Problem:
    """The problem of a link that is not followed: broken, or to a target outside the archive."""
    if os.path.exists(target):
        return link_outside(path, key, target)
    return broken_link(path, target).at(key=key)


def broken_link(path: str | None, target: str) -> Problem:
    """The problem of a link without a target."""
    return refusal(
        "link",
        "a link leads nowhere",
        node=path,
        found=target,
        advice="Fetch its target (with git-annex or DataLad: `git annex get`), or exclude the node.",
    )


def link_to_parent(path: str | None, target: str) -> Problem:
    """The problem of a link to a directory above it."""
    message = "a link points to a directory above it"
    return refusal("link", message, node=path, found=target)


def link_outside(path: str | None, key: str | None, target: str | None) -> Problem:
    """The problem of a link to a target outside the archive."""
    return refusal(
        "link",
        "a link points outside the archive",
        node=path,
        key=key,
        found=target,
        advice="Use --follow-links to follow it, or exclude the node.",
    )


def not_searched(path: str, target: str) -> Problem:
    """The warning for a link to a target outside the place that is searched for archives."""
    return warning(
        "link",
        "a link points outside the searched place and is not followed",
        node=path,
        found=target,
        advice="Use --follow-links to follow it.",
    )


def is_above(target: str, directory: str) -> bool:
    """Whether the target of a link is a directory, or one of those above it."""
    return f"{directory}{os.sep}".startswith(target.rstrip(os.sep) + os.sep)


def located(problems: Iterable[Problem], path: str, document: str | None) -> tuple[Problem, ...]:
    """Problems with their node; a refusal without a key gets that of the node's document."""
    return tuple(
        [
            problem.at(node=path, key=document if problem.severity == "refusal" else None)
            for problem in problems
        ]
    )


def implicit_group(path: str, problems: Iterable[Problem] = ()) -> GroupNode:
    """A group without a document."""
    return GroupNode(path=path, implicit=True, problems=located(problems, path, None))


def refuse(nodes: dict[str, Node], problem: Problem) -> None:
    """Refuse the node named by a problem; an unknown node is added as an array.

    Its type is unknown, but an array contains values, which must not be lost silently.
    """
    path = problem.node or ""
    node = nodes.get(path)
    if node is None:
        nodes[path] = ArrayNode(path=path, problems=(problem,))
    elif isinstance(node, ArrayNode):
        nodes[path] = replace(node, layout=None, problems=(*node.problems, problem))
    else:
        nodes[path] = replace(node, problems=(*node.problems, problem))


def add_groups(nodes: dict[str, Node], directories: Mapping[str, NodeDirectory]) -> None:
    """Add the implicit groups above nodes, with problems of their names."""
    for path in list(nodes):
        for above in parents(path):
            if above not in nodes:
                problems = directories[above].problems if above in directories else name_problems(above)
                nodes[above] = implicit_group(above, problems)
