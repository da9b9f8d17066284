"""What lies in a place, and what is said where it is something else."""

from __future__ import annotations

import functools
import gzip
import io
import json
import re
import shutil
import struct
import uuid
import zipfile
from itertools import cycle
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr
from tests.support.fixtures_index import archive, archives
from tests.support.unpacking import unpacked
from tests.support.v2_trees import ARRAY, GROUP, tree
from tests.support.web_servers import Files, serving

import zarrlift
from zarrlift.formats.describe import describe
from zarrlift.formats.detect import detect
from zarrlift.storage.not_an_archive import known_file
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import MetadataError, UsageError

V1 = {"zarr_format": 1}
V3 = {"zarr_format": 3, "node_type": "group"}
N5 = {"dimensions": [1], "blockSize": [1], "dataType": "uint8"}
DRAFT = {"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0", "extensions": []}


FOUND = {
    "an array of v2": ("zarr2", {".zarray": ARRAY}),
    "a group of v2": ("zarr2", {".zgroup": GROUP}),
    "consolidated": ("zarr2", {".zmetadata": {}}),
    "below a root that no document makes": ("zarr2", {"a/b/.zarray": ARRAY, "a/b/0.0": b"x"}),
    "a broken document": ("zarr2", {".zgroup": b"not even JSON"}),
    "files of any name": ("zarr2", {".zgroup": GROUP, "attributes.json": {"mine": 1}, "meta": b"anything"}),
    "v2 before a draft": ("zarr2", {"a/.zgroup": GROUP, "meta/root/a.array.json": {}}),
    "v1": ("zarr1", {"a/meta": V1, "a/attrs": {}}),
    "v1, which every node is": ("zarr1", {"a/.zarray": ARRAY, "a/meta": V1, "b/meta": V1}),
    "a group of N5": ("n5", {"attributes.json": {"n5": "2.5.1"}}),
    "a dataset of N5": ("n5", {"attributes.json": N5}),
    "a dataset that lost a member": ("n5", {"attributes.json": {"dimensions": [1], "dataType": "uint8"}}),
    "N5 below a root that no document makes": ("n5", {"group/a/attributes.json": N5}),
    "v3": ("zarr3", {"zarr.json": V3}),
    "v3 below a broken root": ("zarr3", {"zarr.json": b"{", "a/zarr.json": {**V3, "node_type": "array"}}),
    "a draft of v3": ("zarr3-draft", {"zarr.json": DRAFT}),
}


@pytest.mark.parametrize(("format", "entries"), FOUND.values(), ids=FOUND)
def test_a_format_is_found_by_its_documents(tmp_path, format, entries):
    assert detect(tree(tmp_path, entries)) == format


NONE: dict[str, tuple[dict[str, object], str | None, str]] = {
    "other files": (
        {"a.jpg": b"", "b/c.txt": b""}, None, r"found a\.jpg, b/ in .*expected one of \.zarray, \.zgroup"
    ),
    "nothing": ({}, None, "found nothing in"),
    "another format": ({"zarr.json": V3}, "zarr2", "no zarr2 archive found; found Zarr v3 already"),
    "a draft, where N5 was asked for": ({"meta/root/a.array.json": {}}, "n5", "no archive found"),
    "chunks of a draft": ({"meta/notes.json": {}, "data/root/a/c0/0": b""}, None, "no archive found"),
    "a draft's document elsewhere": ({"metadata/root/a.array.json": {}}, None, "no archive found"),
    "a document that would tell, but is no JSON": (
        {"attributes.json": b'/* a licence */\n{"n5": "2.0.0"}', "setup0/s0/0/0": b""}, None,
        "^no archive found.*json would identify the format, but is not a JSON object",
    ),
    "a document of a node below the root": (
        {"attributes.json": {"axes": ["x", "y", "z"]}}, "n5",
        r"attributes\.json belongs to a node below the root of an archive: give the root",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "format", "said"), NONE.values(), ids=NONE)
def test_what_is_no_archive_is_named(tmp_path, entries, format, said):
    with pytest.raises(UsageError, match=said):
        detect(tree(tmp_path, entries), format=format)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the document is empty"),
        (b'{"zarr_format', "the document is not JSON"),
        ([], "the document is not a JSON object"),
        ({}, "zarr_format is not a valid version; found none; expected 3, or a URI"),
        ({"zarr_format": ["https://purl.org/zarr/spec/core/3.0"]}, "zarr_format is not a valid version"),
        ({"zarr_format": 3, "metadata_encoding": "json"}, "node_type is neither array nor group; found none"),
    ],
    ids=["empty", "truncated", "a list", "no format", "format in a list", "no kind of node"],
)
@pytest.mark.parametrize("format", [None, "zarr3-draft"], ids=["any", "asked for"])
def test_a_zarr_json_that_says_no_format_is_told_at_its_key(tmp_path, content, said, format):
    with pytest.raises(MetadataError, match=said) as caught:
        detect(tree(tmp_path, {"zarr.json": content}), format=format)
    assert caught.value.problem.key == "zarr.json"


@pytest.mark.parametrize(
    ("entries", "said", "formats"),
    [
        (
            {".zgroup": GROUP, "zarr.json": V3},
            r"Zarr v2 group \(\.zgroup\) and Zarr v3 .*--from zarr2 or --from zarr3", ["zarr2"],
        ),
        (
            {"a/.zarray": ARRAY, "b/meta": V1, "c/attributes.json": N5},
            r"Zarr v2 array \(a/\.zarray\) and Zarr v1 \(b/meta\) and N5 .*--from zarr2 or --from zarr1 or",
            ["zarr1", "zarr2", "n5"],
        ),
    ],
    ids=["of one node", "of several nodes"],
)  # fmt: skip
def test_several_formats_are_refused_and_named_until_one_is_asked_for(tmp_path, entries, said, formats):
    storage = tree(tmp_path, entries)
    with pytest.raises(UsageError, match=said):
        detect(storage)
    assert [detect(storage, format=name) for name in formats] == formats


def test_a_format_that_is_asked_for_is_looked_for_below_another(tmp_path):
    """As after work in place on an archive whose root no document of its own format makes."""
    entries = {"zarr.json": V3, "a/zarr.json": V3, "a/b/meta": V1, "a/b/zarr.json": V3}
    storage = tree(tmp_path, entries)
    assert detect(storage, format="zarr1") == "zarr1"
    assert detect(storage, beside_v3=True) == "zarr1"


NAMES = {"zarr_v1": "zarr1", "zarr_v2": "zarr2", "n5": "n5", "zarr_v3_draft": "zarr3-draft"}
"""Formats as the fixtures' folders are called, and as we call them."""


@pytest.mark.parametrize("name", NAMES)
def test_every_fixture_is_taken_for_what_it_is(name):
    found = {str(one): detect(open_storage(one.path)) for one in archives(name)}
    assert found == dict.fromkeys(found, NAMES[name])


WRITTEN = (
    "zarr_v1/zarr-1.1/root",
    "zarr-2.18/stores/directory",
    "n5/java-4.0.2/edges",
    "zarr_v3_draft/zarr-2.18/tree",
)


def layouts(archive):
    """What each node is."""
    return {node.path: getattr(node, "layout", None) for node in archive.nodes}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("folder", ["", "packed/"], ids=["root", "below folders"])
def test_a_zip_file_is_taken_for_what_is_in_it(name, folder, tmp_path):
    root = archive(name).path
    with zipfile.ZipFile(tmp_path / "it.zip", "w") as packed:
        for file in root.rglob("*"):
            if file.is_file():
                packed.write(file, folder + file.relative_to(root).as_posix())
    there = describe(open_storage(tmp_path / "it.zip"))
    assert there.format == NAMES[archive(name).format]
    assert layouts(there) == layouts(describe(open_storage(root)))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_url_is_taken_for_what_lies_there(name):
    root, url = archive(name).path, f"memory://{uuid.uuid4()}/it"
    fsspec.filesystem("memory").put(f"{root}/", url, recursive=True)
    there = describe(open_storage(url))
    assert there.format == NAMES[archive(name).format]
    assert layouts(there) == layouts(describe(open_storage(root)))


def test_links_do_not_lead_the_search_astray(tmp_path):
    storage = tree(tmp_path, {"a/x.txt": b""})
    (tmp_path / "a/loop").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="no archive found"):
        detect(storage)


# Files and directories of other formats are named, with what makes an archive of them.


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


@pytest.mark.parametrize(
    ("data", "name", "advice", "named"),
    [(*row, named) for row, named in zip(FILES.values(), cycle(["data", "data.zarr"]))],
    ids=FILES,
)
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
        with pytest.raises(UsageError, match=re.escape(f"{where} is {name}, not an archive")) as told:
            zarrlift.inspect(where)
        assert advice in str(told.value)


# References are archives of other programs: refused by name, never migrated in part.


def references() -> Path:
    """A directory of references by kerchunk, VirtualiZarr and tifffile."""
    return unpacked("references/virtualizarr-2.5.1/references")


REFERENCES = ("combined.json", "of-zarr.json", "single.json", "version-0.json", "virtual.json")
TABLES = ("combined.parquet", "virtual.parquet")


def refused(place: object, **options: object) -> str:
    with pytest.raises(UsageError) as told:
        zarrlift.inspect(place, **options)
    return str(told.value)


@pytest.mark.parametrize(("name", "named"), [*zip((*REFERENCES, *TABLES), cycle(["refs", "data.zarr"]))])
def test_references_are_refused_by_name(name: str, named: str, tmp_path: Path) -> None:
    source = references() / name
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, tmp_path / named)
    what = "a directory of references in Parquet" if source.is_dir() else "a file of references"
    base = in_store(
        {
            file.relative_to(tmp_path).as_posix(): file.read_bytes()
            for file in tmp_path.rglob("*")
            if file.is_file()
        }
    )
    for place in (str(tmp_path / named), f"{base}/{named}"):
        for named_format in (None, "zarr2"):
            told = refused(place, format=named_format)
            assert told.startswith(f"{place} is {what}, as kerchunk and VirtualiZarr write them"), told
            assert "xarray with kerchunk" in told
        with pytest.raises(UsageError, match=what):
            zarrlift.migrate(place, tmp_path / "out.zarr")
        with pytest.raises(UsageError, match=what):
            zarrlift.open(place)
    assert not (tmp_path / "out.zarr").exists()


def test_references_are_refused_where_nothing_can_be_listed() -> None:
    with serving(functools.partial(Files, directory=str(references()))) as url:
        for name in TABLES:
            assert "is a directory of references in Parquet" in refused(f"{url}/{name}")
        for name in REFERENCES:
            assert "is a file of references" in refused(f"{url}/{name}")


OTHER_REFERENCES = {
    "templates": {"version": 1, "templates": {"u": "s3://bucket/" + "x" * 5000}, "refs": {"a/.zarray": "{}"}},
    "generated": {"version": 1, "gen": [{"key": "a/{{i}}", "url": "x", "dimensions": {"i": {"stop": 2}}}]},
    "of Zarr v3": {"zarr.json": "{}", "a/c/0": ["a.nc", 0, 1]},
    "several": [{"version": 1, "refs": {".zgroup": '{"zarr_format": 2}'}}] * 2,
    "empty": {"version": 1, "refs": {}},
}


@pytest.mark.parametrize("content", OTHER_REFERENCES.values(), ids=OTHER_REFERENCES)
@pytest.mark.parametrize("start", ["", "\ufeff \n"], ids=["plain", "with a mark"])
def test_every_form_of_a_file_of_references_is_known(content: object, start: str, tmp_path: Path) -> None:
    (tmp_path / "refs.json").write_text(start + json.dumps(content, indent=2), encoding="utf-8")
    assert "is a file of references" in refused(tmp_path / "refs.json")


@pytest.mark.parametrize(
    "content", [{"version": 1, "name": "x"}, [1], {"a": {"b": 1}}, {"references": {}}], ids=str
)
def test_another_json_file_is_a_text(content: object, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert "is a text file" in refused(tmp_path / "a.json")


@pytest.mark.parametrize(
    "url",
    [
        "reference://",
        "reference://::FILE",
        "reference::FILE",
        "reference://a::file://FILE",
        "simplecache::reference://::FILE",
    ],
)
def test_the_file_system_of_references_is_refused(url: str, tmp_path: Path) -> None:
    file = references() / "of-zarr.json"
    url = url.replace("FILE", str(file))
    told = refused(url, storage_options={"fo": str(file)})
    assert told.startswith(f"{url} names references, not an archive")
    with pytest.raises(UsageError, match="names references"):
        zarrlift.migrate(file.parent / "old.zarr", url, job=tmp_path / "job.db")


def test_an_attribute_called_record_size_makes_no_references(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "a", zarr_format=2, attributes={"record_size": 3})
    zarr.consolidate_metadata(group.store)
    assert zarrlift.inspect(tmp_path / "a").format == "zarr2"


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
    with pytest.raises(UsageError, match=re.escape(f"named as a directory. Give it as zip::{place}")):
        zarrlift.inspect(place)
    found = zarrlift.inspect(f"zip::{place}")
    assert [node.path for node in found.nodes] == [""]


@pytest.mark.parametrize("name", WRITTEN)
def test_an_archive_is_found_below_folders_that_no_document_makes(name, tmp_path):
    shutil.copytree(archive(name).path, tmp_path / "it/lies/here")
    assert detect(open_storage(tmp_path / "it")) == NAMES[archive(name).format]


def test_files_that_tifffile_refers_to_are_refused_by_name() -> None:
    told = refused(unpacked("zarr_v2/zarr-2.18-tiff/tiff") / "sequence/references.json")
    assert "is a file of references" in told
