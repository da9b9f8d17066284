"""References of kerchunk and VirtualiZarr as sources: every form, equal to the files that they lead to."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr
import zstandard
from tests.support.unpacking import unpacked

import zarrlift
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import MetadataError, StorageError, UnsupportedError, UsageError

FIXTURE = "references/virtualizarr-2.5.1/references"
SINGLE = ("time", "packed", "plain", "big", "crs", "letters")
"""kerchunk 0.2.10 leaves out `checked`, whose filter it does not know."""
VIRTUAL = (*SINGLE, "checked")


def folder() -> Path:
    return unpacked(FIXTURE)


@pytest.fixture
def in_memory():
    """The files where VirtualiZarr's references expect them."""
    files = fsspec.filesystem("memory")
    for name in ("first.nc", "second.nc"):
        files.pipe_file(f"/fixture/{name}", (folder() / name).read_bytes())
    yield "memory://fixture"
    files.rm("/fixture", recursive=True)


def expected(name: str, files: int) -> np.ndarray:
    """The values of a variable in the first file, or in both."""
    with np.load(folder() / "expected.npz") as values:
        parts = [values[f"{file}/{name}"] for file in ("first", "second")[:files]]
    return np.concatenate(parts) if files > 1 and name not in ("crs", "letters") else parts[0]


def refusals(plan) -> list:
    return [problem for problem in plan.all_problems() if problem.severity == "refusal"]


def allowed(place) -> dict:
    return {"allow_references": [str(place)]}


def migrated(source, destination, place) -> zarr.Group:
    outcome = zarrlift.migrate(str(source), destination, storage_options=allowed(place))
    assert outcome.ok, list(outcome.problems)
    assert zarrlift.verify(str(source), destination, full=True, storage_options=allowed(place)).ok
    return zarr.open_group(destination, mode="r")


def check(group: zarr.Group, names, files: int) -> None:
    for name in names:
        found, wanted = group[name][...], expected(name, files)
        # What MultiZarrToZarr concatenates although it is in every file alike has one row per file.
        np.testing.assert_array_equal(found if found.shape == wanted.shape else found[0], wanted, name)


@pytest.mark.parametrize(
    ("name", "files"),
    [("single.json", 1), ("combined.json", 2), ("version-0.json", 2), ("combined.parquet", 2)],
)
def test_references_of_kerchunk_are_migrated(tmp_path, name, files):
    group = migrated(folder() / name, tmp_path / "out.zarr", folder())
    assert set(group.array_keys()) == set(SINGLE)
    check(group, SINGLE, files)
    assert group.attrs["title"] == "a fixture"


@pytest.mark.parametrize(
    ("name", "names"),
    [("virtual.json", VIRTUAL), ("virtual.parquet", tuple(n for n in VIRTUAL if n != "crs"))],
)
def test_references_of_virtualizarr_are_migrated(tmp_path, in_memory, name, names):
    """The scalar's key lacks its name there, so that readers would show the fill value."""
    check(migrated(folder() / name, tmp_path / "out.zarr", in_memory), names, 2)


def test_references_to_whole_objects_of_an_archive_are_migrated(tmp_path):
    group = migrated(folder() / "of-zarr.json", tmp_path / "out.zarr", folder())
    with np.load(folder() / "expected.npz") as values:
        for path in ("dots", "deep/nested"):
            np.testing.assert_array_equal(group[path][:], values[f"old/{path}"])
    plan = zarrlift.plan(folder() / "of-zarr.json", storage_options=allowed(folder()))
    assert [array.chunks for array in plan.arrays] == [6, 6]  # of nine


def test_a_view_and_inspect_show_references(in_memory):
    found = zarrlift.inspect(folder() / "virtual.json")  # reads no target, so it needs no permission
    assert {node.path for node in found.nodes} == {"", *VIRTUAL}
    group = zarrlift.open(folder() / "virtual.parquet", storage_options=allowed(in_memory))
    np.testing.assert_array_equal(group["checked"][1:3], expected("checked", 2)[1:3])


def test_a_document_may_be_compressed(tmp_path):
    plain = (folder() / "of-zarr.json").read_bytes()
    shutil.copytree(folder() / "old.zarr", tmp_path / "old.zarr")
    (tmp_path / "refs.json.zst").write_bytes(zstandard.compress(plain))
    assert zarrlift.plan(tmp_path / "refs.json.zst", storage_options=allowed(tmp_path)).arrays


@pytest.mark.parametrize("name", ["combined.json", "combined.parquet"])
def test_references_in_a_store_lead_to_objects_beside_them(tmp_path, name):
    """What is in the same bucket needs no permission; a relative place begins where the references are."""
    files = fsspec.filesystem("memory")
    for file in folder().rglob("*"):
        if file.is_file():
            files.pipe_file(f"/bucket/deep/{file.relative_to(folder()).as_posix()}", file.read_bytes())
    try:
        outcome = zarrlift.migrate(f"memory://bucket/deep/{name}", tmp_path / "out.zarr")
        assert outcome.ok
        check(zarr.open_group(tmp_path / "out.zarr", mode="r"), SINGLE, 2)
        # fsspec's own name for references opens the same.
        plans = [
            zarrlift.plan(place, storage_options=options)
            for place, options in (
                (f"reference://::memory://bucket/deep/{name}", None),
                ("reference://", {"fo": f"memory://bucket/deep/{name}"}),
            )
        ]
        assert [len(plan.arrays) for plan in plans] == [6, 6]
    finally:
        files.rm("/bucket", recursive=True)


def test_references_in_parquet_whose_place_does_not_say_so_are_named():
    """Without their files of references, all chunks would appear to be missing."""
    files = fsspec.filesystem("memory")
    files.pipe_file("/plain/refs/.zmetadata", (folder() / "combined.parquet/.zmetadata").read_bytes())
    try:
        with pytest.raises(UsageError, match=r"references in Parquet.*reference://::memory://plain/refs"):
            zarrlift.plan("memory://plain/refs")
    finally:
        files.rm("/plain", recursive=True)


def document(tmp_path: Path, refs: dict, **head) -> Path:
    path = tmp_path / "refs.json"
    path.write_text(json.dumps({"version": 1, **head, "refs": refs}))
    return path


ARRAY = {"zarr_format": 2, "shape": [6], "chunks": [2], "dtype": "|u1", "order": "C"} | {
    "fill_value": 0, "compressor": None, "filters": None
}  # fmt: skip


def archive(**chunks) -> dict:
    """References of one array `a` with three chunks of two bytes."""
    return {".zgroup": {"zarr_format": 2}, "a/.zarray": json.dumps(ARRAY)} | {
        f"a/{name[1:]}": value for name, value in chunks.items()
    }


def test_bytes_in_the_document_are_text_or_base64(tmp_path):
    encoded = "base64:" + base64.b64encode(bytes([200, 201])).decode()
    source = document(tmp_path, archive(_0="\x01\x02", _1=encoded))
    group = zarrlift.open(source)
    assert group["a"][:].tolist() == [1, 2, 200, 201, 0, 0]


def test_templates_are_substituted_as_text(tmp_path):
    for name in ("x_0.bin", "text.bin"):
        (tmp_path / name).write_bytes(bytes(range(100)))
    source = document(
        tmp_path,
        archive(_0=["{{f(c='text')}}.bin", 10, 2], _1=["{{u}}_0.bin", 20, 2]),
        templates={"u": "x", "f": "{{c}}"},
    )
    group = zarrlift.open(source, storage_options=allowed(tmp_path))
    assert group["a"][:].tolist() == [10, 11, 20, 21, 0, 0]


def test_generated_references_are_refused_until_they_are_expanded(tmp_path):
    """The example of kerchunk's specification, and what the advice makes of it."""
    for name in ("x_0.bin", "x_1.bin"):
        (tmp_path / name).write_bytes(bytes(range(100)))
    source = document(
        tmp_path,
        archive(),
        templates={"u": f"{tmp_path}/x", "f": "{{c}}"},
        gen=[
            {
                "key": "a/{{i + 1}}",
                "url": "{{u}}_{{i}}.bin",  # as in the specification, there with a host
                "offset": "{{(i + 1) * 20}}",
                "length": "2",
                "dimensions": {"i": {"stop": 2}},
            }
        ],
    )
    with pytest.raises(UnsupportedError, match=r"references are generated.*found gen.*fsspec .*or kerchunk"):
        zarrlift.plan(source, storage_options=allowed(tmp_path))
    expanded = fsspec.filesystem("reference", fo=str(source), simple_templates=False).references
    source.write_text(json.dumps({"version": 1, "refs": expanded}))
    group = zarrlift.open(source, storage_options=allowed(tmp_path))
    assert group["a"][:].tolist() == [0, 0, 20, 21, 40, 41]


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}", "{{u.upper()}}", "{{u|upper}}", "{{f(c=open('x'))}}", "{{9**9**9}}",
        "{{missing}}",
        "{{" + "(" * 150 + "1" + ")" * 150 + "}}", "{{'a' * 9999999999}}", "{{[1][0]}}", "{{1 // 0}}",
    ],
)  # fmt: skip
def test_other_templates_are_refused_by_name(tmp_path, text):
    source = document(tmp_path, archive(_0=[f"{text}.bin", 0, 2]), templates={"u": "x", "f": "{{c}}"})
    (problem,) = refusals(zarrlift.plan(source, storage_options=allowed(tmp_path)))
    assert problem.node == "a"
    assert "template" in str(problem.found)


def test_all_bad_references_are_named_by_key(tmp_path):
    (tmp_path / "x.bin").write_bytes(bytes(10))
    source = document(
        tmp_path,
        {
            ".zgroup": {"zarr_format": 2},
            "a/.zarray": ARRAY,
            "a/0": ["x.bin", 9, 2],
            "a/1": ["x.bin", -1, 2],
            "a/2": ["gone.bin", 0, 2],
            "b/.zarray": ARRAY,
            "b/0": "base64:%%%",
            "b/1": ["x.bin", 0],
            "b/2": [None, 0, 2],
            "c/.zarray": ARRAY,
            "c/0": ["x.bin", 0, 2],
        },
    )
    plan = zarrlift.plan(source, storage_options=allowed(tmp_path))
    told = {problem.node: str(problem.found) for problem in refusals(plan)}
    assert told.keys() == {"a", "b"}
    assert "a/0 (bytes 9 to 11 of an object of 10 bytes: x.bin)" in told["a"]
    assert "a/1 (offset and length [-1, 2])" in told["a"]
    assert "a/2 (no such object: gone.bin)" in told["a"]
    assert all(f"b/{number} (" in told["b"] for number in range(3))
    opened = open_storage(source, storage_options=allowed(tmp_path))
    for key in ("a/0", "a/1", "a/2", "b/0"):  # never a missing chunk, never other bytes
        with pytest.raises(StorageError, match="a reference"):
            opened.get(key)
    assert opened.get("c/0") == bytes(2)
    assert opened.get("c/1") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"version": 1, "refs": {"../x": "a"}}', "no object within the archive.*../x"),
        (b'{"version": 1, "refs": {"/etc/x": "a"}}', "no object within the archive"),
        (b'{"version": 1, "refs": {"a/": "a"}}', "no object within the archive"),
        (b'{"version": 2, "refs": {}}', "version of these references is unknown.*2"),
        (b'{"refs": {}}', "version of these references is unknown.*None"),
        (b'{"version": 1, "refs": {"a": "b"}', "not a document of references.*invalid JSON"),
        (b'{"version": 1, "refs": {"a": "b",}}', "not a document of references.*invalid JSON"),
        (b'{"version": 1, "refs": {}} more', "not a document of references.*invalid JSON"),
        (b"{" * 100_000, "not a document of references"),
        (b'{"version": 1, "refs": {"a": ' + b"[" * 100_000, "not a document of references"),
        (b'{"version": 1, "refs": {}, "templates": {"u": 1}}', "a template is not a text"),
        (b"\x28\xb5\x2f\xfd nothing", "invalid Zstandard"),
        (b'{"version": 1, "refs": {}, "gen": [{}]}', "references are generated"),
    ],
)
def test_a_bad_document_is_refused(tmp_path, content, message):
    (tmp_path / "refs.json").write_bytes(content)
    with pytest.raises((UsageError, MetadataError, UnsupportedError), match=message):
        open_storage(tmp_path / "refs.json")


@pytest.mark.parametrize("damage", ["cut", "no parquet", "few rows", "not text"])
def test_a_bad_file_of_references_is_an_error(tmp_path, damage):
    copied = shutil.copytree(folder() / "combined.parquet", tmp_path / "refs.parquet")
    place = copied / "packed" / "refs.1.parq"
    if damage == "cut":
        place.write_bytes(place.read_bytes()[:-100])
    elif damage == "no parquet":
        place.write_bytes(b"{}")
    elif damage == "few rows":
        metadata = json.loads((copied / ".zmetadata").read_bytes())
        (copied / ".zmetadata").write_text(json.dumps(metadata | {"record_size": 5}))
    else:
        shutil.copy(copied / "packed" / "refs.0.parq", place)
        (copied / ".zmetadata").write_text('{"record_size": true, "metadata": {}}')
        with pytest.raises(MetadataError, match="record_size is invalid"):
            open_storage(copied)
        return
    plan = zarrlift.plan(copied, storage_options=allowed(tmp_path))
    (problem,) = (problem for problem in refusals(plan) if problem.node == "packed")
    assert "file of references" in problem.message


def test_references_are_read_only(tmp_path):
    source = document(tmp_path, archive(_0="ab"))
    with pytest.raises(UsageError, match="file exists"):
        zarrlift.migrate(source, in_place=True)
    with pytest.raises(UsageError, match="read-only"):
        open_storage(source).put("a/1", b"ab")


def test_an_unknown_codec_is_refused_by_name(tmp_path):
    grib = ARRAY | {"filters": [{"id": "grib", "var": "t2m"}]}
    source = document(tmp_path, {"a/.zarray": grib, "a/0": "ab", ".zgroup": {"zarr_format": 2}})
    (refused,) = refusals(zarrlift.plan(source))
    assert "grib" in str(refused)
