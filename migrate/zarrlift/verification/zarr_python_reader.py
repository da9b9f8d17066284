"""Reads the destination with zarr-python, even before its `zarr.json` is written.

`zarr.open_group(...).members()` would stop at the first damaged document and rely on consolidated metadata.
Here every node is read separately, and its problems are recorded with it.

zarr is imported inside the functions: moving bytes does not need it, and the import takes 0.1 s. Each
function imports `zarr` before any of its modules: if two threads start from different modules (`zarr`,
`zarr.core.metadata`) at the same time, each sees partially initialized modules of the other. All work runs on
zarr's own event loop through its `sync`. Any thread of zarrlift may call it; since it never waits for one of
them, it cannot deadlock with a full worker pool.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from zarrstack.core.errors import MetadataError, Problem, ZarrstackError
from zarrstack.core.json_text import JSONObject, canonical
from zarrstack.core.paths import join

from ..core.codec_table import REGISTERED_FILTERS
from ..core.data_types.compare import Values
from ..core.data_types.v3 import DataType, fill_from_json, fill_to_json
from ..core.problems import refusal
from ..planning.equal_chains import numcodecs_form
from ..storage.base import Storage
from ..storage.local.own_names import is_own

if TYPE_CHECKING:
    from zarr import Array
    from zarr.abc.store import Store

    from zarrstack.system.zarr_internals import ArrayV3Metadata


_PARSING: Final = threading.Lock()
"""Serializes `catch_warnings`, which affects the whole process."""


def parse(document: JSONObject) -> ArrayV3Metadata:
    """The metadata of an array's `zarr.json`, parsed by zarr-python.

    Raises MetadataError with zarr-python's message if it cannot be parsed.
    """
    import zarr  # noqa: F401 - first: see the top

    from zarrstack.system.zarr_internals import ArrayV3Metadata

    with _PARSING, warnings.catch_warnings():
        # zarr warns about data types and codecs without a final specification; the plan reports these
        # already.
        warnings.simplefilter("ignore")
        try:
            return ArrayV3Metadata.from_dict(dict(with_known_filters(document)))
        except Exception as error:
            raise MetadataError(
                "zarr-python does not read the array's zarr.json", found=words(error)
            ) from error


def with_known_filters(document: JSONObject) -> JSONObject:
    """The document, with data types and filters that zarr-python 3.1 reads for equal registered ones.

    bfloat16 is read as raw bytes, which is what is compared.
    """
    codecs = document.get("codecs") or []
    try:
        data_type = DataType.from_json(document["data_type"])
        is_raw = data_type.name == "bfloat16"
        named = DataType("raw_bytes", {"length_bytes": 2}) if is_raw else data_type.known
        if named.to_json() != document["data_type"]:
            fill = fill_from_json(document["fill_value"], data_type)
            form = fill_to_json(fill.tobytes() if is_raw else fill, named)
            document = {**document, "data_type": named.to_json(), "fill_value": form}
        if not any(name in json.dumps(codecs) for name in REGISTERED_FILTERS) or _reads_registered_filters():
            return document
        return {**document, "codecs": numcodecs_form(codecs, data_type, document["fill_value"])}
    except (ZarrstackError, KeyError):  # zarr-python reports what is wrong
        return document


@cache
def _reads_registered_filters() -> bool:
    from zarr.registry import get_codec_class

    try:
        return all(get_codec_class(name) for name in REGISTERED_FILTERS) and bool(find_spec("cast_value_rs"))
    except KeyError:
        return False


def words(error: BaseException) -> str:
    """An exception of foreign code as one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def data_type_name(metadata: ArrayV3Metadata) -> str:
    """zarr-python's v3 name of an array's data type."""
    return str(metadata.data_type._zarr_v3_name)  # noqa: SLF001 - it has no public name for the name


def native(metadata: ArrayV3Metadata) -> np.dtype[Any]:
    """The numpy type in which zarr-python reads an array; strings may be `StringDType` or object."""
    return cast("np.dtype[Any]", metadata.data_type.to_native_dtype())


def chunk_shape(metadata: ArrayV3Metadata) -> tuple[int, ...]:
    """Shape of the chunks that are stored as objects (shards, if any)."""
    return tuple(metadata.chunk_grid.chunk_shape)  # type: ignore[attr-defined]


def reading_store(storage: Storage) -> Store:
    """The storage as a read-only zarr store."""
    import zarr  # noqa: F401 - first: see the top

    store = storage.zarr_store()
    try:
        return store.with_read_only(True)
    except NotImplementedError:
        return store


def open_array(metadata: ArrayV3Metadata, store: Store, path: str) -> Array[Any]:
    """An array from parsed metadata; its `zarr.json` need not be stored."""
    from zarr import Array, AsyncArray
    from zarr.storage import StorePath

    return Array(AsyncArray(metadata, StorePath(store, path)))


def read_regions(array: Array[Any], regions: Sequence[tuple[slice, ...]]) -> list[Values | Exception]:
    """The values of several regions, or the exception for each that failed.

    All regions are read concurrently: the caller limits their total size.
    """
    import asyncio

    from zarrstack.system.zarr_internals import sync

    async def gather() -> list[Any]:
        reads = (array.async_array.getitem(region) for region in regions)
        return await asyncio.gather(*reads, return_exceptions=True)

    results: list[Values | Exception] = []
    for region, result in zip(regions, sync(gather()), strict=True):
        if isinstance(result, Exception):
            results.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            shape = tuple(axis.stop - axis.start for axis in region)
            results.append(as_array(result, shape, array.dtype))
    return results


def warm_up() -> None:
    """Read an array without chunks, to load in advance what zarr-python's first read loads and starts."""
    from zarr.storage import MemoryStore

    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [1],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes"}],
        "fill_value": 0,
        "attributes": {},
    }
    read_regions(open_array(parse(document), MemoryStore(), ""), [(slice(0, 1),)])


def as_array(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Values:
    """The result of zarr-python as an array; 0-d arrays come as bare scalars without their length."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "S" or dtype.kind != "O":
            return value
        # 0-d bytes of any length, by zarr-python 3.1: trailing zeros are in memory, and an S is never empty.
        value = value.tobytes() if value.item() or value.itemsize > 1 else b""
    if dtype.kind in "OT":
        # np.asarray would turn str and bytes into a fixed-length type and drop trailing zeros.
        result: Values = np.empty(shape, dtype=object)
        result[()] = value
        return result
    return np.asarray(value, dtype=dtype)


DOCUMENT = "zarr.json"
_DEEPEST = 200
"""Maximum depth below the root; ends any loop of links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultNode:
    """A node of the destination."""

    path: str
    document: JSONObject
    attributes: JSONObject
    metadata: ArrayV3Metadata | None = None
    """Metadata of an array; None for a group."""
    problems: tuple[Problem, ...] = ()
    """Problems that prevent a comparison."""

    @property
    def is_array(self) -> bool:
        """Whether the node is an array."""
        return self.document.get("node_type") == "array"


def find_nodes(
    storage: Storage, expected: Iterable[str], *, strict_json: Callable[[str], bool]
) -> dict[str, ResultNode]:
    """Every node of a v3 hierarchy by path.

    The tree is listed, and the `expected` paths are read in addition, because a store that cannot list shows
    at least those. Directories of chunks are not entered. `strict_json` tells for a path whether bare NaN and
    Infinity are errors there.
    """
    nodes: dict[str, ResultNode] = {}
    seen: set[str] = set()
    waiting = [("", 0)] if storage.can_list else []
    while waiting:
        path, depth = waiting.pop()
        seen.add(path)
        node = read_node(storage, path, strict_json=strict_json(path))
        if node is not None:
            nodes[path] = node
        if (node is not None and node.is_array) or depth >= _DEEPEST:
            continue
        entries = list(storage.list_dir(path))
        if node is None and any(entry.name == ".zarray" for entry in entries):
            continue  # in place and not migrated: it contains chunks
        waiting.extend(
            (join(path, entry.name), depth + 1)
            for entry in entries
            if entry.is_dir and not is_own(entry.name)
        )
    for path in expected:
        if path not in seen:
            node = read_node(storage, path, strict_json=strict_json(path))
            if node is not None:
                nodes[path] = node
    return dict(sorted(nodes.items()))


def read_node(storage: Storage, path: str, *, strict_json: bool) -> ResultNode | None:
    """The node at a path, or None without a `zarr.json`; damage is among its problems."""
    key = join(path, DOCUMENT)
    document: JSONObject = {}
    try:
        content = storage.get(key)
        if content is None:
            return None
        parsed = _parse_json(content, strict_json=strict_json)
        if not isinstance(parsed, dict):
            raise MetadataError("zarr.json is not a JSON object")
        document = parsed
        attributes = document.get("attributes", {})
        if document.get("node_type") == "array":
            if document.get("storage_transformers"):
                # Refused when an array is opened, not when its document is parsed (zarr 3.1.6, 3.4.2).
                raise MetadataError(
                    "zarr-python reads no array with storage transformers",
                    found=canonical(document["storage_transformers"]),
                )
            metadata = parse(document)
            return ResultNode(
                path=path, document=document, attributes=dict(metadata.attributes), metadata=metadata
            )
        _check_group(document)
        return ResultNode(path=path, document=document, attributes=attributes)
    except ZarrstackError as error:
        problem = error.at(node=path, key=key).problem
        return ResultNode(path=path, document=document, attributes={}, problems=(problem,))


def _parse_json(content: bytes, *, strict_json: bool) -> Any:
    def refuse(constant: str) -> float:
        if strict_json:
            raise MetadataError("zarr.json is not strict JSON", found=f"a bare {constant}")
        return float(constant)

    try:
        return json.loads(content, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        if isinstance(error, MetadataError):
            raise
        raise MetadataError("zarr.json is not JSON", found=words(error)) from error


def _check_group(document: JSONObject) -> None:
    from zarrstack.system.zarr_internals import GroupMetadata

    if document.get("node_type") != "group":
        raise MetadataError(
            "zarr.json names no kind of node",
            found=canonical(document.get("node_type")),
            expected='"array" or "group"',
        )
    plain = {name: value for name, value in document.items() if name != "consolidated_metadata"}
    try:
        GroupMetadata.from_dict(plain)
    except Exception as error:
        raise MetadataError("zarr-python does not read the group's zarr.json", found=words(error)) from error


def consolidated_problems(nodes: dict[str, ResultNode], *, wanted: bool | None) -> list[Problem]:
    """Differences between consolidated metadata and the nodes' own documents.

    The form is zarr-python's (3.1.6 and 3.4.2): `consolidated_metadata.metadata` of a group, relative path ->
    document. `wanted` tells whether the root must have it; None for either.
    """
    problems = []
    root = nodes.get("")
    if wanted and root is not None and not root.is_array and _consolidated(root) is None:
        problems.append(_wrong("", "there is no consolidated metadata", "none", "as in the source"))
    for path, node in nodes.items():
        entries = _consolidated(node)
        if entries is None:
            continue
        below = {
            other.removeprefix(f"{path}/" if path else ""): other_node
            for other, other_node in nodes.items()
            if other != path and (not path or other.startswith(f"{path}/"))
        }
        for name in sorted(entries.keys() | below.keys()):
            entry, own = entries.get(name), below.get(name)
            message = f"consolidated metadata differs at {name!r}"
            if own is None:
                problems.append(_wrong(path, message, "an entry", "none: there is no such node"))
            elif entry is None:
                problems.append(_wrong(path, message, "no entry", "the node's document"))
            elif own.document and _own(entry) != _own(own.document):
                problems.append(_wrong(path, message, _own(entry)[:200], _own(own.document)[:200]))
    return problems


def _consolidated(node: ResultNode) -> dict[str, JSONObject] | None:
    block = node.document.get("consolidated_metadata")
    entries = block.get("metadata") if isinstance(block, dict) else None
    return entries if isinstance(entries, dict) else None


def _own(document: JSONObject) -> str:
    """A document without insignificant parts: nested consolidated metadata and null members."""
    optional = {"attributes", "storage_transformers", "dimension_names"}
    members = {
        name: value
        for name, value in document.items()
        if name != "consolidated_metadata" and (value or name not in optional)
    }
    return canonical(members)


def _wrong(path: str, message: str, found: str, expected: str) -> Problem:
    return node_problem(path, message, found, expected, kind="verify-consolidated")


def node_problem(path: str, message: str, found: str, expected: str, *, kind: str) -> Problem:
    """A difference in the `zarr.json` of a node."""
    return refusal(kind, message, node=path, key=join(path, DOCUMENT), found=found, expected=expected)
