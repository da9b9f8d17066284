"""Archives are found by their documents, each once, and what cannot be searched is named."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from json import dumps
from pathlib import Path
from typing import Any

import pytest
from tests.support.bucket import Bucket, serving
from tests.support.v2_trees import ARRAY, GROUP, tree

from zarrlift.formats.detect import detect
from zarrlift.formats.search import FoundArchive, is_tree, search
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.open_storage import open_storage, place_below
from zarrstack.core.errors import MetadataError, Problem, StorageError, UsageError

N5 = {"dimensions": [1], "blockSize": [1], "dataType": "uint8"}
V1 = {"zarr_format": 1}
V3 = {"zarr_format": 3, "node_type": "group"}
V3_ARRAY = {"zarr_format": 3, "node_type": "array"}
DRAFT = {"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0", "extensions": []}

TREES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "all formats": (
        {
            "1.zarr/.zgroup": GROUP,
            "1.zarr/a/.zarray": ARRAY,
            "1.zarr/a/0.0": b"x",
            "deep/er/2/zarr.json": V3,
            "deep/er/2/a/zarr.json": V3_ARRAY,
            "3/zarr.json": DRAFT,
            "3/meta/root/a.array.json": {},
            "4/attributes.json": {"n5": "2.0.0"},
            "5/.zmetadata": {},
            "6.zarr/meta": V1,
            "notes.txt": b"",
        },
        {
            "1.zarr": "zarr2",
            "3": "zarr3-draft",
            "4": "n5",
            "5": "zarr2",
            "6.zarr": "zarr1",
            "deep/er/2": "zarr3",
        },
    ),
    "arrays without a group": (
        {"x/a/.zarray": ARRAY, "x/b/.zarray": ARRAY, "y/c/meta": V1, "z/s0/attributes.json": N5},
        {"x": "zarr2", "y": "zarr1", "z": "n5"},
    ),
    "arrays with the names of archives": (
        {"a.zarr/.zarray": ARRAY, "b.ZARR/.zarray": ARRAY, "c.n5/attributes.json": N5},
        {"a.zarr": "zarr2", "b.ZARR": "zarr2", "c.n5": "n5"},
    ),
    "an array among groups": (
        {"a/.zarray": ARRAY, "g/.zgroup": GROUP, "g/b/.zarray": ARRAY},
        {"a": "zarr2", "g": "zarr2"},
    ),
    "arrays of two formats": (
        {"a/.zarray": ARRAY, "b/attributes.json": N5},
        {"a": "zarr2", "b": "n5"},
    ),
    "a name of an archive": (
        {
            "old.n5/c0/s0/attributes.json": N5,
            "old.n5/c1/s0/attributes.json": N5,
            "lost.zarr/g/.zgroup": GROUP,
        },
        {"lost.zarr": "zarr2", "old.n5": "n5"},
    ),
    "archives of two formats below such a name": (
        {"all.zarr/a.zarr/.zgroup": GROUP, "all.zarr/b.n5/attributes.json": N5},
        {"all.zarr/a.zarr": "zarr2", "all.zarr/b.n5": "n5"},
    ),
    "a draft without its entry point": (
        {"d/meta/root/a.array.json": {}, "d/data/root/a/c0": b"x"},
        {"d": "zarr3-draft"},
    ),
    "a broken document": ({"a/zarr.json": b"{", "b/.zgroup": b""}, {"a": "zarr3", "b": "zarr2"}),
    "hidden": ({".git/a/.zgroup": GROUP, ".x/.zgroup": GROUP, "a/.zgroup": GROUP}, {"a": "zarr2"}),
    "the place itself": ({".zgroup": GROUP, "a/.zgroup": GROUP}, {"": "zarr2"}),
    "the place itself, without a group": ({"a/.zarray": ARRAY, "b/.zarray": ARRAY}, {"": "zarr2"}),
    "nothing": ({"a/b.txt": b"", "attributes.json": {"mine": 1}, "meta": b"x"}, {}),
}


def found(place: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Relative path -> format of each archive, or the message of each problem."""
    return {
        (each.node or "") if isinstance(each, Problem) else each.relative: each.message
        if isinstance(each, Problem)
        else each.format
        for each in search(place, **options)
    }


def describes(url: str, **options: Any) -> str:
    """The format that is detected where the search found an archive; that of a broken document is v3."""
    try:
        return detect(open_storage(url, **options))
    except MetadataError as error:
        return "zarr3" if error.problem.key == "zarr.json" else str(error)


@pytest.mark.parametrize("name", TREES)
def test_archives_are_found_by_their_documents(tmp_path: Path, name: str) -> None:
    entries, expected = TREES[name]
    storage = tree(tmp_path / "t", entries)
    archives = list(search(tmp_path / "t"))
    assert {each.relative: each.format for each in archives if isinstance(each, FoundArchive)} == expected
    assert len(archives) == len(expected)
    for each in archives:
        assert isinstance(each, FoundArchive)
        assert describes(each.url) == each.format
    assert is_tree(tmp_path / "t", storage) == ("" not in expected)


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with serving() as made:
        yield made


@pytest.mark.slow(one_in=4)
@pytest.mark.parametrize("name", TREES)
def test_a_store_is_searched_as_a_folder(bucket: Bucket, name: str) -> None:
    entries, expected = TREES[name]
    content = {
        key: each if isinstance(each, bytes) else dumps(each).encode() for key, each in entries.items()
    }
    url = bucket.put(f"search/{name.replace(' ', '-')}", content)
    archives = list(search(url, storage_options=bucket.options))
    assert {each.relative: each.format for each in archives if isinstance(each, FoundArchive)} == expected
    for each in archives:
        assert isinstance(each, FoundArchive)
        assert describes(each.url, storage_options=bucket.options) == each.format


def test_a_glob_searches_its_matches(tmp_path: Path, bucket: Bucket) -> None:
    entries = {
        "2019/a.zarr/.zgroup": b"{}",
        "2019/a.zarr/labels/.zgroup": b"{}",
        "2019/b.n5/attributes.json": b'{"n5": "2.0.0"}',
        "2020/x/c.zarr/.zgroup": b"{}",
        "old/d.zarr/zarr.json": dumps(V3).encode(),
    }
    tree(tmp_path, entries)
    places = {str(tmp_path): {}, bucket.put("glob", entries): {"storage_options": bucket.options}}
    for place, options in places.items():
        assert found(f"{place}/*/*.zarr", **options) == {"2019/a.zarr": "zarr2", "old/d.zarr": "zarr3"}
        assert found(f"{place}/20*", **options) == {
            "2019/a.zarr": "zarr2",
            "2019/b.n5": "n5",
            "2020/x/c.zarr": "zarr2",
        }
        assert found(f"{place}/**/*.zarr", **options).keys() == {"2019/a.zarr", "2020/x/c.zarr", "old/d.zarr"}
        assert found(f"{place}/2019/*.zarr/labels", **options) == {"a.zarr/labels": "zarr2"}
        assert found(f"{place}/**/labels", **options) == {}  # that one is in the tree of another archive
        assert found(f"{place}/*/[ab].*", **options).keys() == {"2019/a.zarr", "2019/b.n5"}


def test_a_folder_named_like_a_glob_is_one(tmp_path: Path) -> None:
    tree(tmp_path / "scans[1]", {"a/.zgroup": GROUP})
    assert found(tmp_path / "scans[1]") == {"a": "zarr2"}


def test_nodes_of_another_format_are_nested(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "t/a.n5/attributes.json": {"n5": "2.0.0"},
            "t/a.n5/plain/v2/.zgroup": GROUP,
            "t/a.n5/plain/v2/inner/attributes.json": {"n5": "2.0.0"},
            "t/a.n5/c0/attributes.json": N5,
            "t/a.n5/c0/0/.zgroup": GROUP,
            "t/b.zarr/.zgroup": GROUP,
            "t/b.zarr/implicit/g/.zgroup": GROUP,
            "t/b.zarr/implicit/new/zarr.json": V3,
        },
    )
    assert [(each.relative, each.nested) for each in search(tmp_path) if isinstance(each, FoundArchive)] == [
        ("t/a.n5", ("t/a.n5/plain/v2",)),
        ("t/b.zarr", ("t/b.zarr/implicit/new",)),
    ]


def test_directories_of_arrays_are_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(
        tmp_path,
        {
            "a.zarr/.zgroup": GROUP,
            "a.zarr/x/.zarray": ARRAY,
            "b/attributes.json": {"n5": "2.0.0"},
            "b/c0/attributes.json": N5,
            "c/zarr.json": V3,
            "c/y/zarr.json": V3_ARRAY,
            "d/z/meta": V1,
        },
    )
    listed: list[str] = []
    scandir = LocalStorage.scandir

    def recorded(storage: LocalStorage, prefix: str) -> Any:
        listed.append(prefix)
        return scandir(storage, prefix)

    monkeypatch.setattr(LocalStorage, "scandir", recorded)
    assert len(found(tmp_path)) == 4
    assert sorted(listed) == ["", "a.zarr", "b", "c", "d"]


def test_what_cannot_be_searched_is_named_and_the_others_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(
        tmp_path, {"a/.zgroup": GROUP, "closed/b/.zgroup": GROUP, "empty.zarr/x.txt": b"", "z/.zgroup": GROUP}
    )
    tree(tmp_path / "two", {".zgroup": GROUP, "zarr.json": V3})
    (tmp_path / "bad.zarr.zip").write_bytes(b"")
    (tmp_path / "bad.zip").write_bytes(b"")
    scandir = LocalStorage.scandir

    def refused(storage: LocalStorage, prefix: str) -> Any:
        if prefix == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(storage, prefix)

    monkeypatch.setattr(LocalStorage, "scandir", refused)
    assert found(tmp_path) == {
        "a": "zarr2",
        "bad.zarr.zip": f"{tmp_path / 'bad.zarr.zip'} is an empty file, not an archive",
        "closed": "cannot list",
        "empty.zarr": "no archive found",
        "two": "the archive has metadata of two formats",
        "z": "zarr2",
    }


def test_a_document_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, {"a/.zgroup": GROUP, "b/.zgroup": GROUP})
    get = LocalStorage.get

    def refused(storage: LocalStorage, key: str, *rest: Any) -> bytes | None:
        if key == "a/.zgroup":
            raise StorageError("cannot read", key=key)
        return get(storage, key, *rest)

    monkeypatch.setattr(LocalStorage, "get", refused)
    assert found(tmp_path) == {"a": "cannot read", "b": "zarr2"}


def test_each_archive_is_found_once_whatever_links_lead_to_it(tmp_path: Path) -> None:
    tree(tmp_path / "t", {"a.zarr/.zgroup": GROUP, "a.zarr/g/.zgroup": GROUP, ".store/b/.zgroup": GROUP})
    tree(tmp_path / "outside", {"c/.zgroup": GROUP})
    t = tmp_path / "t"
    for name, target in {
        "again": t / "a.zarr",
        "part": t / "a.zarr" / "g",
        "kept": t / ".store" / "b",
        "up": t,
        "elsewhere": tmp_path / "outside",
        "too": tmp_path / "outside" / "c",
        "gone.zarr": tmp_path / "nothing",
    }.items():
        (t / name).symlink_to(target)
    inside = {"a.zarr": "zarr2", "kept": "zarr2", "gone.zarr": "a link leads nowhere"}
    not_followed = "a link points outside the searched place and is not followed"
    assert found(t) == inside | {"elsewhere": not_followed, "too": not_followed}
    assert found(t, follow_links=True) == inside | {"elsewhere/c": "zarr2"}


def test_zip_files_are_archives_if_one_is_in_them_and_tar_files_are_none(tmp_path: Path) -> None:
    for name, member in {"a.zip": "x/.zgroup", "b.zip": "x.txt", "c.ZIP": "zarr.json"}.items():
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            file.writestr(member, dumps(V3))
    (tmp_path / "x").mkdir()
    (tmp_path / "x/.zgroup").write_text('{"zarr_format": 2}')
    for name in ("d.tar", "e.zarr.tar"):
        with tarfile.open(tmp_path / name, "w") as packed:
            packed.add(tmp_path / "x", "x")
    shutil.rmtree(tmp_path / "x")
    tar = f"{tmp_path / 'e.zarr.tar'} is a tar file, not an archive"
    assert found(tmp_path) == {"a.zip": "zarr2", "c.ZIP": "zarr3", "e.zarr.tar": tar}


def test_a_place_that_cannot_be_searched_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or directory"):
        list(search(tmp_path / "nothing"))


def test_a_url_keeps_what_opens_it() -> None:
    assert place_below("s3://bucket/p/", "a/b") == "s3://bucket/p/a/b"
    assert place_below("zip::s3://bucket/x.zip", "a") == "zip://a::s3://bucket/x.zip"
    assert place_below("file:///d", "a b#c") == "file:///d/a%20b%23c"
    assert "secret" not in repr(FoundArchive(url="ftp://me:secret@host/a", relative="a", format="zarr2"))
