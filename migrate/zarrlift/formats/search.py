"""Searches a folder, a prefix of a store or a glob for archives.

An archive is found by its documents, which identify a format as in `detect`. Its root is the outermost node:

- A folder with a document is the root of an archive, and the folders below it are in its tree. Nodes of
  another format among them are reported as `nested`.
- A folder without a document of its own is a root too if its name is that of an archive (`.zarr`, `.n5`, ...)
  and the nearest nodes below it are of one format (`detect` reads such an archive with an implicit group).
- So is any other one in which arrays of one format are directly, without their group's document: N5 has none,
  Zarr v1 no groups, old copies of Zarr v2 have lost it. With groups or names of archives, each is one.
- A zip file is an archive if there is one in it; in stores, files are not searched.

Chunks are never listed: a directory that is an array is not entered. Hidden directories are skipped.

In a glob, `*`, `?` and `[]` match within a name, `**` any number of directories.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from zarrstack.core.errors import Problem, StorageError, UsageError, ZarrstackError
from zarrstack.core.paths import join

from ..recipe.options import Format
from ..storage.base import DirectoryEntry, Storage
from ..storage.containers.table import SUFFIXES
from ..storage.local.storage import LocalStorage
from ..storage.open_storage import is_url, open_storage, place_below
from .detect import Marks, Seen, choose, detect, marks_at, nearest, nothing
from .tree.directory import broken_link, is_above, not_searched
from .tree.walk import passed_over
from .zarr_v3_draft.places import document_below

NAMED: Final = re.compile(r".\.(zarr|n5|zr|zr[123]|zarr[123])$", re.IGNORECASE)
"""End of the names that people give to archives; `.zr3` was the draft's in zarr-python 2."""
_AT_ONCE: Final = 1000
"""Number of directories whose documents, or names, are requested together."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundArchive:
    """The place of an archive."""

    url: str = field(repr=False)
    """What `open_storage` opens with the options of the search; both may contain a password."""
    relative: str
    """Path below the searched place, or below the constant part of a glob; "" if the place is the archive."""
    format: Format
    nested: tuple[str, ...] = ()
    """Archives inside it that are not part of its tree, as paths like `relative`."""


def search(
    place: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    follow_links: bool = False,
) -> Iterator[FoundArchive | Problem]:
    """The archives in a place, and what could not be searched, sorted by path.

    `place` is a folder, a prefix of a store, or a glob with `*`, `?`, `[]` and `**`; in a URL, only `*` and
    `[` make it a glob. A match of a glob is an archive, or is searched. The node of a problem is a path like
    `FoundArchive.relative`; one of severity "refusal" may hide archives. Links are followed if they stay in
    the searched place, and with `follow_links` if they leave it; each archive is found once.

    Raises UsageError for a place that does not exist or cannot be listed.
    """
    base, glob = divided(os.fspath(place))
    storage = open_storage(base, storage_options=storage_options, follow_links=follow_links)
    return _Search(
        base=base, glob=glob, storage=storage, options=storage_options, follow_links=follow_links
    ).results()


def is_tree(
    place: str | os.PathLike[str], storage: Storage, *, storage_options: Mapping[str, Any] | None = None
) -> bool:
    """Whether a place, whose storage is open, is to be searched, because it is not an archive itself."""
    if not storage.can_list:
        return False
    return _Search(base=os.fspath(place), storage=storage, options=storage_options).is_tree()


@dataclass(slots=True, kw_only=True, eq=False)
class _Root:
    """An archive that was found."""

    place: _Place
    format: Format
    nested: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, eq=False)
class _Place:
    """A directory of the search."""

    path: str
    named: bool
    """Whether its name is that of an archive."""
    positions: Positions | None = None
    """Where in the glob its path ends; None if it matches, or if there is no glob."""
    root: _Root | None = None
    """The archive in which it is."""
    real: str = ""
    """Resolved path, in a local storage."""
    by_link: bool = False
    """Whether its path contains a link."""


@dataclass(slots=True, kw_only=True)
class _Search:
    base: str
    """The place, or the constant part of the glob, as given."""
    storage: Storage
    options: Mapping[str, Any] | None
    glob: Glob | None = None
    follow_links: bool = False
    roots: list[_Root] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    """Directories that cannot be searched."""
    followed: set[str] = field(default_factory=set)
    """Targets of the links that were followed."""

    def results(self) -> Iterator[FoundArchive | Problem]:
        """Everything that was found, sorted."""
        places = self._start()
        while places:
            starts = range(0, len(places), _AT_ONCE)
            places = [each for start in starts for each in self._below(places[start : start + _AT_ONCE])]
        every: list[FoundArchive | Problem] = [*map(self._found_archive, self._unique()), *self.problems]
        yield from sorted(every, key=_path_of)

    def is_tree(self) -> bool:
        """Whether the place itself is not an archive, nor an invalid one."""
        for place in self._start():
            self._below([place])
            return place.root is None
        return False

    def _start(self) -> list[_Place]:
        """The place itself, unless there is nothing to search below it."""
        place = _Place(
            path="",
            named=bool(NAMED.search(self.storage.url)),
            positions=None if self.glob is None else self.glob.start,
            real=self.storage.real if isinstance(self.storage, LocalStorage) else "",
        )
        entered = self._enter(place, self._marks([place]).get(""))
        if not self.storage.can_list and not self.roots:
            raise UsageError(
                "archives can only be searched for in a place that can be listed",
                found=self.storage.url,
                advice="Give the place of one archive.",
            )
        return [place] if entered and self.storage.can_list else []

    def _below(self, places: Sequence[_Place]) -> list[_Place]:
        """The directories to search below these; archives among them are added to `roots`."""
        listings: dict[str, list[DirectoryEntry]] = {}
        for paths, some in self._answers([place.path for place in places], self.storage.list_dirs):
            listings.update(zip(paths, some, strict=True))
        groups = [(place, self._children(place, listings.get(place.path, []))) for place in places]
        marks = self._marks([child for _, children in groups for child in children])
        entered = []
        for place, children in groups:
            if place.root is None and place.positions is None:
                self._claim(place, {child: each for child in children if (each := marks.get(child.path))})
            for child in children:
                child.root = place.root
                if self._enter(child, marks.get(child.path)):
                    entered.append(child)
        return entered

    def _children(self, place: _Place, entries: Sequence[DirectoryEntry]) -> list[_Place]:
        """The directories in a directory that may be archives, or contain some; files may hold one."""
        if place.root is None and place.positions is None and DirectoryEntry("meta", is_dir=True) in entries:
            with suppress(StorageError):  # reported where it is listed
                if document_below(self.storage, place.path) is not None:
                    self._add(place, "zarr3-draft")
        drafts = place.root is not None and place.root.place is place and place.root.format == "zarr3-draft"
        children = []
        for entry in sorted(entries, key=lambda entry: entry.name):
            name, path = entry.name, join(place.path, entry.name)
            if name in ("", "..") or name.startswith(".") or passed_over(name):
                continue
            positions = place.positions
            if positions is not None and self.glob is not None:
                positions = self.glob.after(positions, name)
            if positions is not None and not positions:
                continue
            if not entry.is_dir:
                if place.root is None and positions is None:
                    self._file(place, entry, path)
            elif not (drafts and name in ("meta", "data")) and self._may_enter(place, entry, path):
                children.append(
                    _Place(
                        path=path,
                        named=bool(NAMED.search(name)),
                        positions=positions,
                        root=place.root,
                        real=entry.link or (os.path.join(place.real, name) if place.real else ""),
                        by_link=place.by_link or entry.link is not None,
                    )
                )
        return children

    def _may_enter(self, place: _Place, entry: DirectoryEntry, path: str) -> bool:
        """Whether to enter a directory: no link in an archive, to a place above it, or followed before."""
        if entry.link is None:
            return True
        if place.root is not None or is_above(entry.link, place.real) or entry.link in self.followed:
            return False
        if self.storage.leaves_root(entry.link) and not self.follow_links:
            self.problems.append(not_searched(path, entry.link))
            return False
        self.followed.add(entry.link)
        return True

    def _file(self, directory: _Place, entry: DirectoryEntry, path: str) -> None:
        """Add the archive in a zip file; a problem for an archive's name with something else in it."""
        stem, suffix = os.path.splitext(entry.name)
        if entry.link is not None and not os.path.exists(entry.link):
            if NAMED.search(entry.name) or NAMED.search(stem):
                self.problems.append(broken_link(path, entry.link))
            return
        local = isinstance(self.storage, LocalStorage)
        if (
            suffix.lower() not in (*SUFFIXES, ".tar")
            or not local
            or not self._may_enter(directory, entry, path)
        ):
            return
        try:
            place = _Place(path=path, named=True, real=entry.link or "", by_link=entry.link is not None)
            self._add(place, detect(open_storage(self._url(path))))
        except ZarrstackError as error:
            if NAMED.search(stem):
                self.problems.append(error.problem.at(node=path))

    def _claim(self, place: _Place, nodes: Mapping[_Place, Marks]) -> None:
        """Make a directory without a document the root of the arrays in it, if they are of one archive."""
        if not nodes or any(child.named or not marks.array for child, marks in nodes.items()):
            return
        with suppress(UsageError):
            self._add(place, choose(self.storage, {child.path: marks for child, marks in nodes.items()}))

    def _enter(self, place: _Place, marks: Marks | None) -> bool:
        """Whether to search below a directory; adds it if it is an archive, or a nested one."""
        if place.path in self.failed:
            return False
        if place.positions is not None:
            return marks is None  # `**` does not lead into archives
        if marks is None:
            return place.root is not None or not place.named or self._enter_named(place)
        if place.root is not None:
            if place.root.format not in marks.formats:
                place.root.nested.append(place.path)
                return False
        else:
            try:
                self._add(place, choose(self.storage, {place.path: marks}))
            except UsageError as error:
                self.problems.append(error.problem.at(node=place.path))
                return False
        return not marks.array

    def _enter_named(self, place: _Place) -> bool:
        """`_enter` for a directory that has the name of an archive, but no document."""
        try:
            inside = self.storage
            if place.path:
                inside = open_storage(self._url(place.path), storage_options=self.options)
            if not (seen := nearest(inside)):
                raise nothing(inside)
        except ZarrstackError as error:
            self.problems.append(error.problem.at(node=place.path))
            return False
        with suppress(UsageError):  # it contains archives of several formats
            self._add(place, choose(inside, seen))
        return True

    def _add(self, place: _Place, format: Format) -> None:
        place.root = _Root(place=place, format=format)
        self.roots.append(place.root)

    def _marks(self, places: Sequence[_Place]) -> Seen:
        """The markers in some directories; those that cannot be read are added to `failed`."""
        seen: Seen = {}
        # Directories above the matches of a glob are not archives, and those that `**` passes must not be.
        wanted = [place for place in places if self.glob is None or self.glob.any_depth(place.positions)]
        # Most directories of an archive are arrays of its format, which one document shows.
        inside: dict[Format, list[str]] = {}
        for place in wanted:
            if place.root is not None:
                inside.setdefault(place.root.format, []).append(place.path)
        for root_format, paths in inside.items():
            seen |= {path: marks for path, marks in self._marks_at(paths, root_format).items() if marks.array}
        left = [place.path for place in wanted if place.path not in seen and place.path not in self.failed]
        return seen | self._marks_at(left, None)

    def _marks_at(self, paths: Sequence[str], arrays_of: Format | None) -> Seen:
        answers = self._answers(paths, lambda some: marks_at(self.storage, some, arrays_of))
        return {path: marks for _, seen in answers for path, marks in seen.items()}

    def _answers(
        self, paths: Sequence[str], ask: Callable[[Sequence[str]], T]
    ) -> Iterator[tuple[Sequence[str], T]]:
        """Answers for many directories at a time; those that cannot be read are added to `failed`."""
        for start in range(0, len(paths), _AT_ONCE):
            some = paths[start : start + _AT_ONCE]
            try:
                answers = [(some, ask(some))]
            except StorageError:
                answers = []
                for path in some:
                    try:
                        answers.append(([path], ask([path])))
                    except StorageError as error:
                        self._fail(path, error)
            yield from answers

    def _fail(self, path: str, error: StorageError) -> None:
        self.failed.add(path)
        self.problems.append(error.problem.at(node=path))

    def _unique(self) -> Iterator[_Root]:
        """The archives without those that a link shows again."""
        real_paths = {root.place.real for root in self.roots if not root.place.by_link}
        for root in sorted(self.roots, key=lambda root: root.place.path):
            real = Path(root.place.real)
            if root.place.by_link and any(str(above) in real_paths for above in (real, *real.parents)):
                continue
            real_paths.add(root.place.real)
            yield root

    def _found_archive(self, root: _Root) -> FoundArchive:
        url, nested = self._url(root.place.path), tuple(sorted(root.nested))
        return FoundArchive(url=url, relative=root.place.path, format=root.format, nested=nested)

    def _url(self, path: str) -> str:
        return place_below(self.base if is_url(self.base) else self.storage.url, path)


def _path_of(result: FoundArchive | Problem) -> tuple[list[str], bool]:
    path = result.relative if isinstance(result, FoundArchive) else result.node
    return (path or "").split("/"), isinstance(result, Problem)


Positions: TypeAlias = frozenset[int]
"""The numbers of components that may match the next name of a path; empty if no path below it matches."""
_MAGIC: Final = re.compile(r"[*?[]")
_MAGIC_IN_URL: Final = re.compile(r"[*[]")
"""In a URL, a question mark starts a query."""
_ANY_DEPTH: Final = "**"


@dataclass(frozen=True, slots=True)
class Glob:
    """The components of a glob below its constant part."""

    names: tuple[re.Pattern[str] | None, ...]
    """None matches any number of directories."""

    @classmethod
    def of(cls, names: Sequence[str]) -> Glob:
        """The glob with these components."""
        return cls(tuple(None if name == _ANY_DEPTH else re.compile(translate(name)) for name in names))

    @property
    def start(self) -> Positions | None:
        """The positions of the constant part itself; None if that matches."""
        return self._at({0})

    def after(self, positions: Positions, name: str) -> Positions | None:
        """The positions after the next name of a path; None if the path matches."""
        reached: set[int] = set()
        for position in positions:
            pattern = self.names[position]
            if pattern is None:
                reached.add(position)
            elif pattern.match(name):
                reached.add(position + 1)
        return self._at(reached)

    def any_depth(self, positions: Positions | None) -> bool:
        """Whether the path matches, or `**` may match here."""
        return positions is None or any(self.names[position] is None for position in positions)

    def _at(self, positions: Iterable[int]) -> Positions | None:
        reached: set[int] = set()
        for position in positions:
            reached.add(position)
            while position < len(self.names) and self.names[position] is None:
                position += 1  # noqa: PLW2901 - `**` matches nothing as well
                reached.add(position)
        return None if len(self.names) in reached else frozenset(reached)


def divided(place: str) -> tuple[str, Glob | None]:
    """The constant part of a glob and the rest; the place itself if it is not a glob."""
    if is_url(place):
        scheme, slashes, rest = place.partition("://")
        names = rest.split("/")
        at = _first(names, _MAGIC_IN_URL)
        if at is None or "::" in place:
            return place, None
        return scheme + slashes + "/".join(names[:at]), Glob.of([name for name in names[at:] if name])
    names = list(Path(place).parts)
    at = _first(names, _MAGIC)
    if at is None or os.path.lexists(os.path.expanduser(place)):
        return place, None
    return str(Path(*names[:at])), Glob.of(names[at:])


def _first(names: Sequence[str], magic: re.Pattern[str]) -> int | None:
    """The number of the first component that is not constant."""
    return next((at for at, name in enumerate(names) if magic.search(name)), None)
