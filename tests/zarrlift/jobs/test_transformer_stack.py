"""`--source-through` and `--dest-through`: a stack of storage transformers under either side."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from tests.support.job_archives import tree, values

import zarrlift
from zarrlift.cli import main
from zarrlift.storage.local.own_names import LAYERED
from zarrlift.storage.transformer_stack import parse_layers
from zarrstack import Log, Retry, Throttle
from zarrstack.core.errors import StorageError, UsageError


def test_the_result_is_the_same_and_every_read_is_seen(source: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    plain, logged = tmp_path / "plain.zarr", tmp_path / "logged.zarr"
    zarrlift.migrate(source, plain)
    outcome = zarrlift.migrate(source, logged, source_through=f"retry,log:{events}")
    assert outcome.ok, outcome.problems
    assert tree(logged) == tree(plain)
    keys = {json.loads(line)["key"] for line in events.read_text().splitlines()}
    assert {"g/relink/.zarray", "g/relink/0.0"} <= keys


SHARDS = '[{"name": "sharding", "configuration": {"chunks_per_shard": [1, 2], "path": "g/relink"}}]'


def test_layers_under_the_destination_are_remembered_by_the_job(source: Path, destination: Path) -> None:
    events = destination.with_name("events.jsonl")

    def logged(operation: str) -> bool:
        rows = [json.loads(line) for line in events.read_text().splitlines()]
        return any((row["operation"], row["key"]) == (operation, "g/relink/c/0/0") for row in rows)

    good = (source / "g/relink/0.0").read_bytes()
    (source / "g/relink/0.0").write_bytes(b"bad")
    assert not zarrlift.migrate(source, destination, dest_through=f"log:{events}").ok
    (source / "g/relink/0.0").write_bytes(good)
    events.write_text("")  # it may still be open
    assert zarrlift.resume(destination).ok
    assert logged("set")
    assert zarrlift.verify(destination.with_name("out.zarr.zarrlift.db"), full=True).ok
    assert values(destination, 3) == values(source, 2)
    assert zarrlift.undo(destination).state == "undone"
    assert logged("delete")
    assert not destination.exists()


def test_what_an_undo_was_writing_through_a_layer_is_removed_by_the_next(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Sharding` writes a shard when it deletes a chunk; a killed undo leaves what it was writing."""
    assert zarrlift.migrate(source, destination, dest_through=SHARDS).ok
    replace = os.replace

    def failing(old: str, new: str, **directories: int | None) -> None:
        if os.path.basename(new).isdigit():
            written = destination / LAYERED / old
            shutil.copy(written, f"{written}.left")  # which only a process that is not killed removes itself
            raise OSError(errno.EIO, "Input/output error")
        replace(old, new, **directories)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(StorageError):
        zarrlift.undo(destination)
    monkeypatch.undo()
    assert list(destination.rglob("*.left"))
    assert zarrlift.undo(destination).state == "undone"
    assert not destination.exists()


@pytest.mark.slow
def test_processes_build_the_stack_for_themselves(source: Path, tmp_path: Path) -> None:
    outcome = zarrlift.migrate(
        source,
        tmp_path / "out.zarr",
        source_through="retry",
        dest_through="retry",
        executor="processes",
        workers=2,
    )
    assert outcome.ok, outcome.problems
    assert values(tmp_path / "out.zarr", 3) == values(source, 2)


def test_in_place_there_are_no_two_sides(source: Path) -> None:
    with pytest.raises(UsageError):
        zarrlift.migrate(source, in_place=True, source_through="retry")


@pytest.mark.parametrize("text", ["readonly", "retry,readonly", "readonly,retry"])
def test_a_layer_that_refuses_writes_is_told_before_anything_is_done(
    text: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["migrate", str(source), str(tmp_path / "result"), "--dest-through", text]
    for dry in ([], ["--dry-run"]):
        assert main([*words, *dry]) == 2
        told = capsys.readouterr().err
        assert "does not support writes" in told
        assert f"found {text}" in told
    assert [path.name for path in tmp_path.iterdir() if path != source] == []


def test_a_layer_that_keeps_values_in_memory_is_no_destination(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from zarr.storage import LocalStore

    from zarrstack import Log, WriteBack, stack

    text = "write-back"
    assert main(["migrate", str(source), str(tmp_path / "result"), "--dest-through", text]) == 2
    assert "keeps values in memory, where a job that is killed loses them" in capsys.readouterr().err
    store = stack(LocalStore(tmp_path / "result"), Log(), WriteBack())
    for run in (zarrlift.plan, zarrlift.migrate):
        with pytest.raises(UsageError, match="keeps values in memory"):
            run(source, store)


@pytest.mark.parametrize("kind", ["folder", "memory", "stack"])
def test_a_store_that_is_read_only_is_no_destination(kind: str, source: Path, tmp_path: Path) -> None:
    from zarr.storage import LocalStore, MemoryStore

    from zarrstack import ReadOnly, stack

    store = {
        "folder": lambda: LocalStore(tmp_path / "result", read_only=True),
        "memory": lambda: MemoryStore(read_only=True),
        "stack": lambda: stack(LocalStore(tmp_path / "result"), ReadOnly()),
    }[kind]()
    for run in (zarrlift.plan, zarrlift.migrate):
        with pytest.raises(UsageError, match="cannot be written to"):
            run(source, store)
    with pytest.raises(UsageError, match="cannot be written to"):
        zarrlift.migrate(LocalStore(source, read_only=True), in_place=True)
    assert [path.name for path in tmp_path.iterdir() if path != source] == []


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("retry", [Retry()]),
        ("retry:5", [Retry(attempts=5)]),
        ("retry:attempts=5:budget=2.5", [Retry(attempts=5, budget=2.5)]),
        ("retry, log:events.jsonl", [Retry(), Log(events="events.jsonl")]),
        ("log:C:/x.jsonl:label=a", [Log(events="C:/x.jsonl", label="a")]),
        ("throttle:50MB/s", [Throttle(bytes_per_second="50MB/s")]),
        ('[{"name": "retry", "configuration": {"attempts": 5}}, "log"]', [Retry(attempts=5), Log()]),
    ],
)
def test_text_says_which_layers(text, layers):
    assert parse_layers(text) == layers


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no name"),
        ("retry,,log", "no name"),
        ("nowhere", "'nowhere'"),
        ("retry:attempt=5", "'attempt'"),
        ("sharding", "chunks_per_shard"),
        ("per-array:5", "takes no value without the name of an option"),
        ("[7]", "not a storage transformer"),
        ("[", "not valid JSON"),
        ('[{"name": "retry", "configuration": 7}]', "not a JSON object"),
    ],
)
def test_text_that_does_not_fit_says_why(text, words):
    with pytest.raises(UsageError, match=words):
        parse_layers(text)
