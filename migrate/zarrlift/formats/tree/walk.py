"""Walks the hierarchy of an archive whose nodes are directories with documents.

The walk proceeds level by level, so that requests to a remote store are concurrent. Remote documents are
requested by name, and only directories without an array are listed, so that chunks are never requested one by
one. A local directory is listed first, once, which is cheaper than requests for missing documents.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from zarrstack.core.errors import Problem, StorageError, any_refusal
from zarrstack.core.paths import join

from ...storage.base import Entry, Storage
from ...storage.local.scratch import is_own
from ...storage.local.storage import LocalStorage
from .directory import CHUNK, Look, look
from .documents import read_each

MOST_LEVELS: Final = 256
"""Maximum depth of groups; real archives have about ten. Also limits paths too long for the system."""
_PASSED_OVER: Final = frozenset({".git", ".ipynb_checkpoints", "__MACOSX", ".Trashes", ".fseventsd"})
"""Directories left by other programs; no node has such a name."""
_MOST_KEPT: Final = 64
"""Maximum number of names of directories inside an array's own that are kept."""


@dataclass(slots=True, kw_only=True)
class Found:
    """A directory, as known before its documents are parsed."""

    path: str
    documents: dict[str, bytes] = field(default_factory=dict)
    """Name -> content of the requested documents that exist."""
    problems: list[Problem] = field(default_factory=list)
    """Problems with names, links and storage."""
    chunk: str | None = None
    """A name in it that looks like a chunk's; None if it was not listed."""
    files: tuple[str, ...] = ()
    """Other files in it; empty if it was not listed."""
    real: str = ""
    """Resolved path, in a local archive."""
    above: tuple[str, ...] = ()
    """Resolved paths of the directories above it."""
    plain: bool = False
    """Whether all names in its path are known to be valid."""
    look: Look | None = None
    """Complete content, until the walk continues; None if it was not listed."""
    inner: tuple[str, ...] | None = None
    """For an array: names of the directories in its own; None if not listed, or if there are many."""
    shown: tuple[Entry, ...] | None = None
    """For an array: entries that show the form of its chunk keys; None as above."""
    bare: bool = False
    """For an array: whether its directory contains only documents."""

    @property
    def refused(self) -> bool:
        """Whether a problem excludes it."""
        return any_refusal(self.problems)

    def first(self, names: Sequence[str]) -> str | None:
        """The first of some document names that exists here."""
        return next((name for name in names if name in self.documents), None)

    def key_of(self, *names: str) -> str | None:
        """The key of the first of some documents that exists here."""
        name = self.first(names)
        return None if name is None else join(self.path, name)


def passed_over(name: str) -> bool:
    """Whether a directory of that name belongs to another program or to an interrupted job."""
    return name in _PASSED_OVER or is_own(name)


def walk(
    storage: Storage,
    *,
    documents: Sequence[str],
    leaves: frozenset[str] | Callable[[Found], bool],
    follow_links: bool = False,
) -> dict[str, Found]:
    """Every directory by path, parents before children; "" is the root.

    `documents` are requested in each. A directory with a document named in `leaves`, or for which `leaves`
    returns true, is an array; directories below it are not visited.
    """
    found: dict[str, Found] = {}
    real = storage.real if isinstance(storage, LocalStorage) else ""
    level = [Found(path="", real=real, plain=True)]
    while level:
        if isinstance(storage, LocalStorage):
            for place in level:
                place.look = look(storage, place.path)
        _read_documents(storage, level, documents, follow_links=follow_links)
        found.update((place.path, place) for place in level)
        inner = []
        for place in level:
            if _is_leaf(place, leaves):
                _keep(place, documents)
            else:
                inner.append(place)
        below: list[Found] = []
        for place, entries in zip(inner, _list(storage, inner), strict=True):
            below.extend(_children(storage, place, entries, follow_links=follow_links))
        # A directory that cannot be entered because of a problem is still a node, to be refused.
        found.update((place.path, place) for place in below if place.problems and _closed(place))
        level = [place for place in below if not _closed(place)]
    return found


def _is_leaf(place: Found, leaves: frozenset[str] | Callable[[Found], bool]) -> bool:
    return bool(leaves & place.documents.keys()) if isinstance(leaves, frozenset) else leaves(place)


def _keep(place: Found, documents: Sequence[str]) -> None:
    """Reduce the listing of an array's directory to what is needed later, with a few chunk names only."""
    seen, place.look = place.look, None
    if seen is None:
        return
    place.bare = not (seen.directories or seen.links or seen.chunk) and all(
        name in documents for name in seen.files
    )
    if len(seen.directories) <= _MOST_KEPT:
        place.inner = tuple(seen.directories)
    if not seen.many:
        place.shown = tuple(seen.shown.values())


def bad_name(name: str) -> str | None:
    """The problem of a node name, or None.

    https://zarr-specs.readthedocs.io/en/latest/v3/core/#node-names forbids empty names and names consisting
    of periods; a node named `zarr.json` would collide with its parent's document.
    """
    if not name:
        return "a node has an empty name"
    if not name.strip("."):
        return "a node's name is made of periods only"
    if name == "zarr.json":
        return "a node is called zarr.json, which is where Zarr v3 keeps metadata"
    if "\0" in name or "\\" in name:
        return "a node's name has a character that no store keeps"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "a node's name is not UTF-8"
    return None


def name_problems(path: str) -> list[Problem]:
    """Problems of the last name of a path, and refusals for the names above it."""
    *above, name = path.split("/")
    if len(above) >= MOST_LEVELS:
        message = f"a node lies more than {MOST_LEVELS} levels deep"
        return [Problem(kind="name", message=message, node=path, advice="Move it up, or exclude it.")]
    for other in above:
        if bad_name(other) is not None:
            message = "a node lies below one whose name Zarr v3 does not allow"
            advice = "Rename or exclude that one."
            return [Problem(kind="name", message=message, node=path, found=repr(other), advice=advice)]
    wrong = bad_name(name) if path else None
    if wrong is not None:
        return [
            Problem(kind="name", message=wrong, node=path, found=repr(name), advice="Rename or exclude it.")
        ]
    if name.startswith("__"):
        message = "names that start with __ are reserved in Zarr v3"
        return [Problem(kind="name", severity="warning", message=message, node=path, found=repr(name))]
    return []


def inside(
    storage: Storage, path: str, documents: Sequence[str], inner: Sequence[str] | None = None
) -> list[str]:
    """Keys of documents in subdirectories of an array's own, one each: nodes at invalid locations.

    `inner` are the names of these directories, if known. Local archives only; elsewhere they appear as strays
    when the array's chunks are listed.
    """
    if not isinstance(storage, LocalStorage):
        return []
    if inner is None:
        inner = storage.directories(path)
    names = [name for name in inner if not CHUNK.fullmatch(name)]
    places = [join(path, name) for name in names if not passed_over(name)]
    result: list[str] = []
    for place in places:
        keys = [join(place, name) for name in documents]
        contents = storage.get_many(keys)
        there = (key for key, content in zip(keys, contents, strict=True) if content is not None)
        result.extend(islice(there, 1))
    return result


def chunk_root(path: str, found: dict[str, Found]) -> str:
    """The array to which a directory with chunks belongs: trailing numbers are nested keys."""
    while True:
        above, _, name = path.rpartition("/")
        if not above or not CHUNK.fullmatch(name) or found[above].documents:
            return path
        path = above


def _closed(place: Found) -> bool:
    """Whether a directory must not be entered, because it resolves to a place outside its parent."""
    if place.path.rpartition("/")[2] in ("", ".", "..") and place.above:
        return True
    if place.path.count("/") >= MOST_LEVELS:
        return True
    return any(problem.kind == "link" and problem.severity == "refusal" for problem in place.problems)


def _read_documents(
    storage: Storage, level: Sequence[Found], names: Sequence[str], *, follow_links: bool
) -> None:
    for place in level:
        place.problems += _directories_for_documents(storage, place, names)
    wanted = [(place, name, join(place.path, name)) for place in level for name in _to_ask(place, names)]
    contents = read_each(storage, [key for _, _, key in wanted])
    for (place, name, key), content in zip(wanted, contents, strict=True):
        if content is None:
            continue
        if isinstance(content, StorageError):
            if not any(problem.kind == "storage" for problem in place.problems):
                place.problems.append(content.problem.at(node=place.path, key=key))
            continue
        target = _link(storage, place, name, key)
        if target is not None and storage.leaves_root(target) and not follow_links:
            place.problems.append(leading_out(place.path, key, target))
        place.documents[name] = content


def _to_ask(place: Found, names: Sequence[str]) -> Sequence[str]:
    """The documents to request: all except those that a listing shows to be missing."""
    seen = place.look
    return names if seen is None else [name for name in names if name in seen.files or name in seen.links]


def _directories_for_documents(storage: Storage, place: Found, names: Sequence[str]) -> Iterator[Problem]:
    """A refusal for each directory with a document's name that is used for nothing else."""
    directories: Sequence[str] = ()
    if place.look is not None:
        directories = place.look.directories
    elif isinstance(storage, LocalStorage):
        with contextlib.suppress(StorageError):  # reported where the walk continues
            directories = storage.directories(place.path)
    for name in directories:
        if name == names[0] or (name in names and name.startswith(".")):
            yield Problem(
                kind="storage",
                message="not a regular file",
                node=place.path,
                key=join(place.path, name),
                found="a directory",
                expected="a regular file",
                advice="Remove it, or leave the node out with --exclude.",
            )


def _link(storage: Storage, place: Found, name: str, key: str) -> str | None:
    """The target of a document of a local archive that is a link."""
    if place.look is None:
        return storage.link(key) if isinstance(storage, LocalStorage) else None
    link = place.look.links.get(name)
    return None if link is None else link.link


def _list(storage: Storage, places: Sequence[Found]) -> list[list[Entry]]:
    """The entries of some directories; of files named like chunks, at least the first."""
    listings = []
    rest = []
    for place in places:
        seen, place.look = place.look, None
        if seen is None or seen.many:
            rest.append(place)
        listings.append(None if seen is None or seen.many else list(seen.entries()))
    others = iter(_list_anew(storage, rest))
    return [next(others) if entries is None else entries for entries in listings]


def _list_anew(storage: Storage, places: Sequence[Found]) -> list[list[Entry]]:
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
                if not any(problem.kind == "storage" for problem in place.problems):
                    place.problems.append(error.problem.at(node=place.path))
                listings.append([])
        return listings


def _children(storage: Storage, place: Found, entries: Sequence[Entry], *, follow_links: bool) -> list[Found]:
    """The subdirectories of a directory; its other entries are stored in `place`."""
    children = []
    files = []
    for entry in sorted(entries, key=lambda entry: entry.name):
        if entry.is_dir:
            if not passed_over(entry.name):
                children.append(_child(storage, place, entry, follow_links=follow_links))
        elif entry.link is not None and not os.path.exists(entry.link) and not entry.name.startswith("."):
            path = join(place.path, entry.name)
            children.append(Found(path=path, problems=[leading_nowhere(path, entry.link)]))
        elif CHUNK.fullmatch(entry.name):
            place.chunk = place.chunk or entry.name
        else:
            files.append(entry.name)
    place.files = tuple(files)
    warn_of_case(children)
    return children


def _child(storage: Storage, place: Found, entry: Entry, *, follow_links: bool) -> Found:
    path, name = join(place.path, entry.name), entry.name
    # A Python identifier below other identifiers is a valid name.
    plain = (
        place.plain and name.isidentifier() and not name.startswith("__") and len(place.above) < MOST_LEVELS
    )
    problems = [] if plain else name_problems(path) or ([] if name else name_problems("/"))
    real = entry.link or os.path.join(place.real, name)
    child = Found(path=path, problems=problems, real=real, above=(*place.above, place.real), plain=plain)
    if entry.link is not None:
        if storage.leaves_root(entry.link) and not follow_links:
            child.problems.append(leading_out(path, None, entry.link))
        elif any(
            real == entry.link or real.startswith(entry.link.rstrip(os.sep) + os.sep) for real in child.above
        ):
            child.problems.append(leading_back(path, entry.link))
    return child


def leading_away(path: str | None, key: str | None, target: str) -> Problem:
    """The problem of a link that is not followed: broken, or to a target elsewhere."""
    if os.path.exists(target):
        return leading_out(path, key, target)
    return leading_nowhere(path, target).at(key=key)


def leading_nowhere(path: str | None, target: str) -> Problem:
    """The problem of a broken link, which cannot be followed."""
    return Problem(
        kind="link",
        message="a link leads nowhere",
        node=path,
        found=target,
        advice="Fetch what it leads to (git-annex and DataLad do with `git annex get`), or exclude the node.",
    )


def leading_back(path: str | None, target: str) -> Problem:
    """The problem of a link to a directory above it."""
    message = "a link leads back to where it is reached from"
    return Problem(kind="link", message=message, node=path, found=target)


def leading_out(path: str | None, key: str | None, target: str | None) -> Problem:
    """The problem of a link to a target outside the archive."""
    return Problem(
        kind="link",
        message="a link leads out of the archive",
        node=path,
        key=key,
        found=target,
        advice="Follow it with --follow-links, or exclude the node.",
    )


def warn_of_case(children: Sequence[Found]) -> None:
    """Add a warning to siblings whose names are equal on case-insensitive file systems."""
    seen: dict[str, str] = {}
    for child in children:
        other = seen.setdefault(child.path.casefold(), child.path)
        if other != child.path:
            message = "two names differ only by case; a file system that ignores case keeps one of them"
            child.problems.append(
                Problem(
                    kind="name", severity="warning", message=message, node=child.path, found=f"/{other} too"
                )
            )
