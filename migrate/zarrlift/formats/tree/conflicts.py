"""Contradictions in a hierarchy: two formats in one place, nodes inside arrays, chunks without an array.

Any resolution could lose values, so the nodes concerned are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.paths import join

from ...recipe.options import Format
from ...storage.base import Storage
from .walk import Found, inside


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """The format of an archive, for the detection of documents of other formats."""

    format: Format
    archive: str
    """Name of such an archive with its article, for people: "a Zarr v2 archive"."""
    documents: tuple[str, ...]
    """Names of the documents that define a node."""

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
    """A refusal for each node inside an array's directory, and for each array that cannot be listed.

    An array has no children; nodes inside it must not be omitted silently.
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
    """The refusal of a node below an array, with its document's key."""
    message = "a node lies inside an array"
    return Problem(kind="metadata", message=message, node=path, key=key, found=f"/{array} is an array")


def chunks_alone(path: str, key: str, document: str, *, called: str = "chunks") -> Problem:
    """The refusal for chunks without an array's document, whose values cannot be decoded."""
    return Problem(
        kind="metadata",
        message=f"{called} without an array",
        node=path,
        found=f"the key {key!r}",
        expected=f"a document {join(path, document)!r}",
        advice="Restore the document, or exclude the node.",
    )
