"""How objects get their names: one that is there is never missing for a moment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zarrlift.core.codecs.base import Buffer, HeadAndTail
from zarrlift.storage.local import writer as module
from zarrlift.storage.local.new_directories import writing
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.local.writer import LocalWriter
from zarrlift.storage.writer import DestinationError


class Anything:
    """A look that finds nothing wrong."""

    def check(self, ends: HeadAndTail) -> bool:
        return True

    def check_whole(self, data: Buffer) -> None:
        raise AssertionError


@pytest.fixture
def writer(tmp_path: Path) -> LocalWriter:
    (tmp_path / "source").write_bytes(b"a chunk")
    (tmp_path / "out").mkdir()
    return LocalWriter(LocalStorage(tmp_path / "out"), "0123abcd")


def test_a_name_of_the_same_file_is_left(
    writer: LocalWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resume may link what an array that is visible already consists of."""
    os.link(tmp_path / "source", tmp_path / "out/0")
    for call in ("unlink", "replace", "rename"):
        monkeypatch.delattr(module.os, call)
    assert writer.link(str(tmp_path / "source"), "0", Anything()) == 7


def test_a_link_replaces_another_file_at_once(
    writer: LocalWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out/0"
    target.write_bytes(b"another")
    link = os.link

    def linked(source: str, name: str) -> None:
        assert target.exists()
        link(source, name)

    with monkeypatch.context() as patched:
        patched.setattr(module.os, "link", linked)
        patched.setattr(module.os, "unlink", lambda path: (path != str(target)) or pytest.fail("unlinked"))
        assert writer.link(str(tmp_path / "source"), "0", Anything()) == 7
    assert target.samefile(tmp_path / "source")
    writer.close()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["0"]


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_new_directory_appears_with_its_objects(
    writer: LocalWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.delattr(module.os, "replace")
    with writing(writer) as write:
        write("c/0/0", b"a")
        write("c/0/1", b"b")
        assert not (out / "c").exists()
        write("c/1/0", b"c")
        assert _names(out / "c") == ["0/0", "0/1"]
    assert _names(out / "c") == ["0/0", "0/1", "1/0"]
    writer.close()
    assert [path.name for path in out.iterdir()] == ["c"]


@pytest.mark.parametrize("linked", [False, True])
def test_a_directory_that_another_task_has_made_is_added_to(
    writer: LocalWriter, tmp_path: Path, linked: bool
) -> None:
    out = tmp_path / "out"
    with writing(writer) as write:
        write("c/0/0", b"mine")
        write("c/0/1", b"mine")
        theirs = tmp_path / "elsewhere" if linked else out / "c/0"
        theirs.mkdir(parents=True)
        if linked:
            (out / "c").mkdir()
            (out / "c/0").symlink_to(theirs, target_is_directory=True)
        (theirs / "1").write_bytes(b"theirs")
        (theirs / "2").write_bytes(b"theirs")
    assert {name: (out / "c/0" / name).read_bytes() for name in ("0", "1", "2")} == {
        "0": b"mine",
        "1": b"mine",
        "2": b"theirs",
    }
    with writing(writer) as write:
        write("c/0/3", b"later")
    assert (theirs / "3").read_bytes() == b"later"
    writer.close()
    assert [path.name for path in out.iterdir()] == ["c"]


def test_of_a_directory_that_fails_nothing_is_seen(writer: LocalWriter, tmp_path: Path) -> None:
    def fail() -> None:
        with writing(writer) as write:
            write("c/0/0", b"a")
            write("c/1/0", b"b")
            raise KeyError

    for _ in range(2):  # nothing is left that the next task would publish
        with pytest.raises(KeyError):
            fail()
        assert _names(tmp_path / "out") == ["c/0/0"]


@pytest.mark.parametrize("level", ["c", "c/0"])
def test_a_file_in_the_place_of_a_directory_is_an_error(
    writer: LocalWriter, tmp_path: Path, level: str
) -> None:
    place = tmp_path / "out" / level
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"a file")
    with pytest.raises(DestinationError, match="c/0"), writing(writer) as write:
        write("c/0/0", b"a")
    assert _names(tmp_path / "out") == [level]


@pytest.mark.parametrize("fields", [{"fsync": True}, {"in_place": True}])
def test_other_writers_rename_every_object(tmp_path: Path, fields: dict[str, bool]) -> None:
    with writing(LocalWriter(LocalStorage(tmp_path), "0123abcd", **fields)) as write:
        write("c/0/0", b"a")
        assert (tmp_path / "c/0/0").read_bytes() == b"a"


def test_with_fsync_a_file_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    named: list[bool] = []
    fsync, rename = os.fsync, os.replace

    def syncs(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def renames(source: str, target: str) -> None:
        named.append(os.stat(source).st_ino in synced)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", syncs)
    monkeypatch.setattr(os, "replace", renames)
    (tmp_path / "out").mkdir()
    writer = LocalWriter(LocalStorage(tmp_path / "out"), "0123abcd", fsync=True)
    (tmp_path / "whole").write_bytes(b"a payload")
    writer.write("c/0/0", b"a")
    writer.copy(str(tmp_path / "whole"), "c/0/1", Anything())
    stream = writer.stream("c/0/2")
    stream.append([b"a"])
    stream.finish()
    assert named == [True, True, True]
    directory = (tmp_path / "out/c/0").stat().st_ino
    synced.clear()
    writer.settle()
    assert directory in synced
