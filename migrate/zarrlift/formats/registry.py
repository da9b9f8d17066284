"""Looks up formats: zarrlift's own, and those added by other packages."""

from __future__ import annotations

import functools
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from zarrstack.base import plugins
from zarrstack.core.errors import UsageError

from ..recipe import format_names
from ..recipe.format_names import points_of
from ..recipe.options import Format
from .table import FORMATS, MarkerDocument, NodeFormat

if TYPE_CHECKING:
    from .contract import SourceFormat
    from .description import NodeKind


def format_row(name: Format) -> NodeFormat:
    """The row of a format; UsageError for one of another package that is unknown or cannot be used."""
    return FORMATS[name] if name in FORMATS else _row_of(name)


def attributes_document(name: Format) -> str | None:
    """File that holds the attributes of a node and may be created at any time; None if there is none."""
    return FORMATS[name].attributes if name in FORMATS else None


def node_documents(name: Format) -> tuple[str, ...]:
    """Documents that make a directory a node; empty if nodes are elsewhere."""
    row = format_row(name)
    return row.nodes if row.directories else ()


def markers_for(format: Format | None) -> tuple[MarkerDocument, ...]:
    """The documents to look for, if a format is requested or, with None, any.

    Other packages are asked only where their formats may be meant. UsageError for one that cannot be used.
    """
    others = dict.fromkeys(point.name for point in format_names.outside()) if format is None else (format,)
    rows = [*FORMATS.values(), *(_row_of(name) for name in others if format not in FORMATS)]
    return tuple(marker for row in rows for marker in row.markers)


# ----- formats of other packages


@functools.cache
def _row_of(name: Format) -> NodeFormat:
    documents = find(name).documents
    return NodeFormat(
        name=name,
        title=name,
        markers=tuple(
            MarkerDocument(
                format=name,
                key=document,
                what=name,
                told_by=partial(_is_node, name, document),
                is_array=partial(is_array_document, name, document),
                parsed=False,
            )
            for document in documents
        ),
        describer=".outside",
        nodes=documents,
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

    plugin = plugins.load(
        points_of(name),
        SourceFormat,  # type: ignore[type-abstract]  # it is only compared with
        what="format",
        public="zarrlift.formats.SourceFormat",
        advice="Fix or uninstall that package, or choose another format with --from.",
    )
    documents: object = getattr(plugin, "documents", None)
    if not isinstance(documents, tuple) or not documents or not all(map(_is_name, documents)):
        raise broken(
            name, "names no documents", repr(documents), "a tuple of file names, such as ('tiles.json',)"
        )
    return plugin


def forget() -> None:
    """Forget the formats that were loaded, because others are installed now."""
    find.cache_clear()
    _row_of.cache_clear()


def _is_name(document: object) -> bool:
    return isinstance(document, str) and bool(document.strip(".")) and "/" not in document
