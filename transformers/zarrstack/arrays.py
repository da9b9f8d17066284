"""Opening and creating arrays whose metadata names storage transformers, through zarr-python.

The result is a zarr-python array or group, and a context manager. Its `store` is a `PerArray` layer; pass
that to other libraries that read such arrays, such as xarray.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import zarr
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import StoreLike, StorePath

from .base.array_documents import DOCUMENT, parse
from .base.registry import check_registered
from .base.stack import as_dict
from .base.transformer import StorageTransformer
from .core.errors import UnsupportedError, UsageError
from .core.json_text import JSON
from .layers.cache.layer import Cache
from .layers.per_array.layer import PerArray
from .layers.per_array.opened import Block, OpenArray, OpenGroup
from .layers.write_back.layer import DEFAULT_BYTES, WriteBack
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
    memory_bytes: int | str | None = None,
    **options: Any,
) -> OpenArray | OpenGroup:
    """Open an array or group like `zarr.open`, applying its storage transformers.

    `store` is a zarr store, a path, or a URL with its `storage_options`; `path` is that of the node in it.
    `mode` is "r+" by default (an existing node, for reading and writing), "r" for a read-only store; "w" and
    "a" may create a node, without transformers. Other arguments are passed on to `zarr.open`.

    The result is also a context manager. In its block, changes wait in memory, so that each object is stored
    once, as `WriteBack` says; at the end everything is stored, and the store is closed if it was given as a
    path or URL. `memory_bytes`, a number or a text such as "64MB" (default: 256 MB), is the budget for these
    changes. If it is given, they wait without a block too, until `flush()`, `flush_sync()` or `close()` of
    the result's `store`.

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
    stack(LocalStore('file://images.zarr'), WriteBack(), PerArray())
    """
    return _open(
        store, path=path, mode=mode, storage_options=storage_options, memory_bytes=memory_bytes, **options
    )


def _open(
    store: StoreLike,
    first: Callable[..., Any] = zarr.open,
    /,
    *,
    path: str = "",
    mode: Mode | None = None,
    storage_options: Mapping[str, Any] | None = None,
    memory_bytes: int | str | None = None,
    decoded: int | str | None = None,
    **options: Any,
) -> OpenArray | OpenGroup:
    create = mode in {"a", "w", "w-"}
    block, path_in_it = _block(
        store,
        path,
        create=create,
        storage_options=storage_options,
        memory_bytes=memory_bytes,
        decoded=decoded,
    )
    layer = block.store
    if mode is None:
        mode = "r" if layer.read_only else "r+"
    options |= {"store": layer, "path": path_in_it, "mode": mode}
    node: Any
    try:
        try:
            node = (zarr.open if create else first)(**options)
        except Exception:
            if create or first is zarr.open:
                raise
            node = zarr.open(**options)  # a node of the other kind, or the error for both
    except Exception as error:
        if _is_draft(layer):
            raise UnsupportedError(
                "an archive of the 2022 draft of Zarr v3", node=path, advice="Use zarrlift.open."
            ) from error
        raise
    return OpenArray.of(node, block) if isinstance(node, zarr.Array) else OpenGroup.of(node, block)


def _is_draft(store: Store) -> bool:
    """Whether a store has a `zarr.json` of the draft: `zarr_format` is text there, in v3 a number."""
    content = sync(store.get(DOCUMENT, default_buffer_prototype()))
    document = None if content is None else parse(content.to_bytes())
    return document is not None and isinstance(document.get("zarr_format"), str)


def open_array(store: StoreLike, *, decoded: int | str | None = None, **options: Any) -> OpenArray:
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


def open_group(store: StoreLike, **options: Any) -> OpenGroup:
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
    memory_bytes: int | str | None = None,
    **options: Any,
) -> OpenArray:
    """Create an array like `zarr.create_array`, stored through these layers.

    `store` is a zarr store, a path, or a URL with its `storage_options`; `name` is the path of the array in
    it. `storage_transformers` are given from the array down to the store, as layers without a store or as
    their JSON, and are recorded in the array's `zarr.json`. `memory_bytes` is as in `open`, and so is the
    result. Other arguments, such as `shape`, `chunks` and `dtype`, are passed on to `zarr.create_array`.

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
    block, path = _block(
        store, name or "", create=True, storage_options=storage_options, memory_bytes=memory_bytes
    )
    per_array = block.store.below
    assert isinstance(per_array, PerArray)
    with per_array.declared(path, entries):
        array = zarr.create_array(block.store, name=path or None, zarr_format=3, **options)
    return OpenArray.of(array, block)


def _entry(layer: StorageTransformer | JSON) -> JSON:
    if not isinstance(layer, StorageTransformer):
        return layer
    check_registered(type(layer))
    return layer.to_json()


def create_group(
    store: StoreLike,
    *,
    path: str = "",
    storage_options: Mapping[str, Any] | None = None,
    memory_bytes: int | str | None = None,
    **options: Any,
) -> OpenGroup:
    """Create a group of Zarr v3 like `zarr.create_group`, whose arrays may name storage transformers.

    `store` is a zarr store, a path, or a URL with its `storage_options`; `path` is that of the group in it.
    `memory_bytes` is as in `open`, and so is the result, whose `store` is what `create_array` takes. Other
    arguments, such as `attributes` and `overwrite`, are passed on to `zarr.create_group`.

    Raises
    ------
    UsageError
        For an invalid `memory_bytes`. What is there already is zarr's error.

    Examples
    --------
    >>> group = zarrstack.create_group("images.zarr", attributes={"made": "today"})
    >>> array = zarrstack.create_array(group.store, name="a", shape=(4,), dtype="i4")
    >>> sorted(zarrstack.open("images.zarr").keys())
    ['a']
    """
    block, path = _block(store, path, create=True, storage_options=storage_options, memory_bytes=memory_bytes)
    return OpenGroup.of(zarr.create_group(block.store, path=path, zarr_format=3, **options), block)


def _block(
    target: StoreLike,
    path: str,
    *,
    create: bool,
    storage_options: Mapping[str, Any] | None,
    memory_bytes: int | str | None,
    decoded: int | str | None = None,
) -> tuple[Block, str]:
    """`PerArray` over a store, below a `WriteBack` for `with` statements; and the path of the node in it.

    With `memory_bytes`, changes wait from now on; with `decoded`, a cache of this size is between the two.
    """
    mode: Mode | None = "a" if create else None
    place = sync(make_store_path(target, path=path, mode=mode, storage_options=as_dict(storage_options)))
    store = place.store
    top = store if isinstance(store, WriteBack) and isinstance(store.below, PerArray) else None
    if top is None or memory_bytes is not None or decoded is not None:
        below = top.below if top is not None else store if isinstance(store, PerArray) else PerArray(store)
        if decoded is not None:
            below = Cache(below, memory_bytes=decoded)
        top = WriteBack(below, memory_bytes=DEFAULT_BYTES if memory_bytes is None else memory_bytes)
        if memory_bytes is None:
            top.in_blocks()
    return Block(top, not isinstance(target, Store | StorePath)), place.path
