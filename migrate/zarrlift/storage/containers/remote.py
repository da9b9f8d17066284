"""Finds out whether a URL names a zip file with an archive inside, rather than the root of an archive.

One request for the first bytes of the object decides. It is made for URLs whose last name could be a file's:
not for `.zarr` and other names of archives. `zip::URL` says so, whatever the name;
`zip://INSIDE::URL` also which directory inside is the archive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from posixpath import splitext
from typing import Any, Final

from zarrstack.core.errors import UsageError, ZarrstackError

from ..base import Storage
from ..remote.error_text import NO_ANSWER
from ..remote.event_loop import run
from ..remote.remote_storage import RemoteStorage
from ..remote.store_at import store_at
from .table import HEAD, SUFFIXES, StoredContainer, is_zip, open_stored

CHAINED: Final = re.compile(r"zip(://(?P<inside>[^:]*))?::(?P<url>.+)", re.DOTALL)
"""fsspec's form of a file in a file."""
_ARCHIVES: Final = (".zarr", ".zarr1", ".zarr2", ".zarr3", ".n5", ".zr", ".zr1", ".zr2", ".zr3")
"""Ends of names of archives that are directories."""


def container_at(url: str, options: Mapping[str, Any], storage: RemoteStorage) -> Storage | None:
    """The archive in the file of a URL; None if there is no file, or one that is not known to be a container.

    `storage` is the store at the URL. Raises UsageError for a file of another known kind, and StorageError.
    """
    path = url.partition("?")[0]
    if "::" in url or path.count("/") < 3:
        return None
    *above, name = path.split("/")
    end = next((at for at in range(2, len(above)) if splitext(above[at])[1].lower() in SUFFIXES), None)
    if end is not None:
        place = _tried(store_at("/".join(above[: end + 1]), options, read_only=True))
        if place is not None:
            return open_stored(replace(place, inside="/".join([*above[end + 1 :], name]).strip("/") or None))
    name = name.lower()
    if not name or name.endswith(_ARCHIVES):
        return None
    place = _file(storage) if name.endswith(SUFFIXES) else _tried(storage)
    return None if place is None else open_stored(place)


def chained_container(url: str, options: Mapping[str, Any]) -> Storage | None:
    """The archive in a file of a store that is named as a chain; None if it is another chain."""
    chained = CHAINED.fullmatch(url)
    if chained is None or "::" in chained["url"]:
        return None
    own = options.get(chained["url"].partition("://")[0])  # as fsspec takes them: by protocol, or all for one
    storage = store_at(chained["url"], own if isinstance(own, Mapping) else options, read_only=True)
    place = _file(storage)
    if place is None:
        raise UsageError(f"no such file: {storage.url}")
    return open_stored(replace(place, inside=chained["inside"] or None), named=True)


def file_in_place(storage: Storage) -> UsageError | None:
    """The error for a storage without an archive whose URL is that of a file of a known kind."""
    from ..not_an_archive import is_foreign, not_a_container
    from .container import Container

    if not isinstance(storage, RemoteStorage) or isinstance(storage, Container) or "://" not in storage.url:
        return None
    place = _tried(storage)
    if place is None:
        return None
    if is_zip(place.start.data):
        return UsageError(
            f"{storage.url} is a zip file that is named as a directory",
            advice=f"Give it as zip::{storage.url}.",
        )
    return not_a_container(storage.url, place.start.data) if is_foreign(place.start.data) else None


def _tried(storage: RemoteStorage) -> StoredContainer | None:
    """The file; None also if it cannot be read: some stores forbid all outside an archive.

    UsageError if there is no bucket, StorageError if the store does not answer at all.
    """
    try:
        return _file(storage)
    except UsageError:
        raise
    except ZarrstackError as error:
        if error.problem.message == NO_ANSWER:
            raise
        return None


def _file(storage: RemoteStorage) -> StoredContainer | None:
    """The object whose place is the path of a storage; None if there is none. StorageError."""
    head = slice(0, HEAD)
    start = run(storage.request("cannot read", "", lambda: storage.read_end(storage.base, head, None)))
    return None if start is None else StoredContainer(storage, start)
