"""Opening and creating arrays whose metadata names storage transformers, through zarr-python.

The result is a zarr-python array or group, and a context manager. Its `store` is a `PerArray` layer; pass
that to other libraries that read such arrays, such as xarray.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from typing import Any, Literal, ParamSpec, TypeAlias, TypedDict, TypeVar, Unpack

import zarr
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.core.buffer.core import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import StoreLike, StorePath
from zarr.storage._common import make_store_path

from .base.array_documents import DOCUMENT, parse
from .base.description import LayerOptions
from .base.option_checks import invalid_option, number, size
from .base.stack import as_dict
from .base.transformer import StorageTransformer
from .core.errors import UnsupportedError, UsageError
from .core.json_text import JSON
from .layers.per_array.layer import PerArray
from .layers.per_array.opened import Block, OpenArray, OpenGroup
from .layers.sharding.buffer import DEFAULT_BYTES

P = ParamSpec("P")
T = TypeVar("T")
AnyArray = TypeVar("AnyArray", bound=zarr.Array[Any])
AnyGroup = TypeVar("AnyGroup", bound=zarr.Group)
BufferMode: TypeAlias = Literal["shards", "none"]
"""Whether chunks may wait in memory until their shard is whole."""
Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]
"""As in zarr-python: an existing node ("r", "r+"), or one that is created ("a" if missing, "w", "w-")."""


def open(  # noqa: A001 -- zarr.open, and used as zarrstack.open
    store: StoreLike,
    *,
    path: str = "",
    mode: Mode | None = None,
    storage_options: Mapping[str, Any] | None = None,
    memory_bytes: int | str | None = None,
    buffer: BufferMode = "shards",
    concurrency: int | None = None,
    **options: Any,
) -> OpenArray | OpenGroup:
    """Open an array or group like `zarr.open`, applying its storage transformers.

    `store` is a zarr store, a path, or a URL with its `storage_options`; `path` is that of the node in it.
    `mode` is "r+" by default (an existing node, for reading and writing), "r" for a read-only store; "w" and
    "a" may create a node, without transformers. Other arguments are passed on to `zarr.open`.

    The result is also a context manager. In its block, arrays that are stored in shards by a `Sharding` layer
    keep chunks in memory until their shard is whole, so that it is written once; at the end everything is
    stored, and the store is closed if it was given as a path or URL. `memory_bytes`, a number or a text such
    as "64MB" (default: 256 MB), is the budget for these chunks. If it is given, they wait without a block
    too, until `flush()`, `flush_sync()` or `close()` of the result's `store`. `buffer="none"` switches
    this off: every change is stored at once. `concurrency` is zarr's `async.concurrency` in the block.

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
    layer, path_in_it = _place(store, path, create=mode in {"a", "w", "w-"}, storage_options=storage_options)
    block = _block(store, layer, memory_bytes, buffer, concurrency)
    if mode is None:
        mode = "r" if layer.read_only else "r+"
    try:
        node: Any = zarr.open(store=layer, path=path_in_it, mode=mode, **options)
    except Exception as error:
        if _is_draft(layer):
            raise UnsupportedError(
                "an archive of the 2022 draft of Zarr v3", node=path, advice="Use zarrlift.open."
            ) from error
        raise
    if isinstance(node, zarr.Array):
        return OpenArray.of(node, block)
    return OpenGroup.of(node, block)


def _is_draft(store: PerArray) -> bool:
    """Whether a store has a `zarr.json` of the draft: `zarr_format` is text there, in v3 a number."""
    content = sync(store.get(DOCUMENT, default_buffer_prototype()))
    document = None if content is None else parse(content.to_bytes())
    return document is not None and isinstance(document.get("zarr_format"), str)


def _as(other: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Gives a function the parameters of another one, for type checkers and for `help`."""

    def decorated(function: Callable[..., T]) -> Callable[P, T]:
        returned = signature(function).return_annotation
        function.__signature__ = signature(other).replace(return_annotation=returned)  # type: ignore[attr-defined]
        return function

    return decorated


@_as(open)
def open_array(*args: Any, **options: Any) -> OpenArray:
    """Open an array like `open`.

    Raises
    ------
    UsageError
        If the node is a group; otherwise the errors of `open`.

    Examples
    --------
    >>> options = {"shape": (4,), "chunks": (1,), "dtype": "i4"}
    >>> layers = [zarrstack.Sharding(chunks_per_shard=[2])]
    >>> array = zarrstack.create_array("a.zarr", **options, storage_transformers=layers)
    >>> zarrstack.open_array("a.zarr").chunks
    (1,)
    """
    return array_of(open(*args, **options))


@_as(open)
def open_group(*args: Any, **options: Any) -> OpenGroup:
    """Open a group like `open`.

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
    return group_of(open(*args, **options))


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


class ArrayKeywords(TypedDict, total=False):
    """What `create_array` passes on to `zarr.create_array`, for type checkers.

    Source: zarr-python 3.1.6 and 3.4.2. Types of which the two have different names are Any.
    """

    shape: int | Iterable[int] | None
    dtype: Any
    data: NDArray[Any] | None
    chunks: Any
    shards: Any
    filters: Any
    compressors: Any
    serializer: Any
    fill_value: Any
    order: Literal["C", "F"] | None
    zarr_format: Literal[3]
    attributes: dict[str, Any] | None
    chunk_key_encoding: Any
    dimension_names: Iterable[str | None] | None
    overwrite: bool
    config: Any
    write_data: bool


def _with_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """A function that passes `ArrayKeywords` on, with a signature that names them, for `help`."""
    own = [each for each in signature(function).parameters.values() if each.kind is not each.VAR_KEYWORD]
    of_zarr = signature(zarr.create_array).parameters
    for name, text in ArrayKeywords.__annotations__.items():
        default = of_zarr[name].default
        own.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=text))
    function.__signature__ = signature(function).replace(parameters=own)  # type: ignore[attr-defined]
    return function


@_with_keywords
def create_array(
    store: StoreLike,
    *,
    name: str | None = None,
    storage_transformers: Iterable[StorageTransformer | JSON] = (),
    storage_options: Mapping[str, Any] | None = None,
    memory_bytes: int | str | None = None,
    buffer: BufferMode = "shards",
    concurrency: int | None = None,
    **options: Unpack[ArrayKeywords],
) -> OpenArray:
    """Create an array like `zarr.create_array`, stored through these layers.

    `store` is a zarr store, a path, or a URL with its `storage_options`; `name` is the path of the array in
    it. `storage_transformers` are given from the array down to the store, as layers without a store or as
    their JSON, and are recorded in the array's `zarr.json`. `memory_bytes`, `buffer` and `concurrency` are as
    in `open`, and so is the result. The others are those of `zarr.create_array`: `shape`, `dtype`, `data`,
    `chunks`, `shards`, `filters`, `compressors`, `serializer`, `fill_value`, `order`, `zarr_format`,
    `attributes`, `chunk_key_encoding`, `dimension_names`, `overwrite`, `config` and `write_data`.

    Raises
    ------
    UnsupportedError
        For a layer that metadata may not name.
    UsageError
        For another `zarr_format` than 3: only its metadata can name storage transformers. For a layer with
        `must_understand: false`.

    Examples
    --------
    >>> options = {"shape": (4,), "chunks": (1,), "dtype": "i4"}
    >>> layers = [zarrstack.Sharding(chunks_per_shard=[2])]
    >>> array = zarrstack.create_array("a.zarr", **options, storage_transformers=layers)
    >>> array[:] = 7
    >>> array.nchunks_initialized
    4
    """
    keywords: dict[str, Any] = {**options}
    if keywords.pop("zarr_format", 3) not in (3, None):
        raise UsageError(
            "only metadata of Zarr v3 can name storage transformers",
            node=name or "",
            expected="zarr_format=3, which is the default",
            advice="For Zarr v2, put layers under the array yourself: zarrstack.stack.",
        )
    layer, path = _place(store, name or "", create=True, storage_options=storage_options)
    entries = [each.to_json() if isinstance(each, LayerOptions) else each for each in storage_transformers]
    if any(isinstance(entry, dict) and entry.get("must_understand") is False for entry in entries):
        raise UsageError(
            "a reader that skips a layer of an array would return other values",
            node=name or "",
            found="must_understand: false",
            expected="layers that readers must understand, the default",
        )
    block = _block(store, layer, memory_bytes, buffer, concurrency)
    with layer.declared(path, entries):
        array = zarr.create_array(layer, name=path or None, zarr_format=3, **keywords)
    return OpenArray.of(array, block)


def create_group(
    store: StoreLike,
    *,
    path: str = "",
    attributes: dict[str, Any] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    memory_bytes: int | str | None = None,
    buffer: BufferMode = "shards",
    concurrency: int | None = None,
) -> OpenGroup:
    """Create a group of Zarr v3 like `zarr.create_group`, whose arrays may name storage transformers.

    `store` is a zarr store, a path, or a URL with its `storage_options`; `path` is that of the group in it.
    `attributes` are those of the group; `overwrite` replaces what is there. `memory_bytes`, `buffer` and
    `concurrency` are as in `open`, and so is the result. Its `store` is what `create_array` takes.

    Raises
    ------
    UsageError
        For an invalid `memory_bytes`, `buffer` or `concurrency`. What is there already is zarr's error.

    Examples
    --------
    >>> group = zarrstack.create_group("images.zarr", attributes={"made": "today"})
    >>> array = zarrstack.create_array(group.store, name="a", shape=(4,), dtype="i4")
    >>> sorted(zarrstack.open("images.zarr").keys())
    ['a']
    """
    layer, path = _place(store, path, create=True, storage_options=storage_options)
    block = _block(store, layer, memory_bytes, buffer, concurrency)
    group = zarr.create_group(layer, path=path, zarr_format=3, attributes=attributes, overwrite=overwrite)
    return OpenGroup.of(group, block)


def _block(
    target: StoreLike,
    store: PerArray,
    memory_bytes: int | str | None,
    buffer: BufferMode,
    concurrency: int | None,
) -> Block:
    """What the result does as a context manager; with `memory_bytes`, chunks may wait from now on."""
    if buffer not in ("shards", "none"):
        raise invalid_option(store, "buffer", buffer, "'shards' or 'none'")
    if concurrency is not None:
        number(store, "concurrency", concurrency, least=1, whole=True)
    budget = DEFAULT_BYTES if memory_bytes is None else size(store, "memory_bytes", memory_bytes)
    if memory_bytes is not None and buffer == "shards":
        store.buffer_writes(budget)
    closes = not isinstance(target, Store | StorePath)
    return Block(
        store=store, budget=budget if buffer == "shards" else None, concurrency=concurrency, closes=closes
    )


def _place(
    store: StoreLike, path: str, *, create: bool, storage_options: Mapping[str, Any] | None
) -> tuple[PerArray, str]:
    """A `PerArray` over the store, and the path of the node in it."""
    mode: Mode | None = "a" if create else None
    place = sync(make_store_path(store, path=path, mode=mode, storage_options=as_dict(storage_options)))
    base = place.store
    return (base if isinstance(base, PerArray) else PerArray(base)), place.path
