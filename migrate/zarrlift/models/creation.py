"""Creates the hierarchy that a model describes: groups, arrays, metadata, no chunks.

Arrays are refused whose data type or codecs neither this project nor zarr-python supports; for Zarr v2, the
support of zarr-python 2 and numcodecs counts too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from zarrstack.base.array_documents import FIELD, GUARD
from zarrstack.core.errors import MetadataError, Problem, UsageError, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, canonical, excerpt

from ..archive.nodes import ArrayNode
from ..core.codec_table import TABLE
from ..core.json_document import document
from ..core.json_fields import FieldsAsJSON
from ..core.problems import JoinedProblems, refusal
from ..errors import JobError
from ..formats.describe import describe
from ..storage.base import Storage
from ..storage.local.own_names import MODEL, directory_of
from ..storage.local.storage import LocalStorage
from ..storage.open_storage import Place, open_storage
from ..storage.remote.store_writer import writer_for
from ..storage.writer import Writer
from .functions import Modelled, show
from .model_storage import ModelStorage, consolidated, node_documents
from .schemas import library
from .zom import Flat, flatten, format_of, is_group

_READ: Final = (
    *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs"),
    "fill_value",
)
"""Members of a v3 document that determine how its chunks are read."""


_BATCH: Final = 256
"""Number of documents written concurrently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Created(FieldsAsJSON):
    """The result of `create`."""

    url: str
    arrays: int
    groups: int
    problems: tuple[Problem, ...] = ()
    """Properties that cannot be read back from the model."""


def create(
    model: Modelled,
    place: Place,
    *,
    consolidate: bool = False,
    migrated: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Created:
    """Create the hierarchy of a model (or of another archive) at an empty place.

    `model` is a model, a file with one, or an archive; `place` is a path, a URL (with `storage_options`) or a
    zarr store. `consolidate` adds consolidated metadata.

    Documents are written in the order in which a migration publishes them: arrays, then groups from the
    leaves up, the root last, each document atomically. The hierarchy appears complete or not at all; the
    remains of a killed call are completed by the next one with the same model. `migrated` creates the v3 form
    of a v2 model.

    Raises
    ------
    MetadataError
        With all faults of the model.
    JobError
        If the place contains anything else.
    StorageError
        If a document cannot be written.

    Examples
    --------
    >>> zarrlift.models.create("ocean.zarr", "empty.zarr", migrated=True).arrays
    4
    >>> zarr.open_array("empty.zarr", path="sst").nchunks_initialized
    0
    """
    hierarchy = show(model, migrated=migrated)
    if hierarchy.unread:
        why = next(iter(hierarchy.unread_problems), None)
        raise MetadataError(
            "nodes of the model cannot be read",
            node=hierarchy.unread[0],
            found=None if why is None else str(why),
        )
    flat = flatten(hierarchy.model)
    problems = list(metadata_problems(flat))
    if problems:
        first = problems[0]
        raise MetadataError(
            JoinedProblems.of((first.message, *problems[1:20])),
            node=first.node,
            found=first.found,
            expected=first.expected,
        )
    if consolidate and not is_group(flat[""]):
        raise UsageError("consolidated metadata belongs to a root that is a group", found="an array")
    storage = open_storage(place, storage_options=storage_options, mode="w")
    documents = _in_order(hierarchy.model, flat, consolidate=consolidate)
    _refuse_others(storage, documents)
    _write(storage, documents)
    groups = sum(is_group(node) for node in flat.values())
    notes = tuple(problem for problem in hierarchy.problems if problem.kind == "model")
    return Created(url=storage.url, arrays=len(flat) - groups, groups=groups, problems=notes)


def metadata_problems(flat: Flat) -> Iterator[Problem]:
    """Every fault in the metadata of the nodes themselves, with its path.

    v3 is checked by zarr-metadata, of the extra `models`. v2 is checked only for what its specification makes
    indispensable: a model of an archive may lack members that old writers omit and readers tolerate. Data
    types and codecs must be known to zarr-python or this project.
    """
    faulty = set()
    by_text: dict[str, tuple[Problem, ...]] = {}
    for path, node in flat.items():
        text = canonical({name: value for name, value in node.items() if name != "attributes"})
        if text not in by_text:
            by_text[text] = tuple(_faults(node))
        if by_text[text]:
            faulty.add(path)
        yield from (problem.at(node=path) for problem in by_text[text])
    sound = {path: node for path, node in flat.items() if path not in faulty}
    for array in describe(ModelStorage(sound, url="the model")).nodes if sound else ():
        if not isinstance(array, ArrayNode):
            continue
        problem = next((one for one in array.problems if one.severity == "refusal"), None)
        if array.passed is not None:
            problem = refusal("unsupported", array.passed.unknown)
        if problem is not None and not _is_readable(flat[array.path]):
            message = f"no known reader supports this array: {problem.message}"
            yield replace(problem, message=message, node=array.path)


def _faults(node: JSONObject) -> Iterator[Problem]:
    for place, message in _v2_faults(node) if format_of(node) == 2 else _v3_faults(node):
        member = place.partition("/")[0]
        found = excerpt(node[member]) if member in node else None
        yield refusal("metadata", f"{place}: {message}", found=found)


def _is_readable(node: JSONObject) -> bool:
    """Whether zarr-python reads an array that this project refuses; its codecs count, not its grid."""
    if format_of(node) == 3:
        grid = node.get("chunk_grid")
        return not isinstance(grid, dict) or grid.get("name") != "regular" or _zarr_reads(node)
    return _zarr_reads(node) or _zarr_2_reads(node)


def _zarr_2_reads(node: JSONObject) -> bool:
    """Whether numpy supports the dtype and numcodecs each codec, as zarr-python 2 requires."""
    import numcodecs.registry as known

    names = {*known.codec_registry, *known.entries, *(row.v2_id for row in TABLE.values()), "msgpack"}
    codecs = [node.get("compressor"), *(node.get("filters") or ())]
    try:
        np.dtype(_for_numpy(node.get("dtype")))
    except (TypeError, ValueError):
        return False
    return all(codec is None or (isinstance(codec, dict) and codec.get("id") in names) for codec in codecs)


def _for_numpy(dtype: JSON) -> Any:
    """A document's dtype in numpy's form: fields are tuples."""
    if not isinstance(dtype, list):
        return dtype
    return [
        (field[0], _for_numpy(field[1]), *map(tuple, field[2:])) if isinstance(field, list) else field
        for field in dtype
    ]


def _zarr_reads(node: JSONObject) -> bool:
    from zarrstack.system.zarr_internals import ArrayV2Metadata, ArrayV3Metadata

    document = {name: value for name, value in node.items() if name not in (FIELD, GUARD)}
    kind = ArrayV3Metadata if format_of(node) == 3 else ArrayV2Metadata
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind.from_dict(document)
    except Exception:  # noqa: BLE001 - zarr has many errors for what it does not read
        return False
    return True


def _v3_faults(node: JSONObject) -> Iterator[tuple[str, str]]:
    reader = library("zarr_metadata.model", "creating a v3 hierarchy")
    for problem in reader.read_node_metadata_v3(node).problems:
        yield "/".join(map(str, problem.loc)), problem.message


def _v2_faults(node: JSONObject) -> Iterator[tuple[str, str]]:
    if is_group(node):
        return
    for name in ("shape", "chunks"):
        value = node.get(name)
        if not isinstance(value, list) or not all(type(item) in (int, float) and item >= 0 for item in value):
            yield name, "a list of lengths is expected"
    shape, chunks = node.get("shape"), node.get("chunks")
    if isinstance(shape, list) and isinstance(chunks, list) and len(shape) != len(chunks):
        yield "chunks", f"one length for each of {len(shape)} axes is expected"
    if not isinstance(node.get("dtype"), (str, list)):
        yield "dtype", "a dtype is expected"


def _in_order(model: JSONObject, flat: Flat, *, consolidate: bool) -> dict[str, bytes]:
    """Documents by key in the order in which they may become visible."""
    ordered = sorted(flat, key=lambda path: (is_group(flat[path]), -path.count("/") - bool(path), path))
    documents: dict[str, JSONObject] = {}
    for path in [path for path in ordered if path] + [""]:
        own = node_documents(path, flat[path])
        documents.update(reversed(own.items()))  # .zattrs before the document that makes the node visible
    if consolidate:
        root = consolidated(model)
        if format_of(model) == 3:
            documents["zarr.json"] = root
        else:
            group = documents.pop(".zgroup")
            documents.update({".zmetadata": root, ".zgroup": group})
    return {key: document(content) for key, content in documents.items()}


def _refuse_others(storage: Storage, documents: dict[str, bytes]) -> None:
    """Raise JobError unless the place is empty or has the remains of an earlier call with this model."""
    if not storage.can_list:
        return
    last = next(reversed(documents))
    for key in storage.list_prefix(""):
        if isinstance(storage, LocalStorage) and key.startswith(directory_of(MODEL) + "/"):
            continue
        if key == last or documents.get(key) is None or storage.get(key) != documents[key]:
            raise JobError(
                "the destination is not empty",
                key=key,
                found=storage.url,
                advice="Choose another place, or remove what is there.",
            )


def _write(storage: Storage, documents: dict[str, bytes]) -> None:
    """Write all documents, the last one separately; on an error, remove what was written."""
    writer = writer_for(storage, MODEL, fsync=False)
    *most, last = documents
    try:
        _write_most(writer, [(key, documents[key]) for key in most])
        writer.write(last, documents[last])
        writer.settle()
    except BaseException:
        for key in reversed(documents):
            with suppress(ZarrstackError):
                storage.delete(key)
        raise
    finally:
        writer.close()


def _write_most(writer: Writer, items: list[tuple[str, bytes]]) -> None:
    """Write level by level in the given order, each batch concurrently if the store supports it."""
    for start in range(0, len(items), _BATCH):
        writer.write_many(items[start : start + _BATCH])
