"""The readers of formats: zarrlift's own, and those added by other packages.

A reader of ours is a module of this package, imported on first use, with

    def read(storage, *, follow_links: bool, only: bool, ...) -> Archive

If `only` is set, this format was requested, and documents of other formats next to its own are ignored.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from zarrstack.base import plugins
from zarrstack.core.errors import UsageError

from ..recipe import format_names
from ..recipe.format_names import points_of
from ..recipe.options import Format
from .markers import MARKERS, MarkerDocument

if TYPE_CHECKING:
    from .contract import SourceFormat
    from .description import NodeKind


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of ours."""

    module: str
    options: tuple[str, ...] = ()
    """Further fields of `Reading` that `read` takes under the same names."""
    nodes: tuple[str, ...] = ()
    """Documents that make a directory a node; none if nodes are elsewhere."""
    attributes: str | None = None
    """File that holds the attributes of a node; other programs may create it at any time."""


READERS: Final[Mapping[Format, Reader]] = {
    "zarr1": Reader("zarr_v1", nodes=("meta",), attributes="attrs"),
    "zarr2": Reader("zarr_v2.reader", nodes=(".zarray", ".zgroup"), attributes=".zattrs"),
    "n5": Reader("n5.reader", ("axes",), nodes=("attributes.json",), attributes="attributes.json"),
    "zarr3": Reader("zarr_v3.reader", nodes=("zarr.json",)),
    "zarr3-draft": Reader("zarr_v3_draft.reader", ("allow_fallback",)),
}


def attributes_document(format: Format) -> str | None:
    """File that holds the attributes of a node and may be created at any time; None if there is none."""
    return READERS[format].attributes if format in READERS else None


def node_documents(format: Format) -> tuple[str, ...]:
    """Documents that make a directory a node; empty if nodes are elsewhere."""
    return READERS[format].nodes if format in READERS else find(format).documents


def markers_for(format: Format | None) -> tuple[MarkerDocument, ...]:
    """The documents to look for, if a format is requested or, with None, any.

    Other packages are asked only where their formats may be meant. UsageError for one that cannot be used.
    """
    if format in READERS:
        return MARKERS
    names = dict.fromkeys(point.name for point in format_names.outside()) if format is None else (format,)
    return (*MARKERS, *(marker for name in names for marker in _markers_of(name)))


@functools.cache
def _markers_of(name: Format) -> tuple[MarkerDocument, ...]:
    return tuple(
        MarkerDocument(
            format=name,
            key=document,
            what=name,
            told_by=partial(_is_node, name, document),
            is_array=partial(is_array_document, name, document),
            parsed=False,
        )
        for document in find(name).documents
    )


def _is_node(name: Format, document: str, content: bytes) -> bool:
    return kind_of(name, document, content) is not None


def is_array_document(name: Format, document: str, content: bytes) -> bool:
    """Whether another package's format takes a document for that of an array; UsageError if it fails."""
    return kind_of(name, document, content) == "array"


def kind_of(name: Format, document: str, content: bytes) -> NodeKind | None:
    """What another package's format takes a document for; UsageError if it fails or gives anything else."""
    try:
        kind: Any = find(name)().recognise(document, content)
    except MemoryError:
        raise
    except Exception as error:  # a plug-in may raise anything
        raise broken(name, "fails to recognise a document", f"{type(error).__name__}: {error}") from error
    if kind is None or (isinstance(kind, str) and kind in ("array", "group")):
        return cast("NodeKind | None", kind)
    raise broken(name, "recognises a document as something else", repr(kind), "'array', 'group' or None")


class BrokenFormatError(UsageError):
    """A format of another package does not do what its contract says."""


def broken(name: Format, what: str, found: str, expected: str | None = None) -> BrokenFormatError:
    """The error that names the format, its package, and what it did."""
    package = plugins.origin(points_of(name)[0])
    return BrokenFormatError(
        f"the format {name!r} of {package} {what}",
        found=" ".join(found.split()),
        expected=expected,
        advice=f"Report this to the authors of {package}, or uninstall it.",
    )


@functools.cache
def find(name: Format) -> type[SourceFormat]:
    """The format of another package; UsageError if it is unknown or cannot be used."""
    from .contract import SourceFormat  # not loaded where only our own formats are read

    found = plugins.load(
        points_of(name),
        SourceFormat,  # type: ignore[type-abstract]  # it is only compared with
        what="format",
        public="zarrlift.formats.SourceFormat",
        advice="Fix or uninstall that package, or choose another format with --from.",
    )
    documents: object = getattr(found, "documents", None)
    if not isinstance(documents, tuple) or not documents or not all(map(_is_name, documents)):
        raise broken(
            name, "names no documents", repr(documents), "a tuple of file names, such as ('tiles.json',)"
        )
    return found


def forget() -> None:
    """Forget the formats that were loaded, because others are installed now."""
    find.cache_clear()
    _markers_of.cache_clear()


def _is_name(document: object) -> bool:
    return isinstance(document, str) and bool(document.strip(".")) and "/" not in document
