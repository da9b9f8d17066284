"""What a reference names besides the range: the URL of an object, and what tells that it has changed."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote

import numpy as np

from zarrstack.core.errors import UsageError
from zarrstack.core.paths import local_path

from ..archive.chunk_columns import Indexes
from ..archive.chunk_indexes import NO_CHUNK, chunk_indexes
from ..storage.listed_versions import source_object_changed, version_numbers
from ..storage.local.storage import LocalStorage

if TYPE_CHECKING:
    from ..archive.chunk_inventory import Inventory
    from ..archive.nodes import Layout
    from ..storage.base import Storage
    from ..storage.listing import ListedPage

Version: TypeAlias = str | datetime
"""An ETag, or a time: an object that was modified after it is another one."""

_SCHEMES: Final = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "http": "http",
    "https": "https",
}
"""Scheme of a source's URL -> the one in references."""
_ETAG: Final = re.compile(r"[!-~]+")
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ReferredPlace:
    """The place of the objects that references name."""

    scheme: str
    """file, s3, gs, http or https."""
    root: str
    """URL of the source's root, with "/" at its end and unescaped."""

    @classmethod
    def of(cls, storage: Storage) -> ReferredPlace:
        """The place of a source; UsageError if no URL names its objects."""
        if isinstance(storage, LocalStorage):
            path = storage.root.as_posix()
            return cls("file", f"file://{'' if path.startswith('/') else '/'}{path.rstrip('/')}/")
        scheme, _, rest = storage.url.partition("://")
        if scheme not in _SCHEMES or "::" in storage.url or not getattr(storage, "native", None):
            raise UsageError(
                "references need a URL for each object of the source",
                found=storage.url,
                expected="a directory, or a URL of S3, Google Cloud Storage or HTTP, without layers",
                advice="Migrate without --virtual.",
            )
        return cls(_SCHEMES[scheme], f"{_SCHEMES[scheme]}://{rest.rstrip('/')}/")

    @property
    def path(self) -> str:
        """The directory of local objects."""
        return local_path(self.root.removeprefix("file://"))

    @property
    def container(self) -> ReferredPlace:
        """The root, or the nearest directory above it whose URL needs no escapes.

        Icechunk 1.1.21 and 2.3.0 find no container whose prefix has escapes.
        """
        head, _, rest = self.root.partition("://")
        names = rest.rstrip("/").split("/")
        plain = next((at for at, name in enumerate(names) if at and quote(name) != name), len(names))
        return ReferredPlace(self.scheme, f"{head}://{'/'.join(names[:plain])}/")

    def urls(self, keys: Sequence[str]) -> list[str]:
        """The URLs of objects as fsspec takes them: with keys as they are."""
        return [self.root + key for key in keys]

    def strict_urls(self, keys: Sequence[str]) -> list[str]:
        """The URLs of objects with reserved characters escaped (RFC 3986)."""
        start = self._strict("")
        text = "\n".join(keys)
        if quote(text, safe="/\n") == text:  # most keys have no other characters
            return [start + key for key in keys]
        return [start + quote(key) for key in keys]

    def _strict(self, key: str) -> str:
        head, _, rest = self.root.partition("://")
        host, slash, path = rest.partition("/")
        return f"{head}://{host}{slash}{quote(path + key)}"


class ReferredVersions:
    """The versions of an array's objects."""

    def __init__(self, storage: Storage, path: str, layout: Layout, inventory: Inventory) -> None:
        """Lists the objects of a store again for their ETags; SourceChangedError if one has another now."""
        self._times: Indexes | None = None
        self._tags: dict[int, str] = {}
        self._indexes = inventory.indexes
        if inventory.versions is None or not len(inventory.indexes):
            return
        if isinstance(storage, LocalStorage):
            self._times = inventory.versions
            return
        prefix = layout.prefix(path)
        tags = storage.list_objects(prefix, lambda: _ListedTags(layout, prefix)).tags
        listed = [tags.get(index, "") for index in self._indexes.tolist()]
        for row in np.flatnonzero(version_numbers(listed) != inventory.versions)[:1].tolist():
            place = layout.objects.coordinates(int(self._indexes[row]))
            raise source_object_changed().at(node=path, key=layout.key(path, place))
        # Other stores list times with a precision of their own, and gcsfs the ETags of another interface.
        same = storage.url.startswith("s3") or storage.tells_versions
        if same and all(map(_ETAG.fullmatch, listed)):
            self._tags = tags

    def of(self, objects: Indexes) -> Sequence[Version | None]:
        """The versions of objects, by their places in the inventory.

        A time is a whole second, since that is what Icechunk keeps (1.1.21 and 2.3.0).
        """
        if self._times is not None:
            seconds = -(-self._times[objects] // _SECOND)
            unique, places = np.unique(seconds, return_inverse=True)
            times = [datetime.fromtimestamp(second, UTC) for second in unique.tolist()]
            return [times[place] for place in places.tolist()]
        if self._tags:
            return [self._tags[index] for index in self._indexes[objects].tolist()]
        return [None] * len(objects)

    def settle(self) -> bool:
        """Wait until the second of the newest file is over; whether that was necessary.

        A file that is rewritten within the same second has a time that is not later.
        """
        if self._times is None or not len(self._times):
            return False
        left = -(-int(self._times.max()) // _SECOND) * _SECOND - time.time_ns()
        if not 0 < left <= _SECOND:
            return False
        time.sleep(left / _SECOND)
        return True


class _ListedTags:
    """Collects the ETags of an array's objects."""

    def __init__(self, layout: Layout, prefix: str) -> None:
        self.tags: dict[int, str] = {}
        self._layout = layout
        self._start = len(prefix)

    def take(self, page: ListedPage) -> None:
        """Receive the next objects."""
        page = page.relative(self._start)
        indexes = chunk_indexes(page.keys, self._layout.keys, self._layout.objects)
        for index, tag in zip(indexes.tolist(), page.versions or (), strict=False):
            if index != NO_CHUNK and tag is not None:
                self.tags[index] = tag
