"""Within one object store, payloads that stay as they are do not pass through this machine."""

from __future__ import annotations

import uuid
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem
from numcodecs import Blosc
from tests.zarrlift.storage.conftest import files, fill

import zarrlift
from zarrlift.storage.open_storage import open_storage
from zarrlift.transfer.relink_server_side import IN_ONE_READ, server_copy

SMALL, LARGE = 1000, 2 * IN_ONE_READ


@pytest.fixture
def place() -> str:
    return f"memory://{uuid.uuid4()}"


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What passes: bytes that are read, and copies that the store makes."""
    counts = {"bytes": 0, "copies": 0}
    cat, copy = MemoryFileSystem.cat_file, MemoryFileSystem.cp_file

    def counted_cat(self, *given, **named):
        data = cat(self, *given, **named)
        counts["bytes"] += len(data)
        return data

    def counted_copy(self, *given, **named):
        counts["copies"] += 1
        return copy(self, *given, **named)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", counted_cat)
    monkeypatch.setattr(MemoryFileSystem, "cp_file", counted_copy)
    return counts


@pytest.fixture
def source(place: str, tmp_path: Path) -> str:
    """Three large chunks and one small array, neither compressed, and a blosc one."""
    rng = np.random.default_rng(5)
    root = zarr.open_group(tmp_path / "source.zarr", mode="w", zarr_format=2)
    for name, size, compressor in (("large", LARGE, None), ("small", SMALL, None), ("blosc", LARGE, Blosc())):
        array = root.create_array(name, shape=(3 * size,), chunks=(size,), dtype="u1", compressors=compressor)
        array[:] = rng.integers(0, 256, 3 * size)
    return fill(f"{place}/source.zarr", tmp_path / "source.zarr")


def result(place: str, tmp_path: Path) -> dict[str, bytes]:
    """What a migration from directory to directory gives."""
    zarrlift.migrate(tmp_path / "source.zarr", tmp_path / "local.zarr", verify="none")
    return files(tmp_path / "local.zarr")


def stored(url: str) -> dict[str, bytes]:
    storage = open_storage(url)
    return {key: storage.get(key) or b"" for key in storage.list_prefix("")}


def test_the_store_copies_large_payloads_and_only_their_ends_are_read(
    source, place, traffic, tmp_path
) -> None:
    outcome = zarrlift.migrate(source, f"{place}/out.zarr", verify="none", job=tmp_path / "x.db")
    assert outcome.ok, outcome.problems
    assert traffic["copies"] == 6
    assert traffic["bytes"] < 6 * (IN_ONE_READ + 100) + 3 * SMALL + 10_000 < 6 * LARGE
    assert outcome.bytes_in > 3 * LARGE + 3 * SMALL
    assert stored(f"{place}/out.zarr") == result(place, tmp_path)


def test_a_store_that_cannot_copy_is_read_and_written(source, place, traffic, tmp_path, monkeypatch) -> None:
    def unable(self, *given, **named):
        raise NotImplementedError

    monkeypatch.setattr(MemoryFileSystem, "cp_file", unable)
    assert zarrlift.migrate(source, f"{place}/out.zarr", verify="none", job=tmp_path / "x.db").ok
    assert stored(f"{place}/out.zarr") == result(place, tmp_path)


@pytest.mark.parametrize("name", ["large", "blosc"])
@pytest.mark.parametrize("damage", ["short", "long", "empty", "gone"])
def test_a_payload_is_looked_at_before_it_is_copied(name, damage, source, place, tmp_path) -> None:
    memory = fsspec.filesystem("memory")
    path = f"{source}/{name}/1"
    data = memory.cat_file(path)
    plan = zarrlift.plan(source, f"{place}/out.zarr")
    if damage == "gone":
        # after the listing, which is why the move is called by itself
        from zarrlift.storage.remote.store_writer import writer_for
        from zarrlift.transfer.tasks import Task
        from zarrlift.transfer.worker import Worker

        memory.rm_file(path)
        (array,) = [array for array in plan.arrays if array.path == name]
        writer = writer_for(open_storage(f"{place}/out.zarr", mode="w"), "job", fsync=False)
        worker = Worker(open_storage(source), writer)
        problems = worker.run(Task(move=array.move, number=0, indexes=np.arange(3))).problems
        assert [(problem.kind, problem.key) for problem in problems] == [("source-changed", f"{name}/1")]
        return
    memory.pipe_file(path, {"short": data[:-1], "long": data + b"x", "empty": b""}[damage])
    outcome = zarrlift.migrate(source, f"{place}/out.zarr", verify="none", job=tmp_path / "x.db")
    if (name, damage) == ("blosc", "long"):  # its header states the length
        assert outcome.ok
        assert memory.cat_file(f"{place}/out.zarr/blosc/c/1") == data
        return
    assert [(problem.kind, problem.key) for problem in outcome.problems] == [("chunk", f"{name}/1")]
    assert f"{name}/c/1" not in stored(f"{place}/out.zarr")


def test_two_places_share_a_store_only_with_equal_options(place, tmp_path) -> None:
    def storage(url: str, **options: object):
        return open_storage(url, storage_options=options, mode="w")

    here = storage(f"{place}/a", key="a")
    assert server_copy(here, storage(f"{place}/b", key="a")) is not None
    assert server_copy(here, storage(f"{place}/b", key="b")) is None
    assert server_copy(here, storage(f"{place}/b")) is None
    assert server_copy(here, open_storage(tmp_path)) is None
