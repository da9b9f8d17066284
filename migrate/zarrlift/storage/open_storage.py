"""Opens the storage of an archive: paths, URLs, files with an archive inside, zarr stores.

A directory is accessed directly through the file system, everything else through zarr's own stores.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from zarrstack.core.errors import UsageError

from ..core.format_table import DOCUMENT_NAMES
from ..core.node_paths import WINDOWS, local_path
from .base import Storage
from .containers.table import SUFFIXES, ContainerPlace, index_of, open_container
from .icechunk.place import is_icechunk_url
from .local.files import exists, is_dir, is_file, kind_of
from .local.storage import LocalStorage
from .redact import redact

if TYPE_CHECKING:
    from zarr.abc.store import Store
    from zarr.storage import StorePath

    Place: TypeAlias = str | os.PathLike[str] | Store | StorePath | Storage
else:  # resolvable at run time, without loading zarr
    Place = str | os.PathLike[str] | Storage | Any
Mode: TypeAlias = Literal["r", "w"]

_ONE_SLASH: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+(?=:/)|s3|gs|gcs|az|abfss?|https?):(?:/(?!/)|(?!/))(?P<rest>.+)",
    re.DOTALL,
)
"""A URL with one slash; of a scheme that is no likely name of a file also without any."""
_MISTYPED: Final = re.compile(rf"{_ONE_SLASH.pattern}|[A-Za-z]:[\\/]|\\\\", re.DOTALL)
"""The same, or a path of Windows with a drive or a server."""


def open_storage(
    place: Place,
    *,
    storage_options: Mapping[str, Any] | None = None,
    mode: Mode = "r",
    follow_links: bool = False,  # noqa: ARG001 - see the docstring
) -> Storage:
    """Open the storage at a place.

    `place` is a path (`~` is the home directory), a `file://` or any other fsspec URL (`s3://`), a path or a
    URL of a zip file (also `zip::URL`, or `zip://INSIDE::URL` for a directory inside), a repository of
    Icechunk (`icechunk://`, or its object), a zarr `Store` or `StorePath`, or a `Storage`, which is returned.
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


def refuse_mistyped(text: str) -> None:
    """Raise UsageError for a path that was meant as a URL or as a path of another system, if it is absent."""
    mistyped = _MISTYPED.match(text) if os.sep == "/" else _ONE_SLASH.match(text)
    if mistyped is None or os.path.lexists(text):
        return
    if (rest := mistyped["rest"]) is not None:
        advice = f"Did you mean {mistyped['scheme']}://{rest}?"
    else:
        advice = "Give a path of this system."
    advice += f" ./{text} is a folder of this name."
    raise UsageError("not a path of this system", found=text, advice=advice)


def require_readable_names() -> None:
    """Raise UsageError if names of files are not read as UTF-8, which would show wrong nodes."""
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        raise UsageError(
            "names of files cannot be read in this locale",
            found=f"the encoding {encoding}",
            expected="utf-8",
            advice="Set PYTHONUTF8=1 in the environment.",
        )


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
        raise UsageError("the path is empty", expected="a directory, a zip file, or a URL")
    if options:
        raise UsageError("storage options are for URLs", found=text, expected="such as s3://bucket/path")
    require_readable_names()
    path = Path(os.path.abspath(os.path.expanduser(text)))
    if mode == "w":
        refuse_mistyped(text)
        if path.suffix in (*SUFFIXES, ".tar"):
            raise UsageError(
                "a zip or tar file cannot be written",
                found=str(path),
                expected="a directory or a URL",
                advice="Unpack it first to work in place; else name a directory, and pack that afterwards.",
            )
        try:
            nearest = next(place for place in (path, *path.parents) if exists(place))
            occupied = not is_dir(nearest)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise UsageError(
                "the name of the destination is too long",
                found=str(path),
                expected="a name that the file system accepts (255 bytes on most)",
                advice="Choose a shorter name.",
            ) from error
        if occupied:
            raise UsageError(
                "a file exists where a directory is to be written",
                found=str(nearest),
                advice="Choose another destination.",
            )
        return LocalStorage(path)
    if is_dir(path):
        return open_container(ContainerPlace(path)) or LocalStorage(path)
    path = index_of(path)
    if not os.path.lexists(path):
        for above in path.parents:
            # `Storage.url` of an archive below a directory of a container.
            inside = path.relative_to(above).as_posix()
            if is_file(above):
                return _inside(above, inside)
            if is_dir(above) and (opened := open_container(ContainerPlace(above, inside))) is not None:
                return opened
        from .not_an_archive import missing

        raise missing(path, text)
    if not exists(path):
        raise UsageError("a link leads nowhere", found=f"{path} -> {os.path.realpath(path)}")
    if path.name in DOCUMENT_NAMES:
        raise UsageError(
            "a metadata document is not an archive", found=str(path), advice=f"Give {path.parent}."
        )
    if not is_file(path):
        found = f"{kind_of(path.stat().st_mode)}, {path}"
        raise UsageError("not an archive", found=found, expected="a directory, a zip file, or a URL")
    return _inside(path)


def _inside(path: Path, inside: str | None = None) -> Storage:
    opened = open_container(ContainerPlace(path, inside))
    assert opened is not None  # a file is a container or an error
    return opened


def _from_url(url: str, storage_options: Mapping[str, Any] | None, mode: Mode) -> Storage:
    if named := {part.partition("://")[0] for part in url.split("::")} & {"reference", "tar"}:
        from .not_an_archive import foreign_url

        raise foreign_url(redact(url), min(named))
    if not is_remote(url):
        return _from_path(path_of_url(url), storage_options, mode)
    from .remote.store_at import store_at

    options = storage_options or {}
    if mode == "w":
        return store_at(url, options, read_only=False)
    from .containers.remote import CHAINED, chained_container, container_at

    if (chained := CHAINED.fullmatch(url)) is not None and not is_remote(chained["url"]):
        return _inside(Path(path_of_url(chained["url"])), chained["inside"] or None)
    if (inside := chained_container(url, options)) is not None:
        return inside
    storage = store_at(url, options, read_only=True)
    return container_at(url, options, storage) or storage


def is_remote(url: str) -> bool:
    """Whether a text names no path of this machine."""
    return "::" in url or ("://" in url and url.partition("://")[0] not in ("file", "local"))


def path_of_url(url: str) -> str:
    r"""The path of a `file://` or `local://` URL, or of a path; UsageError for one of another machine.

    On Windows, `file://server/share/x` names `\\server\share\x`.
    """
    protocol, _, rest = url.rpartition("://")
    if protocol != "file":
        return local_path(rest)
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") and not WINDOWS:
        raise UsageError(
            "a file URL must name a file on this machine", found=redact(url), expected="file:///..."
        )
    return local_path(unquote(parts.path), parts.netloc)


def _from_icechunk(url: str, options: Mapping[str, Any] | None, mode: Mode) -> Storage:
    from .icechunk.place import IcechunkPlace
    from .icechunk.storage import IcechunkStorage

    place = IcechunkPlace.parse(url, options)
    if mode == "r":
        return IcechunkStorage(place)
    return IcechunkStorage(place, write=True, parent=open_storage(place.parent, mode="w"))


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
    from .icechunk.storage import SessionStorage

    return SessionStorage(getattr(place, "store", place))


def _from_store(place: Any, mode: Mode) -> Storage:
    from zarr.abc.store import Store
    from zarr.storage import LocalStore, StorePath, ZipStore

    from zarrstack.base.descend import descend
    from zarrstack.base.transformer import StorageTransformer

    from .remote.store_at import storage_of
    from .transformer_stack import refuse_buffers

    if (repository := _from_icechunk_object(place, mode)) is not None:
        return repository
    path = ""
    if isinstance(place, StorePath):
        place, path = place.store, place.path
    if mode == "w" and isinstance(place, Store) and (place.read_only or not place.supports_writes):
        raise UsageError(
            "the store cannot be written to", found=str(place), expected="a store that is not read-only"
        )
    if mode == "w" and isinstance(place, Store):
        refuse_buffers(place)
    if type(place) is LocalStore:
        return LocalStorage(Path(place.root) / path)
    if type(place) is ZipStore and place.read_only:
        return _inside(Path(os.path.abspath(place.path)), path)
    if isinstance(place, Store):
        opened = storage_of(place, path)
        *layers, bottom = descend(place, through=StorageTransformer)
        if layers and all(isinstance(layer, StorageTransformer) and layer.transparent for layer in layers):
            opened.beneath = _from_store(StorePath(bottom, path), "r")
        return opened
    from .not_an_archive import no_place

    raise no_place(place)
