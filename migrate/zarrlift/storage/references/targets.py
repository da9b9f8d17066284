"""The objects that references lead to: which of them may be read, and reading them.

A target on the same host or in the same bucket as the references is permitted, and opened with the same
options. Others, and all local files, need a permission, because whoever wrote the references could otherwise
have any file that the user can read copied into the result.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from zarrstack.core.errors import StorageError, UnsupportedError, UsageError, ZarrstackError, short
from zarrstack.core.paths import local_path

from ...errors import SourceChangedError
from ..base import Storage
from ..listed_versions import Version, version_number
from ..local.storage import LocalStorage
from ..redact import redact
from ..reference_options import ALLOWED, AskedReferences

if TYPE_CHECKING:
    from ..local.files import ReadLimit

Opener = Callable[[str, "Mapping[str, Any] | None"], Storage]
"""Opens the storage of a place with storage options, to read."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_LOCAL: Final = frozenset({"file", "local"})
_NAMED: Final = 5
"""Number of places and keys that an error names."""


class Target(NamedTuple):
    """Where a reference leads."""

    root: str
    """Scheme and host or bucket, `s3://bucket`; "" for a local file."""
    key: str
    """What follows; for a local file the absolute path."""

    @property
    def shown(self) -> str:
        """The target for messages, without secrets."""
        return redact(f"{self.root}/{self.key}" if self.root else self.key)

    @property
    def above(self) -> str:
        """The directory of the target."""
        return self.shown.rpartition("/")[0] + "/"


@dataclass(frozen=True, slots=True)
class TargetState:
    """An object as it is now."""

    size: int | None
    """In bytes; None if its store does not tell."""
    text: str | None
    """Changes when it is rewritten; None if its store does not tell."""
    version: Version | None
    """The version that reads of it must return; None if they cannot be compared."""


class Targets:
    """Reads the targets of one archive's references."""

    def __init__(
        self,
        home: Target,
        options: Mapping[str, Any],
        references: AskedReferences,
        open_place: Opener,
        *,
        document: Target | None = None,
    ) -> None:
        """`home` is the place of the references, opened with `options`; `document` what is read."""
        self.home: Final = home
        self.document: Final = document or home
        self._options = dict(options)
        self._references = references
        self._open = open_place
        self._allowed = [allowed_place(prefix) for prefix in references.allowed]
        self._storages: dict[str, Storage] = {}
        self._resolved: dict[str, Target | ZarrstackError] = {}
        self._states: dict[Target, TargetState | None] = {}

    def resolve(self, url: str) -> Target:
        """The target of a reference; UsageError if it is not permitted, UnsupportedError if it is no URL."""
        resolved = self._resolved.get(url)
        if resolved is None:
            try:
                target = target_of(url, self.home)
                resolved = target if self._is_allowed(target) else not_allowed([target])
            except ZarrstackError as error:
                resolved = error
            self._resolved[url] = resolved
        if isinstance(resolved, ZarrstackError):
            raise type(resolved).of(resolved.problem)
        return resolved

    def check(self, urls: Iterable[str]) -> None:
        """Raise UsageError that names all places which are not permitted."""
        refused: dict[str, Target] = {}
        for url in urls:
            try:
                self.resolve(url)
            except UsageError:
                target = target_of(url, self.home)
                refused.setdefault(target.above, target)
            except ZarrstackError:
                continue  # reported with the keys that lead there
        if refused:
            raise not_allowed(list(refused.values()))

    def _is_allowed(self, target: Target) -> bool:
        if target.root and target.root == self.home.root:
            return True
        key = target.key if target.root else Path(os.path.realpath(target.key)).as_posix()
        return any(
            root == target.root and (not prefix or key == prefix or key.startswith(prefix.rstrip("/") + "/"))
            for root, prefix in self._allowed
        )

    async def state(self, target: Target) -> TargetState | None:
        """The state of a target when it was last listed, or now; None if it does not exist."""
        if target not in self._states:
            return await self.state_now(target)
        return self._states[target]

    async def require_same_home(self) -> None:
        """Raise SourceChangedError if the references were rewritten since they were read."""
        before = self._states.get(self.document)
        if before != await self._ask(self.document):
            raise SourceChangedError(
                "the references were rewritten after they were read",
                found=self.document.shown,
                advice="Stop all writers of the source, then resume.",
            )

    async def state_now(self, target: Target) -> TargetState | None:
        """The state of a target now; None if it does not exist. StorageError."""
        self._states[target] = state = await self._ask(target)
        return state

    async def _ask(self, target: Target) -> TargetState | None:
        if not target.root:
            facts = await asyncio.to_thread(_stat, target.key)
            if facts is None:
                return None
            version = facts.st_size, facts.st_mtime_ns
            return TargetState(facts.st_size, "{} {}".format(*version), version)
        from ..remote.zarr_store import StoreStorage

        storage = await self._storage(target)
        assert isinstance(storage, StoreStorage)
        below = storage.native
        if below is None:
            return TargetState(await storage.fetch_size(target.key), None, None)
        listed = await storage.request("cannot read", target.key, lambda: below.listed(target.key))
        if listed is None:
            return None
        size, text = listed
        held = below.tells_versions and text is not None
        return TargetState(size, text, (size or 0, version_number(text or "")) if held else None)

    async def whole(self, target: Target, bound: ReadLimit, version: Version | None) -> bytes | None:
        """A whole object; None if it does not exist. SourceChangedError if it has another version."""
        storage = await self._storage(target)
        if isinstance(storage, LocalStorage):
            return await asyncio.to_thread(storage.get, _key(storage, target), bound, version)
        from ..remote.zarr_store import StoreStorage

        assert isinstance(storage, StoreStorage)
        return await storage.fetch_version(target.key, bound, version)

    async def part(self, target: Target, start: int, length: int, version: Version | None) -> bytes | None:
        """Bytes of an object from `start` on, as `Storage.get_part` returns them."""
        storage = await self._storage(target)
        if isinstance(storage, LocalStorage):
            return await asyncio.to_thread(storage.get_part, _key(storage, target), start, length, version)
        from ..remote.zarr_store import StoreStorage

        assert isinstance(storage, StoreStorage)
        return await storage.fetch_range(target.key, start, length, version)

    async def _storage(self, target: Target) -> Storage:
        storage = self._storages.get(target.root)
        if storage is None:
            if not target.root:
                storage = LocalStorage(Path(target.key).anchor)
            else:
                options = self._options if target.root == self.home.root else self._references.options
                # Opening may wait for the loop in which this runs.
                storage = await asyncio.to_thread(self._open, target.root, options)
            self._storages[target.root] = storage
        return storage


def target_of(url: str, home: Target) -> Target:
    """The place of a URL or path; a relative path starts from the directory of the references."""
    if "::" in url or "\0" in url:
        raise UnsupportedError("a reference leads into a file inside another one", found=short(redact(url)))
    match = _SCHEME.fullmatch(url)
    scheme = match[1].lower() if match else ""
    if match is None or scheme in _LOCAL:
        path = url if match is None else _local_path(match[2])
        if os.path.isabs(path):
            return Target("", Path(os.path.abspath(path)).as_posix())
        directory = home.key.rpartition("/")[0]
        if not home.root:
            return Target("", Path(os.path.abspath(os.path.join(directory, path))).as_posix())
        joined = posixpath.normpath(posixpath.join(directory, path))
        if joined.startswith(("/", "..")):
            raise UnsupportedError("a reference leads out of its bucket", found=short(url))
        return Target(home.root, joined)
    parts = urlsplit(url)
    key = url.partition("://")[2][len(parts.netloc) :].lstrip("/")
    if not parts.netloc or not key or ".." in unquote(key).split("/"):
        raise UnsupportedError("a reference leads to no object", found=short(redact(url)))
    return Target(_root(scheme, parts.netloc), key)


def allowed_place(prefix: str) -> tuple[str, str]:
    """Root and start of the key of a permitted place, comparable with those of a target; UsageError."""
    match = _SCHEME.fullmatch(prefix)
    if match is None or match[1].lower() in _LOCAL:
        path = prefix if match is None else _local_path(match[2])
        return "", Path(os.path.realpath(os.path.expanduser(path))).as_posix()
    parts = urlsplit(prefix)
    if not parts.netloc or "::" in prefix:
        raise UsageError(
            f"{ALLOWED} names no directory and no host", found=redact(prefix), expected="s3://bucket/"
        )
    return _root(match[1].lower(), parts.netloc), parts.path.strip("/")


def _root(scheme: str, netloc: str) -> str:
    scheme = {"s3a": "s3", "gcs": "gs"}.get(scheme, scheme)
    return f"{scheme}://{netloc.lower() if scheme in ('http', 'https') else netloc}"


def _local_path(rest: str) -> str:
    """The path of a file URL. fsspec does not decode it, Icechunk and browsers do."""
    path = rest.removeprefix("localhost") if rest.startswith("localhost/") else rest
    path = local_path(path)
    decoded = unquote(path)
    return decoded if decoded != path and not os.path.exists(path) else path


def not_allowed(targets: list[Target]) -> UsageError:
    """The error for references that lead to places without permission."""
    places = list(dict.fromkeys(target.above for target in targets))
    named = ", ".join(places[:_NAMED]) + (f" and {len(places) - _NAMED} more" if len(places) > _NAMED else "")
    options = " ".join(f"--allow-references {place}" for place in _common(places)[:_NAMED])
    return UsageError(
        "references lead to places that they may not read without permission",
        found=named,
        expected=f"places below {ALLOWED}, or the host or bucket of the references themselves",
        advice=f"If you trust whoever wrote them: {options}",
    )


def _common(places: list[str]) -> list[str]:
    """The directories that places on the same host or disk have in common, if these are specific."""
    by_root: dict[str, list[str]] = {}
    for place in places:
        scheme, slashes, rest = place.rpartition("://")
        root = f"{scheme}{slashes}{rest.partition('/')[0]}"
        by_root.setdefault(root, []).append(place[len(root) :])
    shared = []
    for root, paths in by_root.items():
        path = os.path.commonpath(paths)
        shared += [f"{root}{path.rstrip('/')}/"] if root or path.count("/") > 1 else paths
    return shared


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError("cannot read", found=f"{path}: {error.strerror}") from error


def _key(storage: LocalStorage, target: Target) -> str:
    """The key of a local target."""
    return Path(target.key).relative_to(storage.root).as_posix()
