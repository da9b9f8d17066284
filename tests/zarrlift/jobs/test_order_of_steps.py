"""The order of steps, which makes a job safe to kill: what is visible is whole, what is recorded is done.

Each test looks at the destination and at the job file right before each change of the destination, as a
reader or a resume would find them if the job were killed there.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zarr
from tests.support.job_archives import tree, write_archive
from tests.support.unpacking import unpacked

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.jobs.branch import NoBranch
from zarrlift.storage.local.storage import LocalStorage
from zarrstack.system.this import system


class Steps:
    """Calls `look(kind, key, content)` before each change below a directory: "appears" or "goes"."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.root = Path(system.long_path(str(root)))
        self.look: Callable[[str, str, bytes], None] = lambda *_: None
        self.seen: list[tuple[str, str]] = []
        self.wrong: list[str] = []
        self._lock = threading.Lock()
        for name in ("replace", "rename", "link"):
            monkeypatch.setattr(os, name, self._appearing(getattr(os, name)))
        deleted = LocalStorage.delete

        def delete(storage: LocalStorage, key: str) -> None:
            self._step("goes", Path(storage.path(key)), b"")
            deleted(storage, key)

        monkeypatch.setattr(LocalStorage, "delete", delete)

    def _appearing(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(source: Any, target: Any, *rest: Any, **named: Any) -> Any:
            path, place = located(source, named.get("src_dir_fd")), located(target, named.get("dst_dir_fd"))
            for each in [path] if path.is_file() else path.rglob("*") if path.is_dir() else ():
                if each.is_file():
                    self._step("appears", place / each.relative_to(path), each.read_bytes())
            return whole(source, target, *rest, **named)

        return wrapped

    def _step(self, kind: str, path: Path, content: bytes) -> None:
        if not path.is_relative_to(self.root) or ".zarrlift" in path.relative_to(self.root).as_posix():
            return
        key = path.relative_to(self.root).as_posix()
        with self._lock:
            self.seen.append((kind, key))
            self.look(kind, key, content)

    def require(self, fact: bool, what: str) -> None:
        """Note what is wrong, since a step may be one of a thread that keeps its errors."""
        if not fact:
            self.wrong.append(what)

    def existing(self) -> set[str]:
        """The files below the directory."""
        return {path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file()}


def located(name: Any, directory: int | None) -> Path:
    """The path of a name in an open directory, or of a path."""
    return Path(name) if directory is None else Path(os.readlink(f"/proc/self/fd/{directory}"), name)


@pytest.fixture(params=["three routes", "passed through"])
def any_source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An archive of three routes, or of arrays that are passed through beside one that is not."""
    if request.param == "three routes":
        return write_archive(tmp_path / "source.zarr")
    return Path(shutil.copytree(unpacked("zarr_v3/extensions/zarr.zarr"), tmp_path / "source.zarr"))


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return tmp_path / "result.zarr"


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, result: Path) -> Steps:
    """What a migration to `result` does, recorded as often as possible, in many tasks."""
    monkeypatch.setattr(NoBranch, "seconds", 0.0)
    return Steps(monkeypatch, result)


def ask(job: Path, query: str) -> list[Any]:
    """Rows of what is committed to a job file."""
    with closing(sqlite3.connect(f"file:{job}?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


def job_of(result: Path) -> Path:
    return result.with_name(f"{result.name}.zarrlift.db")


def is_document(key: str) -> bool:
    return key.rpartition("/")[2] == "zarr.json"


def inside(key: str, names: set[str]) -> set[str]:
    """Of some names, those in the folder of a document."""
    folder = key.removesuffix("zarr.json")
    return {name for name in names if name.startswith(folder) and name != key}


def watch_documents(steps: Steps, at_last: Callable[[], set[str]]) -> Callable[[], None]:
    """Notes what is there at each document; the returned function compares it with what is there at last."""
    events: list[tuple[str, dict[str, Any], set[str]]] = []

    def look(kind: str, key: str, content: bytes) -> None:
        if kind == "appears" and is_document(key):
            events.append((key, json.loads(content), steps.existing()))

    steps.look = look

    def judge() -> None:
        names = at_last()
        assert {name for name in names if is_document(name)} <= {key for key, _, _ in events}
        for key, document, existing in (event for event in events if event[0] in names):
            missing = inside(key, names) - existing
            if document["node_type"] == "group":
                missing = {name for name in missing if is_document(name)}
            assert not missing, f"{key} appears before {sorted(missing)[:3]}"
            for path in document.get("consolidated_metadata", {}).get("metadata", {}):
                assert key.removesuffix("zarr.json") + f"{path}/zarr.json" in existing, path

    return judge


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"recipe": Recipe(consolidate=True)},
        {"recipe": Recipe(base=ArrayRecipe(shards="2x"))},
        {"link": "hard"},
    ],
    ids=["copy", "consolidated", "shards", "hard links"],
)
def test_a_document_appears_after_all_that_it_describes(
    options: dict[str, Any], any_source: Path, result: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = watch_documents(steps, lambda: set(tree(result)))
    assert zarrlift.migrate(any_source, result, **options).ok
    judge()


def test_in_place_a_group_appears_after_its_arrays(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, source)
    judge = watch_documents(steps, lambda: {name for name in tree(source) if is_document(name)})
    assert zarrlift.migrate(source, in_place=True).ok
    judge()


@pytest.mark.slow(one_in=2)
def test_what_is_recorded_is_done(any_source: Path, result: Path, steps: Steps) -> None:
    done = "SELECT total(chunks - dropped) FROM task WHERE node = id"
    work = f"SELECT path, state, ({done}) FROM node WHERE kind = 'array'"

    def look(kind: str, key: str, content: bytes) -> None:
        rows = ask(job_of(result), work)
        existing = steps.existing()  # after the records, since other tasks go on
        for path, state, recorded in rows:
            document = f"{path}/zarr.json"
            objects = len(inside(document, existing))
            steps.require(
                recorded <= objects, f"{path}: {recorded} objects are recorded, {objects} are there"
            )
            steps.require(state != "done" or document in existing, f"{path} is recorded and not published")

    steps.look = look
    assert zarrlift.migrate(any_source, result, recipe=Recipe(base=ArrayRecipe(codecs="gzip:1"))).ok
    assert steps.seen
    assert not steps.wrong


def test_a_destination_is_claimed_from_the_first_change_to_the_last(
    any_source: Path, result: Path, steps: Steps
) -> None:
    claim = result.with_name(f"{result.name}.zarrlift.claim")
    steps.look = lambda kind, key, _: steps.require(claim.exists(), f"{key} {kind} without a claim")
    assert zarrlift.migrate(any_source, result).ok
    assert steps.seen[-1] == ("appears", "zarr.json")
    assert zarrlift.undo(result).ok
    assert steps.seen[-1][0] == "goes"
    assert not steps.wrong
    assert not claim.exists()


@pytest.mark.slow(one_in=2)
def test_undo_hides_an_array_before_it_deletes_chunks(any_source: Path, result: Path, steps: Steps) -> None:
    assert zarrlift.migrate(any_source, result).ok

    def look(kind: str, key: str, content: bytes) -> None:
        if not is_document(key):
            steps.require(not any(map(is_document, steps.existing())), f"{key} goes from what is visible")

    steps.look = look
    assert zarrlift.undo(result).ok
    assert not result.exists()
    assert not steps.wrong


def test_an_update_shows_a_larger_array_after_its_chunks(source: Path, result: Path, steps: Steps) -> None:
    assert zarrlift.migrate(source, result).ok
    array = zarr.open_array(source, path="g/recode", mode="r+", zarr_format=2)
    array.resize((420,))
    array[300:] = 5
    judge = watch_documents(steps, lambda: {name for name in tree(result) if name.startswith("g/recode/")})
    assert zarrlift.update(result).ok
    judge()
    assert (zarr.open_array(result, path="g/recode", mode="r")[300:] == 5).all()


def test_an_update_is_recorded_before_it_changes_anything(source: Path, result: Path, steps: Steps) -> None:
    assert zarrlift.migrate(source, result, recipe=Recipe(consolidate=True)).ok
    zarr.open_array(source, path="g/recode", mode="r+", zarr_format=2)[:20] = 5
    shutil.rmtree(source / "h/rewrite")
    facts = "SELECT name, value FROM meta WHERE name IN ('state', 'update')"

    def look(kind: str, key: str, content: bytes) -> None:
        told = dict(ask(job_of(result), facts))
        steps.require(told["state"] == "incomplete" and "update" in told, f"{key} {kind}: {told}")

    steps.look = look
    outcome = zarrlift.update(result, delete=True)
    assert outcome.removed, outcome.problems
    assert {kind for kind, _ in steps.seen} == {"appears", "goes"}
    assert not steps.wrong


def test_finish_keeps_documents_before_it_deletes_them(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(source)
    assert zarrlift.migrate(source, in_place=True).ok
    assert zarrlift.verify(source).ok
    steps = Steps(monkeypatch, source)

    def look(kind: str, key: str, content: bytes) -> None:
        kept = dict(ask(job_of(source), "SELECT key, content FROM legacy"))
        steps.require(kind == "goes" and kept.get(key) == before[key], f"{key} {kind} and is not kept")

    steps.look = look
    assert zarrlift.finish(source).state == "finished"
    assert steps.seen
    assert not steps.wrong
