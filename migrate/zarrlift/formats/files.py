"""What a format of another package sees of an archive: documents and names, in any kind of storage."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zarrstack.core.errors import (
    MetadataError,
    Problem,
    StorageError,
    UnsupportedError,
    UsageError,
    ZarrstackError,
)
from zarrstack.core.json_text import excerpt
from zarrstack.core.paths import join

from ..core.problems import refusal
from ..recipe.format_names import provider
from ..storage.local.storage import LocalStorage
from .description import Directory
from .tree.links import broken_link, link_outside

if TYPE_CHECKING:
    from .tree.reader import Describer


class Files:
    """The files of an archive, by keys relative to its root: names joined by "/".

    Reading is limited to the archive and to the maximum size of a document (`--max-document-size`); links
    that leave the archive are followed only with `--follow-links`.
    """

    def __init__(self, nodes: Describer) -> None:
        """`nodes` finds the directories of the archive."""
        self._nodes = nodes
        self._tree = nodes.tree
        self._storage = nodes.tree.storage
        self._follow_links = nodes.tree.reading.follow_links
        self.url = self._storage.url
        """Place of the archive, for messages; contains no credentials."""
        self._contents: dict[str, bytes] = {}

    def walk(self) -> Iterator[Directory]:
        """Each directory with documents of the format, parents first; none below an array.

        In a store that cannot list, the root alone, which must be an array: UsageError if it is not.
        """
        self._nodes.find()
        for path, place in self._tree.directories.items():
            for name, content in place.documents.items():
                self._contents[join(path, name)] = content
            if place.documents and not place.refused:
                yield Directory(path=path, documents=dict(place.documents))

    def read(self, key: str) -> bytes | None:
        """A file; None if there is none. StorageError if it cannot be read."""
        return self.read_many([key])[0]

    def read_many(self, keys: Iterable[str]) -> Sequence[bytes | None]:
        """Several files, each as from `read`; a remote store fetches them concurrently."""
        keys = [self._checked(key) for key in keys]
        contents = self._storage.get_many(keys)
        self._contents.update(
            {key: content for key, content in zip(keys, contents, strict=True) if content is not None}
        )
        return contents

    def names(self, path: str = "") -> tuple[str, ...]:
        """The names in a directory, sorted, those of directories with "/" at the end.

        Names of links that are not followed are omitted. UsageError for a store that cannot list.
        """
        if not self._storage.can_list:
            error = self._tree.unknown_nodes()
            error.problem = replace(error.problem, expected="a store that can be listed")
            raise error
        entries = self._storage.list_dir(self._checked(path) if path else "")
        followed = (
            entry for entry in entries if self._follow_links or not self._storage.leaves_root(entry.link)
        )
        return tuple(sorted(entry.name + "/" * entry.is_dir for entry in followed))

    def content(self, key: str) -> bytes | None:
        """A file that was read before, without reading it again; else as from `read`."""
        return self._contents[key] if key in self._contents else self.read(key)

    def problem(self, error: Exception, path: str, *names: str) -> Problem:
        """The refusal of a node at a path, whose description failed with an error; `names` of documents.

        What is not an error of zarrlift is a fault of the format. MemoryError is raised again.
        """
        if isinstance(error, UsageError | MemoryError):
            raise error
        key = join(path, names[0]) if names else None
        if isinstance(error, ZarrstackError):
            return error.problem.at(node=path, key=key)
        package = provider(self._tree.row.name)
        return refusal(
            "format",
            f"the format {self._tree.row.name!r} of {package} fails to describe a node",
            node=path,
            key=key,
            found=" ".join(f"{type(error).__name__}: {error}".split()),
            advice=f"Check its document; if that is valid, report this to the authors of {package}.",
        )

    def _checked(self, key: Any) -> str:
        """A key that stays in the archive."""
        if not isinstance(key, str) or any(name in ("", ".", "..") for name in key.split("/")):
            raise MetadataError("this is not the key of a file in the archive", found=excerpt(key))
        if isinstance(self._storage, LocalStorage) and not self._follow_links:
            target = os.path.realpath(self._storage.path(key))
            if self._storage.leaves_root(target):
                problem = link_outside(None, key, target)
                raise UnsupportedError(problem.message, key=key, found=target, advice=problem.advice)
            if not os.path.exists(target) and os.path.islink(self._storage.path(key)):
                raise StorageError(broken_link(None, target).message, key=key, found=target)
        return key
