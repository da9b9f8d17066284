"""Looks up formats: zarrlift's own, those added by other packages, and those that a program registers."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from zarrstack.base import plugins
from zarrstack.core.errors import UsageError

from ..recipe import format_names
from ..recipe.format_names import points_of
from ..recipe.options import Format
from .table import FORMATS, MarkerDocument, NodeFormat

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .contract import NodeKind, SourceFormat


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
                matches=partial(_is_node, name, document),
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


T = TypeVar("T", bound="type[SourceFormat]")


@dataclass(frozen=True, slots=True)
class _Registered:
    """A format of this process, in the place of an entry point."""

    name: str
    value: str
    format: type
    dist: None = None

    def load(self) -> type:
        return self.format


def register(format: T) -> T:
    """Add a format to this process, as an entry point would; returns it, so this is a decorator too.

    It replaces a format of the same name, such as that of a notebook's cell that is run again, but none of
    zarrlift's own. Each process that plans migrations calls it; workers need no format.

    Raises
    ------
    UsageError
        If it is not a subclass of `SourceFormat`, or has no usable name or documents.
    """
    name: object = getattr(format, "name", None)
    if not isinstance(name, str) or not name or name in FORMATS:
        raise UsageError(
            "a format needs a name that is not one of zarrlift's own",
            found=repr(name),
            advice="Set `name` in the class.",
        )
    point = _Registered(name, f"{format.__module__}:{format.__qualname__}", format)
    before = dict(format_names.at_run_time)
    replace_registered({**before, name: cast("EntryPoint", point)})
    try:
        find(name)
    except UsageError:
        replace_registered(before)
        raise
    return format


def replace_registered(points: dict[str, EntryPoint]) -> None:
    """Have these formats, and no others, registered at run time."""
    format_names.at_run_time.clear()
    format_names.at_run_time.update(points)
    forget()


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
