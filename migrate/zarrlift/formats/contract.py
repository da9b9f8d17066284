"""The contract of a source format that another package adds: it recognises documents, and describes nodes.

A description is in Zarr v3 terms and is complete: chunks are read, converted and verified from it alone, in
any process, and the plug-in is not asked again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, TypeAlias

from zarrstack.core.errors import Problem

from .description import Array, Directory, Group, NodeKind
from .files import Files

Described: TypeAlias = Array | Group | Problem


class SourceFormat(ABC):
    """A source format. Register it as an entry point of the group `zarrlift.formats`.

    The class is instantiated without arguments. A node that cannot be described is a problem of that node
    alone: raise MetadataError or UnsupportedError (`zarrlift.errors`) with what was found and expected, and
    the others are migrated.
    """

    name: ClassVar[str]
    """Name after `--from` and in reports."""
    documents: ClassVar[tuple[str, ...]]
    """Names of the documents that show a node of this format, such as ("tiles.json",)."""

    @abstractmethod
    def recognise(self, document: str, content: bytes) -> NodeKind | None:
        """Whether a document, one of `documents` by its name, is that of an array or a group.

        None if it is neither, as with a document of another program that has the same name, or damaged
        content. Called for every directory in which a format is detected, so it raises nothing.
        """

    def node(self, directory: Directory) -> Array | Group | None:
        """The node in a directory that has documents of this format; None if there is none.

        Override either this method or `read`. Directories below an array are not visited.
        """
        raise NotImplementedError(f"{type(self).__name__} overrides neither `node` nor `read`")

    def read(self, files: Files) -> Iterable[Described]:
        """Every node of an archive, in any order; a problem with the path of a node refuses that node.

        By default, the node of each directory. Override it for a format whose nodes are found in another way,
        such as by one index of all arrays. Two calls for an unchanged archive describe the same.
        """
        for directory in files.walk():
            try:
                node = self.node(directory)
            except Exception as error:  # noqa: BLE001 - of a plug-in, at one node: the others are described
                yield files.problem(error, directory.path, *directory.documents)
            else:
                if node is not None:
                    yield node
