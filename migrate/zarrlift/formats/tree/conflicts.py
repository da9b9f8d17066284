"""Contradictions in a hierarchy: nodes in arrays or with two documents, chunks without an array; stray files.

Any resolution of a contradiction could lose values, so the nodes concerned are refused, except where the
chunks of a node show which document is its own. Files are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from zarrstack.core.errors import Problem, StorageError
from zarrstack.core.json_text import JSONObject
from zarrstack.core.paths import join, parents, prefix_of

from ...archive.nodes import ArrayNode, Node
from ...core.format_table import FORMATS, V3, FormatRow
from ...core.format_table import V2_ARRAY as ARRAY
from ...core.format_table import V2_GROUP as GROUP
from ...core.node_paths import nearest
from ...core.problems import note, refusal
from ...recipe.options import Format
from ...storage.base import CLAIM, Storage
from ...storage.local.storage import LocalStorage
from .directory import CHUNK, NodeDirectory, refuse
from .documents import parsed_or_none
from .walk import chunk_root, passed_over


def nodes_inside(
    storage: Storage, place: NodeDirectory, documents: Sequence[str], is_chunk: Callable[[str], object]
) -> Iterator[Problem]:
    """A refusal for each node inside an array's directory, or for the array if that cannot be listed.

    An array has no children; nodes inside it must not be omitted silently. Directories that `is_chunk` takes
    for chunks by name are not searched. Local archives only; elsewhere nodes inside an array appear as strays
    when its chunks are listed.
    """
    if place.chunk_names is not None or not isinstance(storage, LocalStorage):
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


def foreign_node(key: str, other: Format, archive: Format) -> Problem:
    """The refusal of a node whose document, at a key, is of another format than its archive."""
    titles = [f"{'an' if name == 'n5' else 'a'} {FORMATS[name].title}" for name in (other, archive)]
    message = f"{titles[0]} node is inside {titles[1]} archive"
    return refusal("format", message, key=key, advice="Move or exclude it.")


def refuse_lone_chunks(
    directories: dict[str, NodeDirectory],
    nodes: dict[str, Node],
    row: FormatRow,
    is_chunk: Callable[[str], bool],
) -> None:
    """Refuse chunks without an array's document, whose values cannot be decoded."""
    arrays = {path for path, node in nodes.items() if isinstance(node, ArrayNode)}
    for path, place in directories.items():
        chunk = place.chunk or next(filter(is_chunk, place.files), None)
        if chunk is None or place.first(row.own) is not None or arrays.intersection(parents(path)):
            continue
        root = chunk_root(path, directories, is_key=is_chunk)
        if root and not (root in nodes and nodes[root].refused):
            problem = refusal(
                "metadata",
                f"{row.words[1]} without an array",
                node=root,
                found=f"the key {join(path, chunk)!r}",
                expected=f"a document {join(root, row.nodes[0])!r}",
                advice="Restore the document, or exclude the node.",
            )
            refuse(nodes, problem)


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

    `names` are those that a reader has processed or ignores beside a document of its own.
    """
    for path, place in directories.items():
        if isinstance(nearest(path, nodes), ArrayNode):
            continue  # listed because its document is unreadable, for which it is refused
        node = nodes.get(path)
        chunks = (place.chunk,) if place.chunk and node is not None else ()
        is_explicit = node is not None and (node.documents or node.refused or place.documents)
        processed = names if is_explicit else ()
        for name in (*place.files, *chunks):
            if name not in processed and not is_litter(name):
                yield join(path, name)


def unclaimed_file_notes(keys: Sequence[str]) -> list[Problem]:
    """A note for each of the first files without a node, and one for the rest."""
    message = "a file that belongs to no node is not copied"
    notes = [note("stray", message, key=key) for key in keys[:_NAMED]]
    if len(keys) > _NAMED:
        message = f"{len(keys) - _NAMED} more files that belong to no node are not copied"
        notes.append(note("stray", message))
    return notes


_NODES: Final = (ARRAY, GROUP, V3)


def array_and_group(storage: Storage, path: str, places: Iterable[str]) -> Problem:
    """What there is to say of a node with `.zarray` and `.zgroup`: a note, or a refusal if nodes are below.

    `places` are the known paths of nodes, among which it looks in a store that cannot list. zarr-python 2.18
    opens an array, and lists no nodes below it.
    """
    found = f"{ARRAY} and {GROUP}"
    message = "a node is both an array and a group"
    try:
        below = node_below(storage, path)
        if not storage.can_list:
            below = next(
                (place for place in places if place.startswith(prefix_of(path)) and place != path), None
            )
    except StorageError as error:
        return error.problem.at(node=path)
    if below is None:
        return note("metadata", f"{message}; it is read as an array", found=found)
    return refusal(
        "metadata",
        f"{message}, with nodes below",
        found=f"{found}, and {below}",
        expected="one of them",
        advice=f"Move {join(path, GROUP)} away to read the array, or {join(path, ARRAY)} to read a group.",
    )


def node_below(storage: Storage, path: str) -> str | None:
    """The key of a document of a node below a path; None if there is none, or no listing. StorageError."""
    if not storage.can_list:
        return None
    own = prefix_of(path)
    keys = (key for key in storage.list_prefix(own) if key.endswith(_NODES))
    return next(
        (key for key in keys if "/" in key.removeprefix(own) and key.rpartition("/")[2] in _NODES), None
    )


def format_of_chunks(storage: Storage, path: str, documents: Mapping[str, bytes]) -> Format | None:
    """Whether the array of `.zarray` or that of the `zarr.json` beside it has the stored chunks.

    None if both or none have, and where the keys of both are the same, as after a migration in place. A
    `zarr.json` of a group with nothing below has none. StorageError.
    """
    content = documents.get(V3)
    if content is None or ARRAY not in documents or not storage.can_list:
        return None
    data = parsed_or_none(content, V3)
    if data is None or parsed_or_none(documents[ARRAY], ARRAY) is None:
        return None
    if data.get("node_type") == "group":
        return "zarr2" if node_below(storage, path) is None else None
    if _key_encoding(data) != "default":
        return None
    names = [entry.name for entry in storage.list_dir(path)]
    older = any(CHUNK.fullmatch(name) for name in names)
    newer = any(name == "c" or name.startswith("c.") for name in names)
    if older == newer:
        return None
    return "zarr2" if older else "zarr3"


def _key_encoding(data: JSONObject) -> str | None:
    encoding = data.get("chunk_key_encoding")
    name = encoding.get("name") if isinstance(encoding, dict) else encoding
    return name if isinstance(name, str) else None
