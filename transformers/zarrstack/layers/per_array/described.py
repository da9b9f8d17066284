"""An array as its document describes it: its layers, and why it cannot be opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from zarr.abc.store import Store
from zarr.core.metadata.v3 import ArrayV3Metadata

from ...base.array_documents import entries_of, key_of, without_transformers
from ...base.description import split_entry
from ...base.registry import find
from ...base.stack import stack
from ...base.transformer import StorageTransformer
from ...core.errors import MetadataError, UnsupportedError, UsageError, ZarrstackError
from ...core.json_text import JSON, JSONObject, excerpt
from ..sharding.buffer import ShardBuffer
from ..sharding.buffered import BufferedArray


@dataclass(frozen=True, kw_only=True)
class DescribedArray:
    """An array as described by its stored document."""

    document: JSONObject
    entries: list[JSON]
    layers: tuple[StorageTransformer, ...] = ()
    store: Store
    """The array's stack over the store below; the store below itself for an array without transformers."""
    unknown: tuple[str, ...] = ()
    """Unknown transformers, skipped on reading because of `must_understand: false`."""
    error: ZarrstackError | None = None
    """Why the array cannot be read."""

    def has_same_layers(self, other: DescribedArray) -> bool:
        """Whether both have equal layers, and can share one stack."""
        mine, theirs = ([(type(each), each.options) for each in array.layers] for array in (self, other))
        return mine == theirs and self.error is None and other.error is None

    @cached_property
    def refusal(self) -> Exception | None:
        """Why neither zarrstack nor zarr-python can open the array; None if both can."""
        if self.error is not None:
            return self.error
        document = dict(self.document)
        without_transformers(document)
        try:
            ArrayV3Metadata.from_dict(document)
        except Warning:  # raised as an error, about an array that can be opened
            return None
        except Exception as error:  # noqa: BLE001 - whatever zarr raises for a document that it cannot use
            return error
        return None

    def check(self, *, writes: bool) -> None:
        """Raise the error of an array that cannot be read, or be written."""
        if self.error is not None:
            raise self.error
        if writes and self.unknown:
            raise UnsupportedError(
                f"the array is stored through unknown transformers: {', '.join(self.unknown)}",
                advice="It can be read without them, but not written. Install the package with them.",
            )


def describe(below: Store, path: str, document: JSONObject, buffer: ShardBuffer | None) -> DescribedArray:
    """Return a document's array with its layers; invalid ones are reported in its `error`.

    Layers that can hold chunks in memory do so in `buffer`, unless a layer above them refuses that.
    """
    entries: list[JSON] = []
    layers, unknown = [], []
    try:
        entries = entries_of(document, path)
        if entries:
            _check_members(document)
        for entry in entries:
            name, configuration = split_entry(entry)
            try:
                kind = find(name)
            except UsageError as error:
                if isinstance(entry, dict) and entry.get("must_understand") is False:
                    unknown.append(name)
                    continue
                raise UnsupportedError(
                    f"the array is stored through {name!r}, which cannot be used here",
                    found=error.problem.message,
                    expected=error.problem.expected,
                    advice=error.problem.advice,
                ) from error
            if not kind.in_metadata:
                raise UnsupportedError(
                    f"storage transformer {name!r} may not be named by metadata",
                    advice=(
                        "It could access data outside the store: add it to the stack yourself. A layer that "
                        "never does so may set `in_metadata = True` in its class."
                    ),
                )
            layers.append(kind.for_array(configuration, path, document))
        store = stack(below, *layers)
        buffer_in(layers, buffer)
    except ZarrstackError as error:
        if isinstance(error, UsageError):
            error = MetadataError.of(error.problem)
        error = error.at(node=path, key=key_of(path))
        return DescribedArray(document=document, entries=entries, store=below, error=error)
    return DescribedArray(
        document=document, entries=entries, layers=tuple(layers), store=store, unknown=tuple(unknown)
    )


def _check_members(document: JSONObject) -> None:
    """Raise MetadataError unless a document has the members that layers read, in their general form."""
    forms: dict[str, tuple[type | tuple[type, ...], str]] = {
        "shape": (list, "a list of lengths"),
        "chunk_key_encoding": ((dict, str), "an object or a name"),
    }
    for name, (form, expected) in forms.items():
        if not isinstance(document.get(name), form):
            raise MetadataError(
                f"the array's document has no valid {name}",
                found=excerpt(document.get(name)),
                expected=expected,
            )


def buffer_in(layers: Sequence[StorageTransformer], buffer: ShardBuffer | None) -> None:
    """Let layers hold chunks in a buffer, unless a layer above them refuses that."""
    for number, layer in enumerate(layers):
        if isinstance(layer, BufferedArray) and buffer is not None:
            layer.use_buffer(buffer)
            if any(above.check_below(layer) is not None for above in layers[:number]):
                layer.use_buffer(None)
