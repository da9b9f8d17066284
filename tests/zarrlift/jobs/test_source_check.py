"""A source that changes under a job is noticed wherever it lies; a resume takes over what was not copied."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import fsspec
import obstore
import pytest
from obstore.store import MemoryStore as ObstoreMemory
from tests.support.job_archives import tree, values
from tests.support.job_processes import stopping
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ObjectStore

import zarrlift
from zarrlift.jobs import source_check
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.publisher import Publisher
from zarrlift.jobs.run import Run
from zarrlift.planning import inventories
from zarrlift.storage.open_storage import open_storage
from zarrlift.transfer.worker import Worker
from zarrstack import Log, Retry, stack

CHUNK = "h/rewrite/1.1"
"""One of a chunk's bytes may be any: no codec would notice."""


class Kind:
    """A kind of place: how an archive gets there, and how one of its objects is written again."""

    def __init__(self, source: Path) -> None:
        self.local = source
        """The same in a directory."""
        self.place: Any = source
        self.options: dict[str, Any] = {}
        self.carry: Callable[[str, bytes], object] = lambda key, data: None

    def put(self, key: str, data: bytes) -> None:
        (self.local / key).write_bytes(data)
        self.carry(key, data)

    def carry_all(self, carry: Callable[[str, bytes], object]) -> None:
        self.carry = carry
        for key, data in tree(self.local).items():
            carry(key, data)


def a_directory(source: Path, tmp_path: Path) -> Kind:
    return Kind(source)


def through_layers(source: Path, tmp_path: Path) -> Kind:
    kind = Kind(source)
    kind.options = {"source_through": f"retry,log:{tmp_path}/events.jsonl"}
    return kind


def a_stack(source: Path, tmp_path: Path) -> Kind:
    kind = Kind(source)
    kind.place = stack(LocalStore(source), Retry(), Log())
    return kind


def fsspec_memory(source: Path, tmp_path: Path) -> Kind:
    kind = Kind(source)
    files = fsspec.filesystem("memory")
    root = f"/{tmp_path.name}"
    kind.place = f"memory:/{root}"
    kind.carry_all(lambda key, data: files.pipe_file(f"{root}/{key}", data))
    return kind


def fsspec_local(source: Path, tmp_path: Path) -> Kind:
    kind = Kind(source)
    kind.place = FsspecStore.from_url(f"local://{source.as_posix()}")
    return kind


def obstore_memory(source: Path, tmp_path: Path) -> Kind:
    kind = Kind(source)
    store = ObstoreMemory()
    kind.place = ObjectStore(store)
    kind.carry_all(lambda key, data: obstore.put(store, key, data))
    return kind


def a_zip(source: Path, tmp_path: Path) -> Kind:
    kind = Kind(source)
    kind.place = tmp_path / "source.zip"

    def pack(*_: object) -> None:
        with zipfile.ZipFile(tmp_path / "new.zip", "w") as file:
            for name, content in tree(source).items():
                file.writestr(name, content)
        (tmp_path / "new.zip").replace(kind.place)

    pack()
    kind.carry = pack
    return kind


ALIVE = [a_directory, through_layers, a_stack, fsspec_memory, fsspec_local, obstore_memory]
KINDS = [*ALIVE, a_zip]
"""A zip file that is replaced stays open, and is read to its end as it was."""


@pytest.fixture(params=KINDS, ids=lambda made: made.__name__)
def kind(request: pytest.FixtureRequest, source: Path, tmp_path: Path) -> Kind:
    (source / ".zmetadata").unlink()
    made: Kind = request.param(source, tmp_path)
    return made


def rewritten(kind: Kind, key: str = CHUNK) -> None:
    """Other values in as many bytes."""
    kind.put(key, bytes(255 - byte for byte in (kind.local / key).read_bytes()))


def changed(outcome: zarrlift.Outcome) -> set[str | None]:
    return {problem.node for problem in outcome.problems if problem.kind == "source-changed"} | {
        problem.node
        for problem in (outcome.plan.all_problems() if outcome.plan else ())
        if problem.kind == "source-changed"
    }


@pytest.fixture
def stopped(kind: Kind, destination: Path) -> Path:
    """A copy that was stopped when every chunk of an array was recorded, and the array was not there yet."""
    at_rewrite = stopping(Publisher, "publish", when=lambda _, node, *__: node.path == "h/rewrite")
    with at_rewrite, pytest.raises(zarrlift.Interrupted):
        zarrlift.migrate(kind.place, destination, **kind.options)
    return destination


@pytest.mark.slow(one_in=11)
def test_a_resume_does_not_mix_old_and_new(kind: Kind, stopped: Path) -> None:
    rewritten(kind)
    outcome = zarrlift.resume(stopped, source=kind.place)
    assert not outcome.ok
    assert changed(outcome) == {"h/rewrite"}
    assert not (stopped / "h/rewrite/zarr.json").exists()
    assert (stopped / "g/relink/zarr.json").exists()


@pytest.mark.slow(one_in=11)
def test_a_resume_of_a_source_that_did_not_change_ends_the_job(
    kind: Kind, stopped: Path, source: Path
) -> None:
    outcome = zarrlift.resume(stopped, source=kind.place)
    assert (outcome.ok, outcome.problems) == (True, ())
    assert values(stopped, 3) == values(source, 2)


@pytest.mark.slow(one_in=4)
def test_sizes_are_known_from_the_listing(kind: Kind, source: Path) -> None:
    plan = zarrlift.plan(kind.place, **kind.options)
    assert "no-versions" not in {problem.kind for problem in plan.problems}
    planned = {array.path: array for array in plan.arrays}
    for path, array in planned.items():
        sizes = [len(data) for key, data in tree(source / path).items() if not key.startswith(".z")]
        assert (array.bytes_in, array.bytes_in_known) == (sum(sizes), True)


@pytest.mark.parametrize("layers", [(), (Retry,)], ids=["memory", "layers over memory"])
def test_a_store_that_tells_no_versions_is_named(layers: tuple[type[Retry], ...], source: Path) -> None:
    store = stack(MemoryStore(), *(layer() for layer in layers))
    open_storage(store, mode="w").put_many(list(tree(source).items()))
    notes = [problem for problem in zarrlift.plan(store).problems if problem.kind == "no-versions"]
    assert [(note.severity, note.found) for note in notes] == [
        ("note", "no ETags or times in the listing of the source, for 3 arrays")
    ]


# While a run goes on


def during(
    kind: Kind,
    destination: Path,
    change: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
    **options: Any,
) -> zarrlift.Outcome:
    """A migration during which the source changes once: when all chunks of an array are written."""
    copied = Run._start_checks
    done: list[bool] = []

    def changing(self: Run, arrays: list[Any]) -> None:
        if not done and any(array.plan.path == "h/rewrite" for array in arrays):
            done.append(True)
            change()
        copied(self, arrays)

    with monkeypatch.context() as patched:
        patched.setattr(Run, "_start_checks", changing)
        outcome = zarrlift.migrate(kind.place, destination, **kind.options, **options)
    assert done
    return outcome


def add_attributes(kind: Kind) -> None:
    kind.put("h/rewrite/.zattrs", b'{"units": "m"}')


def resize(kind: Kind) -> None:
    """And make it another type, by the same way."""
    data = json.loads((kind.local / "h/rewrite/.zarray").read_bytes())
    changed = {**data, "shape": [30, 10], "dtype": "<u4", "filters": None}
    kind.put("h/rewrite/.zarray", json.dumps(changed).encode())


alive = pytest.mark.parametrize("kind", ALIVE, indirect=True, ids=lambda made: made.__name__)


@pytest.mark.slow(one_in=9)
@alive
@pytest.mark.parametrize("change", [rewritten, add_attributes, resize])
def test_an_array_that_changes_while_its_job_runs_does_not_appear(
    kind: Kind,
    change: Callable[[Kind], None],
    source: Path,
    destination: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source_check, "_STEP", 3600 * 10**9)  # no file is old, however slow this is
    outcome = during(kind, destination, lambda: change(kind), monkeypatch)
    assert changed(outcome) == {"h/rewrite"}
    assert not (destination / "h/rewrite/zarr.json").exists()
    assert (destination / "g/recode/zarr.json").exists()
    assert zarrlift.resume(destination, source=kind.place).ok
    assert values(destination, 3) == values(source, 2)


@pytest.mark.slow(one_in=7)
@alive
def test_a_group_that_changes_while_its_job_runs_does_not_appear(
    kind: Kind, source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = during(kind, destination, lambda: kind.put("h/.zattrs", b'{"new": 1}'), monkeypatch)
    assert changed(outcome) == {"h"}
    assert not (destination / "h/zarr.json").exists()
    assert zarrlift.resume(destination, source=kind.place).ok
    assert json.loads((destination / "h/zarr.json").read_bytes())["attributes"] == {"new": 1}


@pytest.mark.slow(one_in=3)
@alive
def test_an_array_that_comes_while_a_job_runs_is_named(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = (kind.local / "h/rewrite/.zarray").read_bytes()
    (kind.local / "g/new").mkdir()
    outcome = during(kind, tmp_path / "out.zarr", lambda: kind.put("g/new/.zarray", document), monkeypatch)
    assert changed(outcome) == {"g/new"}
    assert not outcome.ok
    assert outcome.arrays_done == 4


@pytest.mark.parametrize("verify", ["none", "full"])
def test_files_that_are_older_than_the_plan_are_not_looked_at_again_without_a_reason(
    verify: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was copied before it was written again is as it was listed, like all else of its array."""
    monkeypatch.setattr(source_check, "_STEP", 0)
    before = values(source, 2)
    listed = []
    take = inventories.take_inventory
    monkeypatch.setattr(
        inventories,
        "take_inventory",
        lambda *args, **more: listed.append(args[1]) or take(*args, **more),
    )
    kind = Kind(source)
    outcome = during(kind, tmp_path / "out.zarr", lambda: rewritten(kind), monkeypatch, verify=verify)
    if verify == "full":  # which reads the source again, and finds other values there
        assert listed == ["h/rewrite"]
        assert changed(outcome) == {"h/rewrite"}
        return
    assert outcome.ok, outcome.problems
    assert listed == []
    assert values(tmp_path / "out.zarr", 3) == before


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("kind", [a_directory, obstore_memory], indirect=True, ids=lambda made: made.__name__)
@pytest.mark.parametrize(
    "recipe",
    [
        {},
        {"shards": "auto"},
        {"chunks": "5,5"},
        {"codecs": "gzip:1"},
    ],
    ids=str,
)
def test_a_chunk_is_read_as_it_was_listed_or_its_array_fails(
    recipe: dict[str, Any], kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever reads it, and however often."""
    only = {"include": ("h/rewrite",)}
    made = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**recipe), **only)
    run = Worker.run

    def late(self: Worker, *arguments: Any) -> Any:
        kind.put(CHUNK, (kind.local / CHUNK).read_bytes())
        return run(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "run", late)
        outcome = zarrlift.migrate(kind.place, tmp_path / "out.zarr", recipe=made, verify="none")
    key = CHUNK if open_storage(kind.place).tells_versions else None  # the array, before it is published
    assert {(problem.kind, problem.key) for problem in outcome.problems} == {("source-changed", key)}
    assert not (tmp_path / "out.zarr/h/rewrite/zarr.json").exists()
    assert zarrlift.resume(tmp_path / "out.zarr", source=kind.place).ok


# A resume takes over changes of what was not copied yet, with a warning that the job keeps.

NEXT = "h/rewrite/0.1"
"""A chunk that the archive does not have at first."""
EARLIER = 14
"""The number of chunks without it."""


@pytest.fixture(params=[a_directory, fsspec_local], ids=lambda made: made.__name__)
def archive(request: pytest.FixtureRequest, source: Path, tmp_path: Path) -> Kind:
    (source / ".zmetadata").unlink()
    (source / NEXT).unlink()
    made: Kind = request.param(source, tmp_path)
    return made


@pytest.fixture
def stopped_early(archive: Kind, tmp_path: Path) -> Path:
    """A copy that was stopped when one array was recorded, and nothing of the others."""
    with one_task(), pytest.raises(zarrlift.Interrupted):
        zarrlift.migrate(archive.place, tmp_path / "out.zarr", workers=1, **archive.options)
    return tmp_path / "out.zarr"


def one_task() -> AbstractContextManager[None]:
    """What follows is stopped when one task is recorded: with one worker, that of the first array."""
    return stopping(Job, "record_task", after=1)


def remove(archive: Kind) -> None:
    """Delete one object."""
    (archive.local / "h/rewrite/1.1").unlink()


def add(archive: Kind) -> None:
    archive.put(NEXT, (archive.local / "h/rewrite/1.1").read_bytes())


def shorten(archive: Kind) -> None:
    """Give the array fewer rows and columns; the chunks outside remain."""
    data = json.loads((archive.local / "h/rewrite/.zarray").read_bytes())
    archive.put("h/rewrite/.zarray", json.dumps({**data, "shape": [21, 14]}).encode())


DOCUMENTS = "documents (h/rewrite/.zarray)"
CHANGES = [
    (rewritten, "14 chunks: 1 rewritten (h/rewrite/1.1)"),
    (remove, "13 chunks: 1 deleted (h/rewrite/1.1)"),
    (add, "15 chunks: 1 added (h/rewrite/0.1)"),
    (
        shorten,
        "5 chunks: 9 deleted (h/rewrite/0.2, h/rewrite/1.2, h/rewrite/2.2, ...); " + DOCUMENTS,
    ),
]


def warned(problems: Any) -> list[tuple[str | None, str | None]]:
    return [
        (problem.node, problem.found)
        for problem in problems
        if (problem.kind, problem.severity) == ("source-changed", "warning")
    ]


@pytest.mark.parametrize(("change", "found"), CHANGES, ids=lambda case: getattr(case, "__name__", ""))
@pytest.mark.parametrize("again", ["resume", "migrate"])
@pytest.mark.slow(one_in=13)  # so that each change is among those that are left
def test_a_change_of_an_array_that_was_not_copied_yet_is_taken_over_with_a_warning(
    again: str, change: Any, found: str, archive: Kind, stopped_early: Path
) -> None:
    change(archive)
    if again == "resume":
        outcome = zarrlift.resume(stopped_early, source=archive.place)
    else:
        outcome = zarrlift.migrate(archive.place, stopped_early)
    assert outcome.ok, outcome.problems
    assert values(stopped_early, 3) == values(archive.local, 2)
    assert warned(outcome.problems) == [("h/rewrite", found)]
    (warning,) = outcome.problems
    assert warning.expected == f"{EARLIER} chunks"
    assert "different times" in str(warning.advice)
    for kept in (
        zarrlift.status(stopped_early),
        zarrlift.resume(stopped_early, source=archive.place),
    ):
        assert warning in kept.problems
        assert warning.to_json() in kept.to_json()["problems"]


@pytest.mark.slow(one_in=2)
def test_changes_of_several_resumes_are_all_kept(archive: Kind, stopped_early: Path) -> None:
    add(archive)
    with one_task(), pytest.raises(zarrlift.Interrupted):
        zarrlift.resume(stopped_early, source=archive.place, workers=1)
    assert len(warned(zarrlift.status(stopped_early).problems)) == 1
    rewritten(archive)
    archive.put("h/.zattrs", b'{"new": 1}')
    outcome = zarrlift.resume(stopped_early, source=archive.place)
    assert outcome.ok
    assert {node for node, _ in warned(outcome.problems)} == {"h", "h/rewrite"}
    assert warned(zarrlift.status(stopped_early).problems) == warned(outcome.problems)


def test_a_chunk_that_was_repaired_after_a_failure_is_named_too(source: Path, tmp_path: Path) -> None:
    good = (source / "g/relink/3.3").read_bytes()
    (source / "g/relink/3.3").write_bytes(good[:-5])
    assert not zarrlift.migrate(source, tmp_path / "out.zarr").ok
    (source / "g/relink/3.3").write_bytes(good)
    outcome = zarrlift.resume(tmp_path / "out.zarr")
    assert outcome.ok
    assert warned(outcome.problems) == [("g/relink", "25 chunks: 1 rewritten (g/relink/3.3)")]


def test_an_array_with_recorded_work_still_fails(archive: Kind, stopped_early: Path) -> None:
    assert [array.path for array in zarrlift.status(stopped_early).arrays if array.tasks_done] == ["g/recode"]
    rewritten(archive, "g/recode/0")
    outcome = zarrlift.resume(stopped_early, source=archive.place)
    assert not outcome.ok
    assert {(problem.node, problem.severity) for problem in outcome.problems} == {("g/recode", "refusal")}
    assert not (stopped_early / "g/recode/zarr.json").exists()
