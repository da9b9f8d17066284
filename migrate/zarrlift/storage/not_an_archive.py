"""Files and directories that are not our archives: how each is recognized, and what makes an archive of it.

Loaded on demand, when nothing else was found. Every kind is recognized by its content: first bytes of a file,
or names in a directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from zarrstack.core.errors import UsageError
from zarrstack.core.similar_names import nearest

_WANTED: Final = "a directory, a zip file, or a URL"
_BINARY: Final = frozenset({*range(32), 127} - set(b"\t\n\f\r\x1b"))
"""Bytes that do not occur in text."""


class _File(NamedTuple):
    """A kind of file, by its first bytes."""

    offset: int
    magic: bytes | tuple[bytes, ...] | re.Pattern[bytes]
    """The bytes at the offset; of several, one."""
    name: str
    """With its article."""
    advice: str
    also: tuple[int, bytes] = (0, b"")
    """Offset and bytes that it has too."""

    def is_of(self, head: bytes) -> bool:
        """Whether a file with these first bytes is of this kind."""
        if isinstance(self.magic, re.Pattern):
            return self.magic.match(head, self.offset) is not None
        offset, magic = self.also
        return head.startswith(self.magic, self.offset) and head.startswith(magic, offset)


class _Directory(NamedTuple):
    """A kind of directory."""

    entries: tuple[str, ...]
    """Names in it, all of which it has; those that end with "/" are directories."""
    name: str
    """With its article."""
    advice: str
    has_content: Callable[[Mapping[str, Any] | None], bool] | None = None
    """Whether the first of them has the content of this kind, as a JSON object, if names do not decide."""


_XARRAY: Final = (
    "zarrlift reads Zarr and N5; xarray, or hdmf-zarr for NWB and anndata for .h5ad, writes such a file as"
    " Zarr: python -c \"import xarray; xarray.open_dataset('FILE').to_zarr('new.zarr', zarr_format=3)\"."
)
_CFGRIB: Final = (
    "zarrlift reads Zarr and N5; xarray with cfgrib writes it as Zarr:"
    " python -c \"import xarray; xarray.open_dataset('FILE', engine='cfgrib').to_zarr('new.zarr')\"."
)
_IMAGE: Final = (
    "zarrlift reads Zarr and N5; bioformats2raw writes images as OME-Zarr: bioformats2raw FILE new.zarr."
)
_MATLAB: Final = (
    "zarrlift reads Zarr and N5; read it with scipy.io.loadmat, and save its arrays with zarr.save."
)
_SQLITE: Final = "If this is an SQLiteStore of zarr-python 2, copy the file to a local disk and give that."
_UNPACK: Final = "Unpack it first, then give the directory; compressed files cannot be read in parts."
_TAR: Final = "Unpack it first, tar -xf FILE, then give the directory."
_REFERENCES: Final = re.compile(
    rb'(\xef\xbb\xbf)?\s*(\[\s*)?\{(\s*"version"\s*:\s*[01]\s*,\s*"(templates|gen|refs)"|\s*"(templates|gen|refs)"'
    rb'|.*"([^"]*/)?(\.z(group|array|attrs|metadata)|zarr\.json)")\s*:',
    re.DOTALL,
)
"""Start of a file of references (https://fsspec.github.io/kerchunk/spec.html), version 1 or 0, or a list."""
_KERCHUNK: Final = (
    "zarrlift follows no references. VirtualiZarr reads them, and xarray with kerchunk copies their data, for"
    " zarrlift to migrate: python -c \"import xarray; xarray.open_dataset('FILE', engine='kerchunk')"
    ".to_zarr('old.zarr', zarr_format=2)\"."
)
_HTML: Final = "Give the URL of the archive itself, not of a page about it."


def _saved(package: str, module: str, values: str) -> str:
    """The advice for a file that a package reads as one array."""
    command = f"import zarr, {module}; zarr.save('new.zarr', {values})"
    return f'zarrlift reads Zarr and N5; with {package} it becomes Zarr: python -c "{command}".'


def _table(reader: str) -> str:
    return f"It is a table, not a chunked array: read it with pyarrow, pandas or polars ({reader})."


_NIFTI: Final = _saved("nibabel", "nibabel", "nibabel.load('FILE').get_fdata()")
_HDF5: Final = b"\x89HDF\r\n\x1a\n"
_FILES: Final = (
    # HDF5 File Format Specification 3.0, II.A: the signature is at 0, 512, 1024, 2048, ...
    *(_File(at, _HDF5, "an HDF5 or netCDF-4 file", _XARRAY) for at in (0, 512, 1024, 2048)),
    # NetCDF User's Guide, file format specifications: magic and one of the versions 1, 2 and 5.
    _File(0, (b"CDF\1", b"CDF\2", b"CDF\5"), "a netCDF-3 file", _XARRAY),
    # WMO Manual on Codes, FM 92 GRIB, section 0.
    _File(0, b"GRIB", "a GRIB file", _CFGRIB),
    # TIFF 6.0, section 2, in either byte order; BigTIFF has 43 instead of 42.
    _File(0, (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), "a TIFF file", _IMAGE),
    # ZEISS CZI file format 1.2.2, 2.2: the id of the first segment.
    _File(0, b"ZISRAWFILE", "a CZI file", _IMAGE),
    # As Bio-Formats 8 recognizes them: LIFReader, NativeND2Reader (ND2, and its older form, JPEG 2000).
    _File(0, b"\x70\0\0\0", "a LIF file", _IMAGE, also=(8, b"\x2a")),
    _File(0, b"\xda\xce\xbe\x0a", "an ND2 file", _IMAGE),
    _File(0, b"\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000 file", _IMAGE),
    # DICOM PS3.10, 7.1.
    _File(128, b"DICM", "a DICOM file", _IMAGE),
    # MRC2014, word 53 (https://www.ccpem.ac.uk/mrc_format/mrc2014.php).
    _File(208, b"MAP ", "an MRC file", _saved("mrcfile", "mrcfile", "mrcfile.mmap('FILE').data")),
    # NIfTI-1 and NIfTI-2, magic.
    _File(344, b"n+1\0", "a NIfTI file", _NIFTI),
    _File(4, b"n+2\0\r\n\x1a\n", "a NIfTI file", _NIFTI),
    # FITS Standard 4.0, 4.4.1.1.
    _File(
        0,
        b"SIMPLE  =",
        "a FITS file",
        _saved("astropy", "astropy.io.fits", "astropy.io.fits.getdata('FILE')"),
    ),
    # numpy.lib.format.
    _File(0, b"\x93NUMPY", "a file of numpy.save", _saved("numpy", "numpy", "numpy.load('FILE')")),
    # MAT-File Format, level 5; version 7.3 is HDF5.
    _File(0, b"MATLAB 5.0", "a MATLAB file", _MATLAB),
    # C-Blosc2's frame format: a string of 8 bytes after its head.
    _File(2, b"b2frame\0", "a Blosc2 file", _saved("blosc2", "blosc2", "blosc2.open('FILE')[:]")),
    # Apache Parquet and Arrow, file formats.
    _File(0, b"PAR1", "a Parquet file", _table("pandas.read_parquet")),
    _File(0, (b"ARROW1", b"FEA1"), "an Arrow or Feather file", _table("pandas.read_feather")),
    _File(0, b"SQLite format 3", "an SQLite database", _SQLITE),
    # APPNOTE.TXT 4.3.7: a local file header comes first, but the end record that defines a zip file comes
    # last.
    _File(0, b"PK\3\4", "a zip file that is cut short or damaged", "Copy it again."),
    # POSIX.1-2017, pax, "ustar Interchange Format", which GNU tar's own has, too.
    _File(257, b"ustar", "a tar file", _TAR),
    # RFC 1952, 2.3.1; RFC 8878, 3.1.1; The .xz File Format 1.2, 2.1.1.1; bzip2; 7z; RAR.
    _File(0, b"\x1f\x8b", "a gzip file", _UNPACK),
    _File(0, b"\x28\xb5\x2f\xfd", "a Zstandard file", _UNPACK),
    _File(0, b"\xfd7zXZ\0", "an xz file", _UNPACK),
    _File(0, b"BZh", "a bzip2 file", _UNPACK),
    _File(0, b"7z\xbc\xaf\x27\x1c", "a 7z file", _UNPACK),
    _File(0, b"Rar!\x1a\x07", "a RAR file", _UNPACK),
    _File(0, _REFERENCES, "a file of references, as kerchunk and VirtualiZarr write them", _KERCHUNK),
    _File(0, (b"<!DOCTYPE html", b"<!doctype html", b"<html"), "an HTML page", _HTML),
)


def _is_precomputed(info: Mapping[str, Any] | None) -> bool:
    return info is not None and (
        str(info.get("@type", "")).startswith("neuroglancer_") or {"scales", "data_type"} <= info.keys()
    )


def _is_parquet_index(metadata: Mapping[str, Any] | None) -> bool:
    return metadata is not None and {"record_size", "metadata"} <= metadata.keys()


_PRECOMPUTED: Final = (
    "zarrlift reads Zarr and N5; tensorstore copies it to Zarr: open it with the driver"
    " neuroglancer_precomputed (https://google.github.io/tensorstore/driver/neuroglancer_precomputed)."
)
_TILEDB: Final = (
    "zarrlift reads Zarr and N5; TileDB's own package reads it: tiledb.open(PLACE)[:]"
    " (https://docs.tiledb.com), and zarr.save writes what it gives."
)
_ICECHUNK: Final = "Give it as a URL of Icechunk: icechunk:///PATH, or icechunk+s3://BUCKET/PATH."
_WKW: Final = (
    "zarrlift reads Zarr and N5; webknossos converts it: webknossos convert-zarr, or Dataset.convert."
)
_LMDB: Final = "If this is an LMDBStore of zarr-python 2, copy it into a directory with its zarr.copy_store."
_PARQUET: Final = "a directory of Parquet files", _table("pandas.read_parquet")
_DIRECTORIES: Final = (
    # https://github.com/google/neuroglancer/blob/master/src/datasource/precomputed: `info` at the root.
    _Directory(("info",), "data in Neuroglancer's precomputed format", _PRECOMPUTED, _is_precomputed),
    # https://fsspec.github.io/kerchunk/spec.html, Parquet references.
    _Directory(
        (".zmetadata",),
        "a directory of references in Parquet, as kerchunk and VirtualiZarr write them",
        _KERCHUNK.replace("'FILE'", "PLACE"),
        _is_parquet_index,
    ),
    # TileDB Format Specification: array and group directories; the first two are those of older versions.
    _Directory(("__tiledb_group.tdb",), "a TileDB array or group", _TILEDB),
    _Directory(("__array_schema.tdb",), "a TileDB array or group", _TILEDB),
    _Directory(("__schema/", "__fragments/"), "a TileDB array or group", _TILEDB),
    _Directory(("__group/", "__meta/"), "a TileDB array or group", _TILEDB),
    # Icechunk's specification, 1 and 2: the directories of a repository.
    _Directory(("snapshots/", "manifests/"), "an Icechunk repository", _ICECHUNK),
    # Delta Transaction Log Protocol; Apache Hive's and Spark's directories of Parquet files.
    _Directory(("_delta_log/",), "a Delta table", _table("deltalake.DeltaTable")),
    _Directory(("_SUCCESS",), *_PARQUET),
    _Directory(("_common_metadata",), *_PARQUET),
    # https://github.com/scalableminds/webknossos-wrap: a header beside the files of a dataset's
    # magnification.
    _Directory(("header.wkw",), "a WKW dataset", _WKW),
    _Directory(("data.mdb",), "an LMDB database", _LMDB),
)


def known_file(head: bytes, name: str = "") -> tuple[str, str | None]:
    """The kind of a file, by its first bytes (`HEAD`), and what makes an archive of it, if that is known."""
    if (kind := _kind_of(head)) is not None:
        return kind.name, kind.advice.replace("FILE", name or "FILE")
    if name.endswith(".klb") and head[:1] == b"\2":
        # https://bitbucket.org/fernandoamat/keller-lab-block-filetype: the first byte is the version.
        return "a KLB file", "zarrlift reads Zarr and N5; the plug-in for KLB of Fiji, or pyklb, reads it."
    if not head:
        return "an empty file", None
    # In a text, all bytes are printable, white space, or part of non-ASCII characters.
    return "a text file" if not set(head) & _BINARY else "a file of an unknown kind", None


def is_foreign(head: bytes) -> bool:
    """Whether a file with these first bytes is one of a known kind."""
    return _kind_of(head) is not None


def _kind_of(head: bytes) -> _File | None:
    return next((kind for kind in _FILES if kind.is_of(head)), None)


def foreign_url(shown: str, protocol: str) -> UsageError:
    """The error for a URL of fsspec's file system of references, or of tar files."""
    what, advice = ("a tar file", _TAR) if protocol == "tar" else ("references", _KERCHUNK)
    return UsageError(f"{shown} names {what}, not an archive", advice=advice)


def not_a_container(shown: str, head: bytes) -> UsageError:
    """The error for a file without an archive inside."""
    name, advice = known_file(head, os.path.basename(shown))
    return UsageError(
        f"{shown} is {name}, not an archive", expected=None if advice else _WANTED, advice=advice
    )


def known_directory(
    names: Iterable[str], read: Callable[[str], Mapping[str, Any] | None]
) -> tuple[str, str] | None:
    """The kind of a directory and advice, by its names, where those of directories end with "/"; else None.

    `read` gives a document of it as a JSON object. Names may be those of the table only, if it cannot be
    listed.
    """
    present = set(names)
    for kind in _DIRECTORIES:
        if not present.issuperset(kind.entries):
            continue
        if kind.has_content is None or kind.has_content(read(kind.entries[0])):
            return kind.name, kind.advice
    if any(name.endswith(".parquet") for name in present):
        return _PARQUET
    if present and all(name.endswith(".npy") for name in present):
        advice = "zarrlift reads Zarr and N5; numpy.load opens it, and zarr.save writes each array as Zarr."
        return "a file of numpy.savez, or a directory of files of numpy.save", advice
    return None


DOCUMENTS: Final = tuple(
    dict.fromkeys(name for kind in _DIRECTORIES for name in kind.entries if not name.endswith("/"))
)
"""Files that mark a directory, for places that cannot be listed."""


_NOTHING: Final = "no such file or directory"
_CHECK: Final = "Check the path: "
_PACKAGES: Final = {
    **dict.fromkeys(("s3", "s3a"), ("s3", "obstore botocore")),
    **dict.fromkeys(("gs", "gcs", "az", "abfs", "abfss"), ("s3", "obstore")),
    **dict.fromkeys(("http", "https"), ("http", "aiohttp")),
}
"""URL scheme -> the extra and the packages in it that it requires."""


def missing(path: Path, text: str) -> UsageError:
    """The error for a missing path, with a similar existing name if any."""
    return UsageError(f"{_NOTHING}: {path}", advice=_similar_place(path, text))


def _similar_place(path: Path, text: str) -> str | None:
    if (url := re.match(r"([a-z][a-z0-9]+):/(?!/)(.+)", text)) is not None:
        return f"A URL has two slashes: {url[1]}://{url[2]}"
    folder = next((above for above in path.parents if above.is_dir()), None)
    if folder is None:
        return None
    name = path.relative_to(folder).parts[0]
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    similar = nearest(name, names)
    return f"Did you mean {folder / similar}?" if similar else f"{_CHECK}{folder} has no {name!r}."


def no_package(scheme: str, error: str) -> UsageError:
    """The error for a URL whose package is not installed; `error` is fsspec's message."""
    message = f"{scheme}:// needs a package that is not installed"
    if scheme not in _PACKAGES:
        return UsageError(message, found=error, advice="Install it.")
    extra, packages = _PACKAGES[scheme]
    expected = f"{packages.replace(' ', ' and ')} (the extra {extra})"
    return UsageError(message, expected=expected, advice=f"Install it: pip install {packages}.")


def no_place(target: object) -> UsageError:
    """The error for an object that is neither path nor store, with advice for creating a store from it."""
    advice = None
    if hasattr(target, "store_path"):  # zarr-python's groups and arrays
        advice = "Give its store_path."
    elif isinstance(target, Mapping):
        advice = (
            "zarr.storage.FsspecStore.from_mapper makes a store of an fsspec mapping, MemoryStore of a dict."
        )
    elif hasattr(target, "protocol") and hasattr(target, "cat_file"):  # fsspec's AbstractFileSystem
        advice = "Give a URL with storage_options, or make a zarr.storage.FsspecStore of it and a path."
    found = type(target).__name__
    return UsageError("not a place", found=found, expected="a path, a URL or a zarr store", advice=advice)


def swapped_arguments(error: UsageError, destination: Any) -> UsageError | None:
    """The error of a missing source with a hint, if the destination exists; None for any other error."""
    problem = error.problem
    if not problem.message.startswith(_NOTHING) or not (problem.advice or _CHECK).startswith(_CHECK):
        return None
    if not isinstance(destination, str | os.PathLike) or not os.path.exists(os.path.expanduser(destination)):
        return None
    advice = f"The source comes first; {destination} is there. Are the two swapped?"
    return UsageError(problem.message, advice=advice)
