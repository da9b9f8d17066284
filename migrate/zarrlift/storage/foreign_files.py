"""Files and directories that are not our archives: how each is recognized, and what makes an archive of it.

Loaded on demand, when nothing else was found. Every kind is recognized by its content: first bytes of a file,
or names in a directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from zarrstack.core.errors import UsageError

HEAD: Final = 4096
"""First bytes of a file that decide what it is."""
_WANTED: Final = "a directory, a zip or tar file, or a URL"
_BINARY: Final = frozenset({*range(32), 127} - set(b"\t\n\f\r\x1b"))
"""Bytes that do not occur in text."""


@dataclass(frozen=True, slots=True)
class _File:
    """A kind of file, by its first bytes."""

    name: str
    """With its article."""
    advice: str
    parts: tuple[tuple[int, bytes], ...]
    """Offset and bytes, all of which the file has."""


@dataclass(frozen=True, slots=True)
class _Directory:
    """A kind of directory."""

    name: str
    """With its article."""
    advice: str
    entries: tuple[str, ...]
    """Names in it, all of which it has; those that end with "/" are directories."""
    document: Callable[[Mapping[str, Any]], bool] | None = None
    """What the first of them, as a JSON object, must fulfil."""


def _starts(name: str, advice: str, *starts: bytes, at: int = 0) -> tuple[_File, ...]:
    return tuple(_File(name, advice, ((at, start),)) for start in starts)


_XARRAY: Final = (
    "zarrlift reads Zarr and N5; xarray, or hdmf-zarr for NWB and anndata for .h5ad, writes such a file as"
    " Zarr: python -c \"import xarray; xarray.open_dataset('FILE').to_zarr('new.zarr', zarr_format=3)\"."
)
_IMAGE: Final = (
    "zarrlift reads Zarr and N5; bioformats2raw writes images as OME-Zarr: bioformats2raw FILE new.zarr."
)
_ARRAY: Final = 'zarrlift reads Zarr and N5; with {} it becomes Zarr: python -c "import zarr, {}; {}".'
_TABLE: Final = "It is a table, not a chunked array: read it with pyarrow, pandas or polars ({})."
_UNPACK: Final = "Unpack it first, then give the directory; compressed files cannot be read in parts."
_FILES: Final = (
    # HDF5 File Format Specification 3.0, II.A: the signature is at 0, 512, 1024, 2048, ...
    *(
        kind
        for at in (0, 512, 1024, 2048)
        for kind in _starts("an HDF5 or netCDF-4 file", _XARRAY, b"\x89HDF\r\n\x1a\n", at=at)
    ),
    # NetCDF User's Guide, file format specifications: magic and one of the versions 1, 2 and 5.
    *_starts("a netCDF-3 file", _XARRAY, b"CDF\1", b"CDF\2", b"CDF\5"),
    # WMO Manual on Codes, FM 92 GRIB, section 0.
    *_starts(
        "a GRIB file",
        "zarrlift reads Zarr and N5; xarray with cfgrib writes it as Zarr:"
        " python -c \"import xarray; xarray.open_dataset('FILE', engine='cfgrib').to_zarr('new.zarr')\".",
        b"GRIB",
    ),
    # TIFF 6.0, section 2, in either byte order; BigTIFF has 43 instead of 42.
    *_starts("a TIFF file", _IMAGE, b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
    # ZEISS CZI file format 1.2.2, 2.2: the id of the first segment.
    *_starts("a CZI file", _IMAGE, b"ZISRAWFILE"),
    # As Bio-Formats 8 recognizes them: LIFReader, NativeND2Reader (ND2, and its older form, JPEG 2000).
    _File("a LIF file", _IMAGE, ((0, b"\x70\0\0\0"), (8, b"\x2a"))),
    *_starts("an ND2 file", _IMAGE, b"\xda\xce\xbe\x0a"),
    *_starts("a JPEG 2000 file", _IMAGE, b"\0\0\0\x0cjP  \r\n\x87\n"),
    # DICOM PS3.10, 7.1.
    *_starts("a DICOM file", _IMAGE, b"DICM", at=128),
    # MRC2014, word 53 (https://www.ccpem.ac.uk/mrc_format/mrc2014.php).
    *_starts(
        "an MRC file",
        _ARRAY.format("mrcfile", "mrcfile", "zarr.save('new.zarr', mrcfile.mmap('FILE').data)"),
        b"MAP ",
        at=208,
    ),
    # NIfTI-1 and NIfTI-2, magic.
    *_starts(
        "a NIfTI file",
        _ARRAY.format("nibabel", "nibabel", "zarr.save('new.zarr', nibabel.load('FILE').get_fdata())"),
        b"n+1\0",
        at=344,
    ),
    *_starts(
        "a NIfTI file",
        _ARRAY.format("nibabel", "nibabel", "zarr.save('new.zarr', nibabel.load('FILE').get_fdata())"),
        b"n+2\0\r\n\x1a\n",
        at=4,
    ),
    # FITS Standard 4.0, 4.4.1.1.
    *_starts(
        "a FITS file",
        _ARRAY.format("astropy", "astropy.io.fits", "zarr.save('new.zarr', astropy.io.fits.getdata('FILE'))"),
        b"SIMPLE  =",
    ),
    # numpy.lib.format.
    *_starts(
        "a file of numpy.save",
        _ARRAY.format("numpy", "numpy", "zarr.save('new.zarr', numpy.load('FILE'))"),
        b"\x93NUMPY",
    ),
    # MAT-File Format, level 5; version 7.3 is HDF5.
    *_starts(
        "a MATLAB file",
        "zarrlift reads Zarr and N5; read it with scipy.io.loadmat, and save its arrays with zarr.save.",
        b"MATLAB 5.0",
    ),
    # C-Blosc2's frame format: a string of 8 bytes after its head.
    *_starts(
        "a Blosc2 file",
        _ARRAY.format("blosc2", "blosc2", "zarr.save('new.zarr', blosc2.open('FILE')[:])"),
        b"b2frame\0",
        at=2,
    ),
    # Apache Parquet and Arrow, file formats.
    *_starts("a Parquet file", _TABLE.format("pandas.read_parquet"), b"PAR1"),
    *_starts("an Arrow or Feather file", _TABLE.format("pandas.read_feather"), b"ARROW1", b"FEA1"),
    *_starts(
        "an SQLite database",
        "If this is an SQLiteStore of zarr-python 2, copy the file to a local disk and give that.",
        b"SQLite format 3",
    ),
    # APPNOTE.TXT 4.3.7: a local file header comes first, but the end record that defines a zip file comes
    # last.
    *_starts("a zip file that is cut short or damaged", "Copy it again.", b"PK\3\4"),
    # RFC 1952, 2.3.1; RFC 8878, 3.1.1; The .xz File Format 1.2, 2.1.1.1; bzip2; 7z; RAR.
    *_starts("a gzip file", _UNPACK, b"\x1f\x8b"),
    *_starts("a Zstandard file", _UNPACK, b"\x28\xb5\x2f\xfd"),
    *_starts("an xz file", _UNPACK, b"\xfd7zXZ\0"),
    *_starts("a bzip2 file", _UNPACK, b"BZh"),
    *_starts("a 7z file", _UNPACK, b"7z\xbc\xaf\x27\x1c"),
    *_starts("a RAR file", _UNPACK, b"Rar!\x1a\x07"),
    *_starts(
        "an HTML page", "Give the URL of the archive itself, not of a page about it.", b"<!DOCTYPE html"
    ),
    *_starts(
        "an HTML page", "Give the URL of the archive itself, not of a page about it.", b"<!doctype html"
    ),
    *_starts("an HTML page", "Give the URL of the archive itself, not of a page about it.", b"<html"),
)


def _is_precomputed(info: Mapping[str, Any]) -> bool:
    return str(info.get("@type", "")).startswith("neuroglancer_") or {"scales", "data_type"} <= info.keys()


_TILEDB: Final = (
    "zarrlift reads Zarr and N5; TileDB's own package reads it: tiledb.open(PLACE)[:]"
    " (https://docs.tiledb.com), and zarr.save writes what it gives."
)
_DIRECTORIES: Final = (
    # https://github.com/google/neuroglancer/blob/master/src/datasource/precomputed: `info` at the root.
    _Directory(
        "data in Neuroglancer's precomputed format",
        "zarrlift reads Zarr and N5; tensorstore copies it to Zarr: open it with the driver"
        " neuroglancer_precomputed (https://google.github.io/tensorstore/driver/neuroglancer_precomputed).",
        ("info",),
        _is_precomputed,
    ),
    # TileDB Format Specification: array and group directories; the first two are those of older versions.
    *(
        _Directory("a TileDB array or group", _TILEDB, names)
        for names in (
            ("__tiledb_group.tdb",),
            ("__array_schema.tdb",),
            ("__schema/", "__fragments/"),
            ("__group/", "__meta/"),
        )
    ),
    # Icechunk's specification, 1 and 2: the directories of a repository.
    _Directory(
        "an Icechunk repository",
        "Give it as a URL of Icechunk: icechunk:///PATH, or icechunk+s3://BUCKET/PATH.",
        ("snapshots/", "manifests/"),
    ),
    # Delta Transaction Log Protocol; Apache Hive's and Spark's directories of Parquet files.
    _Directory("a Delta table", _TABLE.format("deltalake.DeltaTable"), ("_delta_log/",)),
    _Directory("a directory of Parquet files", _TABLE.format("pandas.read_parquet"), ("_SUCCESS",)),
    _Directory("a directory of Parquet files", _TABLE.format("pandas.read_parquet"), ("_common_metadata",)),
    # https://github.com/scalableminds/webknossos-wrap: a header beside the files of a dataset's
    # magnification.
    _Directory(
        "a WKW dataset",
        "zarrlift reads Zarr and N5; webknossos converts it: webknossos convert-zarr, or Dataset.convert.",
        ("header.wkw",),
    ),
    _Directory(
        "an LMDB database",
        "If this is an LMDBStore of zarr-python 2, copy it into a directory with its zarr.copy_store.",
        ("data.mdb",),
    ),
)


def known_file(head: bytes, name: str = "") -> tuple[str, str | None]:
    """The kind of a file, by its first bytes (`HEAD`), and what makes an archive of it, if that is known."""
    for kind in _FILES:
        if all(head.startswith(part, at) for at, part in kind.parts):
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
    return any(all(head.startswith(part, at) for at, part in kind.parts) for kind in _FILES)


def not_a_container(shown: str, head: bytes) -> UsageError:
    """The error for a file without an archive inside."""
    from .open_errors import references_in

    name, advice = known_file(head, shown.rpartition("/")[2])
    if references_in(head):
        name = "a file of references, as kerchunk and VirtualiZarr write them"
        advice = "Give it a name that ends with .json."
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
    there = set(names)
    for kind in _DIRECTORIES:
        if not there.issuperset(kind.entries):
            continue
        if kind.document is None or ((found := read(kind.entries[0])) is not None and kind.document(found)):
            return kind.name, kind.advice
    if any(name.endswith(".parquet") for name in there):
        return "a directory of Parquet files", _TABLE.format("pandas.read_parquet")
    if there and all(name.endswith(".npy") for name in there):
        advice = "zarrlift reads Zarr and N5; numpy.load opens it, and zarr.save writes each array as Zarr."
        return "a file of numpy.savez, or a directory of files of numpy.save", advice
    return None


DOCUMENTS: Final = tuple(
    dict.fromkeys(name for kind in _DIRECTORIES for name in kind.entries if not name.endswith("/"))
)
"""Files that mark a directory, for places that cannot be listed."""
