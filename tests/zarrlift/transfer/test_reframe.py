"""Chunks gathered into shards, split out of them and regrouped; none is decoded, and none is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.damaged_archives import migrate
from tests.support.job_archives import tree
from tests.zarrlift.transfer.grids import (
    DRAFT,
    N5,
    each_reader,
    index_of,
    payloads,
    read,
    shards,
    wish,
    write_kinds,
    write_numbers,
)

import zarrlift
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.transfer.tasks import Tasks
from zarrstack.core.errors import UsageError
from zarrstack.core.shard_index import IndexFormat

OPTIONS = {
    "2x": {"shards": "2x"},
    "start": {"shards": "2x", "shard_index_location": "start"},
    "plain-index": {"shards": "2x", "shard_index": "bytes"},
    "auto": {"shards": "auto"},
    "one-chunk-each": {"shards": "1x"},
    "larger-than-the-array": {"shards": "9x"},
    "recoded": {"shards": "3x", "codecs": "zstd:1"},
    "none": {"shards": "none"},
}
SOURCES = {
    "numbers": write_numbers,
    "kinds": write_kinds,
    "draft": lambda path: shutil.copytree(DRAFT, path),
    "n5": lambda path: shutil.copytree(N5, path),
}


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    return write_numbers(tmp_path / "numbers.zarr")


@pytest.mark.slow(one_in=41)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("source", SOURCES)
def test_values_are_those_of_a_copy_without_shards(source, option, tmp_path) -> None:
    place = SOURCES[source](tmp_path / "old")
    plain = zarrlift.migrate(place, tmp_path / "plain")
    outcome = zarrlift.migrate(place, tmp_path / "new", recipe=wish(**OPTIONS[option]))
    refused = {problem.node for problem in plain.problems}
    assert {problem.node for problem in outcome.problems} == refused
    for array in outcome.plan.arrays:
        assert bits(tmp_path / "new", array.path) == bits(tmp_path / "plain", array.path)
    if not refused:
        assert zarrlift.verify(place, tmp_path / "new", full=True).ok


def bits(root: Path, path: str) -> tuple[tuple[int, ...], str, list[object] | bytes]:
    """Shape, type and values; text and bytes of any length as Python's."""
    values = read("zarr-python", root, path)
    content = values.tolist() if values.dtype.kind == "O" else np.ascontiguousarray(values).tobytes()
    return values.shape, values.dtype.str, content


@pytest.mark.slow(one_in=37)
@each_reader
@pytest.mark.parametrize("option", OPTIONS)
def test_every_reader_reads_every_kind_of_shard(reader, option, numbers, tmp_path) -> None:
    assert zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(**OPTIONS[option])).ok
    expected = zarr.open_array(numbers / "a", mode="r")[...]
    same = np.array_equal(read(reader, tmp_path / "new", "a"), expected)
    # zarrita.js looks for the index at the end, whatever the document says; the plan warns of it.
    assert same == (reader != "zarrita" or OPTIONS[option].get("shard_index_location") != "start")


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("checksum", [True, False])
def test_payloads_are_the_stored_chunks_of_the_source(checksum, location, numbers, tmp_path) -> None:
    recipe = wish(
        shards="2,2,3", shard_index="crc32c" if checksum else "bytes", shard_index_location=location
    )
    outcome = zarrlift.migrate(numbers, tmp_path / "new", recipe=recipe)
    assert outcome.plan.arrays[0].route.name == "reframe"
    form = IndexFormat(checksum=checksum, location=location)
    found = {}
    for name, shard in shards(tmp_path / "new", "a").items():
        place = tuple(map(int, name.split("/")[1:]))
        for inner, payload in payloads(shard, (2, 2, 3), form).items():
            inner_chunk = (a * n + b for a, b, n in zip(place, inner, (2, 2, 3), strict=True))
            found[".".join(map(str, inner_chunk))] = payload
        assert len(shard) == form.size((2, 2, 3)) + sum(map(len, payloads(shard, (2, 2, 3), form).values()))
    stored = {name: data for name, data in tree(numbers / "a").items() if not name.startswith(".")}
    assert found == stored


def test_nothing_is_decoded_that_keeps_its_codecs(numbers, tmp_path, monkeypatch) -> None:
    def never(*_: object) -> None:
        pytest.fail("a chunk was decoded")

    for name in ("decode", "encode", "undo", "apply"):
        monkeypatch.setattr(Pipeline, name, never)
    assert zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(shards="2x"), verify="none").ok


def test_a_shard_of_one_chunk_is_a_shard(numbers, tmp_path) -> None:
    """Its object is as large as the chunk's, and yet another."""
    assert zarrlift.migrate(numbers, tmp_path / "ones", recipe=wish(shards="1x")).ok
    for shard in shards(tmp_path / "ones", "a").values():
        assert index_of(shard, (1, 1, 1), IndexFormat()).present.all()
    assert zarrlift.migrate(tmp_path / "ones", tmp_path / "back", recipe=wish(shards="none")).ok
    assert sorted(shards(tmp_path / "back", "a").values()) == sorted(
        data for name, data in tree(numbers / "a").items() if not name.startswith(".")
    )


def test_there_and_back_again_gives_the_same_bytes(numbers, tmp_path) -> None:
    chain = [
        ("plain", numbers, {}),
        ("sharded", tmp_path / "plain", {"shards": "3,2,2"}),
        ("regrouped", tmp_path / "sharded", {"shards": "2,3,4", "shard_index_location": "start"}),
        ("reindexed", tmp_path / "regrouped", {"shard_index": "bytes", "shard_index_location": "end"}),
        ("split", tmp_path / "reindexed", {"shards": "none"}),
    ]
    for name, source, options in chain:
        outcome = zarrlift.migrate(source, tmp_path / name, recipe=wish(**options))
        assert outcome.ok, (name, outcome.problems)
    assert tree(tmp_path / "split") == tree(tmp_path / "plain")


def test_a_shard_without_chunks_is_not_stored(numbers, tmp_path) -> None:
    for chunk in (numbers / "a").glob("0.*"):
        chunk.unlink()
    outcome = zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(shards="1,5,4"))
    assert sorted(shards(tmp_path / "new", "a")) == ["c/1/0/0", "c/2/0/0"]
    assert outcome.plan.arrays[0].objects_out == 2


def test_empty_chunks_are_left_out_of_shards(tmp_path) -> None:
    source = zarr.create_array(
        tmp_path / "old",
        shape=(12,),
        chunks=(2,),
        dtype="<i4",
        fill_value=0,
        zarr_format=2,
        config={"write_empty_chunks": True},
    )
    source[...] = [0] * 6 + [1] * 2 + [0] * 4
    outcome = zarrlift.migrate(tmp_path / "old", tmp_path / "new", recipe=wish(shards="3x", drop_empty=True))
    assert (outcome.ok, outcome.dropped, outcome.chunks) == (True, 5, 6)
    ((name, shard),) = shards(tmp_path / "new", "").items()
    assert (name, list(payloads(shard, (3,), IndexFormat()))) == ("c/1", [(0,)])


def test_short_blocks_of_n5_are_filled_up_on_the_way_into_a_shard(tmp_path) -> None:
    outcome = zarrlift.migrate(N5, tmp_path / "new", recipe=wish(shards="2x"))
    assert outcome.ok, outcome.problems
    assert outcome.filled > 0
    assert zarrlift.verify(N5, tmp_path / "new", full=True).ok


def test_hard_links_are_for_chunks_that_stay_files(numbers, tmp_path) -> None:
    """A shard is a new file; what lies in it shares nothing with the source."""
    before = tree(numbers)
    assert zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(shards="2x"), link="hard").ok
    assert zarrlift.verify(numbers, tmp_path / "new", full=True).ok
    assert {file.stat().st_nlink for file in (tmp_path / "new").rglob("*") if file.is_file()} == {1}
    assert tree(numbers) == before


# What is wrong with a source


@pytest.mark.parametrize("options", [{"shards": "2x"}, {"chunks": "5,5,5"}], ids=["shards", "chunks"])
def test_a_chunk_that_vanishes_is_no_fill_value(options, numbers, tmp_path, monkeypatch) -> None:
    gone = numbers / "a" / "1.1.2"
    vanish_at_first_task(gone, monkeypatch)
    outcome = zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(**options))
    assert {problem.key for problem in outcome.problems} == {"a/1.1.2"}
    assert "is gone" in outcome.problems[0].message
    assert not (tmp_path / "new/a/zarr.json").exists()


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("options", [{"shards": "none"}, {"shards": "1x"}, {"chunks": "4,4"}], ids=str)
def test_a_shard_that_vanishes_is_no_fill_value(options, tmp_path, monkeypatch) -> None:
    source = write_sharded(tmp_path / "old")
    vanish_at_first_task(source / "a/c/1/0", monkeypatch)
    outcome = zarrlift.migrate(source, tmp_path / "new", recipe=wish(**options))
    assert {problem.key for problem in outcome.problems} == {"a/c/1/0"}
    assert "is gone" in outcome.problems[0].message
    assert not (tmp_path / "new/a/zarr.json").exists()


def vanish_at_first_task(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a file of the source when its listing is made and the work begins."""
    real = Tasks.task

    def task(self: Tasks, number: int) -> object:
        file.unlink(missing_ok=True)
        return real(self, number)

    monkeypatch.setattr(Tasks, "task", task)


def write_sharded(path: Path) -> Path:
    """A v3 source: 12 x 10 in chunks of 2 x 2, shards of 3 x 5 chunks."""
    root = zarr.open_group(path, mode="w")
    array = root.create_array(
        "a", shape=(12, 10), chunks=(2, 2), shards=(6, 10), dtype="<i4", compressors=None
    )
    array[...] = np.arange(120).reshape(12, 10) + 1
    return path


def cut_short(data: bytes) -> bytes:
    return data[:100]


def garbled_index(data: bytes) -> bytes:
    return data[:-10] + b"\x55" + data[-9:]


def overlapping(data: bytes) -> bytes:
    """The second chunk begins where the first does, and the checksum says so."""
    form, counts = IndexFormat(), (3, 5)
    index = index_of(data, counts, form)
    index.offsets[0, 1] = index.offsets[0, 0]
    return data[: -form.size(counts)] + index.to_bytes(form)


def beyond(data: bytes) -> bytes:
    form, counts = IndexFormat(), (3, 5)
    index = index_of(data, counts, form)
    index.lengths[2, 4] = 2**62
    return data[: -form.size(counts)] + index.to_bytes(form)


def short_leaves(data: bytes) -> bytes:
    """Two chunks that are shorter than their values."""
    form, counts = IndexFormat(), (3, 5)
    index = index_of(data, counts, form)
    index.lengths[0, 1] = index.lengths[1, 2] = 9
    return data[: -form.size(counts)] + index.to_bytes(form)


DAMAGE = {
    cut_short: "shorter than its index",
    garbled_index: "checksum of a shard index",
    overlapping: "overlap",
    beyond: "outside its shard",
    short_leaves: "inner chunk (0, 1)",
}
OTHERS = [{"shards": "none"}, {"shards": "2x"}, {"chunks": "5,5"}, {"chunks": "5,5", "shards": "none"}]


@pytest.mark.slow(one_in=11)
@pytest.mark.parametrize("options", OTHERS, ids=str)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_shard_is_refused_by_name(damage, options, tmp_path) -> None:
    source = write_sharded(tmp_path / "old")
    shard = source / "a/c/1/0"
    shard.write_bytes(damage(shard.read_bytes()))
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    ran = migrate(source, tmp_path / "new", *words)
    assert ran.code == 1
    assert {refusal["key"] for refusal in ran.refusals} == {"a/c/1/0"}
    assert DAMAGE[damage] in ran.refusals[0]["message"]
    assert not (tmp_path / "new/a/zarr.json").exists()


@pytest.mark.parametrize("options", OTHERS, ids=str)
def test_every_bad_chunk_of_a_shard_is_named(options, tmp_path) -> None:
    source = write_sharded(tmp_path / "old")
    shard = source / "a/c/1/0"
    shard.write_bytes(short_leaves(shard.read_bytes()))
    outcome = zarrlift.migrate(source, tmp_path / "new", recipe=wish(**options))
    said = " ".join(problem.message for problem in outcome.problems)
    assert "inner chunk (0, 1)" in said
    assert "inner chunk (1, 2)" in said


def test_a_mended_source_leaves_nothing_of_the_first_attempt(numbers, tmp_path) -> None:
    """Shards of the first attempt that no chunk belongs to any more are removed."""
    bad = numbers / "a" / "0.0.0"
    sound = bad.read_bytes()
    bad.write_bytes(sound[:-3])
    assert not zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(shards="1x")).ok
    assert "c/2/4/3" in shards(tmp_path / "new", "a")
    bad.write_bytes(sound)
    (numbers / "a" / "2.4.3").unlink()
    assert zarrlift.resume(tmp_path / "new").ok
    assert "c/2/4/3" not in shards(tmp_path / "new", "a")
    assert zarrlift.verify(numbers, tmp_path / "new", full=True).ok


# What cannot be asked for


@pytest.mark.parametrize("options", [{"shards": "2x"}, {"chunks": "2,2,2"}, {"shards": "1x"}], ids=str)
def test_a_view_shows_the_chunks_there_are(options, numbers) -> None:
    with pytest.raises(UsageError, match="a view presents existing chunks"):
        zarrlift.open(numbers, recipe=wish(**options))


def test_in_place_nothing_is_gathered(numbers) -> None:
    before = tree(numbers)
    with pytest.raises(UsageError, match="in place"):
        zarrlift.migrate(numbers, in_place=True, recipe=wish(shards="2x"))
    assert tree(numbers) == before


def test_an_index_larger_than_the_memory_is_refused(numbers, tmp_path) -> None:
    outcome = zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(shards="1000000x"))
    (problem,) = outcome.problems
    assert (problem.kind, problem.node) == ("memory", "a")
    assert "index of a shard" in problem.message


# What the plan says


def test_a_plan_counts_what_becomes_of_chunks(numbers, tmp_path) -> None:
    plan = zarrlift.plan(numbers, tmp_path / "new", recipe=wish(shards="2x"))
    outcome = zarrlift.migrate(numbers, tmp_path / "new", recipe=wish(shards="2x"))
    (array,) = plan.arrays
    made = shards(tmp_path / "new", "a")
    assert array.objects_out == len(made)
    assert array.bytes_out == sum(map(len, made.values()))
    assert (array.times_read, array.reads, outcome.chunks) == (1, array.chunks, array.chunks)
    assert outcome.bytes_in == array.bytes_in == array.bytes_read
