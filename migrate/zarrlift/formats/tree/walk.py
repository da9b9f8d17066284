"""Walks the hierarchy of an archive whose nodes are directories with documents.

The walk proceeds level by level, so that requests to a remote store are concurrent. Remote documents are
requested by name, and only directories without an array are listed, so that chunks are never requested one by
one. A local directory is listed first, once, which is cheaper than requests for missing documents.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.paths import join

from ...core.problems import refusal
from ...storage.base import DirectoryEntry, Storage
from ...storage.local.own_names import is_own
from ...storage.local.storage import LocalStorage
from .directory import (
    CHUNK,
    MAX_LEVELS,
    DirectoryListing,
    NodeDirectory,
    broken_link,
    chunk_names,
    is_above,
    link_outside,
    link_to_parent,
    list_directory,
    name_problems,
    warn_of_case,
)
from .documents import read_each

_PASSED_OVER: Final = frozenset({".git", ".ipynb_checkpoints", "__MACOSX", ".Trashes", ".fseventsd"})
"""Directories left by other programs; no node has such a name."""
_MAX_KEPT: Final = 64
"""Maximum number of names of directories inside an array's own that are kept."""
_AT_ONCE: Final = 1000
"""Number of local directories whose listings are kept at a time."""


@dataclass(slots=True, kw_only=True)
class _Visited(NodeDirectory):
    """A directory during the walk."""

    target: str | None = None
    """Resolved path, in a local archive, of the root or of a link."""
    above: tuple[str, ...] = ()
    """Resolved paths of the directories above it."""
    plain: bool = False
    """Whether all names in its path are known to be valid."""
    listing: DirectoryListing | None = None
    """Complete content, until the walk continues; None if it was not listed."""

    @property
    def real(self) -> str:
        """Resolved path, in a local archive."""
        if self.target is not None:
            return self.target
        return os.path.join(self.above[-1], self.path.rpartition("/")[2])


def passed_over(name: str) -> bool:
    """Whether a directory of that name belongs to another program or to an interrupted job."""
    return name in _PASSED_OVER or is_own(name)


def walk(
    storage: Storage,
    *,
    documents: Sequence[str],
    is_array: Callable[[NodeDirectory], bool],
    further: Callable[[NodeDirectory], Collection[str]],
    follow_links: bool,
) -> dict[str, NodeDirectory]:
    """Every directory by path, parents before children; "" is the root.

    `documents` are requested in each; the `further` ones of a directory are read where its listing has them.
    Directories below an array are not visited.
    """
    directories: dict[str, NodeDirectory] = {}
    alike: dict[bytes, bytes] = {}
    """Each content once: the documents of most arrays are those of many others."""

    def visit(places: Sequence[_Visited]) -> list[_Visited]:
        """Complete some directories of a level; returns the directories below."""
        if isinstance(storage, LocalStorage):
            for place in places:
                place.listing = list_directory(storage, place.path)
        for place in places:
            place.problems += _directories_for_documents(storage, place, documents)
        wanted = [(place, name) for place in places for name in _to_ask(place, documents)]
        _read_documents(storage, wanted, alike, follow_links=follow_links)
        entered = []
        for place in places:
            if is_array(place):
                place.is_array = True
                _keep(place, documents)
            else:
                entered.append(place)
        below: list[_Visited] = []
        for place, entries in zip(entered, _list(storage, entered), strict=True):
            below.extend(_children(storage, place, entries, follow_links=follow_links))
        listed = [(place, name) for place in entered for name in place.files if name in further(place)]
        _read_documents(storage, listed, alike, follow_links=follow_links)
        return below

    level = [_Visited(path="", target=storage.real if isinstance(storage, LocalStorage) else "", plain=True)]
    while level:
        # A part of the listings at a time: those of 10^5 directories take as much memory as their documents.
        size = _AT_ONCE if isinstance(storage, LocalStorage) else len(level)
        parts = [level[start : start + size] for start in range(0, len(level), size)]
        level = []
        for part in parts:
            below = visit(part)
            directories.update((place.path, place) for place in part)
            # A directory that cannot be entered because of a problem is still a node, to be refused.
            directories.update((place.path, place) for place in below if place.problems and _closed(place))
            level += [place for place in below if not _closed(place)]
    return directories


def _keep(place: _Visited, documents: Sequence[str]) -> None:
    """Reduce the listing of an array's directory to what is needed later, with a few chunk names only."""
    listing, place.listing = place.listing, None
    if listing is None:
        return
    if len(listing.directories) <= _MAX_KEPT:
        place.subdirectories = tuple(listing.directories)
    if listing.many:
        return
    names, place.key_samples = chunk_names(tuple(listing.chunks))
    if listing.directories or listing.links:
        place.key_samples += tuple(listing.key_samples())
    elif set(listing.files).issubset(documents):
        place.chunk_names = names


def chunk_root(path: str, directories: dict[str, NodeDirectory], *, is_key: Callable[[str], bool]) -> str:
    """The array to which a directory with chunks belongs: trailing numbers are nested keys.

    So is one other name above them that `is_key`, as is `c`. No such name's array is a node, or the root.
    """
    while not directories[path].documents:
        above, _, name = path.rpartition("/")
        is_number = CHUNK.fullmatch(name) is not None
        if not above or not (is_number or is_key(name)) or directories[above].documents:
            break
        path = above
        if not is_number:
            break
    return path


def _closed(place: _Visited) -> bool:
    """Whether a directory must not be entered, because it resolves to a place outside its parent."""
    if place.path.rpartition("/")[2] in ("", ".", "..") and place.above:
        return True
    if place.path.count("/") >= MAX_LEVELS:
        return True
    if not place.problems:
        return False
    return any(problem.kind == "link" and problem.severity == "refusal" for problem in place.problems)


def _read_documents(
    storage: Storage,
    wanted: Sequence[tuple[_Visited, str]],
    alike: dict[bytes, bytes],
    *,
    follow_links: bool,
) -> None:
    keys = [join(place.path, name) for place, name in wanted]
    contents = read_each(storage, keys)
    for (place, name), key, content in zip(wanted, keys, contents, strict=True):
        if content is None:
            continue
        if isinstance(content, StorageError):
            place.fail(content, key)
            continue
        target = _link(storage, place, name, key)
        if target is not None and storage.leaves_root(target) and not follow_links:
            place.problems.append(link_outside(place.path, key, target))
        place.documents[name] = alike.setdefault(content, content)


def _to_ask(place: _Visited, names: Sequence[str]) -> Sequence[str]:
    """The documents to request: all except those that a listing shows to be missing."""
    seen = place.listing
    return names if seen is None else [name for name in names if name in seen.files or name in seen.links]


def _directories_for_documents(storage: Storage, place: _Visited, names: Sequence[str]) -> Iterator[Problem]:
    """A refusal for each directory with a document's name that is used for nothing else."""
    directories: Sequence[str] = ()
    if place.listing is not None:
        directories = place.listing.directories
    elif isinstance(storage, LocalStorage):
        with contextlib.suppress(StorageError):  # reported where the walk continues
            directories = storage.directories(place.path)
    for name in directories:
        if name in names and (name == names[0] or name.startswith(".")):
            yield refusal(
                "storage",
                "not a regular file",
                node=place.path,
                key=join(place.path, name),
                found="a directory",
                expected="a regular file",
                advice="Remove it, or exclude the node with --exclude.",
            )


def _link(storage: Storage, place: _Visited, name: str, key: str) -> str | None:
    """The target of a document of a local archive that is a link."""
    if place.listing is None:
        return storage.link(key) if isinstance(storage, LocalStorage) else None
    link = place.listing.links.get(name)
    return None if link is None else link.link


def _list(storage: Storage, places: Sequence[_Visited]) -> list[list[DirectoryEntry]]:
    """The entries of some directories; of files named like chunks, at least the first."""
    listings = []
    rest = []
    for place in places:
        seen, place.listing = place.listing, None
        if seen is None or seen.many:
            rest.append(place)
        listings.append(None if seen is None or seen.many else list(seen.entries()))
    others = iter(_list_anew(storage, rest))
    return [next(others) if entries is None else entries for entries in listings]


def _list_anew(storage: Storage, places: Sequence[_Visited]) -> list[list[DirectoryEntry]]:
    try:
        return storage.list_dirs([place.path for place in places])
    except StorageError:
        listings = []
        for place in places:
            try:
                listings.append(list(storage.list_dir(place.path)))
            except StorageError as error:
                if not place.path:
                    raise
                place.fail(error)
                listings.append([])
        return listings


def _children(
    storage: Storage, place: _Visited, entries: Sequence[DirectoryEntry], *, follow_links: bool
) -> list[_Visited]:
    """The subdirectories of a directory; its other entries are stored in `place`."""
    children = []
    files = []
    above = (*place.above, place.real)
    for entry in sorted(entries, key=lambda entry: entry.name):
        if entry.is_dir:
            if not passed_over(entry.name):
                children.append(_child(storage, place, entry, above, follow_links=follow_links))
        elif entry.link is not None and not os.path.exists(entry.link) and not entry.name.startswith("."):
            path = join(place.path, entry.name)
            children.append(_Visited(path=path, problems=[broken_link(path, entry.link)]))
        elif CHUNK.fullmatch(entry.name):
            place.chunk = place.chunk or entry.name
        else:
            files.append(entry.name)
    place.files = tuple(files)
    warn_of_case(children)
    return children


def _child(
    storage: Storage, place: _Visited, entry: DirectoryEntry, above: tuple[str, ...], *, follow_links: bool
) -> _Visited:
    path, name = join(place.path, entry.name), entry.name
    # A Python identifier below other identifiers is a valid name.
    plain = (
        place.plain and name.isidentifier() and not name.startswith("__") and len(place.above) < MAX_LEVELS
    )
    problems = [] if plain else name_problems(path) or ([] if name else name_problems("/"))
    child = _Visited(path=path, problems=problems, target=entry.link, above=above, plain=plain)
    if entry.link is not None:
        if storage.leaves_root(entry.link) and not follow_links:
            child.problems.append(link_outside(path, None, entry.link))
        elif any(is_above(entry.link, real) for real in child.above):
            child.problems.append(link_to_parent(path, entry.link))
    return child
