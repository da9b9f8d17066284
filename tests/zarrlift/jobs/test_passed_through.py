"""Arrays of Zarr v3 with something unknown go through every verb without a changed byte."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.bucket import Bucket
from tests.support.documents import v3_array
from tests.support.job_archives import tree
from tests.support.unpacking import unpacked

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.errors import UsageError

ARCHIVES = ("zarr", "tensorstore", "by_hand")
OWN = ("zarr.json", "plain/zarr.json", "bfloat16/zarr.json")
"""Documents that the job writes itself: those of the root and of the arrays that are described."""


def fixture(name: str, path: Path) -> Path:
    return Path(shutil.copytree(unpacked(f"zarr_v3/extensions/{name}.zarr"), path))


def unchanged(path: Path) -> dict[str, bytes]:
    """The files that a result has as its source has them."""
    return {name: content for name, content in tree(path).items() if name not in OWN}


@pytest.fixture(params=ARCHIVES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return fixture(request.param, tmp_path / "source.zarr")


@pytest.fixture
def by_hand(tmp_path: Path) -> Path:
    return fixture("by_hand", tmp_path / "source.zarr")


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("zarr", {}),
        ("tensorstore", {"link": "hard"}),
        ("by_hand", {}),
        pytest.param("by_hand", {"executor": "processes", "workers": 2}, marks=pytest.mark.slow),
    ],
    indirect=["source"],
    ids=str,
)
def test_a_copy_has_the_same_bytes(source: Path, destination: Path, options: dict[str, Any]) -> None:
    outcome = zarrlift.migrate(source, destination, **options).raise_for_problems()
    assert outcome.state == "done"
    assert unchanged(destination) == unchanged(source)
    for full in (False, True):
        report = zarrlift.verify(source, destination, full=full)
        assert report.ok, report.problems
    assert zarrlift.resume(destination).state == "nothing to do"
    assert zarrlift.undo(destination).ok
    assert not destination.exists()


def test_the_plan_names_what_is_unknown(by_hand: Path, destination: Path) -> None:
    plan = zarrlift.plan(by_hand, destination)
    reasons = {array.path: (array.route.name, array.route.reason) for array in plan.arrays}
    assert reasons["zfp"] == ("pass", "unknown codec 'zfp'")
    assert reasons["encrypted"] == ("pass", "unknown storage transformer 'encrypt'")
    assert {route for route, _ in reasons.values()} == {"pass"}
    assert {array.path: array.chunks for array in plan.arrays}["fanout"] == 4
    assert type(plan).from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_consolidated_metadata_lists_them(tmp_path: Path, destination: Path) -> None:
    source = fixture("zarr", tmp_path / "source.zarr")
    zarrlift.migrate(source, destination).raise_for_problems()
    documents = [
        json.loads((path / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
        for path in (source, destination)
    ]
    assert documents[0].keys() == documents[1].keys()
    for name in ("rectilinear", "nested", "around"):
        assert documents[0][name] == documents[1][name]


def test_every_object_below_is_copied(by_hand: Path, destination: Path) -> None:
    (by_hand / "zfp/deep/er").mkdir(parents=True)
    (by_hand / "zfp/deep/er/notes é.txt").write_text("notes")
    (by_hand / "zfp/zarr.json.bak").write_bytes(b"")
    zarrlift.migrate(by_hand, destination).raise_for_problems()
    assert unchanged(destination) == unchanged(by_hand)


def test_the_document_keeps_its_bytes(by_hand: Path, destination: Path) -> None:
    document = by_hand / "zfp/zarr.json"
    content = document.read_bytes().replace(b'"NaN"', b'"NaN"\r\n\t').rstrip() + b"  \n\n"
    document.write_bytes(content)
    zarrlift.migrate(by_hand, destination).raise_for_problems()
    assert (destination / "zfp/zarr.json").read_bytes() == content


def test_an_array_may_be_the_root(by_hand: Path, destination: Path) -> None:
    zarrlift.migrate(by_hand / "suffix", destination).raise_for_problems()
    assert tree(destination) == tree(by_hand / "suffix")
    assert zarrlift.verify(destination, full=True).ok
    assert zarrlift.undo(destination).ok
    assert not destination.exists()


def test_large_and_empty_objects_are_copied_between_a_bucket_and_files(
    by_hand: Path, destination: Path, bucket: Bucket
) -> None:
    large = np.random.default_rng(1).bytes((16 << 20) + 5)
    (by_hand / "zfp/c/0/5").write_bytes(large)
    (by_hand / "zfp/c/0/6").write_bytes(b"")
    place = bucket.url("in.zarr")
    for before, after, options in (
        (by_hand, place, {"dest_storage_options": bucket.options}),
        (place, bucket.url("again.zarr"), dict.fromkeys(OPTIONS, bucket.options)),
        (bucket.url("again.zarr"), destination, {"storage_options": bucket.options}),
    ):
        zarrlift.migrate(before, after, job=destination.with_name("job.db"), **options).raise_for_problems()
        report = zarrlift.verify(before, after, full=True, **options)
        assert report.ok, report.problems
        destination.with_name("job.db").unlink()
    assert unchanged(destination) == unchanged(by_hand)


OPTIONS = ("storage_options", "dest_storage_options")


def test_the_view_shows_the_same_bytes(by_hand: Path) -> None:
    group = zarrlift.open(by_hand)
    store = group.store
    found = {}
    for name in ("zfp", "fanout", "encrypted"):
        keys = zarr.core.sync.sync(collected(store, f"{name}/"))
        for key in keys:
            buffer = zarr.core.sync.sync(
                store.get(key, prototype=zarr.core.buffer.default_buffer_prototype())
            )
            assert buffer is not None
            found[key] = buffer.to_bytes()
    expected = {name: content for name, content in tree(by_hand).items() if name.split("/")[0] in SHOWN}
    assert found == expected


SHOWN = ("zfp", "fanout", "encrypted")


async def collected(store: Any, prefix: str) -> list[str]:
    return [key async for key in store.list_prefix(prefix)]


# ----- recipes


def test_a_general_option_is_not_applied_with_one_note(by_hand: Path, destination: Path) -> None:
    recipe = Recipe(base=ArrayRecipe(codecs="zstd:3", shards="auto"))
    plan = zarrlift.plan(by_hand, destination, recipe=recipe)
    notes = [problem for problem in plan.problems if "is not applied" in problem.message]
    assert [note.message.partition(" is not")[0] for note in notes] == ["--codecs zstd:3", "--shards auto"]
    assert notes[0].found == "/encrypted, /fanout, /optional, and 4 more"
    zarrlift.migrate(by_hand, destination, recipe=recipe).raise_for_problems()
    assert unchanged(destination) == unchanged(by_hand)
    assert zarrlift.verify(destination, full=True).ok


def test_a_pattern_is_general(by_hand: Path, destination: Path) -> None:
    recipe = Recipe(sections=(("z*", (("dtype", "float64"),)),))
    plan = zarrlift.plan(by_hand, destination, recipe=recipe)
    (note,) = (problem for problem in plan.problems if "is not applied" in problem.message)
    assert (note.message.partition(" is not")[0], note.found) == ("dtype = 'float64' of 'z*'", "/zfp")
    assert not plan.refusals


def test_a_section_that_names_the_array_is_refused_by_name(by_hand: Path, destination: Path) -> None:
    recipe = Recipe(sections=(("/zfp", (("chunks", "4,4"),)), ("suffix", (("codecs", "keep"),))))
    plan = zarrlift.plan(by_hand, destination, recipe=recipe)
    (refusal,) = plan.refusals
    assert refusal.path == "zfp"
    assert "chunks = '4,4' of '/zfp'" in str(refusal.problems[-1])


# ----- what goes wrong


CHANGES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "a changed object": (lambda root: (root / "zfp/c/0/1").write_bytes(b"zfp c/0/X"), "zfp", "other bytes"),
    "a missing object": (lambda root: (root / "zfp/c/0/1").unlink(), "zfp", "nothing"),
    "another object": (lambda root: (root / "zfp/c/0/9").write_bytes(b"new"), "zfp", "an object"),
    "an object of another kind": (lambda root: (root / "fanout/x.txt").write_text(""), "fanout", "an object"),
    "a changed document": (
        lambda root: (root / "zfp/zarr.json").write_text(json.dumps(v3_array([4, 6], [2, 3]))),
        "zfp",
        "other bytes",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_verify_finds(change: str, by_hand: Path, destination: Path) -> None:
    zarrlift.migrate(by_hand, destination).raise_for_problems()
    act, path, found = CHANGES[change]
    act(destination)
    report = zarrlift.verify(by_hand, destination, full=True)
    (problem,) = report.problems
    assert (problem.node, found in (problem.found or "")) == (path, True)


def test_a_copy_that_is_not_equal_is_not_published(
    by_hand: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zarrlift.transfer.relink import Unchecked

    monkeypatch.setattr(Unchecked, "check_whole", lambda self, data: bytes(len(data)))
    outcome = zarrlift.migrate(by_hand, destination, executor="threads", verify="full")
    assert outcome.state == "incomplete"
    assert not (destination / "zfp/zarr.json").exists()


def test_a_read_that_returns_less_loses_nothing(
    by_hand: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, length: whole(descriptor, min(length, 3)))
    assert zarrlift.migrate(by_hand, destination, executor="threads", verify="none").ok
    monkeypatch.undo()
    assert unchanged(destination) == unchanged(by_hand)


def test_a_link_that_leaves_the_archive_is_refused(by_hand: Path, destination: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (by_hand / "zfp/c/0/7").symlink_to(tmp_path / "secret")
    plan = zarrlift.plan(by_hand, destination)
    assert [refusal.path for refusal in plan.refusals] == ["zfp"]
    outcome = zarrlift.migrate(by_hand, destination, follow_links=True).raise_for_problems()
    assert outcome.ok
    assert (destination / "zfp/c/0/7").read_text() == "secret"


# ----- a source that changes

LATER: dict[str, Callable[[Path], object]] = {
    "rewritten": lambda root: (root / "zfp/c/0/1").write_bytes(b"other"),
    "added": lambda root: (root / "zfp/c/1/7").write_bytes(b"more"),
    "added of another kind": lambda root: (root / "zfp/more.bin").write_bytes(b"more"),
    "deleted": lambda root: (root / "zfp/c/0/0").unlink(),
    "renamed": lambda root: (root / "zfp/c").rename(root / "zfp/d"),
    "document": lambda root: (root / "zfp/zarr.json").write_bytes(
        (root / "zfp/zarr.json").read_bytes() + b"\n"
    ),
    "removed": lambda root: shutil.rmtree(root / "zfp"),
    "described": lambda root: describe(root / "zfp"),
}


def describe(array: Path) -> None:
    """Replace an array by one that is known."""
    (array / "zarr.json").write_text(json.dumps(v3_array([4, 6], [2, 3])))
    for file in (array / "c").rglob("[0-9]/[0-9]"):
        file.write_bytes(bytes(range(24)))


@pytest.mark.slow(one_in=11)
@pytest.mark.parametrize("change", LATER)
def test_an_update_gives_what_a_fresh_copy_would(change: str, by_hand: Path, destination: Path) -> None:
    zarrlift.migrate(by_hand, destination).raise_for_problems()
    LATER[change](by_hand)
    zarrlift.update(destination, delete=True).raise_for_problems()
    assert {name: content for name, content in unchanged(destination).items() if "zarr.json" not in name} == {
        name: content for name, content in unchanged(by_hand).items() if "zarr.json" not in name
    }
    if change != "described":
        assert unchanged(destination) == unchanged(by_hand)
    assert zarrlift.verify(destination, full=True).ok


@pytest.mark.slow(one_in=4)
@pytest.mark.parametrize("change", [name for name in LATER if name not in ("removed", "described")])
def test_a_source_that_changes_while_it_is_copied_is_noticed(
    change: str, by_hand: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zarrlift.jobs.run import Run

    started = Run._run_arrays

    def changing(run: Run) -> None:
        LATER[change](by_hand)
        started(run)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_run_arrays", changing)
        outcome = zarrlift.migrate(by_hand, destination, executor="threads")
    assert outcome.state == "incomplete"
    assert {problem.node for problem in outcome.problems if problem.severity == "refusal"} == {"zfp"}
    zarrlift.resume(destination).raise_for_problems()
    assert unchanged(destination) == unchanged(by_hand)


def test_in_place_there_is_nothing_to_do(by_hand: Path) -> None:
    with pytest.raises(UsageError, match="this is Zarr v3 already"):
        zarrlift.migrate(by_hand, in_place=True)


def test_a_resume_finds_what_was_removed(by_hand: Path, destination: Path) -> None:
    zarrlift.migrate(by_hand, destination).raise_for_problems()
    shutil.rmtree(destination / "fanout/12")
    zarrlift.resume(destination).raise_for_problems()
    assert unchanged(destination) == unchanged(by_hand)


def test_a_pipe_is_refused(by_hand: Path, destination: Path) -> None:
    os.mkfifo(by_hand / "zfp/c/0/8")
    plan = zarrlift.plan(by_hand, destination)
    assert [refusal.path for refusal in plan.refusals] == ["zfp"]
