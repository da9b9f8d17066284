"""Explains why a path is not an archive, and suggests what to open instead. Loaded on demand."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from zarrstack.core.errors import UsageError

_NOTHING: Final = "no such file or directory"
_WANTED: Final = "a directory, a zip file or a URL"


class _Known(NamedTuple):
    """A kind of file that may be given in place of an archive."""

    start: int
    """Offset of its signature in bytes."""
    signature: bytes
    name: str
    advice: str


_WRITTEN_BY: Final = "zarrlift reads Zarr and N5; xarray, or hdmf-zarr for NWB, writes such a file as Zarr."
_UNPACK: Final = "Unpack it first."
_IMAGE: Final = "zarrlift reads Zarr and N5; bioformats2raw writes images as OME-Zarr."
_FILES: Final = (
    # HDF5 File Format Specification 3.0, II.A: the superblock's signature.
    _Known(0, b"\x89HDF\r\n\x1a\n", "an HDF5 or netCDF-4 file", _WRITTEN_BY),
    # NetCDF User's Guide, file format specifications: magic and one of the versions 1, 2 and 5.
    *(_Known(0, b"CDF" + version, "a netCDF file", _WRITTEN_BY) for version in (b"\1", b"\2", b"\5")),
    # TIFF 6.0, section 2, in either byte order; BigTIFF has 43 instead of 42.
    *(_Known(0, magic, "a TIFF file", _IMAGE) for magic in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")),
    _Known(
        0,
        b"SQLite format 3",
        "an SQLite database",
        "If this is an SQLiteStore of zarr-python 2, copy it into a directory with its zarr.copy_store.",
    ),
    # APPNOTE.TXT 4.3.7: a local file header comes first, but the end record that defines a zip file comes
    # last.
    _Known(0, b"PK\3\4", "a zip file that is cut short or damaged", "Copy it again."),
    _Known(0, b"\x1f\x8b", "a gzip file", _UNPACK),  # RFC 1952, 2.3.1
    _Known(257, b"ustar", "a tar file", _UNPACK),  # POSIX.1-2017, pax, ustar interchange format
)
_BINARY: Final = frozenset({*range(32), 127} - set(b"\t\n\f\r\x1b"))
"""Bytes that do not occur in text."""
_PACKAGES: Final = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "http": "aiohttp",
    "https": "aiohttp",
}
"""URL scheme -> the package that fsspec requires for it."""


def missing(path: Path, given: str) -> UsageError:
    """The error for a missing path, with a similar existing name if any."""
    return UsageError(f"{_NOTHING}: {path}", advice=_meant(path, given))


def _meant(path: Path, given: str) -> str | None:
    if (url := re.match(r"([a-z][a-z0-9]+):/(?!/)(.+)", given)) is not None:
        return f"A URL has two slashes: {url[1]}://{url[2]}"
    there = next((above for above in path.parents if above.is_dir()), None)
    if there is None:
        return None
    name = path.relative_to(there).parts[0]
    try:
        names = os.listdir(there)
    except OSError:
        return None
    similar = get_close_matches(name, names, n=1)
    return f"Did you mean {there / similar[0]}?" if similar else None


def no_zip(path: Path) -> UsageError:
    """The error for a file that is not a zip file, with its kind if recognized, and advice."""
    name, advice = known_file(path)
    return UsageError(
        f"{path} is {name}, not an archive", expected=None if advice else _WANTED, advice=advice
    )


def known_file(path: Path) -> tuple[str, str | None]:
    """The kind of a file, by its first bytes, and advice if it is given as an archive; OSError."""
    with path.open("rb") as file:
        head = file.read(512)
    for known in _FILES:
        if head.startswith(known.signature, known.start):
            return known.name, known.advice
    return _called(head), None


def _called(head: bytes) -> str:
    if not head:
        return "an empty file"
    # In a text, all bytes are printable, white space, or part of non-ASCII characters.
    return "a text file" if not set(head) & _BINARY else "a file of an unknown kind"


def no_package(scheme: str, error: str) -> UsageError:
    """The error for a URL whose fsspec package is not installed; `error` is fsspec's message."""
    message = f"{scheme}:// needs a package that is not installed"
    package = _PACKAGES.get(scheme)
    if package is None:
        return UsageError(message, found=error)
    if scheme not in ("http", "https") and find_spec("obstore") is None:
        package = "obstore"
    return UsageError(message, expected=package, advice=f"Install it: pip install {package}.")


def no_place(given: object) -> UsageError:
    """The error for an object that is neither path nor store, with advice for creating a store from it."""
    advice = None
    if hasattr(given, "store_path"):  # zarr-python's groups and arrays
        advice = "Give its store_path."
    elif isinstance(given, Mapping):
        advice = (
            "zarr.storage.FsspecStore.from_mapper makes a store of an fsspec mapping, MemoryStore of a dict."
        )
    elif hasattr(given, "protocol") and hasattr(given, "cat_file"):  # fsspec's AbstractFileSystem
        advice = "Give a URL with storage_options, or make a zarr.storage.FsspecStore of it and a path."
    found = type(given).__name__
    return UsageError("not a place", found=found, expected="a path, a URL or a zarr store", advice=advice)


def hint_swapped_arguments(error: UsageError, destination: Any) -> UsageError:
    """The error of a missing source, with a hint if the destination exists."""
    problem = error.problem
    if not problem.message.startswith(_NOTHING) or problem.advice is not None:
        return error
    if not isinstance(destination, str | os.PathLike) or not os.path.exists(os.path.expanduser(destination)):
        return error
    advice = f"The source comes first; {destination} is there. Are the two swapped?"
    return UsageError(problem.message, advice=advice)
