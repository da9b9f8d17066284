"""Contradictions in a hierarchy: nodes inside arrays, chunks without an array.

Any resolution could lose values, so the nodes concerned are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.paths import join, parents

from ...archive.nodes import ArrayNode, Node
from ...core.problems import refusal
from ...storage.base import Storage
from ...storage.local.storage import LocalStorage
from .directory import NodeDirectory
from .walk import passed_over


def nodes_inside(
    storage: Storage, place: NodeDirectory, documents: Sequence[str], is_chunk: Callable[[str], object]
) -> Iterator[Problem]:
    """A refusal for each node inside an array's directory, or for the array if that cannot be listed.

    An array has no children; nodes inside it must not be omitted silently. Directories that `is_chunk` takes
    for chunks by name are not searched. Local archives only; elsewhere nodes inside an array appear as strays
    when its chunks are listed.
    """
    if place.bare or not isinstance(storage, LocalStorage):
        return
    try:
        names = storage.directories(place.path) if place.subdirectories is None else place.subdirectories
        for path in [join(place.path, name) for name in names if not (is_chunk(name) or passed_over(name))]:
            keys = [join(path, name) for name in documents]
            contents = zip(keys, storage.get_many(keys), strict=True)
            if (key := next((key for key, content in contents if content is not None), None)) is not None:
                yield node_in_array(path, key, place.path)
    except StorageError as error:
        yield error.problem.at(node=place.path)


def refuse_below_arrays(nodes: dict[str, Node]) -> None:
    """Refuse nodes below an array, which has no children; they must not be omitted silently."""
    for path in list(nodes):
        above = next((above for above in parents(path) if isinstance(nodes.get(above), ArrayNode)), None)
        if above is not None:
            node = nodes[path]
            problem = node_in_array(path, node.documents[0].key if node.documents else None, above)
            nodes[path] = ArrayNode(path=path, documents=node.documents, problems=(*node.problems, problem))


def node_in_array(path: str, key: str | None, array: str) -> Problem:
    """The refusal of a node below an array, with its document's key."""
    return refusal(
        "metadata",
        "a node is inside an array",
        node=path,
        key=key,
        found=f"/{array} is an array",
        advice="Migrate it by its own path, or move it.",
    )


def chunks_alone(path: str, key: str, document: str, *, called: str = "chunks") -> Problem:
    """The refusal for chunks without an array's document, whose values cannot be decoded."""
    return refusal(
        "metadata",
        f"{called} without an array",
        node=path,
        found=f"the key {key!r}",
        expected=f"a document {join(path, document)!r}",
        advice="Restore the document, or exclude the node.",
    )
