"""Names the format of a place that holds no archive, if it is a known one (`storage.foreign_files`)."""

from __future__ import annotations

from collections.abc import Sequence

from zarrstack.core.errors import UsageError

from ..storage.base import Storage
from .tree.documents import documents_at, parsed_or_none


def foreign_place(storage: Storage, names: Sequence[str] | None) -> UsageError | None:
    """The error for a place of another known kind, else None.

    `names` are those in it, of directories with "/"; None if they are unknown. StorageError.
    """
    from ..storage.foreign_files import DOCUMENTS, known_directory

    if names is None:
        contents = documents_at(storage, DOCUMENTS)
        names = [name for name, content in zip(DOCUMENTS, contents, strict=True) if content is not None]
    match = known_directory(names, lambda name: parsed_or_none(documents_at(storage, [name])[0] or b"", name))
    if match is not None:
        kind, advice = match
        advice = advice.replace("PLACE", repr(storage.url))
        return UsageError(f"{storage.url} is {kind}, not an archive", advice=advice)
    if storage.requests is None:
        return None

    from ..storage.containers.remote import file_in_place

    return file_in_place(storage)
