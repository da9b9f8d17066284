"""Opens an Icechunk repository whose references lead to a source that is compared with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zarrstack.core.errors import UsageError

from ...storage.icechunk.place import IcechunkPlace, is_icechunk_url, require_icechunk
from ...transfer.referred_objects import ReferredPlace

if TYPE_CHECKING:
    from ...storage.base import Storage


def open_referring(
    destination: object,
    options: Mapping[str, Any] | None,
    source: Storage,
    source_options: Mapping[str, Any] | None,
) -> Storage | None:
    """The repository, with access to the source alone; None for a place that has no references to it.

    The user has named the source, so its objects may be read. UsageError, StorageError.
    """
    if not isinstance(destination, str) or not is_icechunk_url(destination):
        return None
    try:
        source_place = ReferredPlace.of(source)
    except UsageError:
        return None  # no reference can lead there
    place = IcechunkPlace.parse(destination, options)
    if not place.exists():
        return None
    config = require_icechunk().Repository.fetch_config(place.storage())
    known = None if config is None else config.virtual_chunk_containers
    if not known or source_place.container.root not in known:
        return None
    from ...storage.icechunk.storage import IcechunkStorage
    from .virtual_containers import credentials

    access = credentials(source_place, source_options or {})
    return IcechunkStorage(place, place.open_repository(authorize=access))
