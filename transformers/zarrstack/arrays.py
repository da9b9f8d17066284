"""Opening and creating arrays whose metadata names storage transformers, through zarr-python.

The result is a zarr-python array or group. Its `store` has a `PerArray` layer; pass that to other libraries
that read such arrays, such as xarray.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import zarr
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import StoreLike

from .base.array_documents import DOCUMENT, parse
from .base.layer import Layer
from .base.registry import check_registered
from .base.stack import as_dict, naming_packages
from .base.transformer import StorageTransformer
from .core.errors import UnsupportedError, UsageError
from .core.json_text import JSON
from .layers.cache.layer import Cache
from .layers.per_array.layer import PerArray
from .system.zarr_internals import make_store_path, sync

AnyArray = TypeVar("AnyArray", bound=zarr.Array[Any])
AnyGroup = TypeVar("AnyGroup", bound=zarr.Group)
Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]
"""As in zarr-python: an existing node ("r", "r+"), or one that is created ("a" if missing, "w", "w-")."""


def open(  # noqa: A001 -- zarr.open, and used as zarrstack.open
    store: StoreLike,
    *,
    path: str = "",
    mode: Mode | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> zarr.Array[Any] | zarr.Group:
    """Open an array or group like `zarr.open`, applying its storage transformers.

    `store` is a zarr store, a path, or a URL with its `storage_options`; `path` is that of the node in it. A
    stack that has a `PerArray`, below a `WriteBack` for example, is used unchanged. `mode` is "r+" by default
    (an existing node, for reading and writing), "r" for a read-only store; "w" and "a" may create a node,
    without transformers. Other arguments are passed on to `zarr.open`.

    Raises
    ------
    UnsupportedError
        For an array that names an unknown transformer; the error names the array. For an archive of the
        2022 draft of Zarr v3, which `zarrlift.open` reads.
    MetadataError
        For an invalid configuration of a transformer; the error names the array.

    Examples
    --------
    >>> group = zarr.create_group("images.zarr")
    >>> zarrstack.open("images.zarr", mode="r").store
    stack(LocalStore('file://images.zarr'), PerArray())
    """
    return _open(store, path=path, mode=mode, storage_options=storage_options, **options)


def _open(
    store: StoreLike,
    first: Callable[..., Any] = zarr.open,
    /,
    *,
    path: str = "",
    mode: Mode | None = None,
    storage_options: Mapping[str, Any] | None = None,
    decoded: int | str | None = None,
    **options: Any,
) -> zarr.Array[Any] | zarr.Group:
    create = mode in {"a", "w", "w-"}
    layer, path_in_it = _through_layers(store, path, create=create, storage_options=storage_options)
    if decoded is not None:
        layer = Cache(layer, memory_bytes=decoded)
    if mode is None:
        mode = "r" if layer.read_only else "r+"
    node: zarr.Array[Any] | zarr.Group
    options |= {"store": layer, "path": path_in_it, "mode": mode}
    try:
        try:
            node = (zarr.open if create else first)(**options)
        except Exception:
            if create or first is zarr.open:
                raise
            node = zarr.open(**options)  # a node of the other kind, or the error for both
    except Exception as error:
        if type(error).__name__ == "ProfileNotFound":  # of botocore, when s3fs sends its first request
            advice = "Give the storage option profile, or AWS_PROFILE, a name in ~/.aws/config."
            raise UsageError("there is no such profile of AWS", found=str(error), advice=advice) from error
        if _is_draft(layer):
            raise UnsupportedError(
                "an archive of the 2022 draft of Zarr v3", node=path, advice="Use zarrlift.open."
            ) from error
        raise
    return node


def _is_draft(store: Store) -> bool:
    """Whether a store has a `zarr.json` of the draft: `zarr_format` is text there, in v3 a number."""
    content = sync(store.get(DOCUMENT, default_buffer_prototype()))
    document = None if content is None else parse(content.to_bytes())
    return document is not None and isinstance(document.get("zarr_format"), str)


def open_array(store: StoreLike, *, decoded: int | str | None = None, **options: Any) -> zarr.Array[Any]:
    """Open an array like `open`, with its `options`.

    `decoded`, a number of bytes or a text such as "1GB", is the budget of a `Cache` that keeps decoded chunks
    in memory, and inner chunks of shards. It sees all changes made through this array, and no others.

    Raises
    ------
    UsageError
        If the node is a group, or `decoded` is invalid; otherwise the errors of `open`.

    Examples
    --------
    >>> options = {"shape": (4,), "chunks": (1,), "dtype": "i4"}
    >>> layers = [zarrstack.Sharding(chunks_per_shard=[2])]
    >>> array = zarrstack.create_array("a.zarr", **options, storage_transformers=layers)
    >>> zarrstack.open_array("a.zarr").chunks
    (1,)
    """
    if decoded is None:
        return array_of(_open(store, zarr.open_array, **options))
    with zarr.config.set({"codec_pipeline.path": "zarrstack.decoded.DecodedChunks"}):
        return array_of(_open(store, zarr.open_array, decoded=decoded, **options))


def open_group(store: StoreLike, **options: Any) -> zarr.Group:
    """Open a group like `open`, with its `options`.

    Raises
    ------
    UsageError
        If the node is an array; otherwise the errors of `open`.

    Examples
    --------
    >>> group = zarr.create_group("images.zarr", attributes={"made": "today"})
    >>> zarrstack.open_group("images.zarr").attrs["made"]
    'today'
    """
    return group_of(_open(store, zarr.open_group, **options))


def array_of(node: AnyArray | zarr.Group) -> AnyArray:
    """The node if it is an array; UsageError for a group."""
    if isinstance(node, zarr.Group):
        raise UsageError("this node is a group, not an array", node=node.path, advice="Use open_group.")
    return node


def group_of(node: zarr.Array[Any] | AnyGroup) -> AnyGroup:
    """The node if it is a group; UsageError for an array."""
    if isinstance(node, zarr.Array):
        raise UsageError("this node is an array, not a group", node=node.path, advice="Use open_array.")
    return node


def create_array(
    store: StoreLike,
    *,
    name: str | None = None,
    storage_transformers: Iterable[StorageTransformer | JSON] = (),
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> zarr.Array[Any]:
    """Create an array like `zarr.create_array`, stored through these layers.

    `store` is a zarr store, a path, or a URL with its `storage_options`; `name` is the path of the array in
    it. `storage_transformers` are given from the array down to the store, as layers without a store or as
    their JSON, and are recorded in the array's `zarr.json`. Other arguments, such as `shape`, `chunks` and
    `dtype`, are passed on to `zarr.create_array`.

    Raises
    ------
    UnsupportedError
        For a layer that metadata may not name.
    UsageError
        For another `zarr_format` than 3: only its metadata can name storage transformers. For a layer with
        `must_understand: false`, and for one that is not registered.

    Examples
    --------
    >>> options = {"shape": (4,), "chunks": (1,), "dtype": "i4"}
    >>> layers = [zarrstack.Sharding(chunks_per_shard=[2])]
    >>> array = zarrstack.create_array("a.zarr", **options, storage_transformers=layers)
    >>> array[:] = 7
    >>> array.nchunks_initialized
    4
    """
    if options.pop("zarr_format", 3) not in (3, None):
        raise UsageError(
            "only metadata of Zarr v3 can name storage transformers",
            node=name or "",
            expected="zarr_format=3, which is the default",
            advice="For Zarr v2, put layers under the array yourself: zarrstack.stack.",
        )
    entries = [_entry(each) for each in storage_transformers]
    if any(isinstance(entry, dict) and entry.get("must_understand") is False for entry in entries):
        raise UsageError(
            "a reader that skips a layer of an array would return other values",
            node=name or "",
            found="must_understand: false",
            expected="layers that readers must understand, the default",
        )
    layer, path = _through_layers(store, name or "", create=True, storage_options=storage_options)
    per_array = layer.inner(PerArray)
    assert per_array is not None
    with per_array.declared(path, entries):
        return zarr.create_array(layer, name=path or None, zarr_format=3, **options)


def _entry(layer: StorageTransformer | JSON) -> JSON:
    if not isinstance(layer, StorageTransformer):
        return layer
    check_registered(type(layer))
    return layer.to_json()


def _through_layers(
    target: StoreLike, path: str, *, create: bool, storage_options: Mapping[str, Any] | None
) -> tuple[Layer, str]:
    """`PerArray` over a store, or a stack that has one; and the path of the node in it."""
    mode: Mode | None = "a" if create else None
    with naming_packages(target):
        place = sync(make_store_path(target, path=path, mode=mode, storage_options=as_dict(storage_options)))
    store: Any = place.store
    has_one = isinstance(store, Layer) and store.inner(PerArray) is not None
    return store if has_one else PerArray(store), place.path
