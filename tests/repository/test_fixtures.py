"""The fixtures are there, unchanged, and cover what they promise."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.chances import try_each
from tests.support.fixtures_index import (
    FORMATS,
    ExpectedArchive,
    Format,
    archives,
    bad_cases,
    make_bad_links,
    same,
)
from tests.support.unpacking import FIXTURES, packing

DTYPES = (
    ["|b1", "|i1", "|u1"]
    + [f"{order}{kind}" for kind in ("i2", "i4", "i8", "u2", "u4", "u8") for order in "<>"]
    + [f"{order}{kind}" for kind in ("f2", "f4", "f8", "c8", "c16") for order in "<>"]
    + ["|S6", "<U7", ">U7", "|V5", "<M8[ns]", ">M8[ns]", "<M8[D]", "<m8[s]", ">m8[ns]", "<M8[25s]", "|O"]
)

COMPRESSORS = ("zlib", "gzip", "bz2", "lzma", "lz4", "zstd", "blosc")
FILTERS = (
    *("delta", "fixedscaleoffset", "quantize", "bitround", "astype", "packbits", "shuffle", "categorize"),
    *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"),
    *("vlen-utf8", "vlen-bytes", "vlen-array", "json2", "msgpack2", "pickle"),
)


def name_of(path: Path) -> str:
    """A fixture below the folder of all."""
    return path.relative_to(FIXTURES).as_posix()


@cache
def documents() -> tuple[dict[str, Any], ...]:
    """Every `.zarray` in the fixtures that lie as folders."""
    folders = (one.path for one in archives() if one.kind == "directory")
    return tuple(json.loads(file.read_bytes()) for folder in folders for file in folder.rglob(".zarray"))


@pytest.mark.needs_reader("once")
def test_no_fixture_changed_unnoticed() -> None:
    assert packing.entries() == packing.read_manifest()
    readme = (FIXTURES / "README.md").read_text()
    folders = {name.split("/")[1] for name in packing.read_manifest()}
    assert [name for name in sorted(folders) if f"`{name}" not in readme] == []


@pytest.mark.parametrize("file", [*filter(packing.is_packed, packing.fixtures())], ids=name_of)
@pytest.mark.slow(one_in=16)
def test_what_is_unpacked_and_packed_again_is_the_same_zip(file: Path, tmp_path: Path) -> None:
    packing.extract(file, tmp_path / "folder")
    assert packing.zipped(packing.members(tmp_path / "folder")) == file.read_bytes()


def test_empty_folders_and_names_of_any_kind_survive_packing(tmp_path: Path) -> None:
    content = {"a": b"1", "A": b"2", "b/\u00e4 \U0001f600\\c:": b"", "b/.zgroup": b"{}", "empty/deep/": b""}
    (tmp_path / "a.zip").write_bytes(packing.zipped(content))
    packing.extract(tmp_path / "a.zip", tmp_path / "a")
    assert packing.members(tmp_path / "a") == content


def test_links_are_not_packed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(SystemExit, match="is a link"):
        packing.members(tmp_path)


def test_no_fixture_is_a_folder() -> None:
    assert [name_of(path) for path in packing.fixtures() if path.is_dir()] == []


def test_every_data_type_has_an_array_in_c_and_f_order_and_every_codec_has_one() -> None:
    written = {(d["dtype"], d.get("order")) for d in documents() if isinstance(d["dtype"], str)}
    assert {*product(DTYPES, "CF")} - written == set()
    used = (c for d in documents() for c in (d.get("compressor"), *(d.get("filters") or ())) if c)
    assert {*COMPRESSORS, *FILTERS} - {c["id"] for c in used} == set()


def test_expectations_load_and_have_the_shape_of_their_array() -> None:
    def check(one: ExpectedArchive) -> None:
        assert one.path.exists()
        for array in one.arrays.values():
            if array.unreadable is None:
                assert array.values.shape == array.shape
                assert array.in_axes("kept").shape in {array.shape, array.shape[::-1]}
                assert one.format != "zarr_v2" or array.values.dtype == array.little

    try_each((one for form in FORMATS for one in archives(form)), check)


def test_equality_is_by_bits_not_by_value() -> None:
    assert same(np.array([np.nan, 1], "<f4"), np.array([np.nan, 1], ">f4"))
    assert not same(np.array([0.0]), np.array([-0.0]))


def test_links_are_made_in_a_folder_of_the_test(tmp_path: Path) -> None:
    made = make_bad_links(tmp_path)
    assert (made["inside"] / "linked" / ".zarray").is_file()
    assert (made["loop"] / "group" / "again" / "group" / "again" / "top").is_dir()


SOUND = {
    "zarr_v2": ("good/.zarray",),
    "n5": ("good/attributes.json",),
    "zarr_v1": ("good/meta",),
    "zarr_v3_draft": ("meta/good.array.json", "meta/root/good.array.json"),
}


@pytest.mark.parametrize("form", FORMATS)
def test_every_damaged_archive_is_described_and_has_its_sound_array(form: Format) -> None:
    cases = bad_cases(form)
    folders = {path.stem for path in packing.held(FIXTURES / form / "bad" / "archives.zip")}
    assert folders == {case.name for case in cases}
    for case in cases:
        assert case.path.is_dir(), case.name
        assert case.name == "nothing" or any((case.path / key).is_file() for key in SOUND[form]), case.name


def test_every_n5_writer_wrote_every_data_type_and_java_every_compression() -> None:
    written = [
        (one.writer["name"], json.loads((one.path / path / "attributes.json").read_bytes()))
        for one in archives("n5")
        for path in one.arrays
    ]
    types = [*(f"{k}{n}" for k in ("int", "uint") for n in (8, 16, 32, 64)), "float32", "float64"]
    wanted = {*product(("n5 (Java)", "z5py", "tensorstore", "zarr-python"), types)}
    assert wanted - {(writer, document["dataType"]) for writer, document in written} == set()
    by_java = [document for writer, document in written if writer == "n5 (Java)"]
    packed = {document["compression"]["type"] for document in by_java if "compression" in document}
    assert packed >= {"raw", "gzip", "bzip2", "xz", "lz4", "blosc", "zstd"}
