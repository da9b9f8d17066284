"""Files in an archive that belong to no node, and which of them to report."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.paths import join

from ...archive.nodes import ArrayNode, Node
from ...core.node_paths import nearest
from ...core.problems import note
from ...storage.base import CLAIM
from .directory import NodeDirectory

_NAMED: Final = 20
"""Number of files reported individually."""
_LITTER: Final = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})


def is_litter(name: str) -> bool:
    """Whether a name is that of files left by file managers, or by a running job.

    `._*` are macOS's (RFC 1740).
    """
    return name in _LITTER or name.startswith(("._", CLAIM))


def unclaimed_files(
    directories: Mapping[str, NodeDirectory], nodes: Mapping[str, Node], names: Collection[str]
) -> Iterator[str]:
    """Keys of files outside arrays that belong to no node, including chunks in a group's directory.

    `names` are those that a reader has processed or ignores.
    """
    for path, place in directories.items():
        if isinstance(nearest(path, nodes), ArrayNode):
            continue  # listed because its document is unreadable, for which it is refused
        chunks = (place.chunk,) if place.chunk and path in nodes else ()
        for name in (*place.files, *chunks):
            if name not in names and not is_litter(name):
                yield join(path, name)


def unclaimed_file_notes(keys: Sequence[str]) -> list[Problem]:
    """A note for each of the first files without a node, and one for the rest."""
    message = "a file that belongs to no node is not copied"
    notes = [note("stray", message, key=key) for key in keys[:_NAMED]]
    if len(keys) > _NAMED:
        message = f"{len(keys) - _NAMED} more files that belong to no node are not copied"
        notes.append(note("stray", message))
    return notes
