"""`verify` can fail: every kind of difference between two archives is made, and must be found.

The two archives are a legacy one (zarr-python writes Zarr v2) and its migration. Each test
changes one thing in the result, as little as there is to change.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from numcodecs import Zlib

import zarrlift
from zarrlift.cli import main
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.transfer.events import Planned, TaskDone
from zarrlift.verification import archives, listed_objects, nodes, sampling
from zarrstack.core.errors import UsageError


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Path]:
    """A small archive with a group, three kinds of array and a missing chunk, and its migration."""
    root = tmp_path_factory.mktemp("pair")
    source, destination = root / "old.zarr", root / "new.zarr"
    group = zarr.create_group(source, zarr_format=2, attributes={"title": "a test"})
    rng = np.random.default_rng(1)
    plain = group.create_array(
        "g/plain", shape=(7, 5), chunks=(3, 2), dtype="f4", compressors=None, fill_value=1.5,
        attributes={"_ARRAY_DIMENSIONS": ["y", "x"], "units": "m", "valid_max": float("nan")},
    )  # fmt: skip
    plain[:6] = rng.random((6, 5), "f4")
    group.create_array("packed", data=np.arange(40, dtype=">i4"), chunks=10)
    group.create_array("text", data=np.array(["a", "bc", "def"]), chunks=2)
    shutil.rmtree(source / "g" / "plain" / "2.0", ignore_errors=True)
    (source / "g" / "plain" / "0.0").unlink()  # missing: reads as 1.5
    outcome = zarrlift.migrate(source, destination)
    assert outcome.ok, outcome.problems
    return source, destination


@pytest.fixture
def result(pair, tmp_path) -> tuple[Path, Path]:
    """The pair, its result a copy that the test may damage."""
    source, destination = pair
    copy = tmp_path / "result.zarr"
    shutil.copytree(destination, copy)
    return source, copy


def chunks(array: Path) -> list[Path]:
    return sorted(path for path in array.rglob("*") if path.is_file() and path.name != "zarr.json")


def edit(array: Path, **changes: object) -> None:
    document = json.loads((array / "zarr.json").read_text())
    document.update(changes)
    (array / "zarr.json").write_text(json.dumps(document))


def flip_a_bit(root: Path) -> None:
    file = chunks(root / "g/plain")[0]
    data = bytearray(file.read_bytes())
    data[0] ^= 1
    file.write_bytes(data)


def swap_two_chunks(root: Path) -> None:
    first, second, *_ = chunks(root / "g/plain")
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


def drop_a_chunk(root: Path) -> None:
    chunks(root / "packed")[1].unlink()


def cut_a_chunk_short(root: Path) -> None:
    file = chunks(root / "packed")[0]
    file.write_bytes(file.read_bytes()[:-1])


def fill_in_a_missing_chunk(root: Path) -> None:
    file = root / "g/plain/c/0/0"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(np.zeros((3, 2), "f4").tobytes())


def change_attributes(root: Path, **changes: object) -> None:
    document = json.loads((root / "g/plain/zarr.json").read_text())
    edit(root / "g/plain", attributes={**document["attributes"], **changes})


def make_a_node(root: Path) -> None:
    (root / "more").mkdir()
    (root / "more/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')


def make_a_group_of_an_array(root: Path) -> None:
    (root / "text/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')


DAMAGES = {
    "one bit of a chunk": (flip_a_bit, "g/plain", "verify-values"),
    "two chunks swapped": (swap_two_chunks, "g/plain", "verify-values"),
    "a chunk dropped": (drop_a_chunk, "packed", "verify-values"),
    "a chunk cut short": (cut_a_chunk_short, "packed", None),
    "a missing chunk written": (fill_in_a_missing_chunk, "g/plain", "verify-values"),
    "the fill value": (lambda root: edit(root / "g/plain", fill_value=1.25), "g/plain", "verify-metadata"),
    "another fill value": (lambda root: edit(root / "packed", fill_value=-1), "packed", "verify-metadata"),
    "the data type": (lambda root: edit(root / "packed", data_type="uint32"), "packed", "verify-metadata"),
    "the byte order": (
        lambda root: edit(root / "packed", codecs=[{"name": "bytes", "configuration": {"endian": "little"}}]),
        "packed",
        None,
    ),
    "the length of strings": (
        lambda root: edit(
            root / "text", data_type={"name": "fixed_length_utf32", "configuration": {"length_bytes": 16}}
        ),
        "text",
        "verify-metadata",
    ),
    "the shape": (lambda root: edit(root / "packed", shape=[39]), "packed", "verify-metadata"),
    "the chunk shape": (
        lambda root: edit(
            root / "g/plain", chunk_grid={"name": "regular", "configuration": {"chunk_shape": [2, 3]}}
        ),
        "g/plain",
        "verify-values",
    ),
    "the chunk keys": (
        lambda root: edit(root / "packed", chunk_key_encoding={"name": "v2"}),
        "packed",
        "verify-values",
    ),
    "a dimension name": (
        lambda root: edit(root / "g/plain", dimension_names=["y", "z"]),
        "g/plain",
        "verify-metadata",
    ),
    "no dimension names": (
        lambda root: edit(root / "g/plain", dimension_names=None),
        "g/plain",
        "verify-metadata",
    ),
    "an attribute": (lambda root: change_attributes(root, units="cm"), "g/plain", "verify-attributes"),
    "an attribute's type": (lambda root: change_attributes(root, units=1), "g/plain", "verify-attributes"),
    "an attribute more": (lambda root: change_attributes(root, more=1), "g/plain", "verify-attributes"),
    "attributes gone": (lambda root: edit(root / "g/plain", attributes={}), "g/plain", "verify-attributes"),
    "a group's attribute": (lambda root: edit(root, attributes={"title": "b"}), "", "verify-attributes"),
    "a node more": (make_a_node, "more", "verify-structure"),
    "a node missing": (lambda root: shutil.rmtree(root / "text"), "text", "verify-structure"),
    "a node of another kind": (make_a_group_of_an_array, "text", "verify-structure"),
    "a document that is no JSON": (
        lambda root: (root / "text/zarr.json").write_text("{"),
        "text",
        "metadata",
    ),
    "a document that is not strict JSON": (
        lambda root: edit(root, attributes={"title": "a test", "a": float("nan")}),
        "",
        "metadata",
    ),
    "a codec nobody knows": (lambda root: edit(root / "text", codecs=[{"name": "x"}]), "text", "metadata"),
    "a storage transformer": (
        lambda root: edit(root / "text", storage_transformers=[{"name": "x"}]),
        "text",
        "metadata",
    ),
}


def test_an_untouched_result_is_equal(result) -> None:
    for full in (True, False):
        report = zarrlift.verify(*result, full=full)
        assert [str(problem) for problem in report.problems] == []
        assert report.ok
    assert (report.arrays, report.groups) == (3, 2)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_full_verification_finds(damage: str, result) -> None:
    source, destination = result
    change, node, kind = DAMAGES[damage]
    change(destination)
    report = zarrlift.verify(source, destination, full=True)
    assert not report.ok
    assert {path for path, _ in report.differences} == {node}
    assert kind is None or kind in {problem.kind for problem in report.problems}
    assert json.loads(json.dumps(report.to_json()))["ok"] is False
    reversed_nodes = {path for path, _ in zarrlift.verify(destination, source, full=True).differences}
    # A group in the place of an array leaves that array's chunks below it without an array.
    assert reversed_nodes - {f"{node}/c"} == {node}


def test_differences_are_counted_and_only_some_are_listed(result) -> None:
    source, destination = result
    array = zarr.open_array(destination / "g/plain", mode="r+")
    array[...] = -1
    array = zarr.open_array(destination / "packed", mode="r+")
    array[...] = 0
    report = zarrlift.verify(source, destination, full=True)
    assert dict(report.differences) == {"g/plain": 9, "packed": 4}
    problem = next(problem for problem in report.problems if problem.node == "packed")
    assert problem.key == "packed/c/0"
    assert "0:10" in problem.message
    assert (problem.found, problem.expected) == ("0", "1")


def test_progress_is_told_of_every_chunk(result) -> None:
    class Watcher:
        total = None
        chunks = bytes = 0

        def __call__(self, event):
            if isinstance(event, Planned):
                self.total = event.bytes
            elif isinstance(event, TaskDone):
                self.chunks += event.chunks
                self.bytes += event.bytes_in

    watcher = Watcher()
    report = zarrlift.verify(*result, full=True, progress=watcher)
    assert watcher.chunks == report.chunks >= 4 + 2
    assert watcher.bytes == watcher.total > report.bytes, "missing chunks are told of too, at the end"


def test_consolidated_metadata_of_no_node_is_there(tmp_path) -> None:
    source, destination = tmp_path / "old.zarr", tmp_path / "new.zarr"
    zarr.create_group(source, zarr_format=2)
    zarr.consolidate_metadata(source, zarr_format=2)
    assert zarrlift.migrate(source, destination).ok
    assert json.loads((destination / "zarr.json").read_bytes())["consolidated_metadata"]["metadata"] == {}
    assert zarrlift.verify(source, destination).ok
    edit(destination, consolidated_metadata=None)
    (problem,) = zarrlift.verify(source, destination).problems
    assert problem.message == "there is no consolidated metadata"


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_consolidated_metadata_that_is_not_that_of_the_nodes_is_named(result) -> None:
    source, destination = result
    zarr.consolidate_metadata(destination)
    assert zarrlift.verify(source, destination).ok
    block = json.loads((destination / "zarr.json").read_bytes())["consolidated_metadata"]
    entries = block["metadata"]
    name, *others = sorted(entries)
    metadata = {each: entries[each] for each in others} | {"stray": {**entries[name]}}
    metadata[others[0]] = {**entries[others[0]], "attributes": {"of": "another time"}}
    edit(destination, consolidated_metadata={**block, "metadata": metadata})
    found_by_message = {
        problem.message: problem.found for problem in zarrlift.verify(source, destination).problems
    }
    place = "consolidated metadata differs at"
    assert found_by_message.keys() == {f"{place} {each!r}" for each in (name, others[0], "stray")}
    assert (found_by_message[f"{place} 'stray'"], found_by_message[f"{place} {name!r}"]) == (
        "an entry",
        "no entry",
    )


# `verify --full` where chunks were cut anew: each chunk of the source is decoded once, all is compared.


SHAPE = (24, 40, 30)
CHUNKS = (1, 20, 15)
NUMBER = 24 * 2 * 2
CASES = {
    "planes into cubes in shards": ({}, {"chunks": "8,8,8", "shards": "2x"}),
    "planes into columns": ({}, {"chunks": "-1,3,4"}),
    "out of shards, other chunks": ({"shards": "5,2,1"}, {"chunks": "8,8,8", "shards": "none"}),
    "out of shards, the same chunks": ({"shards": "5,2,1"}, {"shards": "none"}),
    "into other shards": ({"shards": "5,2,1"}, {"shards": "4,1,2"}),
}
"""How the source lies, and what becomes of it."""


@pytest.fixture(params=CASES)
def rechunked_pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A source some of whose chunks are missing, and what it was cut into."""
    before, after = CASES[request.param]
    old = tmp_path / "old"
    array = zarr.create_array(old, shape=SHAPE, chunks=CHUNKS, dtype="<i4", zarr_format=2, fill_value=-5)
    array[...] = np.random.default_rng(8).integers(0, 1 << 30, SHAPE)
    for place in ("0.0.0", "7.1.1", "8.0.1"):
        (old / place).unlink()
    if before:
        recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**before))
        assert zarrlift.migrate(old, tmp_path / "shards", recipe=recipe).ok
        old = tmp_path / "shards"
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**after))
    assert zarrlift.migrate(old, tmp_path / "new", recipe=recipe).ok
    return old, tmp_path / "new"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """One entry for each chunk that our own code decoded."""
    seen: list[int] = []
    lock = threading.Lock()
    decode = Pipeline.decode

    def count(self: Pipeline, data: bytes) -> object:
        with lock:
            seen.append(len(data))
        return decode(self, data)

    monkeypatch.setattr(Pipeline, "decode", count)
    return iter([seen])


@pytest.mark.slow(one_in=7)
def test_each_chunk_is_decoded_once(rechunked_pair: tuple[Path, Path], decoded: Iterator[list[int]]) -> None:
    seen = next(decoded)
    assert zarrlift.verify(*rechunked_pair, full=True).ok
    assert len(seen) == NUMBER - 3


@pytest.mark.slow(one_in=5)
def test_with_little_memory_it_takes_longer_and_is_the_same(
    rechunked_pair: tuple[Path, Path], decoded: Iterator[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = next(decoded)
    monkeypatch.setattr(archives, "memory_budget", lambda _: 0)
    assert zarrlift.verify(*rechunked_pair, full=True).ok
    assert len(seen) >= NUMBER - 3


@pytest.mark.slow(one_in=5)
def test_a_value_that_differs_is_found_wherever_it_is(rechunked_pair: tuple[Path, Path]) -> None:
    array = zarr.open_array(rechunked_pair[1], mode="r+")
    for place in ((0, 0, 0), (23, 39, 29), (8, 19, 15), (13, 20, 14)):
        kept = array[place]
        array[place] = kept + 1
        (problem,) = zarrlift.verify(*rechunked_pair, full=True).problems
        assert problem.kind == "verify-values"
        assert str(list(place)) in problem.message
        array[place] = kept
    assert zarrlift.verify(*rechunked_pair, full=True).ok


@pytest.mark.slow(one_in=5)
def test_a_chunk_that_cannot_be_read_is_told_and_the_others_are_compared(
    rechunked_pair: tuple[Path, Path],
) -> None:
    old, new = rechunked_pair
    files = [file for file in old.rglob("*") if file.is_file() and file.name[0].isdigit()]
    file = max(files, key=lambda file: (file.stat().st_size, file))
    file.write_bytes(b"\x00" * 9 + file.read_bytes()[9:])
    array = zarr.open_array(new, mode="r+")
    array[23, 39, 29] += 1
    problems = zarrlift.verify(old, new, full=True).problems
    assert file.relative_to(old).as_posix() in {problem.key for problem in problems}
    assert any("[23, 39, 29]" in problem.message for problem in problems) or str(file).endswith(
        ("23.1.1", "4/0/1")
    )


# `verify` lists both sides: what names and sizes tell is found in every array, whatever is sampled.


ARRAYS = ("linked", "packed", "plain", "sharded")
"""Copied unchanged, recoded, uncompressed, regridded."""
STORED = 60


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an archive of many chunks, some of them missing, its result and the job beside it."""
    root = tmp_path_factory.mktemp("listed")
    group = zarr.open_group(str(root / "old.zarr"), mode="w", zarr_format=2)
    for name, compressor in (("linked", "auto"), ("packed", Zlib(1)), ("plain", None), ("sharded", "auto")):
        array = group.create_array(
            name, shape=(STORED, 3), chunks=(1, 3), dtype="<i4", compressors=compressor, fill_value=7
        )
        array[:-20] = np.arange(3 * (STORED - 20)).reshape(-1, 3)
    recipe = zarrlift.Recipe(sections=(("sharded", (("chunks", "10,3"),)),))
    assert zarrlift.migrate(root / "old.zarr", root / "new.zarr", recipe=recipe).ok
    return root


@pytest.fixture
def place(migrated: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The result; it is put back afterwards. Only the first and the last chunk are sampled."""
    for module in (nodes, sampling):
        monkeypatch.setattr(module, "SAMPLED", 0)
    whole = migrated / "whole"
    if not whole.exists():
        shutil.copytree(migrated / "new.zarr", whole)
    shutil.rmtree(migrated / "new.zarr")
    shutil.copytree(whole, migrated / "new.zarr")
    return migrated


def key_of(name: str, number: int) -> str:
    return f"{name}/c/{number}/0"


def delete(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def lengthen(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


CHANGED = [
    *((name, how) for name in ARRAYS for how in (delete, empty, directory)),
    ("linked", lengthen),
    ("linked", shorten),
    ("plain", lengthen),
    ("plain", shorten),
]


@pytest.mark.slow(one_in=23)
@pytest.mark.parametrize(("name", "how"), CHANGED, ids=lambda case: getattr(case, "__name__", case))
def test_an_object_that_is_not_as_it_must_be_is_named(
    name: str, how: Callable[[Path], None], place: Path
) -> None:
    key = key_of(name, 2)
    how(place / "new.zarr" / key)
    report = zarrlift.verify(place / "old.zarr", place / "new.zarr")
    assert [problem.key for problem in report.problems] == [key]
    assert dict(report.differences) == {name: 1}


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("name", ["linked", "packed", "plain"])
@pytest.mark.parametrize("number", [STORED - 7, STORED + 5], ids=["in the array", "outside"])
def test_an_object_that_the_source_does_not_have_is_named(name: str, number: int, place: Path) -> None:
    """Outside the array it would appear when the array grows."""
    key = key_of(name, number)
    (place / "new.zarr" / key).parent.mkdir()
    shutil.copy(place / "new.zarr" / key_of(name, 3), place / "new.zarr" / key)
    report = zarrlift.verify(place / "old.zarr", place / "new.zarr")
    assert [problem.key for problem in report.problems] == [key]


def test_all_of_them_are_counted_in_every_array(place: Path) -> None:
    for name in ARRAYS[:3]:
        for number in range(10, 35):
            (place / "new.zarr" / key_of(name, number)).unlink()
    report = zarrlift.verify(place / "old.zarr", place / "new.zarr")
    assert dict(report.differences) == dict.fromkeys(ARRAYS[:3], 25)
    assert {problem.kind for problem in report.problems} == {"verify-objects"}


def test_without_a_job_the_values_decide(place: Path, tmp_path: Path) -> None:
    """Other software may omit chunks of fill values, or write them all."""
    result = zarr.open_array(str(place / "new.zarr/packed"), mode="r+", config={"write_empty_chunks": True})
    result[STORED - 15] = 7
    source = tmp_path / "old.zarr"
    shutil.copytree(place / "old.zarr", source)
    zarr.open_array(str(source / "packed"), mode="r+", zarr_format=2)[11] = 7
    zarr.open_array(str(source / "linked"), mode="r+", zarr_format=2, config={"write_empty_chunks": True})[
        12
    ] = 7
    moved = tmp_path / "new.zarr"
    shutil.copytree(place / "new.zarr", moved)
    for name, number in (("packed", 11), ("linked", 12)):
        (moved / key_of(name, number)).unlink()
    assert zarrlift.verify(source, moved).ok
    (moved / key_of("linked", 13)).unlink()
    report = zarrlift.verify(source, moved)
    assert [problem.key for problem in report.problems] == [key_of("linked", 13)]


def test_an_omitted_chunk_is_no_difference(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "old.zarr"), mode="w", zarr_format=2)
    array = group.create_array(
        "a", shape=(40,), chunks=(1,), dtype="<i4", fill_value=7, config={"write_empty_chunks": True}
    )
    array[:30] = 7
    array[30:] = 8
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(drop_empty=True))
    assert zarrlift.migrate(tmp_path / "old.zarr", tmp_path / "new.zarr", recipe=recipe).dropped == 30
    assert zarrlift.verify(tmp_path / "old.zarr", tmp_path / "new.zarr").ok
    (tmp_path / "new.zarr" / "a/c/35").unlink()
    assert not zarrlift.verify(tmp_path / "old.zarr", tmp_path / "new.zarr").ok


def test_the_share_of_values_is_printed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = [str(place / "old.zarr"), str(place / "new.zarr")]
    assert main(["verify", *ends]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "documents, names and sizes, and a sample of chunks" in text
    report = zarrlift.verify(*ends)
    stored = 3 * 3 * (STORED - 20) + 3 * (STORED - 20)
    assert report.share == pytest.approx(report.bytes / 4 / stored)
    assert f"({1000 * report.share // 1 / 10:g} % of the stored values)" in text
    assert zarrlift.verify(*ends, full=True).share == 1


def test_without_a_listing_only_samples_are_compared(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are of the chunks that the job has listed."""
    ends = [str(place / "old.zarr"), str(place / "new.zarr")]
    (place / "new.zarr" / key_of("packed", 17)).unlink()
    assert main(["verify", *ends]) == 1
    capsys.readouterr()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("listed")

    monkeypatch.setattr(listed_objects, "take_inventory", refuse)
    assert main(["verify", *ends, "--no-list"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Compared documents and a sample of chunks" in text
    (place / "new.zarr" / key_of("packed", 0)).unlink()
    assert main(["verify", *ends, "--no-list"]) == 1
    assert main(["verify", *ends, "--no-list", "--full"]) == 2
    with pytest.raises(UsageError, match="lists all objects"):
        zarrlift.verify(*ends, full=True, no_list=True)


def test_in_place_an_empty_chunk_is_named(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    group.create_array("a", data=np.arange(100), chunks=1)
    assert zarrlift.migrate(tmp_path / "a.zarr", in_place=True).ok
    (tmp_path / "a.zarr/a/41").write_bytes(b"")
    report = zarrlift.verify(tmp_path / "a.zarr")
    assert [problem.key for problem in report.problems] == ["a/41"]
