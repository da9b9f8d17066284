"""What cannot all be true of a hierarchy: two formats in one place, nodes in arrays, chunks of no array.

Whichever is right, values might be lost; so the nodes concerned are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.paths import join

from ...archive.nodes import Format
from ...storage.base import Storage
from .walk import Found, inside


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """The format of an archive, against which another one's documents in it are held."""

    format: Format
    archive: str
    """For people, with its article: "a Zarr v2 archive"."""
    documents: tuple[str, ...]
    """Names of the documents that make a node of it."""

    def foreign(self, place: Found, others: Mapping[str, Format]) -> Iterator[Problem]:
        """A refusal for each document of another format; `others` are their names."""
        own = place.first(self.documents)
        for name, other in others.items():
            if name not in place.documents:
                continue
            key = join(place.path, name)
            if own is not None:
                yield Problem(
                    kind="format",
                    message="a node has the metadata of two formats",
                    key=key,
                    found=f"{self.format} ({own}) and {other} ({name})",
                    advice="Say which one counts with --from.",
                )
            else:
                message = f"a node of another format, {other}, lies in {self.archive}"
                yield Problem(kind="format", message=message, key=key, advice="Move or exclude it.")


def nodes_in_arrays(
    storage: Storage, arrays: Iterable[str], documents: Sequence[str], found: Mapping[str, Found]
) -> Iterator[Problem]:
    """A refusal for each node in an array's own directory, and for each of those that cannot be listed.

    An array has no children; what lies in one all the same is not left behind unsaid.
    """
    for path in arrays:
        place = found.get(path)
        if place is not None and place.bare:
            continue
        try:
            keys = inside(storage, path, documents, None if place is None else place.inner)
        except StorageError as error:
            yield error.problem.at(node=path)
            continue
        for key in keys:
            yield node_in_array(key.rpartition("/")[0], key, path)


def node_in_array(path: str, key: str | None, array: str) -> Problem:
    """A refusal of a node, with its document's key, that lies below an array."""
    message = "a node lies inside an array"
    return Problem(kind="metadata", message=message, node=path, key=key, found=f"/{array} is an array")


def chunks_alone(path: str, key: str, document: str, *, called: str = "chunks") -> Problem:
    """Chunks say that an array was there; without its document its values are lost on us."""
    return Problem(
        kind="metadata",
        message=f"{called} without an array",
        node=path,
        found=f"the key {key!r}",
        expected=f"a document {join(path, document)!r}",
        advice="Restore the document, or exclude the node.",
    )
