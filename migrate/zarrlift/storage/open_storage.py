"""Opens the storage of an archive: paths, URLs, zip files, zarr stores.

A directory is accessed directly through the file system, everything else through zarr's own stores.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from zarrstack.core.errors import StorageError, UsageError

from .base import Storage
from .containers.table import ContainerPlace, open_container
from .documents import METADATA
from .icechunk.place import is_icechunk_url
from .local.files import kind_of
from .local.storage import LocalStorage
from .redact import redact, redact_foreign, secrets_of

if TYPE_CHECKING:
    from zarr.abc.store import Store
    from zarr.storage import StorePath

Place: TypeAlias = "str | os.PathLike[str] | Store | StorePath | Storage"
Mode: TypeAlias = Literal["r", "w"]


def open_storage(
    place: Place,
    *,
    storage_options: Mapping[str, Any] | None = None,
    mode: Mode = "r",
    follow_links: bool = False,  # noqa: ARG001 - see the docstring
) -> Storage:
    """Open the storage at a place.

    `place` is a path (`~` is the home directory), a `file://` or any other fsspec URL (`s3://`,
    `zip::s3://...`), a path to a `.zip`, a zarr `Store` or `StorePath`, or a `Storage`, which is returned.
    `storage_options` are passed to fsspec; they, and user names, passwords and queries of a URL, never appear
    in `Storage.url` or in an error.

    With mode "r" a local place must exist; with "w" it is created by the first `put`. Links are checked by
    the walk of the archive (its `follow_links`); the argument is accepted here so that callers can pass on
    all their options.

    Raises UsageError for a place that does not exist or is invalid, StorageError for one that exists and
    cannot be read.
    """
    if isinstance(place, Storage):
        return place
    if isinstance(place, str) and is_icechunk_url(place):
        return _from_icechunk(place, storage_options, mode)
    if isinstance(place, str) and is_url(place):
        return _from_url(place, storage_options, mode)
    if isinstance(place, str | os.PathLike):
        return _from_path(os.fspath(place), storage_options, mode)
    return _from_store(place, mode)


def is_url(place: str) -> bool:
    """Whether a text is a URL, chained or not; any other text is a path."""
    return "://" in place or "::" in place


def place_below(place: str, path: str) -> str:
    """The place of a directory below another one, both as texts for `open_storage`."""
    if not path:
        return place
    if not is_url(place):
        return os.path.join(place, *path.split("/"))
    first, *others = place.split("::")
    first = first if "://" in first else f"{first}://"
    if first.startswith("file://"):
        path = quote(path)
    return "::".join([f"{first}{'' if first.endswith('/') else '/'}{path}", *others])


def _from_path(text: str, options: Mapping[str, Any] | None, mode: Mode) -> Storage:
    if not text:
        raise UsageError("the path is empty", expected="a directory, a zip file or a URL")
    if options:
        raise UsageError("storage options are for URLs", found=text)
    path = Path(os.path.abspath(os.path.expanduser(text)))
    if mode == "w":
        if path.suffix == ".zip":
            raise UsageError(
                "a zip file cannot be written",
                found=str(path),
                expected="a directory or a URL",
                advice="Unpack it first to work in place; else name a directory, and pack that afterwards.",
            )
        if path.exists() and not path.is_dir():
            raise UsageError("a file exists where a directory is to be written", found=str(path))
        return LocalStorage(path)
    if path.is_dir():
        return open_container(ContainerPlace(path)) or LocalStorage(path)
    if not os.path.lexists(path):
        for above in path.parents:
            # `Storage.url` of an archive below a directory of a container.
            if above.is_file():
                return _inside(above, path.relative_to(above).as_posix())
        from .open_errors import missing

        raise missing(path, text)
    if not path.exists():
        raise UsageError("a link leads nowhere", found=f"{path} -> {os.path.realpath(path)}")
    if path.name in METADATA:
        raise UsageError(
            "a metadata document is not an archive", found=str(path), advice=f"Give {path.parent}."
        )
    if not path.is_file():
        found = f"{kind_of(path.stat().st_mode)}, {path}"
        raise UsageError("not an archive", found=found, expected="a directory, a zip file or a URL")
    return _inside(path)


def _inside(path: Path, inside: str | None = None) -> Storage:
    opened = open_container(ContainerPlace(path, inside))
    assert opened is not None  # a file is a container or an error
    return opened


def _from_url(url: str, options: Mapping[str, Any] | None, mode: Mode) -> Storage:
    secrets = secrets_of(options)
    shown = redact(url, secrets)
    if not shown.endswith("://"):  # the root of a file system without names: reference://
        shown = shown.rstrip("/")
    protocol = url.split("::", 1)[0].split("://", 1)[0]
    if protocol == "local" and "::" not in url:
        return _from_path(url.removeprefix("local://"), options, mode)
    if protocol == "file" and "::" not in url:
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost"):
            raise UsageError(
                "a file URL must name a file on this machine", found=shown, expected="file:///..."
            )
        return _from_path(unquote(parts.path), options, mode)

    from zarr.storage import FsspecStore

    from .remote.obstore_urls import obstore_store
    from .remote.zarr_store import StoreStorage

    if "::" not in url:
        try:
            bucket = obstore_store(url, options or {}, read_only=mode == "r")
        except Exception as error:
            found = redact_foreign(f"{shown} ({type(error).__name__}: {error})")
            raise StorageError("cannot open the location", found=found) from error
        if bucket is not None:
            return StoreStorage(*bucket, url=shown, secrets=secrets)
    try:
        # Our own instance: a shared one may be bound to another event loop.
        given = {"skip_instance_cache": True, **(options or {})}
        store = FsspecStore.from_url(url, storage_options=given, read_only=mode == "r")
    except ImportError as error:
        from .open_errors import no_package

        raise no_package(protocol, redact_foreign(str(error))) from error
    except ValueError as error:
        found = redact_foreign(f"{shown} ({error})")
        raise UsageError("not a place", found=found, expected="a path or a URL that fsspec knows") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"no such file or directory: {shown}") from error
    except Exception as error:
        found = redact_foreign(f"{shown} ({type(error).__name__}: {error})")
        raise StorageError("cannot open the location", found=found) from error
    return StoreStorage(store, url=shown, secrets=secrets)


def _from_icechunk(url: str, options: Mapping[str, Any] | None, mode: Mode) -> Storage:
    from .icechunk.place import IcechunkPlace
    from .icechunk.storage import IcechunkStorage

    place = IcechunkPlace.parse(url, options)
    if mode == "w" and (place.tag or place.snapshot):
        raise UsageError(
            "only a branch can be written to", found=place.versioned_url, expected="?branch=NAME"
        )
    return IcechunkStorage(place, write=mode == "w")


def _from_icechunk_object(place: Any, mode: Mode) -> Storage | None:
    """A repository or session; None for anything else."""
    if not type(place).__module__.startswith("icechunk"):
        return None
    from .icechunk.storage import IcechunkStorage

    if hasattr(place, "readonly_session"):
        return IcechunkStorage(None, place, write=mode == "w")
    if mode == "w":
        raise UsageError(
            "a job writes to a branch of its own, so it needs the repository",
            found=type(place).__name__,
            expected="an icechunk.Repository, or its URL",
        )
    return _from_store(place.store, mode) if hasattr(place, "store") else None


def _from_store(place: Any, mode: Mode) -> Storage:
    from zarr.abc.store import Store
    from zarr.storage import LocalStore, StorePath

    from zarrstack.base.descend import descend
    from zarrstack.base.transformer import StorageTransformer

    from .remote.zarr_store import StoreStorage

    if (opened_ := _from_icechunk_object(place, mode)) is not None:
        return opened_
    path = ""
    if isinstance(place, StorePath):
        place, path = place.store, place.path
    if mode == "w" and isinstance(place, Store) and (place.read_only or not place.supports_writes):
        raise UsageError(
            "the store cannot be written to", found=str(place), expected="a store that is not read-only"
        )
    if type(place) is LocalStore:
        return LocalStorage(Path(place.root) / path)
    if isinstance(place, Store):
        opened = StoreStorage(place, path)
        *layers, bottom = descend(place, through=StorageTransformer)
        if layers and all(isinstance(layer, StorageTransformer) and layer.transparent for layer in layers):
            opened.beneath = _from_store(StorePath(bottom, path), "r")
        return opened
    from .open_errors import no_place

    raise no_place(place)
