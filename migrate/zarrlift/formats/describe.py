"""Describes an archive with the reader of its format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..recipe.options import Describing, Reading, SourceOptions
from ..recipe.signatures import given
from ..storage.local.files import ReadLimit
from ..storage.open_storage import Place, open_storage

if TYPE_CHECKING:
    from ..archive.nodes import Archive
    from ..recipe.options import Format
    from ..storage.base import Storage


def open_source(source: Place, options: Mapping[str, Any]) -> tuple[Storage, Reading, Format | None]:
    """The storage at a place, and how its archive is read, by the keywords of a public function."""
    described, opening = given(options, Describing, SourceOptions)
    storage = open_storage(
        source, storage_options=opening.storage_options, follow_links=described.follow_links
    )
    return storage, described.settled(), described.format


def describe(
    storage: Storage,
    *,
    format: Format | None = None,
    options: Reading = Reading(),  # noqa: B008 - frozen
) -> Archive:
    """The archive in a storage; its format is detected unless `format` is given.

    The storage applies the size limit of `options` to documents.

    Raises UsageError if there is no archive, or if its format is not known; problems of nodes are in the
    nodes.
    """
    from ..core.format_table import FORMATS
    from .detect import detect
    from .tree.reader import read

    options = options.settled()
    storage.document_limit = ReadLimit(options.max_document_size, "document")
    row = FORMATS[detect(storage, format=format)]
    return read(storage, row, options, only=format is not None)


def read_alike(format: Format, first: Reading, second: Reading) -> bool:
    """Whether two sets of options are equivalent for a format: options for other formats do not count.

    Links are excluded, because each run compares what they lead to.
    """
    from ..core.format_table import FORMATS

    options = FORMATS[format].options
    first, second = first.settled(), second.settled()
    return all(getattr(first, name) == getattr(second, name) for name in options)
