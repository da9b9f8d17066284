"""Files and directories of other formats are named, with what makes an archive of them."""

from __future__ import annotations

import gzip
import io
import json
import struct
import uuid
import zipfile
from pathlib import Path

import numpy as np
import pytest

import zarrlift
from zarrlift.storage.foreign_files import known_file
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import UsageError


def in_store(content: dict[str, bytes]) -> str:
    """The URL of a directory in a store."""
    place = f"memory://{uuid.uuid4()}"
    open_storage(place, mode="w").put_many(list(content.items()))
    return place


def npy() -> bytes:
    made = io.BytesIO()
    np.save(made, np.arange(3))
    return made.getvalue()


FILES = {
    "HDF5": (b"\x89HDF\r\n\x1a\n", "an HDF5 or netCDF-4 file", "to_zarr"),
    "HDF5 behind a user block": (bytes(512) + b"\x89HDF\r\n\x1a\n", "an HDF5 or netCDF-4 file", "hdmf-zarr"),
    "netCDF-3": (b"CDF\2", "a netCDF-3 file", "to_zarr"),
    "GRIB": (b"GRIB\0\0\0\2", "a GRIB file", "cfgrib"),
    "TIFF": (b"II*\0\x08\0\0\0", "a TIFF file", "bioformats2raw data new.zarr"),
    "BigTIFF": (b"MM\0+", "a TIFF file", "bioformats2raw"),
    "CZI": (b"ZISRAWFILE\0\0", "a CZI file", "bioformats2raw"),
    "LIF": (struct.pack("<IIB", 0x70, 10, 0x2A), "a LIF file", "bioformats2raw"),
    "ND2": (b"\xda\xce\xbe\x0a", "an ND2 file", "bioformats2raw"),
    "MRC": (bytes(208) + b"MAP DD\0\0", "an MRC file", "mrcfile"),
    "NIfTI": (struct.pack("<i", 348) + bytes(340) + b"n+1\0", "a NIfTI file", "nibabel"),
    "numpy.save": (npy(), "a file of numpy.save", "numpy.load"),
    "Parquet": (b"PAR1\x15\0", "a Parquet file", "pandas"),
    "Feather": (b"ARROW1\0\0", "an Arrow or Feather file", "pandas"),
    "tar.gz": (gzip.compress(bytes(1024)), "a gzip file", "Unpack it first"),
    "tar.zst": (b"\x28\xb5\x2f\xfd\0", "a Zstandard file", "Unpack it first"),
    "tar.xz": (b"\xfd7zXZ\0", "an xz file", "Unpack it first"),
    "tar.bz2": (b"BZh9", "a bzip2 file", "Unpack it first"),
    "7z": (b"7z\xbc\xaf\x27\x1c", "a 7z file", "Unpack it first"),
    "RAR": (b"Rar!\x1a\x07\0", "a RAR file", "Unpack it first"),
    "HDF5 behind a long user block": (bytes(2048) + b"\x89HDF\r\n\x1a\n", "an HDF5 or netCDF-4 file", "h5ad"),
    "JPEG 2000": (b"\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000 file", "bioformats2raw"),
    "DICOM": (bytes(128) + b"DICM", "a DICOM file", "bioformats2raw"),
    "NIfTI-2": (struct.pack("<i", 540) + b"n+2\0\r\n\x1a\n", "a NIfTI file", "nibabel"),
    "FITS": (b"SIMPLE  =                    T", "a FITS file", "astropy.io.fits.getdata"),
    "MATLAB": (b"MATLAB 5.0 MAT-file", "a MATLAB file", "scipy.io.loadmat"),
    "Blosc2": (b"\x9e\xa8b2frame\0", "a Blosc2 file", "blosc2.open"),
    "HTML": (b"<!doctype html><title>", "an HTML page", "URL of the archive itself"),
}


@pytest.mark.parametrize(("data", "name", "advice"), FILES.values(), ids=FILES)
@pytest.mark.parametrize("named", ["data", "data.zarr"])
def test_a_file_is_called_what_it_is(data: bytes, name: str, advice: str, named: str, tmp_path: Path) -> None:
    (tmp_path / named).write_bytes(data)
    with pytest.raises(UsageError, match=f"{named} is {name}.*, not an archive") as local:
        zarrlift.inspect(tmp_path / named)
    place = f"{in_store({named: data})}/{named}"
    with pytest.raises(UsageError, match=f"{place} is {name}.*, not an archive") as stored:
        zarrlift.inspect(place)
    for told in (local, stored):
        assert advice.replace("data ", f"{named} ") in str(told.value)


def test_a_zip_file_of_numpy_is_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", a=np.arange(3), b=np.arange(4))
    with pytest.raises(UsageError, match=r"is a file of numpy\.savez, .*numpy\.load"):
        zarrlift.inspect(tmp_path / "data.npz")


def test_a_klb_file_has_no_signature_and_is_known_by_its_name() -> None:
    assert known_file(b"\2" + bytes(100), "a.klb")[0] == "a KLB file"
    assert known_file(b"\2" + bytes(100), "a.bin")[0] == "a file of an unknown kind"


INFO = {"@type": "neuroglancer_multiscale_volume", "data_type": "uint8", "scales": [], "type": "image"}
DIRECTORIES: dict[str, tuple[dict[str, bytes], str, str]] = {
    "Neuroglancer precomputed": (
        {"info": json.dumps(INFO).encode(), "4_4_40/0-64_0-64_0-64": b"x"},
        "data in Neuroglancer's precomputed format",
        "neuroglancer_precomputed",
    ),
    "TileDB, old": ({"__array_schema.tdb": b"x"}, "a TileDB array or group", "tiledb.open"),
    "TileDB": ({"__schema/1": b"x", "__fragments/1/a": b"x"}, "a TileDB array or group", "tiledb.open"),
    "TileDB group": ({"__tiledb_group.tdb": b""}, "a TileDB array or group", "tiledb.open"),
    "Delta": ({"_delta_log/0.json": b"{}", "a.parquet": b"PAR1"}, "a Delta table", "deltalake"),
    "Parquet": ({"part-0.parquet": b"PAR1"}, "a directory of Parquet files", "pandas"),
    "WKW": ({"header.wkw": b"WKW\1", "z0/y0/x0.wkw": b"WKW\1"}, "a WKW dataset", "webknossos"),
}


@pytest.mark.parametrize(("content", "name", "advice"), DIRECTORIES.values(), ids=DIRECTORIES)
def test_a_directory_is_called_what_it_is(
    content: dict[str, bytes], name: str, advice: str, tmp_path: Path
) -> None:
    open_storage(tmp_path / "data", mode="w").put_many(list(content.items()))
    for where in (tmp_path / "data", in_store(content)):
        with pytest.raises(UsageError, match=f"{where} is {name}, not an archive") as told:
            zarrlift.inspect(where)
        assert advice in str(told.value)


def test_a_file_called_info_alone_is_no_volume(tmp_path: Path) -> None:
    (tmp_path / "info").write_text("read me")
    with pytest.raises(UsageError, match="no archive found; found info in"):
        zarrlift.inspect(tmp_path)


def test_an_archive_in_such_a_directory_is_an_archive(tmp_path: Path) -> None:
    (tmp_path / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "_SUCCESS").touch()
    assert zarrlift.inspect(tmp_path).format == "zarr2"


def test_a_zip_file_that_is_named_as_a_directory_is_named_with_its_url() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        packed.writestr(".zgroup", '{"zarr_format": 2}')
    place = in_store({"a.zarr": made.getvalue()}) + "/a.zarr"
    with pytest.raises(UsageError, match=f"named as a directory. Give it as zip::{place}"):
        zarrlift.inspect(place)
    found = zarrlift.inspect(f"zip::{place}")
    assert [node.path for node in found.nodes] == [""]
