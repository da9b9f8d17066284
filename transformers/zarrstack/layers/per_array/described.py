"""Arrays as their documents describe them: their layers, and what these hold."""

from __future__ import annotations

from dataclasses import dataclass

from zarr.abc.store import Store

from ...base.array_documents import entries_of, key_of
from ...base.description import split_entry
from ...base.registry import find
from ...base.stack import stack
from ...base.transformer import StorageTransformer
from ...core.errors import MetadataError, UnsupportedError, UsageError, ZarrstackError
from ...core.json_text import JSON, JSONObject, excerpt


@dataclass(frozen=True, kw_only=True)
class DescribedArray:
    """An array as described by its stored document."""

    document: JSONObject
    entries: list[JSON]
    layers: tuple[StorageTransformer, ...] = ()
    store: Store
    """The array's stack over the store below; the store below itself for an array without transformers."""
    error: ZarrstackError | None = None
    """Why the array cannot be used."""

    def has_same_layers(self, other: DescribedArray) -> bool:
        """Whether both have equal layers, and can share one stack."""
        mine, theirs = ([(type(each), each.options) for each in array.layers] for array in (self, other))
        return mine == theirs and self.error is None and other.error is None

    def check(self) -> None:
        """Raise the error of an array that cannot be used."""
        if self.error is not None:
            raise self.error


def describe(below: Store, path: str, document: JSONObject) -> DescribedArray:
    """Return a document's array with its layers; invalid ones are reported in its `error`."""
    entries: list[JSON] = []
    layers: list[StorageTransformer] = []
    try:
        entries = entries_of(document, path)
        if entries:
            _check_members(document)
        for entry in entries:
            name, configuration = split_entry(entry)
            try:
                kind = find(name)
            except UsageError as error:
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
    except ZarrstackError as error:
        if isinstance(error, UsageError):
            error = MetadataError.of(error.problem)
        error = error.at(node=path, key=key_of(path))
        return DescribedArray(document=document, entries=entries, store=below, error=error)
    return DescribedArray(document=document, entries=entries, layers=tuple(layers), store=store)


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
