"""Archives in databases, as zarr-python 2's SQLiteStore, LMDBStore and DBMStore wrote them."""

from __future__ import annotations

import dbm.dumb
import importlib
import multiprocessing
import os
import shutil
import sqlite3
import sys
from pathlib import Path

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.job_archives import tree, write_archive
from tests.support.optional_archives import KINDS, database_of, optional, seen, seen_by_zarr2, values_of

import zarrlift
from zarrlift.formats.describe import describe
from zarrlift.storage.containers.database import Database, DatabaseStorage
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote.store_storage import tree_of
from zarrstack.core.errors import StorageError, UsageError

WRITTEN = {
    "store.sqlite": None,
    "store.lmdb": None,
    "file.lmdb": None,
    "dumb.dir": None,
    "gdbm": "dbm.gnu",
    "ndbm.db": "dbm.ndbm",
}
"""Databases by zarr-python 2.18, and the module of Python that some of them need."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_archive(tmp_path_factory.mktemp("plain") / "a.zarr")


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Path:
    return database_of(request.param, folder, tmp_path / "there" / "store")


def has(module: str | None) -> bool:
    try:
        importlib.import_module(module or "dbm")
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("name", WRITTEN)
def test_a_database_by_zarr_2_is_migrated_and_untouched(name: str, tmp_path: Path) -> None:
    place = tmp_path / "there" / name
    shutil.copytree(optional() / "databases", tmp_path / "there")
    before = tree(tmp_path / "there")
    if not has(WRITTEN[name]):
        with pytest.raises(UsageError, match=rf"{name} is a database of {WRITTEN[name]}, a module that this"):
            open_storage(place)
        return
    outcome = zarrlift.migrate(place, tmp_path / "new.zarr", job=tmp_path / "job.db")
    assert outcome.ok, outcome.problems
    recorded = seen_by_zarr2()[f"databases/{name.removesuffix('.dir').removesuffix('.db')}"]
    assert seen(tmp_path / "new.zarr") == values_of(recorded)
    assert zarrlift.verify(place, tmp_path / "new.zarr", full=True).ok
    assert tree(tmp_path / "there") == before


def test_a_database_of_dbm_may_be_given_by_its_name_or_its_data() -> None:
    index = open_storage(optional() / "databases/dumb.dir")
    for name in ("dumb", "dumb.dat"):
        assert open_storage(optional() / "databases" / name).url == index.url


def test_the_sqlite_flavour_of_dbm_is_read(folder: Path, tmp_path: Path) -> None:
    """Written by hand, since `dbm.sqlite3` is new in Python 3.13."""
    with sqlite3.connect(tmp_path / "store.db") as made:
        made.execute("CREATE TABLE Dict (key BLOB UNIQUE NOT NULL, value BLOB NOT NULL)")
        rows = (
            (file.relative_to(folder).as_posix().encode(), file.read_bytes())
            for file in folder.rglob("*")
            if file.is_file()
        )
        made.executemany("INSERT INTO Dict VALUES (?, ?)", rows)
    made.close()
    assert tree_in(open_storage(tmp_path / "store.db")) == tree(folder)


def tree_in(storage: object) -> dict[str, bytes | None]:
    assert isinstance(storage, DatabaseStorage)
    return {key: storage.get(key) for key in storage.list_prefix("")}


def test_every_object_is_listed_and_read(database: Path, folder: Path) -> None:
    storage = open_storage(database)
    assert tree_in(storage) == tree(folder)
    assert storage.get("g/none") is None
    assert storage.get_part("g/relink/.zarray", 1, 4) == (folder / "g/relink/.zarray").read_bytes()[1:5]
    assert storage.get_part("g/relink/.zarray", -2, 2) == (folder / "g/relink/.zarray").read_bytes()[-2:]
    assert storage.size("g/relink/0.0") == (folder / "g/relink/0.0").stat().st_size
    assert {(entry.name, entry.is_dir) for entry in storage.list_dir("g")} == {
        (path.name, path.is_dir()) for path in (folder / "g").iterdir()
    }
    with pytest.raises(UsageError, match="may not leave the archive's root"):
        storage.get("../other")
    with pytest.raises((StorageError, UsageError), match=r"read-only|cannot be written"):
        storage.put("new", b"")


def test_an_archive_below_the_root_is_opened_by_its_path(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "whole/one/inner")
    for kind in KINDS:
        place = database_of(kind, tmp_path / "whole", tmp_path / f"{kind}.store")
        found = open_storage(place)
        assert found.url == f"{place}/one/inner"
        assert tree_in(open_storage(found.url)) == tree(folder)
        assert [node.path for node in describe(open_storage(f"{found.url}/g")).nodes] == [
            "",
            "recode",
            "relink",
        ]
        with pytest.raises(UsageError, match="no such directory in the database"):
            open_storage(f"{place}/two")


@pytest.mark.slow
def test_workers_in_other_processes_open_the_database_themselves(
    database: Path, folder: Path, tmp_path: Path
) -> None:
    assert zarrlift.migrate(folder, tmp_path / "right.zarr").ok
    assert zarrlift.migrate(database, tmp_path / "new.zarr", executor="processes", workers=2).ok
    assert tree(tmp_path / "new.zarr") == tree(tmp_path / "right.zarr")


@pytest.mark.slow(one_in=3)
def test_a_forked_process_opens_the_database_again(database: Path, folder: Path) -> None:
    storage = open_storage(database)
    assert storage.get(".zmetadata") is not None
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=lambda: answers.put(storage.get("h/rewrite/0.0")))
    child.start()
    assert answers.get(timeout=60) == (folder / "h/rewrite/0.0").read_bytes()
    child.join()
    assert storage.get("g/relink/0.0") == (folder / "g/relink/0.0").read_bytes()


# ----- without a package, and what is no archive


def test_without_lmdb_its_name_and_the_extra_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(
        UsageError, match=r"is an LMDB database.*expected lmdb.*pip install lmdb .*extra stores"
    ):
        zarrlift.plan(optional() / "databases/store.lmdb", tmp_path / "new.zarr")


def test_another_sqlite_database_is_no_archive(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as other:
        other.execute("CREATE TABLE words(k TEXT, v TEXT)")
        other.execute("CREATE VIEW zarr AS SELECT * FROM words")
    other.close()
    with pytest.raises(
        UsageError, match=r"SQLite database, not an archive; found tables words; .* SQLiteStore"
    ):
        open_storage(tmp_path / "a.db")


def test_a_database_is_no_destination(database: Path, folder: Path) -> None:
    before = tree(database.parent)
    with pytest.raises((UsageError, StorageError)):
        zarrlift.migrate(folder, database)
    with pytest.raises((UsageError, StorageError)):
        zarrlift.migrate(database, in_place=True)
    assert tree(database.parent) == before


# ----- damage, and writers at work


def test_a_database_that_is_cut_short_is_one_clear_error(database: Path, tmp_path: Path) -> None:
    files = sorted(file for file in database.parent.rglob("*") if file.is_file() and file.suffix != ".bak")
    data = max(files, key=lambda file: file.stat().st_size)
    os.truncate(data, data.stat().st_size // 2)
    with pytest.raises(StorageError, match=r"the database cannot be read.*restore it from a backup"):
        tree_in(open_storage(database))


@pytest.mark.parametrize("line", ["nonsense\n", "'a', 5\n", "'a', (0, 10**99)\n", "'a', (-1, 1)\n"])
def test_a_damaged_index_of_dbm_is_one_clear_error(line: str, folder: Path, tmp_path: Path) -> None:
    index = database_of("dumb", folder, tmp_path / "store")
    index.write_text(index.read_text() + line)
    with pytest.raises(StorageError, match="the database cannot be read"):
        open_storage(index)


def test_a_locked_database_is_one_clear_error(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = database_of("sqlite", folder, tmp_path / "store")
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **options: connect(*args, **{**options, "timeout": 0})
    )
    writer = connect(place, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StorageError, match=r"locked.*Stop its writers"):
        open_storage(place)
    writer.close()


def test_a_journal_that_a_killed_writer_left_is_not_ignored(folder: Path, tmp_path: Path) -> None:
    place = database_of("sqlite", folder, tmp_path / "store")
    writer = sqlite3.connect(place, isolation_level=None)
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN")
    writer.execute("UPDATE zarr SET v = randomblob(5000)")
    shutil.copyfile(place, tmp_path / "copy")
    shutil.copyfile(f"{place}-journal", tmp_path / "copy-journal")
    writer.close()
    with pytest.raises(StorageError, match="the database cannot be read"):
        tree_in(open_storage(tmp_path / "copy"))


def test_a_database_with_a_log_is_read_with_what_the_log_holds(folder: Path, tmp_path: Path) -> None:
    place = database_of("sqlite", folder, tmp_path / "there" / "store")
    writer = sqlite3.connect(place, isolation_level=None)
    writer.execute("PRAGMA journal_mode = wal")
    writer.close()
    before = tree(place.parent)
    assert tree_in(open_storage(place)) == tree(folder)
    assert tree(place.parent) == before  # neither a log nor an index of it was created
    writer = sqlite3.connect(place, isolation_level=None)
    writer.execute("UPDATE zarr SET v = ? WHERE k = 'new'", (b"",))
    writer.execute("INSERT INTO zarr VALUES ('new', ?)", (b"in the log",))
    assert open_storage(place).get("new") == b"in the log"
    writer.close()


def change(kind: str, database: Path, key: str, data: bytes) -> None:
    if kind == "sqlite":
        with sqlite3.connect(database) as writer:
            writer.execute("REPLACE INTO zarr VALUES (?, ?)", (key, data))
        writer.close()
    elif kind == "lmdb":
        options = {"map_size": 64 << 20, "lock": False}
        with lmdb.open(str(database), **options) as environment, environment.begin(write=True) as txn:
            txn.put(key.encode(), data)
    else:
        with dbm.dumb.open(str(database.with_suffix("")), "w") as writer:
            writer[key] = data


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_chunk_that_changes_after_the_plan_is_no_part_of_the_result(
    kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes; its database has another state from then on."""
    from zarrlift.jobs.executors import RunEngine

    database = database_of(kind, folder, tmp_path / "store")
    source = open_storage(database)
    data = (folder / "g/relink/0.0").read_bytes()

    def write(*_: object) -> None:
        child = multiprocessing.get_context("spawn").Process(
            target=change, args=(kind, database, "g/relink/0.0", (folder / "g/relink/1.1").read_bytes())
        )
        child.start()
        child.join()

    begin = RunEngine.__init__

    def begin_late(self: object, *args: object, **options: object) -> None:
        write()
        begin(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(RunEngine, "__init__", begin_late)
    outcome = zarrlift.migrate(source, tmp_path / "new.zarr", verify="none")
    assert not outcome.ok
    assert any("changed" in str(p) or "rewritten" in str(p) for p in outcome.problems), outcome.problems
    assert not (tmp_path / "new.zarr/g/relink/zarr.json").exists()
    assert data == (folder / "g/relink/0.0").read_bytes()
    monkeypatch.undo()
    again = zarrlift.migrate(database, tmp_path / "again.zarr")
    assert again.ok
    right = (folder / "g/relink/1.1").read_bytes()
    assert (tmp_path / "again.zarr/g/relink/c/0/0").read_bytes() == right


@pytest.mark.slow
def test_a_value_of_lmdb_is_that_of_one_commit(folder: Path, tmp_path: Path) -> None:
    """While a value is copied, a writer commits twice: its pages may be used again."""
    database = database_of("lmdb", folder, tmp_path / "store")
    storage = open_storage(database)
    reader = storage.database  # type: ignore[attr-defined]
    commits = 0

    def ask(txn: lmdb.Transaction) -> bytes:
        nonlocal commits
        value = bytes(txn.get(b"changing") or b"")
        if commits < 2:
            commits += 1
            child = multiprocessing.get_context("spawn").Process(
                target=change, args=("lmdb", database, "changing", b"%d" % commits * 100)
            )
            child.start()
            child.join()
        return value

    assert reader._read(ask) == b"2" * 100


# ----- names


class InMemory(Database):
    def __init__(self, keys: set[str]) -> None:
        super().__init__(Path("memory"))
        self.keys = sorted(keys)

    def get(self, key: str, most: int | None = None) -> bytes | None:
        raise NotImplementedError

    def size(self, key: str) -> int | None:
        raise NotImplementedError

    def page(self, start: str, most: int) -> list[tuple[str, int | None]]:
        return [(key, None) for key in self.keys if key >= start][:most]

    def state(self) -> str:
        return ""


NAMES = st.sampled_from(["a", "a.b", "a0", "a-", "b", "é", "\U0001d4b5"])
KEYS = st.sets(st.lists(NAMES, min_size=1, max_size=3).map("/".join), max_size=30)


@given(KEYS, st.integers(1, 4))
def test_the_names_below_a_directory_are_found_by_the_order_of_keys(keys: set[str], page: int) -> None:
    from zarrlift.storage.containers import database

    before, database._PAGE = database._PAGE, page  # type: ignore[misc]
    try:
        store = InMemory(keys)
        expected = tree_of(sorted(keys))
        for directory in ("", "a", "a/a", "b", "none"):
            assert store.children(f"{directory}/" if directory else "") == expected.get(directory, {})
        assert [key for rows in store.rows("a/") for key, _ in rows] == sorted(
            k for k in keys if k.startswith("a/")
        )
    finally:
        database._PAGE = before  # type: ignore[misc]
