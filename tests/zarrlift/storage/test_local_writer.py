"""How objects get their names: whole or not at all, whether they are written at once or piece by piece."""

from __future__ import annotations

import errno
import os
import pickle
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from zarr.core.buffer import cpu

from zarrlift.core.codecs.base import Buffer, HeadAndTail
from zarrlift.storage.base import Storage
from zarrlift.storage.local import files
from zarrlift.storage.local import writer as module
from zarrlift.storage.local.layered_store import LayeredLocalStore
from zarrlift.storage.local.new_directories import writing
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.local.writer import FileStream, LocalWriter
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote import store_writer
from zarrlift.storage.remote.store_writer import SpooledStream, StoreWriter
from zarrlift.storage.writer import DestinationError, ObjectStream, Writer
from zarrstack.core.errors import StorageError
from zarrstack.system.this import system


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

    def linked(source: str, name: str, **directories: int | None) -> None:
        assert target.exists()
        link(source, name, **directories)

    with monkeypatch.context() as patched:
        patched.setattr(module.os, "link", linked)
        patched.setattr(module.os, "unlink", lambda path, dir_fd: path == "0" and pytest.fail("unlinked"))
        assert writer.link(str(tmp_path / "source"), "0", Anything()) == 7
    assert target.samefile(tmp_path / "source")
    writer.close()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["0"]


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_new_directory_appears_with_its_objects(
    writer: LocalWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    renamed: list[str] = []
    replace = os.replace

    def renames(source: str, target: str, **directories: int | None) -> None:
        renamed.append(os.path.basename(target))
        replace(source, target, **directories)

    monkeypatch.setattr(module.os, "replace", renames)
    with writing(writer) as write:
        write("c/0/0", b"a")
        write("c/0/1", b"b")
        assert not (out / "c").exists()
        write("c/1/0", b"c")
        assert _names(out / "c") == ["0/0", "0/1"]
    assert _names(out / "c") == ["0/0", "0/1", "1/0"]
    assert renamed == ["0", "1"]
    writer.close()
    assert [path.name for path in out.iterdir()] == ["c"]


def test_a_directory_that_another_task_has_made_is_added_to(writer: LocalWriter, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with writing(writer) as write:
        write("c/0/0", b"mine")
        write("c/0/1", b"mine")
        theirs = out / "c/0"
        theirs.mkdir(parents=True)
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

    def renames(source: str, target: str, *, src_dir_fd: int | None, dst_dir_fd: int | None) -> None:
        named.append(os.stat(source, dir_fd=src_dir_fd).st_ino in synced)
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

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


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("linked", ["c", "c/0"])
def test_nothing_is_written_through_a_link_below_the_root(
    writer: LocalWriter, tmp_path: Path, linked: str, together: bool
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "0").mkdir(parents=True)
    (elsewhere / "0/1").write_bytes(b"theirs")
    link = tmp_path / "out" / linked
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere, target_is_directory=True)

    def write() -> None:
        with writing(writer) if together else nullcontext(writer.write) as each:
            each("c/0/0", b"mine")

    with pytest.raises(DestinationError) as raised:
        write()
    assert f"a link to {elsewhere} in place of the directory" in str(raised.value.problem.found)
    for call in (
        lambda: writer.copy(str(tmp_path / "source"), "c/0/0", Anything()),
        lambda: writer.link(str(tmp_path / "source"), "c/0/0", Anything()),
        lambda: writer.storage.put("c/0/0", b"mine"),
        lambda: writer.storage.create("c/0/0", b"mine"),
        lambda: writer.storage.delete("c/0/1"),
    ):
        with pytest.raises(StorageError, match="cannot"):
            call()
    assert _names(elsewhere) == ["0/1"]
    assert (elsewhere / "0/1").read_bytes() == b"theirs"


def test_an_open_directory_is_written_to_when_a_link_takes_its_place(
    writer: LocalWriter, tmp_path: Path
) -> None:
    """The root is resolved once, and so is each directory that is being written to."""
    writer.write("c/0/0", b"mine")
    (tmp_path / "elsewhere/c/0").mkdir(parents=True)
    (tmp_path / "out").rename(tmp_path / "away")
    (tmp_path / "out").symlink_to("elsewhere", target_is_directory=True)
    writer.write("c/0/1", b"mine")
    writer.write("c/1/0", b"mine")
    writer.storage.put("zarr.json", b"mine")
    writer.close()
    assert _names(tmp_path / "elsewhere") == []
    assert _names(tmp_path / "away") == ["c/0/0", "c/0/1", "c/1/0", "zarr.json"]


def test_a_worker_writes_only_where_the_directory_of_its_job_is(writer: LocalWriter, tmp_path: Path) -> None:
    writer.prepare()
    (tmp_path / "another").mkdir()
    for root in ("out", "another", "missing"):
        storage = LocalStorage(tmp_path / root)
        storage.attach("0123abcd", worker=True)
        worker = LocalWriter(storage, "0123abcd")
        if root == "out":
            worker.write("c/0", b"mine")
            continue
        with pytest.raises(DestinationError, match="cannot write"):
            worker.write("c/0", b"mine")
    assert _names(tmp_path / "out") == ["c/0"]
    assert list((tmp_path / "another").iterdir()) == []
    assert not (tmp_path / "missing").exists()


# Objects that are written piece by piece: nothing is there before the end, and then all of it.

PARTS = [b"one", memoryview(b"two"), np.arange(3, dtype="<u2").data, b"", b"end"]
WHOLE = b"onetwo" + np.arange(3, dtype="<u2").tobytes() + b"end"


@pytest.fixture(params=["files", "memory", "spooled to disk", "filesystem of fsspec"])
def place(request, tmp_path, monkeypatch) -> Iterator[tuple[Storage, Writer]]:
    """A storage and a writer to it."""
    if request.param == "files":
        storage: Storage = LocalStorage(tmp_path / "out")
        writer: Writer = LocalWriter(LocalStorage(tmp_path / "out"), "job")
    else:
        if request.param != "memory":
            monkeypatch.setattr(store_writer, "SPOOLED", 4)
        url = (
            f"local://{tmp_path.as_posix()}/out"
            if "fsspec" in request.param
            else f"memory://{uuid.uuid4()}/out"
        )
        storage = open_storage(url, mode="w")
        writer = StoreWriter(storage, "0123abcd")
    yield storage, writer
    writer.close()


def append(stream: ObjectStream, times: int = 3) -> None:
    for _ in range(times):
        stream.append(PARTS)


def test_pieces_follow_one_another(place) -> None:
    storage, writer = place
    stream = writer.stream("a/c/0")
    append(stream)
    assert storage.get("a/c/0") is None
    assert stream.size == 3 * len(WHOLE)
    stream.finish()
    assert storage.get("a/c/0") == 3 * WHOLE


def test_room_at_the_start_is_filled_at_the_end(place) -> None:
    storage, writer = place
    stream = writer.stream("a/c/0", reserve=5)
    append(stream)
    assert stream.size == 5 + 3 * len(WHOLE)
    stream.finish(b"index")
    assert storage.get("a/c/0") == b"index" + 3 * WHOLE


def test_what_is_discarded_was_never_there(place) -> None:
    storage, writer = place
    stream = writer.stream("a/c/0")
    append(stream)
    stream.discard()
    stream.discard()
    assert storage.get("a/c/0") is None
    again = writer.stream("a/c/0")
    again.append([b"x"])
    again.finish()
    assert storage.get("a/c/0") == b"x"


@pytest.mark.slow(one_in=5)
def test_more_pieces_than_the_kernel_takes_at_once(place) -> None:
    storage, writer = place
    parts = [bytes([number % 256]) for number in range(3000)]
    stream = writer.stream("a")
    stream.append(parts)
    stream.finish()
    assert storage.get("a") == b"".join(parts)


@pytest.mark.parametrize("most", [1, 4, 7, 1000])
def test_a_disk_that_takes_less_than_it_is_given(most, tmp_path, monkeypatch) -> None:
    """The kernel may write part of what it is given, without an error."""
    write = os.write

    def short(descriptor: int, data: Any) -> int:
        return write(descriptor, memoryview(data)[:most])

    def short_too(descriptor: int, parts: Sequence[Any]) -> int:
        return short(descriptor, b"".join(map(bytes, parts)))

    monkeypatch.setattr(os, "write", short)
    monkeypatch.setattr(os, "writev", short_too, raising=False)
    stream = LocalWriter(LocalStorage(tmp_path), "job").stream("a", reserve=9)
    append(stream)
    stream.finish(b"the index")
    assert (tmp_path / "a").read_bytes() == b"the index" + 3 * WHOLE


@pytest.mark.parametrize("call", ["writev", "write", "replace"])
def test_a_full_disk_ends_the_task_and_leaves_nothing(call, tmp_path, monkeypatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = LocalWriter(LocalStorage(tmp_path), "job")
    stream = writer.stream("a", reserve=3)
    monkeypatch.setattr(os, call, full, raising=False)

    def write_all() -> None:
        append(stream)
        stream.finish(b"abc")

    with pytest.raises(DestinationError, match="cannot write") as raised:
        write_all()
    assert raised.value.problem.key == "a"
    stream.discard()
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


class Full(Storage):
    """A store without room."""

    url = "full:"

    def get(self, key: str, bound: object = None) -> bytes | None:
        return None

    def put(self, key: str, data: bytes) -> None:
        raise StorageError("cannot write", key=key, found="no room")

    delete = list_dir = zarr_store = get  # type: ignore[assignment]


def test_a_store_without_room_ends_the_task() -> None:
    stream = SpooledStream(Full(), "a", 0)
    stream.append(PARTS)
    with pytest.raises(DestinationError, match="cannot write") as raised:
        stream.finish()
    assert (raised.value.problem.key, raised.value.problem.found) == ("a", "no room")


def test_no_room_for_temporary_files_says_where_they_go(monkeypatch) -> None:
    class Unwilling:
        def __init__(self, **_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_writer, "SPOOLED", 4)
    monkeypatch.setattr(tempfile, "TemporaryFile", Unwilling)
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", Unwilling)
    stream = SpooledStream(Full(), "a", 0)
    with pytest.raises(DestinationError, match="temporary file") as raised:
        stream.append(PARTS)
    assert "TMPDIR" in (raised.value.problem.advice or "")


@pytest.mark.parametrize("open_files", [files._OPEN_FILES, "/no/such/place"])
def test_temporary_files_are_gone_at_the_end(open_files, tmp_path, monkeypatch) -> None:
    """And have no name before, where they can do without: a kill would leave it behind."""
    monkeypatch.setattr(files, "_OPEN_FILES", open_files)
    monkeypatch.setattr(store_writer, "SPOOLED", 4)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    storage = open_storage(f"memory://{uuid.uuid4()}/out", mode="w")
    for number, discard in enumerate((True, False)):
        stream = SpooledStream(storage, str(number), 2)
        append(stream)
        assert len(list(tmp_path.iterdir())) == (not Path(open_files).exists())
        if discard:
            stream.discard()
        else:
            stream.finish(b"!!")
        assert list(tmp_path.iterdir()) == []
    assert storage.get("1") == b"!!" + 3 * WHOLE


def test_a_store_that_takes_files_is_given_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(store_writer, "SPOOLED", 4)
    storage = open_storage(f"memory://{uuid.uuid4()}/out", mode="w")
    given: list[tuple[str, int, bool]] = []
    real = type(storage).put_file

    def put_file(self: Storage, key: str, file: IO[bytes], size: int) -> None:
        given.append((key, size, Path(str(files.path_of(file))).stat().st_size == size))
        real(self, key, file, size)

    monkeypatch.setattr(type(storage), "put_file", put_file)
    stream = StoreWriter(storage, "0123abcd").stream("k")
    append(stream)
    stream.finish()
    assert given == [("k", 3 * len(WHOLE), True)]


def test_only_the_job_s_own_directory_holds_what_is_half_written(tmp_path) -> None:
    writer = LocalWriter(LocalStorage(tmp_path), "job")
    stream = writer.stream("deep/down/c/0")
    append(stream)
    assert isinstance(stream, FileStream)
    assert {file.parent.name for file in tmp_path.rglob("*") if file.is_file()} == {".zarrlift-job"}
    stream.finish()
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [tmp_path / "deep/down/c/0"]


@pytest.mark.parametrize("kind", ["storage", "store with layers"])
def test_what_has_written_can_be_sent_to_another_process(kind: str, tmp_path: Path) -> None:
    """The directories that it holds open are those of this process."""
    if kind == "storage":
        storage = LocalStorage(tmp_path)
        storage.put("a/b", b"x")
        assert pickle.loads(pickle.dumps(storage)).get("a/b") == b"x"
        return
    store = LayeredLocalStore(tmp_path)
    store._is_open = True
    store.set_sync("a/b", cpu.Buffer.from_bytes(b"x"))
    other = pickle.loads(pickle.dumps(store))
    other.set_sync("a/c", cpu.Buffer.from_bytes(b"y"))
    assert (tmp_path / "a/b").read_bytes() + (tmp_path / "a/c").read_bytes() == b"xy"


def test_a_read_that_returns_less_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, whole = tmp_path / "file", system.read_at
    path.write_bytes(bytes(range(100)))
    short = staticmethod(lambda descriptor, length, at: whole(descriptor, min(length, 3), at))
    monkeypatch.setattr(type(system), "read_at", short)
    with path.open("rb") as file:
        assert files.read_at(file.fileno(), 16, 84) == bytes(range(84, 100))
        assert files.read_at(file.fileno(), 16, 90) == bytes(range(90, 100))
