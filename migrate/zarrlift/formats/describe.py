"""Readers: one module per source format, each of which describes an archive as `Archive`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..archive.read_options import ReadOptions

if TYPE_CHECKING:
    from ..archive.nodes import Archive, Format
    from ..storage.base import Storage

__all__ = ["describe", "read_alike"]


def describe(
    storage: Storage,
    *,
    format: Format | None = None,
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
) -> Archive:
    """The archive that lies in a place, its format found out unless `format` names it.

    The storage keeps the limit of `options` for documents.

    Raises UsageError where there is none, or where its format is not one that is read; problems
    of nodes are with the nodes.
    """
    from importlib import import_module

    from .detect import READERS, detect

    storage.document_bound = options.document_bound
    reader = READERS[detect(storage, format=format)]
    module = import_module(f".{reader.module}", __package__)
    more = {name: getattr(options, name) for name in reader.options}
    archive: Archive = module.read(
        storage, follow_links=options.follow_links, only=format is not None, **more
    )
    return archive


def read_alike(format: Format, first: ReadOptions, second: ReadOptions) -> bool:
    """Whether two sets of options mean the same to a format: those that only others take do not count.

    Which links are followed is left to each run: what is found is compared on its own.
    """
    from .detect import READERS

    return all(getattr(first, name) == getattr(second, name) for name in READERS[format].options)
